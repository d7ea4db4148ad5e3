//! `pond_search`: two retrievers over the same messages, fused, grouped by session. The handler knows no transport and no store.

use std::collections::BTreeSet;

use entry_index::{Last, MessageFilter, Question, Ranked, Typed, Verdict, beginning, snippet};
use events::HouseId;
use events::session::{BodyRef, Data, Message, PartRef, Role, SessionId, Timestamp};
use session_source::search_text;

use super::candidate::{Candidate, Match, Said};
use super::find::{Hit, LONGEST, MOST_SESSIONS, Mode, SESSIONS, SearchRequest, SearchResponse, SessionHit, Stats};
use super::fuse::{self, Near};
use super::{PartSummary, PondError};
use crate::phrase::Phrase;

/// Sessions that each retriever proposes.
const POOL: usize = 50;
/// Messages that the vector retriever proposes: several may be of one session.
const POOL_OF_MESSAGES: usize = 200;
/// Where they are of fewer sessions than these, so many are looked at.
const FEWEST_SESSIONS: usize = 10;
const MOST_MESSAGES: usize = 600;
/// Sessions of which the best message is looked at before the last order is made.
const LOOKED_AT: usize = 20;
/// Messages that are read at a time to see whether something stands in one of them.
const READ_TOGETHER: usize = 25;
/// Bytes of a text that are told as they are; of a longer one its beginning and what stands around the words.
const SMALL: usize = 1_200;
const BEGINNING: usize = 300;
const AROUND: usize = 500;

/// Where messages are found.
#[async_trait::async_trait]
pub trait Finder: Send + Sync + std::fmt::Debug {
    /// By their words. `None`: nothing was ever indexed.
    async fn words(
        &self,
        house: &HouseId,
        question: &Question,
        filter: &MessageFilter,
        most: usize,
    ) -> Result<Option<Ranked>, PondError>;

    /// By their meaning, the nearest first. `None`: no message is embedded under the configured model.
    async fn meaning(
        &self,
        house: &HouseId,
        query: &str,
        filter: &MessageFilter,
        most: usize,
    ) -> Result<Option<Meaning>, PondError>;

    /// How it would be looked for by meaning, and how long each step took.
    async fn plan(&self, house: &HouseId, query: &str, filter: &MessageFilter, most: usize) -> Result<Option<String>, PondError>;

    /// What stands at places of the log; `None` where no message does.
    async fn said(&self, places: &[Place]) -> Result<Vec<Option<Message>>, PondError>;

    /// How many messages of each session, and of those that it spawned, come after one of them.
    async fn newer(&self, house: &HouseId, lasts: Vec<Last>) -> Result<Vec<u64>, PondError>;

    /// Whether what was recorded last cannot be found yet, in words.
    async fn late(&self) -> Option<String>;

    /// Which messages are not compared by meaning, in words, where that is known.
    fn uncompared(&self, house: &HouseId) -> Option<String>;

    /// How much there is to be found.
    async fn stats(&self, house: &HouseId) -> Result<Stats, PondError>;

    /// Returns when everything up to a position of the log can be found, or tells why that takes too long.
    async fn searchable(&self, position: u64) -> Result<(), PondError>;
}

/// What the vector retriever says.
#[derive(Clone, Debug)]
pub struct Meaning {
    /// The nearest first.
    pub near: Vec<Near>,
    /// The similarity that texts of one trade have by chance, under the model.
    pub chance: f32,
    /// Whether there are others behind them.
    pub more: bool,
}

/// A message by where it stands in the log.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Place {
    pub stream: String,
    pub seq: u64,
}

/// What an operator wants to know of a search.
#[derive(Clone, Debug, serde::Serialize)]
pub struct Explained {
    pub mode: Mode,
    pub verdict: String,
    pub keyword_plan: String,
    pub vector_plan: Option<String>,
    /// Which retriever proposed what, the best first.
    pub sessions: Vec<Attribution>,
}

#[derive(Clone, Debug, serde::Serialize)]
pub struct Attribution {
    pub session_id: String,
    pub score: f64,
    /// What each arm made of it, between 0 and 1; none where it did not propose it.
    pub keyword: Option<f64>,
    pub vector: Option<f64>,
    /// How near the nearest message of it is: the cosine.
    pub similarity: Option<f64>,
    /// How near all that was asked in it is, on the whole.
    pub about: Option<f64>,
    /// What share of the question is said in the session.
    pub covers: Option<f64>,
    /// What its text added.
    pub phrase: f64,
}

/// Which retrievers are asked. Not on the wire: the server decides by what is embedded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Arms {
    Both,
    Words,
    Meaning,
}

pub async fn search(finder: &dyn Finder, house: &HouseId, request: SearchRequest) -> Result<SearchResponse, PondError> {
    search_by(finder, house, request, Arms::Both).await
}

