use std::collections::BTreeMap;

use bytes::{Bytes, BytesMut};
use parking_lot::Mutex;

#[derive(Default)]
struct State {
    started: u64,
    open: BTreeMap<String, BTreeMap<i32, Bytes>>,
}

/// Multipart uploads under way; none is visible as an object before it is completed.
#[derive(Default)]
pub(super) struct Uploads(Mutex<State>);

impl Uploads {
    pub(super) fn start(&self) -> String {
        let mut state = self.0.lock();
        state.started += 1;
        let id = format!("upload-{}", state.started);
        state.open.insert(id.clone(), BTreeMap::new());
        id
    }

    /// Returns the part's ETag, or nothing if there is no such upload.
    pub(super) fn add_part(&self, id: &str, number: i32, body: Bytes) -> Option<String> {
        self.0.lock().open.get_mut(id)?.insert(number, body);
        Some(format!("{id}-{number}"))
    }

    pub(super) fn join(&self, id: &str, numbers: &[i32]) -> Option<Bytes> {
        let state = self.0.lock();
        let parts = state.open.get(id)?;
        let mut whole = BytesMut::new();
        for number in numbers {
            whole.extend_from_slice(parts.get(number)?);
        }
        Some(whole.freeze())
    }

    pub(super) fn end(&self, id: &str) {
        self.0.lock().open.remove(id);
    }
}
