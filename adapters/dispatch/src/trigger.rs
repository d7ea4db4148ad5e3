//! Which bots of a house answer what is said in a chat. Pure.

use commands::{Agent, Thread, World};
use events::AgentId;

use crate::desk::{Room, Said};
use crate::model::{Rules, Trigger};
use crate::options::Manners;

/// The bots that are to answer. Nobody answers himself, and bots answer bots only so often.
pub(crate) fn answering(
    world: &World,
    thread: &Thread,
    room: &Room,
    said: &Said,
    rules: &Rules,
    manners: &Manners,
) -> Vec<AgentId> {
    let Some(house) = world.house(&thread.house_id) else { return Vec::new() };
    let by_bot = said.author.and_then(|author| world.agent(author)).is_some_and(Agent::is_bot);
    let tired = |bot: &AgentId| by_bot && room.spoken.get(bot).is_some_and(|spoken| spoken.times >= manners.turns);
    let bots = house.members.keys().filter_map(|id| world.agent(*id).filter(|agent| agent.is_bot()).map(|agent| (*id, agent)));
    let wanted = |(id, agent): &(AgentId, &Agent)| {
        let named = said.to == Some(*id) || mentions(&said.text, *id, agent.name.as_deref());
        let addressed = thread.parent_agent_id == Some(*id) && !by_bot && said.to.is_none();
        match rules.of(*id, agent.name.as_deref()).trigger {
            Trigger::Mention => named || addressed,
            // Two bots that always answer would answer each other for ever.
            Trigger::Always => named || !by_bot,
            Trigger::Never => false,
        }
    };
    bots.filter(|(id, _)| said.author != Some(*id)).filter(wanted).map(|(id, _)| id).filter(|id| !tired(id)).collect()
}

/// Whether `@name` or `@id` stands in the text, in either case and as a whole word.
fn mentions(text: &str, id: AgentId, name: Option<&str>) -> bool {
    let text = text.to_lowercase();
    let ends = |rest: &str| !rest.chars().next().is_some_and(|c| c.is_alphanumeric() || c == '_' || c == '-');
    let begins = |before: &str| !before.chars().next_back().is_some_and(|c| c.is_alphanumeric() || c == '_');
    let names = name.map(str::to_lowercase).into_iter().chain([id.to_string()]);
    names.filter(|name| !name.trim().is_empty()).any(|name| {
        let at = format!("@{name}");
        text.match_indices(&at).any(|(place, _)| begins(&text[..place]) && ends(&text[place + at.len()..]))
    })
}

#[cfg(test)]
mod tests {
    use events::Uuid;

    use super::*;

    #[test]
    fn a_mention_is_a_whole_word_in_either_case() {
        let id = AgentId(Uuid::from_u128(7));
        for text in ["@pia hello", "hello @PIA!", "(@Pia)", "@pia", &format!("ask @{id}.")] {
            assert!(mentions(text, id, Some("Pia")), "{text}");
        }
        for text in ["pia", "@piano", "me@pia", "@pia-2", "@ pia", ""] {
            assert!(!mentions(text, id, Some("Pia")), "{text}");
        }
        assert!(!mentions("@", id, Some(" ")));
    }
}