/// For those who measure one retriever beside the other.
pub async fn search_by(
    finder: &dyn Finder,
    house: &HouseId,
    request: SearchRequest,
    arms: Arms,
) -> Result<SearchResponse, PondError> {
    let (asked, limit) = Asked::new(request)?;
    let mut outcome = asked.run(finder, house, arms).await?;
    asked.keep(&mut outcome);
    outcome.candidates.truncate(limit);
    read(finder, &mut outcome.candidates, usize::MAX).await?;
    let told: Vec<(&Candidate, Last)> = outcome.candidates.iter().filter_map(|it| Some((it, it.last()?))).collect();
    let newer = finder.newer(house, told.iter().map(|(_, last)| last.clone()).collect()).await?;
    let mut terms = asked.question.terms();
    terms.extend(outcome.heard.iter().map(String::as_str));
    let mut sessions = Vec::new();
    for ((candidate, _), newer) in told.into_iter().zip(newer) {
        sessions.extend(asked.hit(candidate, newer, &terms)?);
    }
    let mut hints: Vec<String> = outcome.late.take().into_iter().collect();
    if outcome.mode == Mode::Hybrid {
        hints.extend(finder.uncompared(house));
    }
    hints.extend(asked.hints(&outcome, &sessions));
    Ok(SearchResponse { sessions, mode: outcome.mode, hints })
}

/// What a search did, instead of what it found.
pub async fn explain(finder: &dyn Finder, house: &HouseId, request: SearchRequest) -> Result<Explained, PondError> {
    let (asked, limit) = Asked::new(request)?;
    let mut outcome = asked.run(finder, house, Arms::Both).await?;
    asked.keep(&mut outcome);
    let told = |it: &Candidate| Attribution {
        session_id: it.session_id.clone(),
        score: it.score,
        keyword: it.keyword,
        vector: it.vector,
        similarity: it.similarity,
        about: it.about,
        covers: it.covers.map(f64::from),
        phrase: it.phrase,
    };
    Ok(Explained {
        mode: outcome.mode,
        verdict: format!("{:?}", outcome.verdict),
        keyword_plan: outcome.keyword_plan,
        vector_plan: match outcome.mode {
            Mode::Hybrid => finder.plan(house, &asked.query, &asked.filter, POOL_OF_MESSAGES).await?,
            Mode::Keyword => None,
        },
        sessions: outcome.candidates.iter().take(limit).map(told).collect(),
    })
}

struct Asked {
    query: String,
    question: Question,
    phrase: Phrase,
    filter: MessageFilter,
    min_score: Option<f64>,
    min_position: Option<u64>,
}

struct Outcome {
    mode: Mode,
    /// What may be missing, before it was looked.
    late: Option<String>,
    verdict: Verdict,
    candidates: Vec<Candidate>,
    /// What words found them by.
    heard: BTreeSet<String>,
    keyword_plan: String,
    /// Why meaning was not compared, though it could have been.
    unmeant: Option<String>,
}

impl Asked {
    fn new(request: SearchRequest) -> Result<(Self, usize), PondError> {
        PondError::version(request.protocol_version)?;
        let length = request.query.chars().count();
        if request.query.trim().is_empty() || length > LONGEST {
            return Err(PondError::invalid(format!("query is between 1 and {LONGEST} characters; it has {length}")));
        }
        let limit = request.limit.unwrap_or(SESSIONS);
        if !(1..=MOST_SESSIONS).contains(&limit) {
            return Err(PondError::invalid(format!("limit is between 1 and {MOST_SESSIONS}")));
        }
        if request.min_score.is_some_and(|score| !(0.0..=1.0).contains(&score)) {
            return Err(PondError::invalid("min_score is between 0 and 1"));
        }
        if let (Some(since), Some(until)) = (request.since, request.until)
            && since >= until
        {
            return Err(PondError::invalid("since is not before until"));
        }
        let filter = MessageFilter {
            project: request.project,
            session: request.session_id.map(|id| id.to_string()),
            source_agent: request.source_agent,
            role: request.role.map(|role| role.as_str().to_owned()),
            since: request.since.map(Timestamp::micros),
            until: request.until.map(Timestamp::micros),
        };
        let (question, phrase) = (Question::new(&request.query), Phrase::new(&request.query));
        let (min_score, min_position) = (request.min_score, request.min_position);
        Ok((Self { query: request.query, question, phrase, filter, min_score, min_position }, limit as usize))
    }

