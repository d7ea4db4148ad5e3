//! Two lists made one: the scores of each arm between 0 and 1, and their weighted sum.

use std::collections::BTreeSet;

use entry_index::Verdict;

use super::candidate::{Candidate, MATCHES};
use super::search::{Arms, Meaning, Place};

/// What meaning weighs beside words that say all that was asked.
const BESIDE_WORDS: f64 = 0.15;
/// What standing there as typed adds.
const TYPED: f64 = 0.6;
/// What being the latest adds, among those that fit about as well.
const LATEST: f64 = 0.1;
const ABOUT_AS_WELL: f64 = 0.75;

/// Words may all be there and mean something else: the nearest few are on the first page whatever words say. The less the words are
/// trusted the more of them, and more yet where few sessions say about as much of the question as the one that says most.
const NEAREST: f64 = 2.0;
const NEAREST_UNTRUSTED: f64 = 5.0;
const PAGE: usize = 10;
const ABOUT_AS_MUCH: f32 = 0.75;

/// What is told beside the nearest is not much farther.
const NEXT_TO: f32 = 0.6;

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
    /// How near all that was asked in the root is, on the whole; 0 where that was not looked at.
    pub about: f32,
}

impl Near {
    /// Of its session, if it is the nearest message there.
    fn nearness(&self) -> f32 {
        self.similarity + self.about
    }
}

/// The nearest message of each session, and how near the session is: between 0 and 1.
fn normalized(near: &[Near]) -> Vec<(usize, f64)> {
    let mut seen = BTreeSet::new();
    let best: Vec<usize> = near.iter().enumerate().filter(|(_, it)| seen.insert(it.root.as_str())).map(|(at, _)| at).collect();
    let (mut low, mut high) = (f64::INFINITY, f64::NEG_INFINITY);
    for at in &best {
        low = low.min(near[*at].nearness().into());
        high = high.max(near[*at].nearness().into());
    }
    let width = high - low;
    let score = |it: &Near| if width > 1e-9 { (f64::from(it.nearness()) - low) / width } else { 1.0 };
    best.into_iter().map(|at| (at, score(&near[at]))).collect()
}

/// What words and meaning weigh. Words that are there, but not together, may say something else.
fn weights(verdict: &Verdict, arms: Arms, near: &[Near]) -> (f64, f64) {
    match (verdict, arms) {
        (_, Arms::Meaning) | (Verdict::Thin { .. } | Verdict::Never { .. }, Arms::Words | Arms::Both) => (0.0, 1.0),
        (Verdict::Answer { .. }, Arms::Words) => (1.0, 0.0),
        (Verdict::Answer { .. }, Arms::Both) if near.is_empty() => (1.0, 0.0),
        (Verdict::Answer { trust }, Arms::Both) => {
            let trust = f64::from(*trust);
            (trust, BESIDE_WORDS + (1.0 - BESIDE_WORDS) * (1.0 - trust))
        }
    }
}

/// The candidates of both arms. A question that names what was never said has none.
pub(super) fn fuse(verdict: &Verdict, said: Vec<Candidate>, meaning: Meaning, arms: Arms) -> Vec<Candidate> {
    let Meaning { mut near, chance, .. } = meaning;
    match verdict {
        // By itself this arm knows no words, and always answers.
        _ if arms == Arms::Meaning => {}
        Verdict::Never { .. } => return Vec::new(),
        // Where words do not answer, meaning does if something is nearer than by chance, and among those that know the names.
        Verdict::Thin { named, .. } => {
            near.retain(|it| named.as_ref().is_none_or(|named| named.contains(&it.root)));
            let best = near.iter().map(Near::nearness).fold(0.0, f32::max);
            near.retain(|it| best >= 2.0 * chance && it.nearness() >= best * NEXT_TO);
        }
        Verdict::Answer { .. } => {}
    }
    let (words, weight) = weights(verdict, arms, &near);
    let mut candidates = if words > 0.0 { said } else { Vec::new() };
    for (at, score) in normalized(&near) {
        let known = candidates.iter().position(|it| it.session_id == near[at].root);
        let place = known.unwrap_or_else(|| {
            candidates.push(Candidate::near(&near[at]));
            candidates.len() - 1
        });
        let candidate = &mut candidates[place];
        candidate.vector = Some(score);
        candidate.similarity = Some(near[at].similarity.into());
        candidate.about = Some(near[at].about.into());
        let of_it: Vec<&Near> = near.iter().filter(|it| it.root == candidate.session_id).take(MATCHES).collect();
        of_it.into_iter().for_each(|it| candidate.add(it, score * f64::from(it.similarity / near[at].similarity.max(1e-6))));
    }
    for candidate in &mut candidates {
        let (keyword, vector) = (candidate.keyword.unwrap_or_default(), candidate.vector.unwrap_or_default());
        candidate.score = (words * keyword + weight * vector) / (words + weight);
    }
    order(&mut candidates);
    candidates
}

