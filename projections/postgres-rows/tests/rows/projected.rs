//! What single events leave in the rows.

use std::sync::Arc;

use events::house as h;
use events::thread as t;
use events::{Role, StreamName, ThreadStatus, Uuid};
use postgres_rows::RowsProjector;
use projector::verify;
use sqlx::AssertSqlSafe;

use crate::rules::{chat, settled};
use crate::story::{START, agent, environment, house, in_house, in_thread, sandbox, thread};

async fn texts(db: &crate::postgres::Database, query: &str) -> Vec<Option<String>> {
    let mut tx = db.rows.read_all().await.expect("rows");
    sqlx::query_scalar(AssertSqlSafe(query)).fetch_all(&mut *tx).await.expect(query)
}

fn some(values: &[&str]) -> Vec<Option<String>> {
    values.iter().map(|value| Some((*value).to_owned())).collect()
}

#[tokio::test]
async fn times_come_from_the_events() {
    let Some((db, mut story, running)) = settled().await else { return };
    let position = story.tell([in_thread(2, t::Pinned {})]).await;
    let now = story.now();
    running.reaches(position).await;
    let row = texts(
        &db,
        "select (extract(epoch from updated_at) * 1000)::bigint || ' ' || (extract(epoch from pinned_at) * 1000)::bigint || ' '
            || (updated_at > created_at) from threads where id = 't2'",
    )
    .await;
    assert_eq!(row, some(&[&format!("{now} {now} true")]));
    assert!(now > START);
}

#[tokio::test]
async fn bindings_are_a_sorted_set_however_they_came_about() {
    let Some((db, mut story, running)) = settled().await else { return };
    let bound = |name: &str, required| h::SecretBound { environment_id: environment(0), name: name.into(), required };
    for event in [bound("ZETA", true), bound("ALPHA", false), bound("ZETA", false)] {
        let position = story.tell([in_house(0, event)]).await;
        running.reaches(position).await;
    }
    let expected = r#"[{"name": "ALPHA", "required": false}, {"name": "ZETA", "required": false}]"#;
    assert_eq!(texts(&db, "select secret_bindings::text from environments where id = 'e0'").await, some(&[expected]));
    let unbound = h::SecretUnbound { environment_id: environment(0), name: "ALPHA".into() };
    let position = story.tell([in_house(0, bound("BETA", true)), in_house(0, unbound)]).await;
    running.reaches(position).await;
    let expected = r#"[{"name": "BETA", "required": true}, {"name": "ZETA", "required": false}]"#;
    assert_eq!(texts(&db, "select secret_bindings::text from environments where id = 'e0'").await, some(&[expected]));
}

#[tokio::test]
async fn a_removal_of_what_is_referred_to_has_no_effect_and_of_anything_else_it_has() {
    let Some((db, mut story, running)) = settled().await else { return };
    let drop = |n| h::EnvironmentDeleted { environment_id: environment(n) };
    let config = events::JsonObject::parse("{}").expect("an object");
    let spare = h::EnvironmentCreated { environment_id: environment(5), name: "spare".into(), config };
    let events = [
        in_house(0, drop(0)),
        in_house(0, h::MemberRemoved { agent_id: agent(0) }),
        in_house(0, h::MemberAdded { agent_id: agent(1), role: Role::Member }),
        in_house(0, h::MemberRemoved { agent_id: agent(1) }),
        in_house(0, spare),
        in_house(0, drop(5)),
        in_house(1, drop(1)),
    ];
    let position = story.tell(events).await;
    running.reaches(position).await;
    assert_eq!(texts(&db, "select id from environments order by id").await, some(&["e0", "e1"]));
    assert_eq!(texts(&db, "select house_id || agent_id from members order by 1").await.len(), 2);
}

#[tokio::test]
async fn a_secret_made_anew_under_its_old_name_takes_its_place() {
    let Some((db, mut story, running)) = settled().await else { return };
    let id = |name: &str| events::SecretId::new(name).expect("an id");
    let set = h::SecretSet { secret_id: id("x9"), name: "TOKEN".into(), vault_secret_id: Uuid::from_u128(4) };
    let position = story.tell([in_house(0, h::SecretDeleted { secret_id: id("x0") }), in_house(0, set)]).await;
    running.reaches(position).await;
    assert_eq!(texts(&db, "select id from secrets where deleted_at is null order by id").await, some(&["x1", "x9"]));
}

