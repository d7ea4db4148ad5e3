//! Whether what items expect is there at all. What is not cannot be found, which says nothing of the search.

use std::collections::{BTreeMap, BTreeSet};

use events::SessionEvent;
use events::session::SessionId;
use serde::Serialize;

use super::items::{Gold, Item};
use crate::library::Library;
use crate::output;

/// An item that expects what is not there.
#[derive(Debug, PartialEq, Eq, Serialize)]
pub(super) struct Lost {
    id: String,
    stratum: String,
    /// What is not there of what it expects.
    expected: Vec<String>,
    /// Something else that it expects is there.
    counted: bool,
}

/// The sessions and threads of a house, and what the expected ones say.
#[derive(Debug, Default)]
pub(super) struct There {
    sessions: BTreeMap<String, SessionId>,
    threads: BTreeSet<String>,
    /// Those that hang on each.
    children: BTreeMap<String, Vec<String>>,
    /// Messages of each, and of all that hang on it: they are told under it.
    said: BTreeMap<String, BTreeSet<String>>,
}

impl There {
    pub(super) async fn read(library: &Library, items: &[Item]) -> anyhow::Result<Self> {
        let mut there = Self::default();
        for session in library.sessions.list(&library.house).await? {
            there.hang(session.id.to_string(), session.parent_session_id.as_ref().map(SessionId::as_str));
            there.sessions.insert(session.id.to_string(), session.id);
        }
        for thread in library.threads().await? {
            there.hang(thread.thread_id.to_string(), thread.parent_thread_id.as_ref().map(|id| id.as_str()));
            there.threads.insert(thread.thread_id.to_string());
        }
        let expected = items.iter().flat_map(|item| &item.gold).filter(|gold| gold.message.is_some());
        for session in expected.map(|gold| gold.session.as_str()).collect::<BTreeSet<_>>() {
            let mut said = BTreeSet::new();
            for id in there.with_children(session) {
                said.extend(there.messages(library, id).await?);
            }
            there.said.insert(session.to_owned(), said);
        }
        Ok(there)
    }

    fn hang(&mut self, id: String, parent: Option<&str>) {
        if let Some(parent) = parent {
            self.children.entry(parent.to_owned()).or_default().push(id);
        }
    }

    fn with_children<'a>(&'a self, id: &'a str) -> BTreeSet<&'a str> {
        let (mut all, mut next) = (BTreeSet::new(), vec![id]);
        while let Some(id) = next.pop() {
            if all.insert(id) {
                next.extend(self.children.get(id).into_iter().flatten().map(String::as_str));
            }
        }
        all
    }

    async fn messages(&self, library: &Library, id: &str) -> anyhow::Result<Vec<String>> {
        let Some(session) = self.sessions.get(id) else {
            let thread = if self.threads.contains(id) { library.thread(id, true).await? } else { None };
            return Ok(thread.into_iter().flat_map(|thread| thread.messages).map(|message| message.id.to_string()).collect());
        };
        let (mut ids, mut at) = (Vec::new(), 0);
        while let Some((events, next)) = library.sessions.read_from(&library.house, session, at).await? {
            ids.extend(events.into_iter().filter_map(|event| match event {
                SessionEvent::MessageRecorded(it) => Some(it.message.id.to_string()),
                SessionEvent::Recorded(_) => None,
            }));
            at = next;
        }
        Ok(ids)
    }

    fn has(&self, gold: &Gold) -> bool {
        match &gold.message {
            Some(message) => self.said.get(&gold.session).is_some_and(|said| said.contains(message)),
            None => self.sessions.contains_key(&gold.session) || self.threads.contains(&gold.session),
        }
    }