/// After the best message of each was read: where it is as typed comes first, and of what fits about as well the latest.
pub(super) fn settle(candidates: &mut [Candidate], verdict: &Verdict) {
    if let Verdict::Answer { trust } = verdict {
        let typed = TYPED * f64::from(*trust);
        for candidate in candidates.iter_mut() {
            candidate.score = (candidate.score + typed * candidate.phrase) / (1.0 + typed);
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
    let trust = match verdict {
        Verdict::Answer { trust } => f64::from(*trust),
        Verdict::Thin { .. } | Verdict::Never { .. } => 0.0,
    };
    keep_nearest(candidates, trust);
}

fn keep_nearest(candidates: &mut [Candidate], trust: f64) {
    let covers = candidates.iter().filter_map(|it| it.covers);
    let most = covers.clone().fold(0.0, f32::max);
    let by_words = covers.filter(|it| *it >= most * ABOUT_AS_MUCH).count();
    let fewest = NEAREST * trust + NEAREST_UNTRUSTED * (1.0 - trust);
    // A little doubt is enough to give them the places that words do not fill.
    let doubt = ((1.0 - trust) * 4.0).min(1.0);
    let free = doubt * PAGE.saturating_sub(by_words) as f64;
    bring(candidates, free.max(fewest).round() as usize, PAGE);
}

/// Puts the nearest few among the first. Of those the last make room who are not among the nearest themselves; nobody before them moves.
fn bring(candidates: &mut [Candidate], nearest: usize, first: usize) {
    let mut near: Vec<(usize, f64)> = candidates.iter().enumerate().filter_map(|(at, it)| Some((at, it.vector?))).collect();
    near.sort_by(|one, two| two.1.total_cmp(&one.1).then(one.0.cmp(&two.0)));
    let kept: BTreeSet<usize> = near.into_iter().take(nearest).map(|(at, _)| at).collect();
    let late = kept.range(first..).count();
    let Some(from) = (0..first).rev().filter(|at| !kept.contains(at)).take(late).last() else { return };
    let score = candidates[from].score;
    for (behind, at) in kept.range(from..).enumerate() {
        candidates[*at].score = score + 1e-6 / (behind + 1) as f64;
    }
    order(candidates);
}

/// The first of them, and the nearest among these. The others are handed back, in order.
pub(super) fn keep_first(candidates: &mut Vec<Candidate>, first: usize) -> Vec<Candidate> {
    bring(candidates, PAGE, first);
    candidates.split_off(first.min(candidates.len()))
}

/// Puts those that nobody looked at behind the last that somebody did: how many are asked for does not change who comes first.
pub(super) fn put_behind(candidates: &mut Vec<Candidate>, mut others: Vec<Candidate>) {
    if let (Some(last), Some(next)) = (candidates.last(), others.first())
        && next.score > last.score
    {
        let scale = last.score / next.score;
        others.iter_mut().for_each(|it| it.score *= scale);
    }
    candidates.append(&mut others);
}

fn order(candidates: &mut [Candidate]) {
    candidates.sort_by(|one, two| two.score.total_cmp(&one.score).then_with(|| one.session_id.cmp(&two.session_id)));
}

#[cfg(test)]
mod tests {
    use super::*;

    fn candidate(id: usize, score: f64, vector: Option<f64>) -> Candidate {
        let near = Near {
            root: format!("s{id:02}"),
            root_agent: String::new(),
            root_project: String::new(),
            created_at: 0,
            last_at: 0,
            session_id: String::new(),
            place: Place { stream: String::new(), seq: 0 },
            similarity: 0.0,
            about: 0.0,
        };
        Candidate { score, vector, ..Candidate::near(&near) }
    }

    #[test]
    fn the_nearest_few_are_on_the_first_page_and_nobody_before_them_moves() {
        let mut candidates: Vec<_> = (0..20).map(|at| candidate(at, 1.0 - at as f64 / 20.0, None)).collect();
        candidates[15].vector = Some(1.0);
        candidates[18].vector = Some(0.2);
        keep_nearest(&mut candidates, 0.0);
        let ids: Vec<_> = candidates.iter().take(12).map(|it| it.session_id.as_str()).collect();
        assert_eq!(ids[..8], ["s00", "s01", "s02", "s03", "s04", "s05", "s06", "s07"]);
        assert_eq!(ids[8..], ["s15", "s18", "s08", "s09"]);
        let mut near: Vec<_> = (0..20).map(|at| candidate(at, 1.0 - at as f64 / 20.0, None)).collect();
        near[9].vector = Some(0.9);
        near[15].vector = Some(1.0);
        keep_nearest(&mut near, 1.0);
        let ids: Vec<_> = near.iter().skip(7).take(4).map(|it| it.session_id.as_str()).collect();
        assert_eq!(ids, ["s07", "s09", "s15", "s08"], "who is near and on the page stays there");
        let mut all: Vec<_> = (0..20).map(|at| candidate(at, 1.0 - at as f64 / 20.0, None)).collect();
        let others = keep_first(&mut all, 5);
        all.iter_mut().for_each(|it| it.score /= 2.0);
        put_behind(&mut all, others);
        assert!(all.len() == 20 && all.windows(2).all(|pair| pair[0].score >= pair[1].score));
        let mut few: Vec<_> = (0..3).map(|at| candidate(at, 0.5, Some(0.1))).collect();
        keep_nearest(&mut few, 0.5);
        assert_eq!(few.len(), 3);
    }
}
