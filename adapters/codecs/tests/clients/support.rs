//! What the tests of codecs share.

use std::fs;
use std::path::{Path, PathBuf};

use codecs::artifact::{Report, Restored};
use codecs::check::{self, Contents};
use codecs::lineage::Lineage;
use codecs::registry::{self, Codec};
use codecs::restore::{Place, restore};
use codecs::source::Bundle;
use events::session::{BodyRef, Message, Provenance, Session};

pub fn codec(origin: &str) -> &'static Codec {
    registry::find(origin).unwrap()
}

pub fn write(root: &Path, file: &str, contents: impl AsRef<[u8]>) {
    let path = root.join(file);
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, contents).unwrap();
}

/// Files on disk, gone with the value.
pub struct Files(pub tempfile::TempDir);

impl Files {
    pub fn of<B: AsRef<[u8]>>(files: &[(&str, B)]) -> Self {
        let root = tempfile::tempdir().unwrap();
        files.iter().for_each(|(file, body)| write(root.path(), file, body));
        Self(root)
    }

    pub fn restored(restored: &Restored) -> Self {
        let bytes = |body: &codecs::artifact::Body| body.to_bytes().unwrap();
        let files: Vec<_> = restored.artifacts.iter().map(|it| (it.path.as_str(), bytes(&it.body))).collect();
        Self::of(&files)
    }

    pub fn bundles(&self, codec: &Codec) -> Vec<Bundle> {
        codec.parse.discover(self.0.path()).unwrap()
    }

    pub fn parse(&self, codec: &Codec) -> Contents {
        parse(codec, self.0.path())
    }
}

/// All that is there.
pub fn parse(codec: &Codec, root: &Path) -> Contents {
    let mut all = Contents::default();
    for bundle in codec.parse.discover(root).unwrap() {
        let contents = check::parse(codec, &bundle).unwrap();
        all.sessions.extend(contents.sessions);
        all.faults.extend(contents.faults);
    }
    all
}

/// Every bundle under a root comes back value by value; how many files there were.
pub fn survive(codec: &Codec, root: &Path) -> usize {
    let bundles = codec.parse.discover(root).unwrap();
    for bundle in &bundles {
        let scratch = tempfile::tempdir().unwrap();
        assert_eq!(check::check(codec, bundle, scratch.path()).unwrap(), [], "{}", bundle.main().display());
    }
    let files: std::collections::BTreeSet<_> = bundles.iter().flat_map(|it| &it.files).collect();
    files.len()
}

pub fn fixtures(client: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures/sessions").join(client)
}

/// The directories in one, in their order.
pub fn directories(root: &Path) -> Vec<PathBuf> {
    let mut found: Vec<_> = fs::read_dir(root).unwrap().map(|it| it.unwrap().path()).filter(|it| it.is_dir()).collect();
    found.sort();
    found
}

pub fn every_file(directory: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().path());
    entries.flat_map(|path| if path.is_dir() { every_file(&path) } else { vec![path] }).collect()
}

/// Session files that are not part of the project: `ARBE_SHARED_FIXTURES`, or `shared/fixtures` beside a directory above.
pub fn shared_fixtures(client: &str) -> Option<PathBuf> {
    let named = std::env::var_os("ARBE_SHARED_FIXTURES").map(PathBuf::from);
    let above = Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().map(|it| it.join("shared/fixtures"));
    let found = named.into_iter().chain(above).map(|it| it.join(client)).find(|it| it.is_dir());
    if found.is_none() {
        eprintln!("{client}: skipped, there are no shared fixtures");
    }
    found
}

/// The canonical form was reviewed by hand; `ARBE_GOLDEN=write` writes it anew, to be reviewed.
pub fn golden(path: &Path, contents: &Contents) {
    let mut lines = Vec::new();
    for (session, messages) in &contents.sessions {
        let moment = format!(r#""created_at":"{}""#, session.created_at);
        let text = serde_json::to_string(session).unwrap();
        // Without a message there is no moment but the file's.
        lines.push(if messages.is_empty() { text.replace(&moment, r#""created_at":"""#) } else { text });
        lines.extend(messages.iter().map(|message| serde_json::to_string(message).unwrap()));
    }
    lines.extend(contents.faults.iter().map(|fault| serde_json::to_string(&fault.to_string()).unwrap()));
    let found = format!("[\n{}\n]\n", lines.join(",\n"));
    if std::env::var_os("ARBE_GOLDEN").is_some_and(|it| it == "write") {
        fs::write(path, &found).unwrap();
    }
    let reviewed = fs::read_to_string(path).unwrap();
    for (found, reviewed) in found.lines().zip(reviewed.lines()) {
        assert_eq!(found, reviewed, "{}", path.display());
    }
    assert_eq!(found.len(), reviewed.len(), "{}", path.display());
}

/// Beside a directory or file.
pub fn golden_of(fixture: &Path) -> PathBuf {
    let name = fixture.file_name().unwrap().to_str().unwrap().trim_end_matches(".jsonl");
    fixture.with_file_name(format!("{name}.canonical.json"))
}

/// Role, then kind and provenance and words of every part.
pub fn told(messages: &[Message]) -> Vec<String> {
    messages.iter().map(told_of).collect()
}

fn told_of(message: &Message) -> String {
    let words = |body| match body {
        BodyRef::Text(it) => it.text.clone(),
        BodyRef::Reasoning(it) => it.text.clone(),
        BodyRef::File(it) => format!("{} {}", it.media_type, it.file_name.as_deref().unwrap_or("-")),
        BodyRef::ToolCall(it) => format!("{} {} {}", it.call_id, it.name, it.params.get()),
        BodyRef::ToolResult(it) => format!("{} {} {}", it.call_id, it.is_failure, it.result.get()),
        BodyRef::ApprovalRequest(_) | BodyRef::ApprovalResponse(_) => String::new(),
    };
    let mark = |provenance| if provenance == Provenance::Injected { "!" } else { "" };
    let parts = message.parts();
    let parts: Vec<_> =
        parts.iter().map(|part| format!("{}{}({})", mark(part.provenance), part.body.kind(), words(part.body))).collect();
    format!("{} {}", message.role().as_str(), parts.join(" ")).trim_end().to_owned()
}

/// Role, provenance and content of every part, in order.
pub fn shown(messages: &[Message]) -> Vec<String> {
    let part = |message: &Message| {
        let parts = message.parts();
        let role = message.role().as_str();
        parts.iter().map(|part| format!("{role} {:?} {:?}", part.provenance, part.body)).collect::<Vec<_>>()
    };
    messages.iter().flat_map(part).collect()
}

/// One object a line, the session first.
pub fn canonical(text: &str) -> (Session, Vec<Message>) {
    let mut lines = text.lines().filter(|line| !line.trim().is_empty());
    let session = serde_json::from_str(lines.next().unwrap()).unwrap();
    (session, lines.map(|line| serde_json::from_str(line).unwrap()).collect())
}

/// Restored into a client, what it parses to there, and what was dropped.
pub fn moved(codec: &Codec, lineage: &Lineage) -> (Restored, Contents, Report) {
    let place = Place { directory: "/srv/demo".to_owned() };
    let restored = restore(codec, lineage, &place).unwrap();
    let contents = Files::restored(&restored).parse(codec);
    let report = restored.report.clone();
    (restored, contents, report)
}
