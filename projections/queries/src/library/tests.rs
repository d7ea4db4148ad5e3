//! On sessions in memory.

use std::sync::atomic::{AtomicUsize, Ordering};

use events::HouseId;
use events::session::{MessageId, Provenance, Role, Session, SessionId};

use super::*;

#[derive(Debug)]
struct Shelf {
    messages: Vec<StoredMessage>,
    parts: Vec<StoredPart>,
    /// Files that were read.
    read: AtomicUsize,
}

fn session() -> Session {
    let text = r#"{"id":"s","source_agent":"pi","created_at":"2026-01-01T00:00:00Z","project":"/p"}"#;
    serde_json::from_str(text).unwrap()
}

/// Ten turns of about `bytes` each; every other is a tool's, which says nothing.
fn shelf(bytes: usize) -> Shelf {
    let text = "x".repeat(bytes);
    let message = |n: u64| StoredMessage {
        session_id: SessionId::new("s").unwrap(),
        id: MessageId::new(&format!("m{n}")).unwrap(),
        seq: n + 1,
        timestamp: "2026-01-01T00:00:00Z".parse().unwrap(),
        role: if n.is_multiple_of(2) { Role::User } else { Role::Tool },
        content: None,
        text: n.is_multiple_of(2).then(|| text.clone()),
        options: Json::parse(r#"{"n":1.00}"#).unwrap(),
    };
    let part = |n: u64, of: u64| StoredPart {
        message_id: MessageId::new(&format!("m{of}")).unwrap(),
        id: format!("p{n}"),
        ordinal: n,
        kind: "text".into(),
        provenance: Provenance::Conversational,
        variant: [("text".to_owned(), Json::of(&text).unwrap())].into(),
        data: None,
        options: Json::parse("{}").unwrap(),
    };
    let parts = (0..10).flat_map(|of| (0..3).map(move |n| part(n, of))).collect();
    Shelf { messages: (0..10).map(message).collect(), parts, read: AtomicUsize::new(0) }
}

/// Every part is a file of so many bytes.
fn files(bytes: usize) -> Shelf {
    let mut shelf = shelf(10);
    for part in &mut shelf.parts {
        part.kind = "file".into();
        part.variant.clear();
        part.data = Some(("url", format!("{BLOB}{bytes}")));
    }
    shelf
}

impl Shelf {
    fn some(&self, which: Which) -> Vec<StoredMessage> {
        let wanted = |it: &&StoredMessage| {
            it.seq >= which.from && which.below.is_none_or(|below| it.seq < below) && (!which.said || it.text.is_some())
        };
        self.messages.iter().filter(wanted).cloned().collect()
    }
}

#[async_trait::async_trait]
impl Library for Shelf {
    async fn reached(&self, position: u64) -> Result<(), PondError> {
        if position > 7 { Err(PondError::new(Code::StorageUnavailable, "it is at 7")) } else { Ok(()) }
    }

    async fn session(&self, _: &HouseId, id: &SessionId) -> Result<Option<Session>, PondError> {
        Ok(Some(session()).filter(|it| it.id == *id))
    }

    async fn first(&self, _: &HouseId, _: &SessionId, which: Which, most: u64) -> Result<Vec<StoredMessage>, PondError> {
        Ok(self.some(which).into_iter().take(most as usize).collect())
    }

    async fn last(&self, _: &HouseId, _: &SessionId, which: Which, most: u64) -> Result<Vec<StoredMessage>, PondError> {
        let some = self.some(which);
        let skip = some.len().saturating_sub(most as usize);
        Ok(some.into_iter().skip(skip).collect())
    }

    async fn count(&self, _: &HouseId, _: &SessionId, which: Which) -> Result<u64, PondError> {
        Ok(self.some(which).len() as u64)
    }

    async fn message(&self, _: &HouseId, id: &MessageId, _: Option<&SessionId>) -> Result<Vec<StoredMessage>, PondError> {
        Ok(self.messages.iter().filter(|it| it.id == *id).cloned().collect())
    }

    async fn parts(&self, _: &HouseId, _: &SessionId, of: &[MessageId]) -> Result<Vec<StoredPart>, PondError> {
        Ok(self.parts.iter().filter(|it| of.contains(&it.message_id)).cloned().collect())
    }

    /// The hash of so many bytes is their number.
    async fn blob(&self, hash: &str) -> Result<String, PondError> {
        self.read.fetch_add(1, Ordering::SeqCst);
        Ok("x".repeat(hash.parse().unwrap()))
    }

    async fn blob_bytes(&self, hash: &str) -> Result<u64, PondError> {
        Ok(hash.parse().unwrap())
    }
}

async fn ask(shelf: &Shelf, request: &str) -> Result<GetResponse, PondError> {
    let request = format!(r#"{{"protocol_version":1,{request}}}"#);
    get(shelf, &HouseId::new("h").unwrap(), serde_json::from_str(&request).unwrap()).await
}

async fn session_page(shelf: &Shelf, request: &str) -> SessionPage {
    match ask(shelf, request).await.unwrap() {
        GetResponse::Session(page) => page,
        GetResponse::Message(_) => panic!("a session was asked for"),
    }
}

async fn message_page(shelf: &Shelf, request: &str) -> MessagePage {
    match ask(shelf, request).await.unwrap() {
        GetResponse::Message(page) => *page,
        GetResponse::Session(_) => panic!("a message was asked for"),
    }
}

fn ids(messages: &[MessageView]) -> Vec<&str> {
    messages.iter().map(|message| message.id.as_str()).collect()
}

#[tokio::test]
async fn the_three_modes_tell_more_and_more() {
    let shelf = shelf(10);
    let said = session_page(&shelf, r#""session_id":"s""#).await;
    assert_eq!(ids(&said.messages), ["m0", "m2", "m4", "m6", "m8"]);
    assert_eq!(said.messages[0].parts_summary.as_ref().unwrap().len(), 3);
    let complete = session_page(&shelf, r#""session_id":"s","response_mode":"complete""#).await;
    assert_eq!((complete.messages.len(), complete.messages[1].parts.is_none()), (10, true));
    let verbatim = session_page(&shelf, r#""session_id":"s","response_mode":"verbatim""#).await;
    let part = &verbatim.messages[1].parts.as_ref().unwrap()[2];
    assert_eq!((part["id"].get(), part["message_id"].get(), part["type"].get()), (r#""p2""#, r#""m1""#, r#""text""#));
    assert_eq!(verbatim.messages[1].options.as_ref().unwrap().get(), r#"{"n":1.00}"#);
}

#[tokio::test]
async fn what_a_file_holds_comes_with_the_message_wherever_it_is_kept() {
    let mut shelf = shelf(10);
    shelf.parts[0].kind = "file".into();
    shelf.parts[0].data = Some(("url", "pond://blob/3".into()));
    let page = message_page(&shelf, r#""message_id":"m0""#).await;
    let part = &page.target.parts.unwrap()[0];
    assert_eq!((part["data"].get(), part.get("url")), (r#""xxx""#, None));
}

#[tokio::test]
async fn of_files_only_those_of_the_page_are_read() {
    let shelf = files(100 << 10);
    let page = message_page(&shelf, r#""message_id":"m0","after_id":"p0""#).await;
    assert_eq!((page.target.parts.unwrap().len(), page.target_parts_remaining, shelf.read.into_inner()), (1, 1, 1));
    let shelf = files(30 << 10);
    let page = session_page(&shelf, r#""session_id":"s","response_mode":"verbatim""#).await;
    assert_eq!((page.messages.len(), page.messages_remaining, shelf.read.into_inner()), (1, 9, 3));
}

#[tokio::test]
async fn of_files_that_are_only_counted_none_is_read_and_pages_are_the_same() {
    for ask in [r#""message_id":"m0","session_id":"s""#, r#""session_id":"s","response_mode":"verbatim""#] {
        let (counted, whole) = (files(30 << 10), files(30 << 10));
        let mut request: GetRequest = serde_json::from_str(&format!(r#"{{"protocol_version":1,{ask}}}"#)).unwrap();
        let house = HouseId::new("h").unwrap();
        let as_parts = |got: GetResponse| -> Vec<Vec<BTreeMap<String, Json>>> {
            match got {
                GetResponse::Session(page) => page.messages.into_iter().filter_map(|message| message.parts).collect(),
                GetResponse::Message(page) => page.target.parts.into_iter().collect(),
            }
        };
        let all = as_parts(get(&whole, &house, request.clone()).await.unwrap());
        request.files = Files::Counted;
        let mut some = as_parts(get(&counted, &house, request).await.unwrap());
        assert_eq!((counted.read.into_inner(), whole.read.into_inner() > 0), (0, true), "{ask}");
        for part in some.iter_mut().flatten() {
            let bytes: String = part.remove("data_bytes").unwrap().decode().unwrap();
            part.insert("data".into(), Json::of(&"x".repeat(bytes.parse().unwrap())).unwrap());
        }
        assert_eq!(some, all, "{ask}");
    }
}

#[tokio::test]
async fn pages_end_at_a_size_and_never_within_a_message_and_together_are_everything() {
    for bytes in [10, 30 << 10, 300 << 10] {
        let shelf = shelf(bytes);
        let (mut all, mut after) = (Vec::new(), String::new());
        loop {
            let page = session_page(&shelf, &format!(r#""session_id":"s","response_mode":"verbatim"{after}"#)).await;
            assert!(page.messages.iter().all(|message| message.parts.as_ref().unwrap().len() == 3));
            all.extend(page.messages.iter().map(|message| message.id.to_string()));
            assert_eq!(page.messages_remaining as usize, 10 - all.len());
            if page.messages_remaining == 0 {
                break;
            }
            after = format!(r#","after_id":"{}""#, all.last().unwrap());
        }
        assert_eq!(all.len(), 10, "{bytes}");
    }
}

#[tokio::test]
async fn a_message_comes_with_its_parts_page_by_page_and_what_stands_around_it() {
    let page = message_page(&shelf(10), r#""message_id":"m4","context_depth":3"#).await;
    assert_eq!((ids(&page.before), ids(&page.after)), (vec!["m1", "m2", "m3"], vec!["m5", "m6", "m7"]));
    assert_eq!((page.target.parts.unwrap().len(), page.target_parts_remaining), (3, 0));
    let large = shelf(100 << 10);
    let page = message_page(&large, r#""message_id":"m0","session_id":"s""#).await;
    assert_eq!((page.target.parts.unwrap().len(), page.target_parts_remaining), (1, 2));
    let page = message_page(&large, r#""message_id":"m0","session_id":"s","after_id":"p0""#).await;
    assert_eq!((page.target.parts.unwrap().len(), page.target_parts_remaining), (1, 1));
}

#[tokio::test]
async fn what_cannot_be_meant_is_refused_with_its_code() {
    let shelf = shelf(10);
    let cases = [
        (r#""session_id":"other""#, Code::NotFound),
        (r#""message_id":"other""#, Code::NotFound),
        (r#""after_id":"m1""#, Code::ValidationFailed),
        (r#""session_id":"s","after_id":"other""#, Code::ValidationFailed),
        (r#""session_id":"s","context_depth":1"#, Code::ValidationFailed),
        (r#""message_id":"m1","context_depth":51"#, Code::ValidationFailed),
        (r#""message_id":"m1","response_mode":"verbatim""#, Code::ValidationFailed),
        (r#""message_id":"m1","after_id":"other""#, Code::ValidationFailed),
        (r#""message_id":"m1","min_position":8"#, Code::StorageUnavailable),
    ];
    for (request, code) in cases {
        assert_eq!(ask(&shelf, request).await.unwrap_err().code, code, "{request}");
    }
    let newer = GetRequest { protocol_version: 2, ..serde_json::from_str(r#"{"protocol_version":1,"session_id":"s"}"#).unwrap() };
    let refused = get(&shelf, &HouseId::new("h").unwrap(), newer).await.unwrap_err();
    assert_eq!(refused.code, Code::VersionUnsupported);
}
