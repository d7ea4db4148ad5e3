//! Secrets on their way into machines, as they are bound, rotated and deleted.

use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use crate::house::{House, bash};

pub const NAME: &str = "PLANTED";

/// What a tool prints to show that it has a value without showing it.
pub const SHOW: &str = "printf %s \"$PLANTED\" | sha256sum";

pub fn shown(value: &str) -> String {
    let digest: String = Sha256::digest(value.as_bytes()).iter().map(|byte| format!("{byte:02x}")).collect();
    format!("{digest}  -\n")
}

impl House {
    pub fn bind(&self, name: &str, required: bool) {
        let path = format!("/api/environments/{}/secrets/{name}", self.environment);
        self.scene.ask("PUT", &path, &json!({ "required": required }));
    }

    pub fn set_secret(&self, name: &str, value: &str) -> String {
        self.scene.make("/api/secrets", &json!({ "house_id": self.id, "name": name, "value": value }), "secret_id")
    }

    pub fn rotate(&self, secret: &str, value: &str) {
        self.scene.ask("PUT", &format!("/api/secrets/{secret}/value"), &json!({ "value": value }));
    }

    pub fn delete_secret(&self, secret: &str) {
        self.scene.ask("DELETE", &format!("/api/secrets/{secret}"), &Value::Null);
    }
}

#[test]
fn a_required_secret_that_is_missing_fails_the_run_by_name_before_anything_is_made() {
    let Some(house) = House::start() else { return };
    house.bind(NAME, true);
    let child = house.delegate(&bash("echo ran >> ran"));
    let (class, why) = house.failed(&child, 1);
    assert!(class == "secret_missing" && why.contains(NAME), "{class}: {why}");
    let story = house.story(&child);
    assert_eq!((story.sandbox(), story.transcript().len()), (None, 0), "{}", story.told());
}

#[test]
fn an_optional_secret_that_is_missing_is_a_warning_on_the_run() {
    let Some(house) = House::start() else { return };
    house.bind(NAME, false);
    let child = house.delegate(&bash(SHOW));
    let story = house.completed(&child, 1);
    let warned = story.warned();
    assert_eq!((warned.len(), &warned[0]["warning"]), (1, &json!("secret_missing")), "{}", story.told());
    assert!(warned[0]["message"].as_str().is_some_and(|text| text.contains(NAME)), "{}", story.told());
    assert_eq!((story.results(), &warned[0]["run_id"]), (vec![shown("").as_str()], &json!(story.run())));
}

#[test]
fn a_run_gets_the_value_of_its_time_and_none_after_the_secret_was_deleted() {
    let Some(house) = House::start() else { return };
    house.bind(NAME, true);
    let secret = house.set_secret(NAME, "the first value");
    let child = house.delegate(&bash(SHOW));
    assert_eq!(house.completed(&child, 1).results(), [shown("the first value")]);

    house.rotate(&secret, "the second value");
    house.say(&child, &bash(SHOW));
    assert_eq!(house.completed(&child, 2).results().last(), Some(&shown("the second value").as_str()));

    house.delete_secret(&secret);
    house.say(&child, &bash(SHOW));
    let (class, why) = house.failed(&child, 3);
    assert!(class == "secret_missing" && why.contains(NAME), "{class}: {why}");
    assert_eq!(house.story(&child).results().len(), 2);
}

#[test]
fn a_secret_of_a_reserved_name_is_left_out_and_the_run_says_so() {
    let Some(house) = House::start() else { return };
    house.bind("SPRITES_TOKEN", true);
    house.set_secret("SPRITES_TOKEN", "of the machines' maker");
    let child = house.delegate(&bash("echo \"<$SPRITES_TOKEN>\""));
    let story = house.completed(&child, 1);
    let warned = story.warned();
    assert_eq!((warned.len(), &warned[0]["warning"]), (1, &json!("secret_reserved")), "{}", story.told());
    assert_eq!(story.results(), ["<>\n"]);
}
