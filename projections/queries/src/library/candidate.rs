//! A session that may answer, and the messages of it that are told.

use entry_index::{Last, SessionFit};
use events::session::Message;

use super::fuse::Near;
use super::search::Place;

/// Messages of one session that are told.
pub(super) const MATCHES: usize = 3;

#[derive(Clone, Debug)]
pub(super) struct Candidate {
    pub session_id: String,
    pub source_agent: String,
    pub project: String,
    pub created_at: i64,
    pub last_at: i64,
    /// The best first.
    pub matches: Vec<Match>,
    pub score: f64,
    pub keyword: Option<f64>,
    pub vector: Option<f64>,
    /// Of its nearest message, as it is, and of all that was asked in it.
    pub similarity: Option<f64>,
    pub about: Option<f64>,
    pub phrase: f64,
    /// What share of the question is said anywhere in it.
    pub covers: Option<f32>,
}

/// A message that may be told.
#[derive(Clone, Debug)]
pub(super) struct Match {
    pub place: Place,
    /// Whose it is: the candidate's, or that of a session that it spawned.
    pub session_id: String,
    pub score: f64,
    pub said: Said,
}

/// What stands in the log at the place of a match.
#[derive(Clone, Debug)]
pub(super) enum Said {
    Unread,
    Message(Box<Message>),
    /// No message does.
    Nothing,
}

impl Said {
    pub fn of(message: Option<Message>) -> Self {
        message.map_or(Self::Nothing, |message| Self::Message(Box::new(message)))
    }
}

impl Match {
    pub fn message(&self) -> Option<&Message> {
        match &self.said {
            Said::Message(message) => Some(message),
            Said::Unread | Said::Nothing => None,
        }
    }
}

impl Candidate {
    /// The latest of what is told of it.
    pub fn last(&self) -> Option<Last> {
        let said = self.matches.iter().filter_map(|it| Some((it.message()?.timestamp, &it.place)));
        let (time, place) = said.max_by_key(|(time, place)| (*time, place.seq))?;
        Some(Last { root: self.session_id.clone(), stream: place.stream.clone(), seq: place.seq, time: time.micros() })
    }

    /// Something stands there as it was typed: it is told first, and the session is among those that are looked at.
    pub fn stands_at(&mut self, place: Place, session_id: String, said: Option<Message>, least: f64) {
        self.keyword = Some(self.keyword.unwrap_or_default().max(least));
        self.matches.retain(|it| it.place != place);
        self.matches.insert(0, Match { place, session_id, score: 1.0, said: Said::of(said) });
        self.matches.truncate(MATCHES);
    }

    pub fn near(near: &Near) -> Self {
        Self {
            session_id: near.root.clone(),
            source_agent: near.root_agent.clone(),
            project: near.root_project.clone(),
            created_at: near.created_at,
            last_at: near.last_at,
            matches: Vec::new(),
            score: 0.0,
            keyword: None,
            vector: None,
            similarity: None,
            about: None,
            phrase: 0.0,
            covers: None,
        }
    }

    pub fn add(&mut self, near: &Near, score: f64) {
        if self.matches.len() < MATCHES && self.matches.iter().all(|it| it.place != near.place) {
            let (place, session_id) = (near.place.clone(), near.session_id.clone());
            self.matches.push(Match { place, session_id, score, said: Said::Unread });
        }
    }
}

impl From<SessionFit> for Candidate {
    fn from(fit: SessionFit) -> Self {
        let best = fit.matches.first().map_or(1.0, |it| f64::from(it.score)).max(f64::MIN_POSITIVE);
        let told = |it: entry_index::Fit| Match {
            place: Place { stream: it.stream, seq: it.seq },
            session_id: it.session_id,
            score: f64::from(it.score) / best,
            said: Said::Unread,
        };
        Self {
            session_id: fit.session_id,
            source_agent: fit.source_agent,
            project: fit.project,
            created_at: fit.created_at,
            last_at: fit.last_at,
            matches: fit.matches.into_iter().map(told).collect(),
            score: f64::from(fit.score),
            keyword: Some(f64::from(fit.score)),
            vector: None,
            similarity: None,
            about: None,
            phrase: 0.0,
            covers: Some(fit.covers),
        }
    }
}