/// Who made it, which value it has, and when it was made, got its value and was deleted, by the clock of the story.
const HISTORY: &str = "
select concat_ws(' ', coalesce(author_id::text, 'nobody'), vault_secret_id, (extract(epoch from created_at) * 1000)::bigint,
    (extract(epoch from rotated_at) * 1000)::bigint, coalesce((extract(epoch from deleted_at) * 1000)::bigint::text, 'kept'))
from secrets where id = 'y' order by created_at";

#[tokio::test]
async fn a_secret_tells_who_made_it_when_its_value_came_and_that_it_is_deleted() {
    let Some((db, mut story, running)) = settled().await else { return };
    let secret_id = events::SecretId::new("y").expect("an id");
    let at = Uuid::from_u128;
    let set = |n| in_house(0, h::SecretSet { secret_id: secret_id.clone(), name: "KEY".into(), vault_secret_id: at(n) });
    let rotated = |n| in_house(0, h::SecretRotated { secret_id: secret_id.clone(), vault_secret_id: at(n) });
    let gone = || in_house(0, h::SecretDeleted { secret_id: secret_id.clone() });
    let now = story.now();
    story.tell_by(Some(agent(1)), [set(1)]).await;
    story.tell([rotated(2)]).await;
    let position = story.tell([rotated(3)]).await;
    running.reaches(position).await;
    let line = |by: &str, value, made, rotated, end: &str| format!("{by} {} {} {} {end}", at(value), now + made, now + rotated);
    let ada = agent(1).to_string();
    assert_eq!(texts(&db, HISTORY).await, some(&[&line(&ada, 3, 1, 3, "kept")]));

    let position = story.tell([gone(), set(4), gone(), set(5)]).await;
    running.reaches(position).await;
    let ended = |after: u64| (now + after).to_string();
    let lines = [line(&ada, 3, 1, 3, &ended(4)), line("nobody", 4, 5, 5, &ended(6)), line("nobody", 5, 7, 7, "kept")];
    assert_eq!(texts(&db, HISTORY).await, lines.map(Some));
    let report = verify(&story.log, &Arc::new(RowsProjector), &db.rows, |_| {}).await.expect("a report");
    assert!(report.equal(), "{report:?}");
}

#[tokio::test]
async fn a_secret_that_is_deleted_is_neither_rotated_nor_deleted_again() {
    for again in [false, true] {
        let Some((db, mut story, mut running)) = settled().await else { return };
        let secret_id = events::SecretId::new("x0").expect("an id");
        let gone = || in_house(0, h::SecretDeleted { secret_id: secret_id.clone() });
        let rotated = in_house(0, h::SecretRotated { secret_id: secret_id.clone(), vault_secret_id: Uuid::from_u128(5) });
        let late = if again { gone() } else { rotated };
        story.tell([gone(), late]).await;
        let stop = (&mut running.task).await.expect("no panic");
        assert_eq!((stop.stream, stop.seq), (StreamName::House(house(0)).to_string(), 6));
        assert_eq!(texts(&db, "select id from secrets where deleted_at is not null").await, some(&[]));
    }
}

