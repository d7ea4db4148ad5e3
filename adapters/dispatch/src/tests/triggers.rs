use super::scene::*;
use crate::model::{BotRule, ModelConfig, Rules, Trigger};
use crate::options::Manners;
use crate::trigger::answering;
use events::AgentId;

fn rules(trigger: Trigger) -> Rules {
    let config = serde_json::json!({ "api": "openai", "base_url": "http://x/v1", "model": "m" });
    let mut config: ModelConfig = serde_json::from_value(config).unwrap();
    config.trigger = trigger;
    Rules(Some(config))
}

/// Who answers what was said last in the thread.
fn asked(scene: &Scene, id: &str, rules: &Rules) -> Vec<AgentId> {
    let (_, said) = scene.desk.unheard().into_iter().rfind(|(it, _)| *it == thread(id)).unwrap();
    let room = scene.desk.room(&thread(id)).unwrap();
    answering(&scene.world, scene.world.thread(&thread(id)).unwrap(), room, &said, rules, &Manners::default())
}

#[test]
fn a_bot_answers_when_it_is_named() {
    let mut scene = scene();
    scene.says(ADA, "t", "hello everybody");
    assert_eq!(asked(&scene, "t", &rules(Trigger::Mention)), []);
    assert_eq!(asked(&scene, "t", &rules(Trigger::Always)), [PIA, REX]);
    scene.says(ADA, "t", "@Pia hello");
    assert_eq!(asked(&scene, "t", &Rules::default()), [PIA], "also where nothing is configured");
    assert_eq!(asked(&scene, "t", &rules(Trigger::Never)), []);
    scene.says(ADA, "t", "@pia and @rex: hello");
    assert_eq!(asked(&scene, "t", &rules(Trigger::Mention)), [PIA, REX]);
}

#[test]
fn to_names_a_bot_as_well() {
    let mut scene = scene();
    let chat = serde_json::json!({ "text": "hello", "to": REX }).to_string();
    scene.entry(commands::Actor::Agent(ADA), "t", None, "chat", &chat);
    assert_eq!(asked(&scene, "t", &rules(Trigger::Mention)), [REX]);
}

#[test]
fn a_thread_that_is_addressed_to_a_bot_needs_no_mention() {
    let mut scene = scene();
    scene.says(ADA, "to-rex", "hello");
    assert_eq!(asked(&scene, "to-rex", &rules(Trigger::Mention)), [REX]);
}

#[test]
fn a_rule_for_one_bot_is_its_own() {
    let mut scene = scene();
    let Rules(Some(mut config)) = rules(Trigger::Always) else { unreachable!() };
    config.bots.insert("Rex".to_owned(), BotRule { trigger: Some(Trigger::Never), ..BotRule::default() });
    scene.says(ADA, "t", "hello");
    assert_eq!(asked(&scene, "t", &Rules(Some(config))), [PIA]);
}

#[test]
fn a_bots_own_words_do_not_trigger_it_and_bots_that_always_answer_leave_each_other_alone() {
    let mut scene = scene();
    scene.says(PIA, "t", "I am @pia");
    assert_eq!(asked(&scene, "t", &rules(Trigger::Always)), []);
}

#[test]
fn two_bots_do_not_answer_each_other_for_ever() {
    let mut scene = scene();
    scene.says(ADA, "t", "@pia ask rex");
    let mut answers = 0;
    let (mut speaker, mut other) = (PIA, REX);
    loop {
        let name = if other == REX { "rex" } else { "pia" };
        scene.answers(speaker, &run(&format!("turn{answers}")), &format!("@{name} what do you think?"));
        if asked(&scene, "t", &rules(Trigger::Mention)).is_empty() {
            break;
        }
        assert_eq!(asked(&scene, "t", &rules(Trigger::Mention)), [other]);
        (speaker, other) = (other, speaker);
        answers += 1;
        assert!(answers < 20, "they talk for ever");
    }
    assert_eq!(answers, 5);
    scene.says(ADA, "t", "go on, @rex");
    assert_eq!(asked(&scene, "t", &rules(Trigger::Mention)), [REX], "a person lets them talk again");
}
