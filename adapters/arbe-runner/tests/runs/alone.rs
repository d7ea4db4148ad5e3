//! The mirror without a runner: pi as somebody starts it, with three variables.

use serde_json::Value;

use crate::support::{Scene, ended};

fn variables(scene: &Scene) -> [(&'static str, String); 3] {
    let url = scene.stream.url.split("/api/").next().unwrap().to_owned();
    [("ARBE_THREAD_ID", scene.stream.thread.clone()), ("ARBE_STREAM_URL", url), ("ARBE_STREAM_TOKEN", scene.stream.token())]
}

#[tokio::test(flavor = "multi_thread")]
async fn pi_alone_is_on_its_thread_line_by_line_and_nothing_is_said_of_a_run() {
    let Some(scene) = Scene::start("t-alone").await else { return };
    // Longer than there is between two heartbeats.
    let mut pi = scene.pi("RUN: sleep 6; env | grep -c ARBE_STREAM_TOKEN");
    let done = ended(pi.envs(variables(&scene)).spawn().unwrap()).await;
    assert_eq!((done.status.code(), done.stderr.as_str()), (Some(0), ""));
    assert_eq!(scene.stream.transcript(), scene.file());
    let result = scene.file().into_iter().find(|line| line["message"]["role"] == "toolResult").unwrap();
    assert!(result["message"]["content"][0]["text"].as_str().unwrap().starts_with("0\n"), "{result}");
    assert_eq!(scene.stream.kinds("signal."), Vec::<String>::new());
}

#[tokio::test(flavor = "multi_thread")]
async fn live_pieces_of_pi_alone_name_no_run() {
    let Some(scene) = Scene::start("t-alone-slow").await else { return };
    let done = ended(scene.pi("SLOW").envs(variables(&scene)).spawn().unwrap()).await;
    assert_eq!(done.status.code(), Some(0), "{}", done.stderr);
    let live: Vec<_> = scene.stream.entries().into_iter().filter(|entry| entry["type"] == "pi.chunk").collect();
    assert!(!live.is_empty() && live.iter().all(|entry| entry["payload"].get("run_id").is_none()), "{live:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_the_mirror_lacks_is_named_and_pi_works_all_the_same() {
    for missing in 0..3 {
        let Some(scene) = Scene::start("t-lacking").await else { return };
        let mut given = variables(&scene).to_vec();
        let (name, _) = given.remove(missing);
        let done = ended(scene.pi("hello").envs(given).spawn().unwrap()).await;
        assert_eq!(done.status.code(), Some(0), "{}", done.stderr);
        assert!(done.stderr.trim_end().ends_with(&format!("for want of {name}")), "{}", done.stderr);
        assert_eq!(scene.stream.entries(), Vec::<Value>::new());
    }
}
