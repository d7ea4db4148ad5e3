//! `pond_get`. Pages end at a size and never within a message.

use std::collections::{BTreeMap, HashMap};

use events::session::{MessageId, Session, SessionId};
use events::{HouseId, Json};

use super::{
    BLOB, Files, GetRequest, GetResponse, Library, MessagePage, MessageView, PartSummary, PondError, ResponseMode, SessionPage,
    StoredMessage, StoredPart, Which,
};

/// Bytes of a page, unless its first message is larger.
const PAGE: u64 = 128 << 10;
/// Messages that are looked up together.
const TOGETHER: u64 = 32;
const DEPTH: u32 = 2;
const DEEPEST: u32 = 50;

pub async fn get(library: &dyn Library, house: &HouseId, request: GetRequest) -> Result<GetResponse, PondError> {
    PondError::version(request.protocol_version)?;
    let depth = request.context_depth.unwrap_or(DEPTH);
    if depth > DEEPEST {
        return Err(PondError::invalid(format!("context_depth is at most {DEEPEST}")));
    }
    if let Some(position) = request.min_position {
        library.reached(position).await?;
    }
    match (request.session_id, request.message_id) {
        (Some(session), None) if request.context_depth.is_some() => {
            Err(PondError::invalid(format!("context_depth stands beside message_id; session {session} was asked for as a whole")))
        }
        (Some(session), None) => {
            let mode = request.response_mode.unwrap_or_default();
            let page = session_page(library, house, &session, mode, request.files, request.after_id.as_deref());
            Ok(GetResponse::Session(page.await?))
        }
        (_, Some(_)) if request.response_mode.is_some() => {
            Err(PondError::invalid("response_mode is for sessions; a message is always told with its parts"))
        }
        (session, Some(message)) => {
            let after = request.after_id.as_deref();
            let page = message_page(library, house, session.as_ref(), &message, depth, request.files, after);
            Ok(GetResponse::Message(Box::new(page.await?)))
        }
        (None, None) => Err(PondError::invalid("session_id or message_id says what to get")),
    }
}

async fn found(library: &dyn Library, house: &HouseId, id: &SessionId) -> Result<Session, PondError> {
    let session = library.session(house, id).await?;
    session.ok_or_else(|| PondError::not_found(format!("there is no session {:?}", id.as_str())))
}

async fn session_page(
    library: &dyn Library,
    house: &HouseId,
    id: &SessionId,
    mode: ResponseMode,
    files: Files,
    after: Option<&str>,
) -> Result<SessionPage, PondError> {
    let session = found(library, house, id).await?;
    let mut which = Which { said: mode == ResponseMode::Conversational, ..Which::default() };
    if let Some(after) = after {
        which.from = place(library, house, id, after).await? + 1;
    }
    let (mut messages, mut bytes) = (Vec::new(), 0);
    'page: loop {
        let some = library.first(house, id, which, TOGETHER).await?;
        let Some(last) = some.last().map(|message| message.seq) else { break };
        let mut parts = parts_of(library, house, id, &some).await?;
        for message in some {
            let (seq, mut parts) = (message.seq, parts.remove(&message.id).unwrap_or_default());
            if mode == ResponseMode::Verbatim {
                let beside = beside(library, &parts).await?;
                if bytes + beside > PAGE && !messages.is_empty() {
                    break 'page;
                }
                load(library, &mut parts, files).await?;
                bytes += if files == Files::Counted { beside } else { 0 };
            }
            let view = view(message, parts, mode);
            bytes += size(&view) as u64;
            if bytes > PAGE && !messages.is_empty() {
                break 'page;
            }
            which.from = seq + 1;
            messages.push(view);
        }
        which.from = which.from.max(last + 1);
    }
    let messages_remaining = library.count(house, id, which).await?;
    Ok(SessionPage { session, messages, messages_remaining })
}

async fn place(library: &dyn Library, house: &HouseId, session: &SessionId, after: &str) -> Result<u64, PondError> {
    let unknown = || PondError::invalid(format!("after_id: there is no message {after:?} in the session"));
    let id = MessageId::new(after).map_err(|_| unknown())?;
    let found = library.message(house, &id, Some(session)).await?;
    found.first().map(|message| message.seq).ok_or_else(unknown)
}

async fn parts_of(
    library: &dyn Library,
    house: &HouseId,
    session: &SessionId,
    messages: impl IntoIterator<Item = &StoredMessage>,
) -> Result<HashMap<MessageId, Vec<StoredPart>>, PondError> {
    let ids: Vec<_> = messages.into_iter().map(|message| message.id.clone()).collect();
    let mut parts: HashMap<MessageId, Vec<StoredPart>> = HashMap::new();
    for part in library.parts(house, session, &ids).await? {
        parts.entry(part.message_id.clone()).or_default().push(part);
    }
    Ok(parts)
}

