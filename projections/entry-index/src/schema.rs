//! The fields of the index. Part of its format: a change here is a new version.

use tantivy::schema::{Field, IndexRecordOption, NumericOptions, Schema, TextFieldIndexing, TextOptions};

use crate::analysis::WORDS;

/// A document is a session, a message of one, a thread as it stands, or an entry of one. No document holds what is said: the log does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Session,
    Message,
    Thread,
    Entry,
}

impl Kind {
    pub const ALL: [Self; 4] = [Self::Session, Self::Message, Self::Thread, Self::Entry];

    pub fn as_str(self) -> &'static str {
        match self {
            Self::Session => "session",
            Self::Message => "message",
            Self::Thread => "thread",
            Self::Entry => "entry",
        }
    }
}

#[derive(Clone, Debug)]
pub(crate) struct Fields {
    pub schema: Schema,
    /// House and kind in one term: what everything is looked for in.
    pub scope: Field,
    /// What is said.
    pub text: Field,
    /// Of the name of the stream, for sessions and threads and what is in them.
    pub stream: Field,
    pub seq: Field,
    /// Microseconds, as the source recorded it.
    pub time: Field,
    pub role: Field,
    pub source_agent: Field,
    pub project: Field,
    pub session: Field,
    /// Of a thread as it stands, by which it is replaced.
    pub thread: Field,
    pub author: Field,
    pub kind: Field,
    pub tag: Field,
    pub status: Field,
    /// Of sessions and threads only.
    pub stored: Field,
}

impl Fields {
    pub fn new() -> Self {
        let mut builder = Schema::builder();
        let said = TextFieldIndexing::default().set_tokenizer(WORDS).set_index_option(IndexRecordOption::WithFreqs);
        let number = || NumericOptions::default().set_fast();
        // Terms that are only looked for as they are; lengths of such fields matter to nobody.
        let exact = || {
            let raw = TextFieldIndexing::default().set_tokenizer("raw").set_index_option(IndexRecordOption::Basic);
            TextOptions::default().set_indexing_options(raw.set_fieldnorms(false))
        };
        let scope = builder.add_text_field("scope", exact());
        let text = builder.add_text_field("text", TextOptions::default().set_indexing_options(said));
        let stream = builder.add_u64_field("stream", number().set_indexed());
        let seq = builder.add_u64_field("seq", number());
        let time = builder.add_i64_field("time", number());
        let [role, source_agent, project, session, thread, author, kind, tag, status] =
            ["role", "source_agent", "project", "session", "thread", "author", "kind", "tag", "status"]
                .map(|name| builder.add_text_field(name, exact()));
        let stored = builder.add_text_field("stored", TextOptions::from(tantivy::schema::STORED));
        Self {
            schema: builder.build(),
            scope,
            text,
            stream,
            seq,
            time,
            role,
            source_agent,
            project,
            session,
            thread,
            author,
            kind,
            tag,
            status,
            stored,
        }
    }
}
