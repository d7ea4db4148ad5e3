use commands::command::{
    BindSecret, CreateEnvironmentWithSecrets, CreateHouse, DeleteEnvironment, DeleteSecret, RemoveMember, RotateSecret,
    SetDefaultEnvironment, SetRole, SetSecret, UnbindSecret, UpdateEnvironment,
};
use commands::decide;
use events::{JsonObject, Role, Uuid};

use crate::scene::*;

#[test]
fn whoever_makes_a_house_owns_it() {
    let mut scene = scene();
    let create = CreateHouse { house_id: Some(house("new")), name: "new".to_owned(), owner: None };
    let kinds = scene.kinds(AS_MEMBER, create);
    assert_eq!(kinds, ["arbe-house-new signal.house.created", "arbe-house-new signal.house.member_added"]);
    assert!(scene.world.house(&house("new")).unwrap().is_owner(MEMBER));
}

#[test]
fn an_agent_makes_no_house_for_another() {
    assert_eq!(scene().refused(AS_MEMBER, create_house("new", OWNER)), "forbidden");
}

#[test]
fn a_member_may_leave() {
    let mut scene = scene();
    scene.given(AS_MEMBER, RemoveMember { house_id: house("h"), agent_id: MEMBER });
    assert_eq!(scene.refused(AS_MEMBER, say("t", "still here?")), "not_found");
}

#[test]
fn an_owner_may_go_when_there_is_another() {
    let mut scene = scene();
    scene.given(AS_OWNER, SetRole { house_id: house("h"), agent_id: MEMBER, role: Role::Owner });
    scene.given(AS_MEMBER, RemoveMember { house_id: house("h"), agent_id: OWNER });
    assert!(!scene.world.is_member(&house("h"), OWNER));
}

#[test]
fn an_environment_nobody_refers_to_can_go() {
    let mut scene = scene();
    scene.given(AS_MEMBER, create_environment("h", "e2"));
    scene.given(AS_OWNER, SetDefaultEnvironment { house_id: house("h"), environment_id: Some(environment("e2")) });
    scene.given(AS_OWNER, SetDefaultEnvironment { house_id: house("h"), environment_id: None });
    scene.given(AS_OWNER, DeleteEnvironment { environment_id: environment("e2") });
    assert!(scene.world.environment(&environment("e2")).is_none());
}

