//! What is asked, and what answers it.

use std::collections::BTreeSet;

use anyhow::{Context, bail};
use queries::library::{Hit, SearchResponse, SessionHit};

use crate::args::{Eval, Half};

const ABSENT: &str = "absent";
/// What a column may be called.
const ID: &[&str] = &["id"];
const STRATUM: &[&str] = &["stratum", "kind"];
const QUERY: &[&str] = &["query", "question"];
const GOLD: &[&str] = &["gold", "expected"];

pub(super) struct Item {
    pub(super) id: String,
    pub(super) stratum: String,
    pub(super) query: String,
    /// Any of them is an answer: copies of a session are listed beside it.
    pub(super) gold: BTreeSet<Gold>,
}

/// A session, or one message of it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Gold {
    pub(super) session: String,
    pub(super) message: Option<String>,
}

impl std::fmt::Display for Gold {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match &self.message {
            Some(message) => write!(f, "message {message} of {}", self.session),
            None => write!(f, "session {}", self.session),
        }
    }
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
    let mut items = parse(&text).with_context(|| name.to_string())?;
    items.retain(|item| args.half.is_none_or(|half| half == item.half()));
    Ok(items)
}

pub(super) fn parse(text: &str) -> anyhow::Result<Vec<Item>> {
    let mut lines = text.trim_start_matches('\u{feff}').lines().zip(1_usize..).filter(|(line, _)| !line.trim().is_empty());
    let columns = Columns::of(lines.next().map_or("", |(line, _)| line))?;
    lines.map(|(line, number)| item(line, number, &columns).with_context(|| format!("line {number}"))).collect()
}

/// Where each is in a line.
struct Columns {
    id: Option<usize>,
    stratum: usize,
    query: usize,
    gold: usize,
}

impl Columns {
    fn of(header: &str) -> anyhow::Result<Self> {
        let names: Vec<String> = header.split('\t').map(|name| name.trim().to_lowercase()).collect();
        let find = |known: &[&str]| -> anyhow::Result<Option<usize>> {
            let mut places = (0..names.len()).filter(|at| known.contains(&names[*at].as_str()));
            let (place, more) = (places.next(), places.next());
            if more.is_some() {
                bail!("the column {} is there twice", known.join(" or "));
            }
            Ok(place)
        };
        let needed = |known: &[&str]| -> anyhow::Result<usize> {
            find(known)?.with_context(|| {
                format!(
                    "the first line names no column {}: it names the columns in any order, tab-separated: query, gold (or expected), \
                     stratum (or kind), and maybe id; others are passed over",
                    known.join(" or ")
                )
            })
        };
        Ok(Self { id: find(ID)?, stratum: needed(STRATUM)?, query: needed(QUERY)?, gold: needed(GOLD)? })
    }
}

fn item(line: &str, number: usize, columns: &Columns) -> anyhow::Result<Item> {
    let fields: Vec<&str> = line.split('\t').collect();
    // Editors take away tabs at the end of a line.
    let field = |at: usize| fields.get(at).map_or("", |field| field.trim()).to_owned();
    let mut gold = BTreeSet::new();
    for text in field(columns.gold).split_whitespace() {
        gold.insert(Gold::parse(text).with_context(|| format!("{text:?} is not client:session or client:session#message"))?);
    }
    let id = columns.id.map(field).filter(|id| !id.is_empty()).unwrap_or_else(|| number.to_string());
    let item = Item { id, stratum: field(columns.stratum), query: field(columns.query), gold };
    if item.stratum.is_empty() || item.query.is_empty() {
        bail!("it has no stratum or no query");
    }
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

    fn one(line: &str) -> anyhow::Result<Item> {
        Ok(parse(&format!("id\tstratum\tquery\tgold\n{line}\n"))?.remove(0))
    }

    fn rank(expected: &str) -> Option<usize> {
        let sessions = vec![
            session("one", vec![hit("m1", None), hit("m2", Some("spawned"))]),
            session("two", vec![hit("m1", None), hit("m3", None)]),
        ];
        let found = SearchResponse { sessions, mode: Mode::Keyword, hints: Vec::new() };
        one(&format!("i\tkeyword\twords\t{expected}")).unwrap().rank(&found)
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
            "i\t\twords\tpi:one",
            "i\tkeyword\t \tpi:one",
        ] {
            assert!(one(line).is_err(), "{line:?}");
        }
        assert!(one("i\tabsent\twords\t").unwrap().is_absent());
        assert!(one("i\tabsent\twords").unwrap().is_absent());
    }

    #[test]
    fn columns_are_told_by_their_names_in_whatever_order_they_are() {
        let items =
            parse("\u{feff}Query\texpected\tstratum\r\nsome words\tpi:one codex:two\tkeyword\r\n\r\nnothing\t\tabsent\r\n")
                .unwrap();
        let told: Vec<_> =
            items.iter().map(|it| (it.id.as_str(), it.stratum.as_str(), it.query.as_str(), it.gold.len())).collect();
        assert_eq!(told, [("2", "keyword", "some words", 2), ("4", "absent", "nothing", 0)]);
        let items = parse("note\tkind\tgold\tid\tquestion\nwhy\tkeyword\tpi:one\tk1\tsome words\n").unwrap();
        assert_eq!((items[0].id.as_str(), items[0].query.as_str()), ("k1", "some words"));
    }

    #[test]
    fn a_file_whose_columns_are_not_named_is_refused_and_told_how_they_are() {
        for (text, told) in [
            ("", "no column stratum or kind"),
            ("f01\tkeyword\twords\tpi:one\n", "no column stratum or kind"),
            ("id\tstratum\tquery\nf01\tkeyword\twords\n", "no column gold or expected"),
            ("query\tquestion\tgold\tkind\n", "query or question is there twice"),
        ] {
            let error = parse(text).err().unwrap().to_string();
            assert!(error.contains(told), "{text:?}: {error}");
        }
    }
}