#[tokio::test]
async fn what_is_pending_is_listed_until_it_is_done() {
    let Some((db, mut story, running)) = settled().await else { return };
    let pending = "select kind || ' ' || subject from pending where house_id = 'h0' order by 1";
    assert_eq!(texts(&db, pending).await, some(&["sandbox_pending s0", "thread_idle t1"]));

    let status = |status| t::StatusChanged { status, run_id: None, reason: None };
    let run_id = events::RunId::new("r1").expect("an id");
    let queued = events::dispatch::Queued { run_id: run_id.clone(), by: Some(agent(0)) };
    let live = h::SandboxLive { sandbox_id: sandbox(0), provider_ref: "box".into() };
    let position = story.tell([in_thread(1, queued), in_house(0, live)]).await;
    running.reaches(position).await;
    assert_eq!(texts(&db, pending).await, some(&["run_queued t1", "thread_idle t1"]));

    let started = events::dispatch::SessionStarted { run_id: run_id.clone(), sandbox_id: Some(sandbox(0)), session_ref: None };
    let position = story.tell([in_thread(1, status(ThreadStatus::Running)), in_thread(1, started)]).await;
    running.reaches(position).await;
    assert_eq!(texts(&db, pending).await, some(&["run_live t1"]));

    let of_run = Some(run_id.clone());
    let failed = events::dispatch::Failed { run_id: of_run, error_class: "command".into(), message: "no machine".into() };
    let reset = events::dispatch::Reset { run_id: run_id.clone(), why: "asked".into() };
    let asked = events::dispatch::Cancelled { run_id };
    let position = story.tell([in_thread(1, failed), in_thread(1, reset), in_thread(1, asked)]).await;
    running.reaches(position).await;
    assert_eq!(texts(&db, pending).await, some(&["run_live t1"]), "only its status ends a run");

    let dead = h::SandboxDead { sandbox_id: sandbox(0), reason: Some("gone".into()) };
    let position = story.tell([in_thread(1, status(ThreadStatus::Failed)), in_house(0, dead)]).await;
    running.reaches(position).await;
    assert_eq!(texts(&db, pending).await, some(&["parent_notice t1", "sandbox_dead s0"]));

    let asked_for = h::SandboxDead { sandbox_id: sandbox(0), reason: Some("a wish".into()) };
    let position = story.tell([in_house(0, asked_for)]).await;
    running.reaches(position).await;
    let why = "select detail->>'reason' from reconciliation where kind = 'sandbox_dead'";
    assert_eq!(texts(&db, why).await, some(&["gone"]), "the cause of its death");

    let told = t::ChildFinished { child_thread_id: thread(1), status: ThreadStatus::Failed };
    let position = story.tell([in_thread(0, told), in_thread(1, t::SandboxSet { sandbox_id: None })]).await;
    running.reaches(position).await;
    assert_eq!(texts(&db, pending).await, some(&[]));
}

#[tokio::test]
async fn text_that_postgres_cannot_hold_stops_nothing() {
    let Some((db, mut story, running)) = settled().await else { return };
    let created = t::Created { name: Some("nul \0 here".into()), tags: vec!["a\0".into()], ..chat(7, 1) };
    let position = story.tell([in_thread(7, created)]).await;
    running.reaches(position).await;
    assert_eq!(texts(&db, "select name || tags[1] from threads where id = 't7'").await, some(&["nul \u{fffd} herea\u{fffd}"]));
    assert_eq!(house(1).as_str(), "h1");
}

#[tokio::test]
async fn an_id_that_two_houses_make_belongs_to_the_first_in_the_log() {
    let Some((db, mut story, running)) = settled().await else { return };
    let config = events::JsonObject::parse("{}").expect("an object");
    let make = |name: &str| h::EnvironmentCreated { environment_id: environment(5), name: name.into(), config: config.clone() };
    let asked = |n: usize| h::SandboxRequested { sandbox_id: sandbox(5), environment_id: environment(n), provider: "p".into() };
    let update = h::EnvironmentUpdated { environment_id: environment(5), name: "changed".into(), config: config.clone() };
    let first = [in_house(1, make("first")), in_house(1, asked(1)), in_house(0, make("second")), in_house(0, asked(0))];
    story.tell(first).await;
    let taken = h::EnvironmentCreated { environment_id: environment(1), name: "taken".into(), config: config.clone() };
    let position = story.tell([in_house(0, taken), in_house(1, update)]).await;
    running.reaches(position).await;
    let rows = texts(&db, "select house_id || id || name from environments where id in ('e1', 'e5') order by id").await;
    assert_eq!(rows, some(&["h1e1env", "h1e5changed"]));
    let rows = texts(&db, "select house_id from sandboxes where id = 's5'").await;
    assert_eq!(rows, some(&["h1"]));
    assert_eq!(texts(&db, "select house_id from reconciliation where subject = 's5'").await, some(&["h1"]));
}
