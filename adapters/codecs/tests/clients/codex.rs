//! Codex.

mod faults;
mod foreign;
mod lineage;
mod provenance;
mod round_trip;
mod typing;

use std::path::Path;

use codecs::check::{Contents, parse};
use codecs::registry::Codec;
use codecs::source::Bundle;
use events::session::{BodyRef, Content, Message, Provenance};

use crate::support::{directories, fixtures, write};

const ID: &str = "0199e4a5-5b78-78f2-b041-6b876f71fdab";

fn codec() -> &'static Codec {
    crate::support::codec("codex")
}

/// Every rollout below a directory, each in the home it stands in.
fn rollouts(root: &Path) -> Vec<Bundle> {
    let is_home = |below: &Path| ["sessions", "archived_sessions"].iter().any(|kept| below.join(kept).is_dir());
    if is_home(root) {
        return codec().parse.discover(root).unwrap();
    }
    directories(root).iter().flat_map(|home| codec().parse.discover(home).unwrap()).collect()
}

fn fixture(name: &str) -> Contents {
    let all = rollouts(&fixtures("codex"));
    let bundle = all.iter().find(|bundle| bundle.main().to_string_lossy().contains(name));
    parse(codec(), bundle.unwrap_or_else(|| panic!("no fixture {name}"))).unwrap()
}

/// A home with one rollout.
struct Home {
    directory: tempfile::TempDir,
    bundle: Bundle,
}

fn home(content: impl AsRef<[u8]>) -> Home {
    home_with(&format!("sessions/2025/10/14/rollout-2025-10-14T22-34-00-{ID}.jsonl"), content)
}

fn home_with(file: &str, content: impl AsRef<[u8]>) -> Home {
    let directory = tempfile::tempdir().unwrap();
    write(directory.path(), file, content);
    let bundle = codec().parse.discover(directory.path()).unwrap().remove(0);
    Home { directory, bundle }
}

fn contents(content: impl AsRef<[u8]>) -> Contents {
    parse(codec(), &home(content).bundle).unwrap()
}

fn header() -> String {
    let payload = format!(r#"{{"id":"{ID}","timestamp":"2025-10-14T20:34:00.100Z","cwd":"/srv/demo","cli_version":"0.46.0"}}"#);
    line("session_meta", &payload)
}

fn line(kind: &str, payload: &str) -> String {
    format!("{{\"timestamp\":\"2025-10-14T20:34:01.000Z\",\"type\":\"{kind}\",\"payload\":{payload}}}\n")
}

fn said(text: &str) -> String {
    let text = serde_json::to_string(text).unwrap();
    line("response_item", &format!(r#"{{"type":"message","role":"user","content":[{{"type":"input_text","text":{text}}}]}}"#))
}

/// Role, kind and text of everything that is not carried.
fn told(messages: &[Message]) -> Vec<String> {
    let mut told = Vec::new();
    for message in messages {
        let role = message.role().as_str();
        if let Content::System(text) = &message.content
            && !text.is_empty()
        {
            told.push(format!("system {text}"));
        }
        for part in message.parts() {
            let by = if part.provenance == Provenance::Injected { " injected" } else { "" };
            told.push(format!("{role}{by} {}", body(part.body)));
        }
    }
    told
}

fn body(body: BodyRef<'_>) -> String {
    match body {
        BodyRef::Text(it) => it.text.clone(),
        BodyRef::Reasoning(it) => format!("thinks {}", it.text),
        BodyRef::File(it) => format!("{} {:?}", it.media_type, it.data),
        BodyRef::ToolCall(it) => format!("{} calls {} {}", it.call_id, it.name, it.params.get()),
        BodyRef::ToolResult(it) => {
            format!("{} {} {}", it.call_id, if it.is_failure { "fails" } else { "gives" }, it.result.get())
        }
        BodyRef::ApprovalRequest(_) | BodyRef::ApprovalResponse(_) => body.kind().to_owned(),
    }
}
