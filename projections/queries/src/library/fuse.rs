//! Two lists made one: the scores of each arm between 0 and 1, and their weighted sum.

use entry_index::{SessionFit, Verdict};
use events::session::Message;

use super::search::{Arms, Place};

/// What meaning weighs beside words that are all there, and beside words that are not.
const BESIDE_WORDS: f64 = 0.15;
const INSTEAD: f64 = 1.0;
/// How much of the question has to be said in the best session for its words to be trusted.
const TRUSTED: f64 = 0.75;
/// What standing there as typed adds.
const TYPED: f64 = 0.6;
/// What being the latest adds, among those that fit about as well.
const LATEST: f64 = 0.1;
const ABOUT_AS_WELL: f64 = 0.75;
/// Where words do not answer, meaning does from here on. Texts of one trade are all somewhat alike.
const NEAR: f32 = 0.75;

/// A message that means what was asked.
#[derive(Clone, Debug, PartialEq)]
pub struct Near {
    /// Of the session that the message's hangs on in the end.
    pub root: String,
    pub root_agent: String,
    pub root_project: String,
    pub created_at: i64,
    pub last_at: i64,
    pub session_id: String,
    pub place: Place,
    pub similarity: f32,
}

/// A session that may answer.
#[derive(Clone, Debug)]
pub(super) struct Candidate {
    pub session_id: String,
    pub source_agent: String,
    pub project: String,
    pub created_at: i64,
    pub last_at: i64,
    pub places: Vec<Place>,
    /// Whose each place is.
    pub sessions: Vec<String>,
    /// Of each place.
    pub scores: Vec<f64>,
    pub score: f64,
    pub keyword: Option<f64>,
    pub vector: Option<f64>,
    /// Of its nearest message, as it is.
    pub similarity: Option<f64>,
    pub phrase: f64,
    pub said: Vec<Option<Message>>,
    pub fit: Option<SessionFit>,
}

/// Messages of one session that are told.
const MATCHES: usize = 3;

impl Candidate {
    pub fn of_place(&self, place: &Place) -> Option<&str> {
        self.places.iter().position(|it| it == place).map(|at| self.sessions[at].as_str())
    }

    fn near(near: &Near) -> Self {
        Self {
            session_id: near.root.clone(),
            source_agent: near.root_agent.clone(),
            project: near.root_project.clone(),
            created_at: near.created_at,
            last_at: near.last_at,
            places: Vec::new(),
            sessions: Vec::new(),
            scores: Vec::new(),
            score: 0.0,
            keyword: None,
            vector: None,
            similarity: None,
            phrase: 0.0,
            said: Vec::new(),
            fit: None,
        }
    }

    fn add(&mut self, near: &Near, score: f64) {
        if self.places.len() < MATCHES && !self.places.contains(&near.place) {
            self.places.push(near.place.clone());
            self.sessions.push(near.session_id.clone());
            self.scores.push(score);
        }
    }
}

/// The best of each session, between 0 and 1.
fn normalized(near: &[Near]) -> Vec<(usize, f64)> {
    let mut seen = std::collections::BTreeSet::new();
    let best: Vec<usize> = near.iter().enumerate().filter(|(_, it)| seen.insert(it.root.as_str())).map(|(at, _)| at).collect();
    let (mut low, mut high) = (f64::INFINITY, f64::NEG_INFINITY);
    for at in &best {
        low = low.min(near[*at].similarity.into());
        high = high.max(near[*at].similarity.into());
    }
    let width = (high - low).max(1e-9);
    best.into_iter().map(|at| (at, (f64::from(near[at].similarity) - low) / width)).collect()
}

/// The candidates of both arms. A question that names what was never said has none.
pub(super) fn fuse(verdict: &Verdict, sessions: Vec<SessionFit>, near: Vec<Near>, arms: Arms) -> Vec<Candidate> {
    let covered = sessions.iter().map(|fit| f64::from(fit.covers)).fold(0.0, f64::max);
    let (words, meaning) = match verdict {
        Verdict::Never { .. } => return Vec::new(),
        Verdict::Thin { .. } | Verdict::Answer if arms == Arms::Meaning => (0.0, INSTEAD),
        Verdict::Thin { .. } => (0.0, INSTEAD),
        Verdict::Answer if covered >= TRUSTED => (1.0, BESIDE_WORDS),
        Verdict::Answer => (1.0, BESIDE_WORDS + (INSTEAD - BESIDE_WORDS) * (TRUSTED - covered) / TRUSTED),
    };
    let far = |it: &Near| words == 0.0 && arms == Arms::Both && it.similarity < NEAR;
    let near: Vec<Near> = near.into_iter().filter(|it| !far(it)).collect();
    let mut candidates: Vec<Candidate> =
        if words > 0.0 { sessions.into_iter().map(Candidate::from).collect() } else { Vec::new() };
    for (at, score) in normalized(&near) {
        let known = candidates.iter().position(|it| it.session_id == near[at].root);
        let place = known.unwrap_or_else(|| {
            candidates.push(Candidate::near(&near[at]));
            candidates.len() - 1
        });
        let candidate = &mut candidates[place];
        candidate.vector = Some(score);
        candidate.similarity = Some(near[at].similarity.into());
        let of_it: Vec<&Near> = near.iter().filter(|it| it.root == candidate.session_id).take(MATCHES).collect();
        of_it.into_iter().for_each(|it| candidate.add(it, score * f64::from(it.similarity / near[at].similarity.max(1e-6))));
    }
    for candidate in &mut candidates {
        let (keyword, vector) = (candidate.keyword.unwrap_or_default(), candidate.vector.unwrap_or_default());
        candidate.score = (words * keyword + meaning * vector) / (words + meaning);
    }
    order(&mut candidates);
    candidates
}

/// After the texts were read: what is there as typed comes first, and of what fits about as well the latest.
pub(super) fn settle(candidates: &mut Vec<Candidate>, verdict: &Verdict) {
    if matches!(verdict, Verdict::Answer) {
        for candidate in candidates.iter_mut() {
            candidate.score = (candidate.score + TYPED * candidate.phrase) / (1.0 + TYPED);
        }
    }
    order(candidates);
    let best = candidates.first().map_or(0.0, |it| it.score);
    let mut times: Vec<i64> = candidates.iter().filter(|it| it.score >= best * ABOUT_AS_WELL).map(|it| it.last_at).collect();
    times.sort_unstable();
    times.dedup();
    for candidate in candidates.iter_mut() {
        if let (Ok(at), 2..) = (times.binary_search(&candidate.last_at), times.len()) {
            candidate.score += LATEST * at as f64 / (times.len() - 1) as f64;
        }
        candidate.score = (candidate.score / (1.0 + LATEST)).clamp(0.0, 1.0);
    }
    order(candidates);
}

fn order(candidates: &mut [Candidate]) {
    candidates.sort_by(|one, two| two.score.total_cmp(&one.score).then_with(|| one.session_id.cmp(&two.session_id)));
}
