//! What an operator sees: readiness, metrics, and a read model that goes no further.

use std::sync::Arc;
use std::time::Duration;

use event_log::{Append, Change, Command, Log, Payload, StoreUrl};
use http_api::App;
use postgres_rows::{Rows, RowsProjector};
use projector::{Until, rebuild};
use serde_json::json;

use crate::town::{Town, listen, options};

async fn text(url: &str, path: &str) -> (u16, String) {
    let reply = reqwest::get(format!("{url}{path}")).await.unwrap();
    (reply.status().as_u16(), reply.text().await.unwrap())
}

async fn metrics(town: &Town) -> String {
    let (status, text) = text(&town.url, "/metrics").await;
    assert_eq!(status, 200);
    text
}

fn value(metrics: &str, series: &str) -> f64 {
    let line = metrics.lines().find_map(|line| line.strip_prefix(series)?.strip_prefix(' '));
    line.unwrap_or_else(|| panic!("no {series} in\n{metrics}")).parse().unwrap()
}

async fn eventually(what: &str, mut check: impl AsyncFnMut() -> bool) {
    for _ in 0..100 {
        if check().await {
            return;
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    panic!("not within five seconds: {what}");
}

/// The first copy of the rows is there.
async fn ready(town: &Town) {
    eventually("the server is ready", async || text(&town.url, "/readyz").await.0 == 200).await;
}

#[tokio::test]
async fn a_server_that_starts_lives_before_it_is_ready() {
    let log = Log::open(StoreUrl::Memory.open(&[], true).unwrap(), event_log::Options::default()).await.unwrap();
    let app = App::starting(log, options()).await.unwrap();
    let (url, _stop) = listen(app.clone()).await;
    assert_eq!(text(&url, "/healthz").await, (200, "ok\n".into()));
    let waits = "log: ok\nplatform: not ready: the database is being opened\n";
    assert_eq!(text(&url, "/readyz").await, (503, waits.into()));
    let (status, told) = text(&url, "/api/me").await;
    assert!(status == 503 && told.contains("the server is starting"), "{status} {told}");
    assert_eq!(text(&url, "/metrics").await.0, 200);
    app.started(None);
    assert_eq!(text(&url, "/readyz").await, (200, "log: ok\n".into()));
}

#[tokio::test(flavor = "multi_thread")]
async fn requests_are_counted_by_route_and_how_far_everything_is_is_told() {
    let Some(town) = Town::start().await else { return };
    ready(&town).await;
    let ada = town.ada.clone();
    let house = town.make(&ada, "/api/houses", &json!({ "name": "home" }), "house_id").await;
    let position = town.log.position();
    for _ in 0..2 {
        assert_eq!(town.get(&ada, &format!("/api/houses/{house}?min_position={position}")).await.status, 200);
    }
    assert_eq!(town.send("", "GET", "/api/me", None, &[]).await.status, 401);
    assert_eq!(town.get(&ada, "/api/nowhere/at/all").await.status, 404);
    eventually("the rows are current", async || {
        value(&metrics(&town).await, r#"arbe_projection_lag_slots{projection="rows"}"#) == 0.0
    })
    .await;
    let all = metrics(&town).await;
    for (series, expected) in [
        (r#"arbe_api_requests_total{route="/api/houses/{house_id}",method="GET",status="200"}"#, 2.0),
        (r#"arbe_api_request_seconds_count{route="/api/houses/{house_id}",method="GET"}"#, 2.0),
        (r#"arbe_api_requests_total{route="/api/houses",method="POST",status="201"}"#, 1.0),
        (r#"arbe_api_requests_total{route="/api/me",method="GET",status="401"}"#, 1.0),
        (r#"arbe_api_requests_total{route="none",method="GET",status="404"}"#, 1.0),
        ("arbe_fold_lag_slots", 0.0),
        ("arbe_fold_stopped", 0.0),
        ("arbe_fold_position", town.log.position() as f64),
        (r#"arbe_projection_position{projection="rows"}"#, town.log.position() as f64),
        (r#"arbe_projection_lag_seconds{projection="rows"}"#, 0.0),
        (r#"arbe_projection_state{projection="rows",state="active"}"#, 1.0),
        (r#"arbe_projection_state{projection="rows",state="stopped"}"#, 0.0),
        ("arbe_postgres_connections_max", 8.0),
    ] {
        assert_eq!(value(&all, series), expected, "{series}");
    }
    assert!(!all.contains(&house), "no series per thing");
    assert!(value(&all, r#"arbe_projection_events_total{projection="rows"}"#) >= 5.0);
    let pool = |state: &str| value(&all, &format!("arbe_postgres_connections{{state=\"{state}\"}}"));
    assert!((1.0..=8.0).contains(&(pool("used") + pool("idle"))), "{all}");
    town.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_read_model_that_cannot_go_on_says_so_and_keeps_serving() {
    let Some(town) = Town::start().await else { return };
    let ada = town.ada.clone();
    let house = town.make(&ada, "/api/houses", &json!({ "name": "home" }), "house_id").await;
    let body = json!({ "house_id": house, "name": "good" });
    let made = town.post(&ada, "/api/threads", &body).await.json();
    let good = format!("/api/threads/{}", made["thread_id"].as_str().unwrap());
    assert_eq!(town.get(&ada, &format!("{good}?min_position={}", made["position"])).await.status, 200);
    town.sql("do $$ declare s text; begin select schema into s from arbe.copies where state = 'live'; execute format('alter table %I.threads add constraint no_poison check (name <> ''poison'')', s); end $$").await;

    let poison = town.make(&ada, "/api/threads", &json!({ "house_id": house, "name": "poison" }), "thread_id").await;
    let stopped = r#"arbe_projection_state{projection="rows",state="stopped"}"#;
    eventually("the projector stops", async || value(&metrics(&town).await, stopped) == 1.0).await;
    tokio::time::sleep(Duration::from_millis(20)).await;
    let all = metrics(&town).await;
    let lag = |unit: &str| value(&all, &format!("arbe_projection_lag_{unit}{{projection=\"rows\"}}"));
    assert!(lag("slots") >= 1.0 && lag("seconds") >= 0.02 && lag("seconds") < 60.0, "{all}");
    let told = town.get(&ada, "/api/projections").await.json();
    assert_eq!(told["items"][0]["state"], json!("stopped"));
    let error = told["items"][0]["error"].as_str().unwrap();
    assert!(error.contains("signal.thread.created") && !error.contains("no_poison") && !error.contains(&poison), "{error}");

    assert_eq!(town.get(&ada, &good).await.json()["name"], json!("good"));
    assert_eq!(town.post(&ada, &format!("{good}/entries"), &json!({ "text": "still here" })).await.status, 201);
    let (status, ready) = text(&town.url, "/readyz").await;
    assert!(status == 200 && ready.contains("rows: ok, but stopped at position"), "{status} {ready}");
    assert!(!ready.contains(&poison), "{ready}");

    let rows = Rows::connect(town.options(), 2).await.unwrap();
    rebuild(&town.log, &Arc::new(RowsProjector), &rows, Until::Head, |_| {}).await.unwrap();
    let position = town.post(&ada, &format!("{good}/entries"), &json!({ "text": "mended" })).await.json()["position"].clone();
    let active = r#"arbe_projection_state{projection="rows",state="active"}"#;
    eventually("the new copy is followed", async || value(&metrics(&town).await, active) == 1.0).await;
    let there = town.get(&ada, &format!("/api/threads/{poison}?min_position={position}")).await;
    assert_eq!(there.json()["name"], json!("poison"), "{there:?}");
    town.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_not_ready_is_named() {
    let Some(town) = Town::start().await else { return };
    ready(&town).await;
    assert_eq!(text(&town.url, "/readyz").await, (200, "log: ok\ncommands: ok\nrows: ok\n".into()));
    town.lose_database().await;
    let (status, told) = text(&town.url, "/readyz").await;
    assert_eq!((status, told.as_str()), (503, "log: ok\ncommands: ok\nrows: not ready: the database does not answer\n"));

    let payload = Ok(Payload::messages([r#"{"no":"entry"}"#].into_iter()));
    let junk = Append { content_type: None, payload, producer: None, stream_seq: None, close: false };
    town.log.submit(Command::one("arbe-agents", Change::Append(junk))).await.unwrap();
    eventually("the fold stops", async || value(&metrics(&town).await, "arbe_fold_stopped") == 1.0).await;
    let (status, told) = text(&town.url, "/readyz").await;
    assert!(status == 503 && told.contains("commands: not ready: stopped at position"), "{status} {told}");
    assert_eq!(text(&town.url, "/healthz").await, (200, "ok\n".into()));
    assert_eq!(town.get(&town.ada, "/api/me").await.status, 200);
    let refused = town.post(&town.ada, "/api/houses", &json!({ "name": "home" })).await;
    assert_eq!(refused.code(), (503, "unavailable".into()));
    town.end().await;
}
