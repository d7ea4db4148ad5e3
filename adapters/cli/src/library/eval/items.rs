//! What is asked, and what answers it.

use std::collections::BTreeSet;

use anyhow::{Context, bail};
use queries::library::{Hit, SearchResponse, SessionHit};

use crate::args::{Eval, Half};

const ABSENT: &str = "absent";

pub(super) struct Item {
    pub(super) id: String,
    pub(super) stratum: String,
    pub(super) query: String,
    /// Any of them is an answer: copies of a session are listed beside it.
    gold: BTreeSet<Gold>,
}

/// A session, or one message of it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Gold {
    session: String,
    message: Option<String>,
}

impl Gold {
    /// `client:session` or `client:session#message`. The client is for people; ids are not shared among clients.
    fn parse(text: &str) -> Option<Self> {
        let (session, message) = text.split_once('#').map_or((text, None), |(session, message)| (session, Some(message)));
        let session = session.rsplit(':').next().unwrap_or(session);
        let whole = !session.is_empty() && message.is_none_or(|message| !message.is_empty());
        whole.then(|| Self { session: session.to_owned(), message: message.map(ToOwned::to_owned) })
    }

    /// A session is also found in one that it spawned. A message is found only if it is among those that are shown.
    fn is_in(&self, found: &SessionHit) -> bool {
        let own = found.session_id.as_str() == self.session;
        let said_there = |hit: &Hit| own || hit.session_id.as_ref().is_some_and(|id| id.as_str() == self.session);
        match &self.message {
            Some(message) => found.matches.iter().any(|hit| said_there(hit) && hit.message_id.as_str() == message.as_str()),
            None => own || found.matches.iter().any(said_there),
        }
    }
}

impl Item {
    /// Whether it is right to find nothing.
    pub(super) fn is_absent(&self) -> bool {
        self.stratum == ABSENT
    }

    /// Where the first session that answers stands.
    pub(super) fn rank(&self, found: &SearchResponse) -> Option<usize> {
        let answers = |session: &SessionHit| self.gold.iter().any(|gold| gold.is_in(session));
        found.sessions.iter().position(answers).map(|at| at + 1)
    }

    /// By the session, so that what was learned of one is not reported of it.
    fn half(&self) -> Half {
        let key = self.gold.first().map_or(&self.id, |gold| &gold.session);
        match blake3::hash(key.as_bytes()).as_bytes()[0] & 1 {
            0 => Half::Tuning,
            _ => Half::Reporting,
        }
    }
}

pub(super) fn read(args: &Eval) -> anyhow::Result<Vec<Item>> {
    let name = args.queries.display();
    let text = std::fs::read_to_string(&args.queries).with_context(|| name.to_string())?;
    let mut items = Vec::new();
    for (number, line) in text.lines().enumerate().skip(1).filter(|(_, line)| !line.trim().is_empty()) {
        items.push(item(line).with_context(|| format!("{name}: line {}", number + 1))?);
    }
    items.retain(|item| args.half.is_none_or(|half| half == item.half()));
    Ok(items)
}

fn item(line: &str) -> anyhow::Result<Item> {
    let fields: Vec<&str> = line.split('\t').collect();
    let [id, stratum, query, expected, ..] = fields.as_slice() else {
        bail!("it is not id, stratum, query, expected sessions");
    };
    let mut gold = BTreeSet::new();
    for text in expected.split_whitespace() {
        gold.insert(Gold::parse(text).with_context(|| format!("{text:?} is not client:session or client:session#message"))?);
    }
    let item = Item { id: (*id).to_owned(), stratum: (*stratum).to_owned(), query: (*query).to_owned(), gold };
    if item.gold.is_empty() != item.is_absent() {
        bail!("only absent items expect nothing");
    }
    Ok(item)
}

#[cfg(test)]
mod tests {
    use events::session::{MessageId, Role, SessionId, Timestamp};
    use queries::library::Mode;

    use super::*;

    fn hit(message: &str, session: Option<&str>) -> Hit {
        Hit {
            message_id: MessageId::new(message).unwrap(),
            session_id: session.map(|id| SessionId::new(id).unwrap()),
            role: Role::User,
            timestamp: Timestamp::from_millis(0).unwrap(),
            score: 1.0,
            text: String::new(),
            text_bytes: None,
            snippet: None,
            parts_summary: None,
        }
    }

    fn session(id: &str, matches: Vec<Hit>) -> SessionHit {
        SessionHit {
            session_id: SessionId::new(id).unwrap(),
            source_agent: "pi".to_owned(),
            project: "/p".to_owned(),
            created_at: Timestamp::from_millis(0).unwrap(),
            score: 1.0,
            matches,
            newer_messages: 0,
            last_message_at: Timestamp::from_millis(0).unwrap(),
        }
    }

    fn rank(expected: &str) -> Option<usize> {
        let sessions = vec![
            session("one", vec![hit("m1", None), hit("m2", Some("spawned"))]),
            session("two", vec![hit("m1", None), hit("m3", None)]),
        ];
        let found = SearchResponse { sessions, mode: Mode::Keyword, hints: Vec::new() };
        item(&format!("i\tkeyword\twords\t{expected}")).unwrap().rank(&found)
    }

    #[test]
    fn any_of_the_expected_is_an_answer_and_a_spawned_session_counts() {
        assert_eq!(rank("pi:two"), Some(2));
        assert_eq!(rank("pi:two codex:one"), Some(1));
        assert_eq!(rank("spawned"), Some(1));
        assert_eq!(rank("pi:three"), None);
    }

    #[test]
    fn an_expected_message_has_to_be_shown_in_its_session() {
        assert_eq!(rank("pi:one#m1"), Some(1));
        assert_eq!(rank("pi:two#m1"), Some(2));
        assert_eq!(rank("pi:one#m2"), Some(1), "it is told under the session that it hangs on");
        assert_eq!(rank("pi:spawned#m2"), Some(1));
        assert_eq!(rank("pi:spawned#m1"), None);
        assert_eq!(rank("pi:one#m3"), None);
    }

    #[test]
    fn a_line_that_cannot_be_meant_is_refused() {
        for line in [
            "i\tkeyword\twords",
            "i\tkeyword\twords\t",
            "i\tabsent\twords\tpi:one",
            "i\tkeyword\twords\tpi:one#",
            "i\tkeyword\tx\tpi:",
        ] {
            assert!(item(line).is_err(), "{line:?}");
        }
        assert!(item("i\tabsent\twords\t").unwrap().is_absent());
    }
}