    async fn run(&self, finder: &dyn Finder, house: &HouseId, arms: Arms) -> Result<Outcome, PondError> {
        if let Some(position) = self.min_position {
            finder.searchable(position).await?;
        }
        let late = finder.late().await;
        let meaning = async {
            match arms {
                Arms::Words => Ok(None),
                Arms::Both | Arms::Meaning => self.meaning(finder, house).await,
            }
        };
        let (words, meaning) = tokio::join!(finder.words(house, &self.question, &self.filter, POOL), meaning);
        let words = words?;
        let (meaning, unmeant) = match (meaning, arms) {
            // Words answer without the other arm, and say so.
            (Err(error), Arms::Both) => (None, Some(format!("only words were compared: {error}"))),
            (meaning, Arms::Both | Arms::Words | Arms::Meaning) => (meaning?, None),
        };
        let nothing = || Ranked {
            sessions: Vec::new(),
            verdict: Verdict::Thin { why: "nothing is indexed yet".into(), named: None },
            typed: None,
            heard: BTreeSet::new(),
            plan: String::new(),
        };
        let Ranked { sessions, mut verdict, typed, heard, plan } = words.unwrap_or_else(nothing);
        let mut said: Vec<Candidate> = sessions.into_iter().map(Candidate::from).collect();
        if let Some(typed) = typed
            && !stands(finder, &typed, &mut said).await?
        {
            verdict = typed.otherwise;
        }
        let mode = if meaning.is_some() { Mode::Hybrid } else { Mode::Keyword };
        let meaning = meaning.unwrap_or(Meaning { near: Vec::new(), chance: 0.0, more: false });
        let mut candidates = fuse::fuse(&verdict, said, meaning, arms);
        let others = fuse::keep_first(&mut candidates, LOOKED_AT);
        self.look(finder, &mut candidates).await?;
        if arms != Arms::Meaning {
            fuse::settle(&mut candidates, &verdict);
        }
        fuse::put_behind(&mut candidates, others);
        Ok(Outcome { mode, late, verdict, candidates, heard, keyword_plan: plan, unmeant })
    }

    /// The nearest messages, as many as it takes to tell of several sessions.
    async fn meaning(&self, finder: &dyn Finder, house: &HouseId) -> Result<Option<Meaning>, PondError> {
        let mut most = POOL_OF_MESSAGES;
        loop {
            let meaning = finder.meaning(house, &self.query, &self.filter, most).await?;
            let Some(Meaning { near, more, .. }) = &meaning else { return Ok(None) };
            let sessions: BTreeSet<&str> = near.iter().map(|it| it.root.as_str()).collect();
            let enough = sessions.len() >= FEWEST_SESSIONS || self.filter.session.is_some();
            if enough || !more || most >= MOST_MESSAGES {
                return Ok(meaning);
            }
            most = MOST_MESSAGES;
        }
    }

    fn keep(&self, outcome: &mut Outcome) {
        outcome.candidates.retain(|it| self.min_score.is_none_or(|min| it.score >= min));
    }

    /// Reads the best message of each, and how much of the question stands there as it was typed.
    async fn look(&self, finder: &dyn Finder, candidates: &mut [Candidate]) -> Result<(), PondError> {
        read(finder, candidates, 1).await?;
        for candidate in candidates.iter_mut() {
            let texts = candidate.matches.iter().filter_map(Match::message).filter_map(search_text);
            candidate.phrase = texts.map(|text| self.phrase.share(&text)).fold(0.0, f64::max);
        }
        Ok(())
    }

    fn hit(&self, candidate: &Candidate, newer_messages: u64, terms: &BTreeSet<&str>) -> Result<Option<SessionHit>, PondError> {
        let internal = |error: &dyn std::fmt::Display| PondError::new(super::Code::Internal, error.to_string());
        let moment = |micros: i64| Timestamp::from_micros(micros).map_err(|error| internal(&error));
        let id = SessionId::new(&candidate.session_id).map_err(|error| internal(&error))?;
        let mut matches = Vec::new();
        for it in &candidate.matches {
            let Some((message, text)) = it.message().and_then(|message| Some((message, search_text(message)?))) else { continue };
            let elsewhere = Some(&it.session_id).filter(|session| **session != candidate.session_id);
            let session_id = elsewhere.map(|session| SessionId::new(session)).transpose().map_err(|error| internal(&error))?;
            matches.push(hit(message, session_id, &text, terms, it.score));
        }
        if matches.is_empty() {
            return Ok(None);
        }
        matches.sort_by(|one, two| two.score.total_cmp(&one.score));
        let last = matches.iter().map(|hit| hit.timestamp).max();
        Ok(Some(SessionHit {
            session_id: id,
            source_agent: candidate.source_agent.clone(),
            project: candidate.project.clone(),
            created_at: moment(candidate.created_at)?,
            score: rounded(candidate.score),
            newer_messages,
            last_message_at: last.map_or_else(|| moment(candidate.last_at), |last| Ok(last.max(moment(candidate.last_at)?)))?,
            matches,
        }))
    }

