mod golden;
mod ids;
mod refusals;
mod round_trip;
mod schema;
mod strategies;

use crate::{Entry, Json};

/// An entry as it would stand in a stream.
fn stored(kind: &str, v: u32, payload: &str) -> Entry {
    let text = format!(r#"{{"id":"01J9ZK3T6V8X0Q2R4S6T8V0W2X","ts":1,"type":"{kind}","v":{v},"payload":{payload}}}"#);
    Entry::from_json(&text).unwrap()
}

fn json(text: &str) -> Json {
    Json::parse(text).unwrap()
}
