use events::session::{BodyRef, Message, Provenance, Role};

/// What a message is found by: its conversation, the same for every source. Null where there is none.
#[must_use]
pub fn search_text(message: &Message) -> Option<String> {
    if !matches!(message.role(), Role::User | Role::Assistant) {
        return None;
    }
    let mut text = String::new();
    for part in message.parts().iter().filter(|part| part.provenance == Provenance::Conversational) {
        let said: &[&str] = match part.body {
            BodyRef::Text(it) => &[&it.text],
            BodyRef::File(it) => &[it.file_name.as_deref().unwrap_or_default(), &it.media_type],
            BodyRef::Reasoning(_)
            | BodyRef::ToolCall(_)
            | BodyRef::ToolResult(_)
            | BodyRef::ApprovalRequest(_)
            | BodyRef::ApprovalResponse(_) => &[],
        };
        for said in said.iter().filter(|said| !said.is_empty()) {
            if !text.is_empty() {
                text.push('\n');
            }
            text.push_str(said);
        }
    }
    (!text.is_empty()).then_some(text)
}
