//! Parts as blocks that the model's API takes.

use base64::Engine as _;
use events::Json;
use events::session::{BodyRef, Data, File, Message, PartRef};

use crate::artifact::Report;
use crate::foreign::{Shown, data_url, shown};
use crate::restore::{RestoreError, loaded};
use crate::value::Value;

const IMAGES: &[&str] = &["image/png", "image/jpeg", "image/gif", "image/webp"];
const TOOL_NAME_MAX: usize = 64;

/// `None`: it is nothing, or cannot be said and is in the report.
pub(super) fn block(message: &Message, part: &PartRef<'_>, report: &mut Report) -> Result<Option<Value>, RestoreError> {
    match part.body {
        // The API refuses a text of white space.
        BodyRef::Text(it) => Ok((!it.text.trim().is_empty()).then(|| text(&it.text))),
        BodyRef::File(it) => {
            let block = file(it, loaded(message, part, it)?);
            if block.is_none() {
                report.drop("file");
            }
            Ok(block)
        }
        BodyRef::Reasoning(_)
        | BodyRef::ToolCall(_)
        | BodyRef::ToolResult(_)
        | BodyRef::ApprovalRequest(_)
        | BodyRef::ApprovalResponse(_) => {
            report.drop(part.body.kind());
            Ok(None)
        }
    }
}

fn text(text: &str) -> Value {
    Value::object([("type", Value::from("text")), ("text", Value::from(text))])
}

fn media(kind: &str, source: &str, media_type: &str, data: &str) -> Value {
    let key = if source == "url" { "url" } else { "data" };
    let mut fields = vec![("type".to_owned(), Value::from(source))];
    if source != "url" {
        fields.push(("media_type".to_owned(), Value::from(media_type)));
    }
    fields.push((key.to_owned(), Value::from(data)));
    Value::object([("type", Value::from(kind)), ("source", Value::Object(fields))])
}

fn file(file: &File, data: &Data) -> Option<Value> {
    let image = IMAGES.contains(&file.media_type.as_str());
    let block = match (data, file.media_type.as_str()) {
        (Data::Inline(data), media_type) if image => media("image", "base64", media_type, data),
        (Data::Inline(data), media_type @ "application/pdf") => media("document", "base64", media_type, data),
        (Data::Inline(data), _) => {
            let bytes = base64::engine::general_purpose::STANDARD.decode(data).ok()?;
            let words = String::from_utf8(bytes).ok().filter(|words| !words.trim().is_empty())?;
            media("document", "text", "text/plain", &words)
        }
        (Data::Url(url), _) if !url.starts_with("https://") => return None,
        (Data::Url(url), "application/pdf") => media("document", "url", "", url),
        (Data::Url(url), _) if image => media("image", "url", "", url),
        (Data::Url(_), _) => return None,
    };
    let Value::Object(mut fields) = block else { return None };
    if let Some(name) = file.file_name.as_deref().filter(|_| !image) {
        fields.push(("title".to_owned(), Value::from(name)));
    }
    Some(Value::Object(fields))
}

pub(super) fn tool_name(name: &str) -> String {
    let plain = name.chars().map(|it| if it.is_ascii_alphanumeric() || it == '-' { it } else { '_' });
    let plain: String = plain.take(TOOL_NAME_MAX).collect();
    if plain.is_empty() { "tool".to_owned() } else { plain }
}

/// One text as it is, otherwise blocks. The API refuses texts of white space and images of other kinds.
pub(super) fn result(result: &Json) -> Value {
    let pieces = shown(result);
    if let [Shown::Text(words)] = pieces.as_slice() {
        return Value::from(words.as_str());
    }
    let block = |piece: &Shown| match piece {
        Shown::Text(words) => (!words.trim().is_empty()).then(|| text(words)),
        Shown::Image { media_type, data } if IMAGES.contains(&media_type.as_str()) => {
            Some(media("image", "base64", media_type, data))
        }
        Shown::Image { media_type, data } => Some(text(&data_url(media_type, data))),
    };
    Value::Array(pieces.iter().filter_map(block).collect())
}