#[test]
fn an_update_of_an_environment_keeps_what_it_does_not_name() {
    let mut scene = scene();
    let config = JsonObject::parse(r#"{"image":"alpine"}"#).unwrap();
    let update = UpdateEnvironment { environment_id: environment("e"), name: None, config: Some(config.clone()) };
    scene.given(AS_MEMBER, update.clone());
    let environment = scene.world.environment(&environment("e")).unwrap();
    assert_eq!((environment.name.as_str(), &environment.config), ("e", &config));
    assert!(scene.given(AS_MEMBER, update).is_empty(), "nothing more to update");
}

#[test]
fn a_binding_may_name_a_secret_that_does_not_exist_yet() {
    let mut scene = scene();
    let bind = |required| BindSecret { environment_id: environment("e"), name: "TOKEN".to_owned(), required };
    scene.given(AS_MEMBER, bind(false));
    scene.given(AS_MEMBER, bind(true));
    assert!(scene.given(AS_MEMBER, bind(true)).is_empty());
    assert!(scene.world.environment(&environment("e")).unwrap().secret_bindings["TOKEN"]);
    scene.given(AS_MEMBER, UnbindSecret { environment_id: environment("e"), name: "TOKEN".to_owned() });
    assert!(scene.world.environment(&environment("e")).unwrap().secret_bindings.is_empty());
}

#[test]
fn an_environment_may_bind_secrets_from_the_start_and_is_not_made_if_one_cannot_be() {
    let mut scene = scene();
    let with = |names: &[(&str, bool)]| CreateEnvironmentWithSecrets {
        environment: create_environment("h", "e2"),
        secret_bindings: names.iter().map(|(name, required)| ((*name).to_owned(), *required)).collect(),
    };
    let many: Vec<_> = (0..257).map(|n| format!("N{n}")).collect();
    let many: Vec<_> = many.iter().map(|name| (name.as_str(), true)).collect();
    assert_eq!(scene.refused(AS_MEMBER, with(&[("TOKEN", true), ("1A", true)])), "invalid");
    assert_eq!(scene.refused(AS_MEMBER, with(&many)), "invalid");
    assert_eq!(scene.refused(AS_STRANGER, with(&[("TOKEN", true)])), "not_found");
    let kinds = scene.kinds(AS_MEMBER, with(&[("TOKEN", true), ("EXTRA", false)]));
    let bound = "arbe-house-h signal.environment.secret_bound";
    assert_eq!(kinds, ["arbe-house-h signal.environment.created", bound, bound]);
    let bindings = &scene.world.environment(&environment("e2")).unwrap().secret_bindings;
    assert_eq!(*bindings, [("EXTRA".to_owned(), false), ("TOKEN".to_owned(), true)].into());
    assert_eq!(scene.refused(AS_MEMBER, with(&[])), "id_taken");
}

#[test]
fn of_two_houses_that_make_an_environment_of_one_id_the_second_binds_nothing() {
    let mut scene = scene();
    let with = |house: &str, name: &str| CreateEnvironmentWithSecrets {
        environment: create_environment(house, "e2"),
        secret_bindings: [(name.to_owned(), true)].into(),
    };
    let second = decide(&scene.world, &AS_STRANGER, &with("other", "THEIRS").into()).unwrap();
    scene.given(AS_MEMBER, with("h", "OURS"));
    scene.append(second);
    let environment = scene.world.environment(&environment("e2")).unwrap();
    assert_eq!((&environment.house_id, &environment.secret_bindings), (&house("h"), &[("OURS".to_owned(), true)].into()));
}

#[test]
fn a_deleted_secret_frees_its_name() {
    let mut scene = scene();
    let (house_id, name) = (house("h"), "TOKEN".to_owned());
    let set = |id| {
        let vault_secret_id = Uuid::nil();
        SetSecret { house_id: house_id.clone(), secret_id: Some(secret(id)), name: name.clone(), vault_secret_id }
    };
    scene.given(AS_MEMBER, set("x"));
    scene.given(AS_MEMBER, RotateSecret { secret_id: secret("x"), vault_secret_id: Uuid::from_u128(2) });
    assert_eq!(scene.world.secret(&secret("x")).unwrap().vault_secret_id, Uuid::from_u128(2));
    scene.given(AS_MEMBER, DeleteSecret { secret_id: secret("x") });
    scene.given(AS_MEMBER, set("y"));
    assert_eq!(scene.world.secret_named(&house("h"), "TOKEN"), Some(&secret("y")));
}

#[test]
fn a_stranger_is_told_of_everything_in_a_house_what_is_said_of_nothing() {
    let mut scene = scene();
    for (there, nowhere) in [("e", "none"), ("oe", "none")] {
        let of = |id| UpdateEnvironment { environment_id: environment(id), name: Some("x".to_owned()), config: None };
        let actor = if there == "e" { AS_STRANGER } else { AS_MEMBER };
        assert_eq!(scene.ask(actor, &of(there).into()).unwrap_err(), scene.ask(actor, &of(nowhere).into()).unwrap_err());
    }
    assert_eq!(scene.ask(AS_STRANGER, &say("t", "x").into()), scene.ask(AS_STRANGER, &say("none", "x").into()));
    assert_eq!(scene.ask(AS_STRANGER, &live("s").into()), scene.ask(AS_STRANGER, &live("none").into()));
    assert_eq!(scene.ask(AS_STRANGER, &delegate("t", "n").into()), scene.ask(AS_STRANGER, &delegate("none", "n").into()));
}
