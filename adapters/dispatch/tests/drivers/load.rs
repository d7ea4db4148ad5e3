//! What an operator is told of the work.

use std::time::Duration;

use commands::ports::{Hands, Load};
use dispatch::Dispatcher;
use serde_json::json;

use crate::model::{Line, Model};
use crate::place::{ADA, Place};

async fn becomes(dispatcher: &Dispatcher, what: &str, is: impl Fn(&Load) -> bool) -> Load {
    for _ in 0..200 {
        let load = dispatcher.load().unwrap();
        if is(&load) {
            return load;
        }
        tokio::time::sleep(Duration::from_millis(25)).await;
    }
    panic!("{what}: {:?}", dispatcher.load());
}

#[tokio::test]
async fn runs_are_counted_by_how_far_they_are_and_failures_by_their_class() {
    let model = Model::start([Line::Fails(400)]).await;
    let mut place = Place::open(json!({ "model": model.config("openai") })).await;
    let (child, _) = place.delegate("work", None).await;
    let waiting = place.dispatcher(place.options.clone());
    assert_eq!((waiting.load().unwrap().runs["waiting"], waiting.load().unwrap().oldest_waiting), (0, None), "nothing is folded");
    let dispatcher = place.start();
    place.launched(&child, 1).await;
    let load = becomes(&dispatcher, "it runs", |load| load.runs["running"] == 1 && load.driving["watch"] == 1).await;
    assert_eq!((load.runs["waiting"], load.runs["starting"], load.oldest_waiting), (0, 0, None));
    assert!(load.failures.is_empty(), "{load:?}");
    place.say(ADA, &place.chat, "@pia hello").await;
    becomes(&dispatcher, "the model refused", |load| load.failures.get("model_refused") == Some(&1)).await;
    place.finish(&child, "done").await;
    becomes(&dispatcher, "nothing is left", |load| load.runs.values().sum::<u64>() == 0 && load.driving["watch"] == 0).await;
}

#[tokio::test]
async fn a_driver_that_is_gone_is_counted_no_more() {
    let mut place = Place::open(json!({})).await;
    place.yard.hold("before create");
    let dispatcher = place.start();
    let (child, _) = place.delegate("work", None).await;
    place.yard.is_held().await;
    becomes(&dispatcher, "it is on its way", |load| load.runs["starting"] == 1 && load.driving["drive"] == 1).await;
    place.kill().await;
    assert_eq!(dispatcher.load().unwrap().driving["drive"], 0, "whoever drove {child} is gone");
}
