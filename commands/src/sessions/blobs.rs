//! What files hold is kept as objects under the hash of their bytes; the event names them.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use event_log::Log;
use events::session::{AssistantBody, Content, Data, File, Message, UserBody};

use crate::error::CommandError;

/// An object of its own costs more than it saves below this.
const SMALL: usize = 4 << 10;
pub(super) const SCHEME: &str = "pond://blob/";

fn files(message: &mut Message) -> Vec<&mut File> {
    match &mut message.content {
        Content::System(_) | Content::Tool(_) => Vec::new(),
        Content::User(parts) => parts
            .iter_mut()
            .filter_map(|part| match &mut part.body {
                UserBody::File(file) => Some(file),
                UserBody::Text(_) => None,
            })
            .collect(),
        Content::Assistant(parts) => parts
            .iter_mut()
            .filter_map(|part| match &mut part.body {
                AssistantBody::File(file) => Some(file),
                AssistantBody::Text(_)
                | AssistantBody::Reasoning(_)
                | AssistantBody::ToolCall(_)
                | AssistantBody::ToolResult(_)
                | AssistantBody::ApprovalRequest(_) => None,
            })
            .collect(),
    }
}

/// Base64 that would not come back as it is written stays where it is.
pub(super) async fn store(log: &Log, message: &mut Message) -> Result<(), CommandError> {
    for file in files(message) {
        let Data::Inline(text) = &file.data else { continue };
        let Some(bytes) = (text.len() >= SMALL).then(|| STANDARD.decode(text).ok()).flatten() else { continue };
        if STANDARD.encode(&bytes) != *text {
            continue;
        }
        let stored = log.put_blob(Bytes::from(bytes)).await;
        let hash = stored.map_err(|error| CommandError::Unavailable(error.to_string()))?;
        file.data = Data::Url(format!("{SCHEME}{hash}"));
    }
    Ok(())
}

pub(super) async fn load(log: &Log, message: &mut Message) -> Result<(), CommandError> {
    for file in files(message) {
        let Data::Url(url) = &file.data else { continue };
        let Some(hash) = url.strip_prefix(SCHEME) else { continue };
        let bytes = log.blob(hash).await.map_err(|error| CommandError::Unavailable(error.to_string()))?;
        file.data = Data::Inline(STANDARD.encode(&bytes));
    }
    Ok(())
}
