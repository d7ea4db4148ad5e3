//! A recipe is looked at when it is written, and not when a machine is to be made of it.

use commands::command::{CreateEnvironment, UpdateEnvironment};
use commands::{Rejection, decide};
use events::JsonObject;
use events::house::EnvironmentUpdated;
use serde_json::{Value, json};

use crate::scene::*;

fn check(config: JsonObject) -> Result<(), Rejection> {
    let create = CreateEnvironment { config, ..create_environment("h", "new") };
    decide(&scene().world, &AS_MEMBER, &create.into()).map(|_| ())
}

fn said(config: &Value) -> String {
    check(JsonObject::parse(&config.to_string()).unwrap()).unwrap_err().to_string()
}

#[test]
fn a_slip_is_named_with_its_place() {
    let model = |field: &str, value: Value| {
        let mut model = json!({ "api": "openai", "base_url": "http://h/v1", "model": "m" });
        model[field] = value;
        json!({ "model": model })
    };
    for (config, begins) in [
        (json!({ "imgae": "debian" }), "config: imgae: unknown field `imgae`"),
        (json!({ "image": 1 }), "config: image: invalid type"),
        (json!({ "image": " " }), "config: image: is blank"),
        (json!({ "image": "debian", "limits": { "cpu": 2 } }), "config: limits.cpu: unknown field `cpu`"),
        (json!({ "limits": { "cpus": "2" } }), "config: limits.cpus: invalid type"),
        (json!({ "limits": { "cpus": -1 } }), "config: limits.cpus: invalid value"),
        (json!({ "limits": { "memory_mib": 0 } }), "config: limits.memory_mib: is not between"),
        (json!({ "limits": { "pids": u64::MAX } }), "config: limits.pids: is not between"),
        (json!({ "limits": [] }), "config: limits: is not an object"),
        (json!({ "runtime": "moon" }), "config: runtime: there is no \"moon\": known are local, daytona, sprite"),
        (json!({ "runtime": "Local" }), "config: runtime: there is no"),
        (json!({ "branch": "main" }), "config: branch: there is no `repo`"),
        (json!({ "repo": "r", "branch": "-x" }), "config: branch: begins with"),
        (json!({ "env": { "A-B": "x" } }), "config: env.A-B: not a variable"),
        (json!({ "env": { "A": 1 } }), "config: env.A: invalid type"),
        (json!({ "egress": ["a.example:443", "b.example"] }), "config: egress[1]: \"b.example\" is not"),
        (json!({ "egress": ["a:+1"] }), "config: egress[0]: "),
        (json!({ "permissions": { "aks": ["bash"] } }), "config: permissions.aks: unknown field"),
        (json!({ "permissions": { "ask": [""] } }), "config: permissions.ask[0]: is blank"),
        (json!({ "model": {} }), "config: model.api: is missing"),
        (json!({ "model": "m" }), "config: model: invalid type"),
        (model("api", json!("other")), "config: model.api: unknown variant `other`"),
        (model("base_url", json!("ftp://h")), "config: model.base_url: is not the address"),
        (model("base_url", json!("https:///v1")), "config: model.base_url: is not the address"),
        (model("api_key_secret", json!("a b")), "config: model.api_key_secret: not a variable"),
        (model("bots", json!({ "Pia": [] })), "config: model.bots.Pia: is not an object"),
        (model("tempo", json!(1)), "config: model.tempo: unknown field"),
        (model("bots", json!({ "Pia": { "triger": "always" } })), "config: model.bots.Pia: unknown field `triger`"),
    ] {
        let said = said(&config);
        assert!(said.starts_with(begins), "{config}: {said}");
    }
    let twice = JsonObject::parse(r#"{"image":"a","image":"b"}"#).unwrap();
    assert!(check(twice).unwrap_err().to_string().contains("duplicate field `image`"));
}

#[test]
fn what_machines_are_made_of_passes() {
    let whole = json!({
        "runtime": "local", "image": "debian:13", "repo": "https://example.org/code.git", "branch": "main",
        "setup": "make\n", "env": { "LANG": "C" }, "egress": ["example.org:443", "*.example.org:443", "[fe80::1]:22"],
        "limits": { "cpus": 2, "memory_mib": 512, "disk_mib": 1, "pids": 64, "seconds": 60 },
        "permissions": { "ask": ["*"] },
        "model": { "api": "anthropic", "base_url": "http://127.0.0.1:8080/v1", "model": "m", "api_key_secret": "KEY",
            "max_tokens": 10, "system": "", "trigger": "always", "bots": { "Pia": { "trigger": "never" } } },
    });
    for config in [json!({}), whole] {
        check(JsonObject::parse(&config.to_string()).unwrap()).unwrap();
    }
}

#[test]
fn a_bad_recipe_from_before_can_be_renamed_and_mended() {
    let mut scene = scene();
    let bad = JsonObject::parse(r#"{"imgae":"debian"}"#).unwrap();
    let update = |name: Option<&str>, config: Option<&JsonObject>| UpdateEnvironment {
        environment_id: environment("e"),
        name: name.map(str::to_owned),
        config: config.cloned(),
    };
    let mut before = decide(&scene.world, &AS_MEMBER, &update(Some("old"), None).into()).unwrap();
    let written = EnvironmentUpdated { environment_id: environment("e"), name: "old".to_owned(), config: bad.clone() };
    before.appends[0].events[0] = written.into();
    scene.append(before);
    scene.given(AS_MEMBER, update(Some("renamed"), None));
    assert_eq!(scene.refused(AS_MEMBER, update(None, Some(&bad))), "invalid");
    scene.given(AS_MEMBER, update(None, Some(&config())));
    assert_eq!(scene.world.environment(&environment("e")).unwrap().config, config());
}