    fn hints(&self, outcome: &Outcome, sessions: &[SessionHit]) -> Vec<String> {
        let mut hints: Vec<String> = outcome.unmeant.iter().cloned().collect();
        if sessions.is_empty() {
            match &outcome.verdict {
                Verdict::Never { why } | Verdict::Thin { why, .. } => hints.push(why.clone()),
                Verdict::Answer { .. } => hints.push("nothing fits".to_owned()),
            }
        }
        if self.question.left_out > 0 {
            hints.push(format!("{} words of the question were left out: it has too many", self.question.left_out));
        }
        if let Some(best) = sessions.first() {
            let later: Vec<_> = sessions
                .iter()
                .skip(1)
                .filter(|it| it.last_message_at > best.last_message_at && it.score * 2.0 >= best.score)
                .collect();
            let project: BTreeSet<_> =
                later.iter().filter(|it| it.project == best.project).map(|it| it.session_id.as_str()).collect();
            if !project.is_empty() {
                let ids = project.into_iter().take(3).collect::<Vec<_>>().join(", ");
                hints.push(format!(
                    "later sessions of the same project say something of it too, and may supersede the first: {ids}"
                ));
            }
        }
        hints
    }
}

/// Whether one of the pieces stands somewhere, or may: who looks at all messages that have its words knows.
async fn stands(finder: &dyn Finder, typed: &Typed, candidates: &mut [Candidate]) -> Result<bool, PondError> {
    let Some(places) = &typed.places else { return Ok(true) };
    let pieces: Vec<Phrase> = typed.pieces.iter().map(|piece| Phrase::new(piece)).collect();
    let least = candidates.get(LOOKED_AT - 1).and_then(|it| it.keyword).unwrap_or_default() + 1e-6;
    let mut found = BTreeSet::new();
    for places in places.chunks(READ_TOGETHER) {
        let at: Vec<Place> = places.iter().map(|it| Place { stream: it.stream.clone(), seq: it.seq }).collect();
        for ((place, known), said) in at.iter().zip(places).zip(finder.said(&at).await?) {
            let text = said.as_ref().and_then(search_text);
            let stands = text.is_some_and(|text| pieces.iter().any(|piece| piece.share(&text) >= 1.0));
            if stands
                && found.insert(known.root.as_str())
                && let Some(candidate) = candidates.iter_mut().find(|it| it.session_id == known.root)
            {
                candidate.stands_at(place.clone(), known.session_id.clone(), said, least);
                // What was its best message may have more of the whole question.
                read(finder, std::slice::from_mut(candidate), 2).await?;
            }
        }
    }
    Ok(!found.is_empty())
}

/// Reads as many messages of each, without those that were read before.
async fn read(finder: &dyn Finder, candidates: &mut [Candidate], most: usize) -> Result<(), PondError> {
    let first = candidates.iter_mut().flat_map(|it| it.matches.iter_mut().take(most));
    let unread: Vec<&mut Match> = first.filter(|it| matches!(it.said, Said::Unread)).collect();
    let places: Vec<Place> = unread.iter().map(|it| it.place.clone()).collect();
    for (it, said) in unread.into_iter().zip(finder.said(&places).await?) {
        it.said = Said::of(said);
    }
    Ok(())
}

fn rounded(score: f64) -> f64 {
    (score * 10_000.0).round() / 10_000.0
}

fn hit(message: &Message, session_id: Option<SessionId>, text: &str, terms: &BTreeSet<&str>, score: f64) -> Hit {
    let small = text.len() <= SMALL;
    Hit {
        message_id: message.id.clone(),
        session_id,
        role: message.role(),
        timestamp: message.timestamp,
        score: rounded(score),
        text: if small { text.to_owned() } else { beginning(text, BEGINNING).to_owned() },
        text_bytes: (!small).then_some(text.len() as u64),
        snippet: if small { None } else { snippet(text, terms, AROUND) },
        parts_summary: (message.role() == Role::User).then(|| message.parts().iter().map(part).collect()),
    }
}

fn part(part: &PartRef<'_>) -> PartSummary {
    let (name, bytes) = match part.body {
        BodyRef::Text(it) => (None, it.text.len()),
        BodyRef::Reasoning(it) => (None, it.text.len()),
        BodyRef::File(it) => (
            it.file_name.clone(),
            match &it.data {
                Data::Inline(text) | Data::Url(text) => text.len(),
            },
        ),
        BodyRef::ToolCall(it) => (Some(it.name.clone()), it.params.get().len()),
        BodyRef::ToolResult(it) => (it.name.clone(), it.result.get().len()),
        BodyRef::ApprovalRequest(_) | BodyRef::ApprovalResponse(_) => (None, 0),
    };
    PartSummary {
        id: part.id.to_string(),
        kind: part.body.kind().to_owned(),
        provenance: part.provenance,
        name,
        bytes: bytes as u64,
    }
}

#[cfg(test)]
mod tests;