    /// The items that can be answered, with what can answer them, and those that expect what is not there.
    pub(super) fn part(&self, items: Vec<Item>) -> (Vec<Item>, Vec<Lost>) {
        let (mut usable, mut lost) = (Vec::new(), Vec::new());
        for mut item in items {
            let gold = std::mem::take(&mut item.gold);
            let (there, missing): (BTreeSet<Gold>, BTreeSet<Gold>) = gold.into_iter().partition(|gold| self.has(gold));
            let counted = item.is_absent() || !there.is_empty();
            if !missing.is_empty() {
                let expected = missing.iter().map(ToString::to_string).collect();
                lost.push(Lost { id: item.id.clone(), stratum: item.stratum.clone(), expected, counted });
            }
            item.gold = there;
            usable.extend(counted.then_some(item));
        }
        (usable, lost)
    }
}

/// Fails if what is left would measure nothing.
pub(super) fn tell(usable: &[Item], lost: &[Lost]) -> anyhow::Result<()> {
    if lost.is_empty() {
        return Ok(());
    }
    for Lost { id, stratum, expected, counted } in lost {
        let but = if *counted { "; it counts with what else it expects" } else { "" };
        output::note(format_args!("{id} ({stratum}) expects what is not there: {}{but}", expected.join(", ")));
    }
    let answerable = usable.iter().filter(|item| !item.is_absent()).count();
    let left_out = lost.iter().filter(|it| !it.counted).count();
    let all = answerable + left_out;
    if answerable == 0 {
        anyhow::bail!("nothing that these {all} items expect is in this house; were they written for another?");
    }
    output::note(format_args!("{left_out} of {all} items that expect something are left out, {} are named above", lost.len()));
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::super::items::parse;
    use super::*;

    fn there() -> There {
        let mut there = There::default();
        there.sessions.insert("one".to_owned(), SessionId::new("one").unwrap());
        there.said.insert("one".to_owned(), ["m1".to_owned()].into());
        there
    }

    fn items(lines: &str) -> Vec<Item> {
        parse(&format!("id\tstratum\tquery\tgold\n{lines}")).unwrap()
    }

    #[test]
    fn what_expects_only_what_is_not_there_is_left_out_and_named() {
        let all = items(
            "a\tkeyword\tx\tpi:one\nb\tkeyword\tx\tpi:two\nc\tnatural\tx\tpi:one#m2 pi:one#m1\nd\tnatural\tx\tpi:one#m2\ne\tabsent\tx\t\n",
        );
        let (usable, lost) = there().part(all);
        assert_eq!(usable.iter().map(|item| item.id.as_str()).collect::<Vec<_>>(), ["a", "c", "e"]);
        assert_eq!(usable[1].gold.len(), 1, "what is not there answers nothing");
        let told: Vec<_> = lost.iter().map(|it| (it.id.as_str(), it.expected.join(" "), it.counted)).collect();
        let expected = [("b", "session two", false), ("c", "message m2 of one", true), ("d", "message m2 of one", false)];
        assert_eq!(told, expected.map(|(id, what, counted)| (id, what.to_owned(), counted)));
        tell(&usable, &lost).unwrap();
    }

    #[test]
    fn items_of_another_house_are_refused_and_absent_ones_alone_are_not() {
        let (usable, lost) = there().part(items("b\tkeyword\tx\tpi:two\ne\tabsent\tx\t\n"));
        let refused = tell(&usable, &lost).unwrap_err().to_string();
        assert!(refused.contains("these 1 items"), "{refused}");
        let (usable, lost) = there().part(items("e\tabsent\tx\t\n"));
        assert_eq!((usable.len(), lost.len()), (1, 0));
        tell(&usable, &lost).unwrap();
    }

    #[test]
    fn what_hangs_on_a_session_is_looked_at_once_however_it_hangs() {
        let mut there = there();
        for (id, parent) in [("two", "one"), ("three", "two"), ("one", "three"), ("four", "five")] {
            there.hang(id.to_owned(), Some(parent));
        }
        assert_eq!(there.with_children("one"), ["one", "three", "two"].into());
    }
}