async fn message_page(
    library: &dyn Library,
    house: &HouseId,
    session: Option<&SessionId>,
    id: &MessageId,
    depth: u32,
    files: Files,
    after: Option<&str>,
) -> Result<MessagePage, PondError> {
    let mut found_messages = library.message(house, id, session).await?;
    if found_messages.len() > 1 {
        let sessions: Vec<_> = found_messages.iter().take(10).map(|message| message.session_id.as_str()).collect();
        let sessions = sessions.join(", ");
        return Err(PondError::invalid(format!(
            "several sessions have a message {:?}: name one by session_id: {sessions}",
            id.as_str()
        )));
    }
    let missing = || PondError::not_found(format!("there is no message {:?}", id.as_str()));
    let target = found_messages.pop().ok_or_else(missing)?;
    let session_id = target.session_id.clone();
    let above = Which { below: Some(target.seq), ..Which::default() };
    let below = Which { from: target.seq + 1, ..Which::default() };
    let (session, before, following) = tokio::try_join!(
        found(library, house, &session_id),
        library.last(house, &session_id, above, depth.into()),
        library.first(house, &session_id, below, depth.into()),
    )?;
    let all = before.iter().chain([&target]).chain(&following);
    let mut parts = parts_of(library, house, &session_id, all).await?;
    let own = parts.remove(id).unwrap_or_default();
    let mut context = |messages: Vec<StoredMessage>| -> Vec<MessageView> {
        let view = |message: StoredMessage| {
            let parts = parts.remove(&message.id).unwrap_or_default();
            view(message, parts, ResponseMode::Complete)
        };
        messages.into_iter().map(view).collect()
    };
    let (before, after_it) = (context(before), context(following));
    let (mut parts, remaining) = cut(library, own, after).await?;
    load(library, &mut parts, files).await?;
    let target = view(target, parts, ResponseMode::Verbatim);
    Ok(MessagePage { session, before, target, target_parts_remaining: remaining, after: after_it })
}

/// The hash of what a file holds, where it is kept beside the rows.
fn blob(part: &StoredPart) -> Option<&str> {
    let (name, url) = part.data.as_ref()?;
    if *name == "url" { url.strip_prefix(BLOB) } else { None }
}

/// Bytes of the contents of files that are kept beside the rows.
async fn beside(library: &dyn Library, parts: &[StoredPart]) -> Result<u64, PondError> {
    let mut bytes = 0;
    for hash in parts.iter().filter_map(blob) {
        bytes += library.blob_bytes(hash).await?;
    }
    Ok(bytes)
}

/// Files whose contents are kept beside the rows get them, or their number of bytes.
async fn load(library: &dyn Library, parts: &mut [StoredPart], files: Files) -> Result<(), PondError> {
    for part in parts {
        let Some(hash) = blob(part) else { continue };
        let data = match files {
            Files::Whole => ("data", library.blob(hash).await?),
            Files::Counted => ("data_bytes", library.blob_bytes(hash).await?.to_string()),
        };
        part.data = Some(data);
    }
    Ok(())
}

/// The parts of one page, and how many are left.
async fn cut(library: &dyn Library, all: Vec<StoredPart>, after: Option<&str>) -> Result<(Vec<StoredPart>, u64), PondError> {
    let skip = match after {
        None => 0,
        Some(after) => {
            let at = all.iter().position(|part| part.id == after);
            at.ok_or_else(|| PondError::invalid(format!("after_id: there is no part {after:?} in the message")))? + 1
        }
    };
    let total = all.len();
    let (mut page, mut bytes) = (Vec::new(), 0);
    for part in all.into_iter().skip(skip) {
        bytes += weight(&part) as u64 + beside(library, std::slice::from_ref(&part)).await?;
        if bytes > PAGE && !page.is_empty() {
            break;
        }
        page.push(part);
    }
    let remaining = total - skip - page.len();
    Ok((page, remaining as u64))
}

fn weight(part: &StoredPart) -> usize {
    let variant: usize = part.variant.iter().map(|(key, value)| key.len() + value.get().len()).sum();
    variant + part.options.get().len() + part.data.as_ref().map_or(0, |(_, data)| data.len()) + 128
}

fn size(view: &MessageView) -> usize {
    let text = view.text.as_ref().map_or(0, String::len);
    let options = view.options.as_ref().map_or(0, |options| options.get().len());
    let summary = view.parts_summary.as_ref().map_or(0, |parts| parts.len() * 128);
    let parts = view.parts.iter().flatten().flatten().map(|(key, value)| key.len() + value.get().len());
    text + options + summary + parts.sum::<usize>() + 128
}

fn view(message: StoredMessage, parts: Vec<StoredPart>, mode: ResponseMode) -> MessageView {
    let StoredMessage { id, session_id, timestamp, role, content, text, options, .. } = message;
    let verbatim = mode == ResponseMode::Verbatim;
    let summary = || parts.iter().map(summary).collect();
    MessageView {
        role,
        timestamp,
        text: content.or(text).filter(|text| !text.is_empty()),
        parts_summary: (!verbatim).then(summary),
        parts: verbatim.then(|| parts.iter().map(|part| canonical(part, &session_id)).collect()),
        options: verbatim.then_some(options),
        id,
    }
}

fn summary(part: &StoredPart) -> PartSummary {
    let named = |key: &str| part.variant.get(key).and_then(|name| name.decode::<String>().ok());
    PartSummary {
        id: part.id.clone(),
        kind: part.kind.clone(),
        provenance: part.provenance,
        name: named("name").or_else(|| named("file_name")),
        bytes: weight(part) as u64 - 128,
    }
}

/// A part with its back-references, as the model has it.
fn canonical(part: &StoredPart, session: &SessionId) -> BTreeMap<String, Json> {
    let text = |text: &str| Json::of(text).ok();
    let mut fields = part.variant.clone();
    fields.remove("data_kind");
    fields.retain(|_, value| value.get() != "null" || part.kind == "tool_call" || part.kind == "tool_result");
    if fields.get("name").is_some_and(|name| name.get() == "null") {
        fields.remove("name");
    }
    let own = [
        ("id", text(&part.id)),
        ("session_id", text(session.as_str())),
        ("message_id", text(part.message_id.as_str())),
        ("type", text(&part.kind)),
        ("provenance", Json::of(&part.provenance).ok()),
        ("options", Some(part.options.clone())),
    ];
    let data = part.data.as_ref().map(|(name, data)| (*name, text(data)));
    fields.extend(own.into_iter().chain(data).filter_map(|(name, value)| Some((name.to_owned(), value?))));
    fields
}
