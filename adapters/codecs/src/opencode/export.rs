//! What `opencode export` writes: the session and its messages in one value. Each message is a record.

use super::log::{At, Log, PartAt, begin, state};
use super::tree;
use crate::fault::{Location, What};
use crate::seam::{Extracted, Out, Record};
use crate::source::{Bundle, name};
use crate::value::{Path, Value};

pub(super) fn parse(bundle: &Bundle, out: &mut Out<'_>) {
    let file = bundle.main();
    let location = Location { file: name(file), line: None };
    let Some(whole) = tree::value(bundle, out, file) else { return };
    if whole.get("info").is_none() || !matches!(whole.get("messages"), Some(Value::Array(_))) {
        out.fault(location, What::Unfit("neither an export nor a file of a tree".to_owned()));
        return;
    }
    let (envelope, messages) = open(whole);
    let record = |(index, value)| Record::new(value, location.file.clone(), 1, index as u64 + 1);
    let log = Log::new(At::inside(&Path::from(["info"])), messages.into_iter().enumerate().map(record).collect());
    let envelope = Record::new(envelope, location.file.clone(), 1, 0);
    let told = Extracted::of_stem(file, "");
    let Some(to) = begin(out, Some(&envelope), &Path::from(["info"]), told, &log, None, location) else { return };
    log.tell(out, to, &mut |_, message| PartAt::inside(message, &Path::root()));
    state(out, to, envelope);
}

/// Takes the messages out of an export.
fn open(mut whole: Value) -> (Value, Vec<Value>) {
    let messages = whole.at_mut(&Path::from(["messages"]));
    let taken = messages.map(|messages| std::mem::replace(messages, Value::from(Vec::new())));
    let Some(Value::Array(messages)) = taken else { return (whole, Vec::new()) };
    (whole, messages)
}
