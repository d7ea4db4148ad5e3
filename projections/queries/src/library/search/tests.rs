//! Over an index and a log in memory.

use std::sync::Mutex;

use entry_index::{Fit, SessionFit, TypedPlace};

use super::*;

const SAID: usize = 40;

/// So many sessions of one message each, the first of them the best, and one in which a path stands as it is typed.
#[derive(Debug, Default)]
struct Shelf {
    stands_in: Option<usize>,
    looked_for: bool,
    /// The nearest messages are all of the first session.
    means: bool,
    /// How many of the nearest were asked for.
    asked: Mutex<Vec<usize>>,
}

fn place(n: usize) -> Place {
    Place { stream: format!("s{n:02}"), seq: 1 }
}

fn fit(n: usize) -> SessionFit {
    let Place { stream, seq } = place(n);
    let score = 1.0 - n as f32 / 100.0;
    let told = Fit { stream: stream.clone(), seq, session_id: stream.clone(), score, time: 0, covers: 1.0, firmly: 1.0 };
    SessionFit {
        session_id: stream,
        source_agent: "pi".into(),
        project: "/p".into(),
        created_at: 0,
        last_at: 0,
        score,
        covers: 1.0,
        matches: vec![told],
    }
}

impl Shelf {
    fn text(&self, stream: &str) -> &str {
        if self.stands_in.is_some_and(|n| place(n).stream == stream) { "it is in lib/main.js" } else { "main of the lib, no js" }
    }
}

#[async_trait::async_trait]
impl Finder for Shelf {
    async fn words(&self, _: &HouseId, _: &Question, _: &MessageFilter, most: usize) -> Result<Option<Ranked>, PondError> {
        let sessions: Vec<SessionFit> = (0..SAID).take(most).map(fit).collect();
        let places = sessions.iter().flat_map(|it| it.matches.clone()).map(|it| TypedPlace {
            root: it.session_id.clone(),
            session_id: it.session_id,
            stream: it.stream,
            seq: it.seq,
        });
        let typed = self.looked_for.then(|| Typed {
            pieces: vec!["lib/main.js".into()],
            places: Some(places.collect()),
            otherwise: Verdict::Never { why: "nobody writes it".into() },
        });
        Ok(Some(Ranked { sessions, verdict: Verdict::Answer { trust: 1.0 }, typed, heard: BTreeSet::new(), plan: String::new() }))
    }

    async fn meaning(&self, _: &HouseId, _: &str, _: &MessageFilter, most: usize) -> Result<Option<Meaning>, PondError> {
        if !self.means {
            return Ok(None);
        }
        self.asked.lock().unwrap().push(most);
        let near = |n: usize| Near {
            root: place(0).stream,
            root_agent: "pi".into(),
            root_project: "/p".into(),
            created_at: 0,
            last_at: 0,
            session_id: place(0).stream,
            place: Place { seq: n as u64, ..place(0) },
            similarity: 0.9,
            about: 0.9,
        };
        Ok(Some(Meaning { near: (0..most).map(near).collect(), chance: 0.1, more: true }))
    }

    async fn plan(&self, _: &HouseId, _: &str, _: &MessageFilter, _: usize) -> Result<Option<String>, PondError> {
        Ok(None)
    }

    async fn said(&self, places: &[Place]) -> Result<Vec<Option<Message>>, PondError> {
        let message = |place: &Place| {
            let part =
                serde_json::json!({"id": "0", "type": "text", "provenance": "conversational", "text": self.text(&place.stream)});
            let said = serde_json::json!({"id": "m", "role": "user", "timestamp": "2026-01-01T00:00:00Z", "content": [part]});
            serde_json::from_value(said).unwrap()
        };
        Ok(places.iter().map(message).collect())
    }

    async fn newer(&self, _: &HouseId, lasts: Vec<Last>) -> Result<Vec<u64>, PondError> {
        Ok(vec![0; lasts.len()])
    }

    async fn late(&self) -> Option<String> {
        Some("what was said last is missing".into())
    }

    fn uncompared(&self, _: &HouseId) -> Option<String> {
        Some("half of it was compared".into())
    }

    async fn stats(&self, _: &HouseId) -> Result<Stats, PondError> {
        Err(PondError::invalid("nobody asks for it"))
    }

    async fn searchable(&self, _: u64) -> Result<(), PondError> {
        Ok(())
    }
}

async fn ask(shelf: &Shelf, limit: usize) -> (Vec<String>, Vec<String>) {
    let request = format!(r#"{{"protocol_version":1,"query":"lib/main.js","limit":{limit}}}"#);
    let answer = search(shelf, &HouseId::new("h").unwrap(), serde_json::from_str(&request).unwrap()).await.unwrap();
    (answer.sessions.iter().map(|it| it.session_id.to_string()).collect(), answer.hints)
}

#[tokio::test]
async fn what_stands_as_typed_in_one_of_all_that_have_its_words_is_found_and_first() {
    for n in [0, 1, 25, SAID - 1] {
        let (ids, _) = ask(&Shelf { stands_in: Some(n), looked_for: true, ..Shelf::default() }, 10).await;
        assert_eq!((ids.len(), ids[0].as_str()), (10, place(n).stream.as_str()), "{n}");
    }
}

#[tokio::test]
async fn it_is_denied_only_after_all_were_read() {
    let (ids, hints) = ask(&Shelf { looked_for: true, ..Shelf::default() }, 10).await;
    let told = ["what was said last is missing", "nobody writes it"].map(str::to_owned);
    assert_eq!((ids, &hints[..]), (Vec::new(), &told[..]), "what limits the answer comes before what it says");
    let (ids, _) = ask(&Shelf::default(), 10).await;
    assert_eq!(ids.len(), 10, "words alone were asked for");
}

#[tokio::test]
async fn how_many_are_asked_for_does_not_change_who_comes_first() {
    for stands_in in [None, Some(22)] {
        let shelf = Shelf { stands_in, looked_for: stands_in.is_some(), ..Shelf::default() };
        let (all, _) = ask(&shelf, 50).await;
        assert_eq!(all.len(), SAID);
        for limit in [1, 5, 20, 30] {
            assert_eq!(ask(&shelf, limit).await.0, all[..limit], "{limit}");
        }
    }
}

#[tokio::test]
async fn more_messages_are_compared_where_the_nearest_are_of_few_sessions_and_others_are_wanted() {
    for (filter, asked) in [("", vec![POOL_OF_MESSAGES, MOST_MESSAGES]), (r#","session_id":"s00""#, vec![POOL_OF_MESSAGES])] {
        let shelf = Shelf { means: true, ..Shelf::default() };
        let request = format!(r#"{{"protocol_version":1,"query":"lib/main.js"{filter}}}"#);
        search(&shelf, &HouseId::new("h").unwrap(), serde_json::from_str(&request).unwrap()).await.unwrap();
        assert_eq!(shelf.asked.into_inner().unwrap(), asked, "{filter}");
    }
}
