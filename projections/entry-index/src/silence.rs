//! Whether a question has an answer at all. One whose words are nowhere must not get the nearest thing to them.
//!
//! Nothing here knows a language. A word that is written like a name (`camelCase`, a path, a flag, letters with digits) and that nobody ever
//! said was not talked about. For other words it counts how much of the question, by the rarity of its words, one session covers.

use tantivy::schema::Field;

use crate::error::IndexError;
use crate::groups::{self, Group, Lot};
use crate::question::{Question, Shape};
use crate::rank::{Said, SessionFit};
use crate::view::Sessions;

/// Of a question this long, in words that tell something, every one has to be said.
const SHORT: usize = 6;
/// The share of a longer question that a session has to cover.
const SHARE: f32 = 0.5;
/// Of a few words, what share a session has to cover, or one message of it.
const FEW: usize = 4;
const FEW_IN_SESSION: f32 = 0.9;
const FEW_IN_MESSAGE: f32 = 0.6;
/// The share of a quoted line that one message has to cover.
const QUOTED: f32 = 0.8;
/// A question with more unsaid words than this share is in a language of its own; what it shares with others are names.
const FOREIGN: f32 = 0.4;
/// Sessions that may talk about what such a question names, and how often each has to.
const TOPIC_IN: usize = 4;
const TOPIC_TIMES: u64 = 2;

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// The words are there.
    Answer,
    /// They are not, but something else may mean the same.
    Thin { why: String },
    /// It names what was never talked about.
    Never { why: String },
}

/// What is known about a question when it is to be answered or not.
pub(crate) struct Evidence<'a> {
    pub lots: &'a [Lot<'a>],
    pub field: Field,
    pub question: &'a Question,
    pub groups: &'a [Group],
    pub rarities: &'a [f32],
    pub said: &'a Said,
}

impl Evidence<'_> {
    /// The words themselves, without what they are made of.
    fn own(&self) -> impl Iterator<Item = (usize, &Group)> {
        self.groups.iter().enumerate().filter(|(_, group)| group.factor == 1.0)
    }

    fn never(&self, group: &Group) -> Result<Verdict, IndexError> {
        Ok(Verdict::Never { why: self.unsaid(group)? })
    }

    fn thin(&self, group: Option<&&Group>) -> Result<Verdict, IndexError> {
        let why = group.map_or_else(|| Ok("no session says enough of it".to_owned()), |group| self.unsaid(group))?;
        Ok(Verdict::Thin { why })
    }

    fn unsaid(&self, group: &Group) -> Result<String, IndexError> {
        let near = groups::alike(self.lots, self.field, &group.word.term)?;
        let said = format!("nobody says {:?}", group.word.term);
        Ok(if near.is_empty() { said } else { format!("{said}; there is {}", near.join(", ")) })
    }

    /// A path, a flag or a dotted name all of whose words are said.
    fn is_literal_said(&self) -> bool {
        let said = |need: &String| self.groups.iter().all(|group| group.word.term != *need || group.is_said());
        self.question.literals.iter().any(|literal| literal.needs.iter().all(said))
    }

    /// An unsaid word that is written as a name, or is what a path or a flag cannot do without.
    fn unsaid_name<'a>(&self, unsaid: &[&'a Group], foreign: bool) -> Option<&'a Group> {
        let named = |group: &&&Group| {
            let literal =
                self.question.literals.iter().any(|it| it.chunk == group.word.chunk && it.needs.contains(&group.word.term));
            match group.word.shape {
                Shape::Name => true,
                Shape::Capital => !foreign,
                Shape::Plain | Shape::Pair => literal && !foreign,
            }
        };
        unsaid.iter().find(named).copied()
    }

    /// Two words that tell something, in one message; one that a few sessions talk about; or one in another script than the rest, which
    /// nobody writes but to name something.
    fn is_foreign_answer(&self, sessions: &Sessions, fits: &[SessionFit]) -> bool {
        let telling = |group: &Group| group.frequency * 20 <= sessions.messages.max(20) && group.word.term.chars().count() > 1;
        let known: Vec<_> = self.own().filter(|(_, group)| group.is_said() && telling(group)).collect();
        let topic = known.iter().any(|(n, group)| {
            let sessions = self.said[*n].len();
            let often = group.frequency >= TOPIC_TIMES * sessions as u64 && group.frequency > TOPIC_TIMES;
            group.word.shape != Shape::Pair && (1..=TOPIC_IN).contains(&sessions) && often
        });
        let weight: f32 = self.rarities.iter().sum();
        let heaviest = known.iter().map(|(n, _)| self.rarities[*n]).fold(0.0, f32::max);
        let together = fits.iter().flat_map(|fit| &fit.matches).any(|fit| fit.covers * weight > heaviest + 3.0);
        let mixed = self.own().any(|(_, group)| group.word.shape == Shape::Pair);
        let name = |group: &Group| group.word.shape != Shape::Pair && group.frequency * 5 <= sessions.messages.max(5);
        let named = mixed && known.iter().any(|(_, group)| name(group));
        topic || named || (known.len() >= 2 && together)
    }
}

pub(crate) fn verdict(evidence: &Evidence<'_>, sessions: &Sessions, fits: &[SessionFit]) -> Result<Verdict, IndexError> {
    let own: Vec<&Group> = evidence.own().map(|(_, group)| group).collect();
    let unsaid: Vec<&Group> = own.iter().filter(|group| !group.is_said()).copied().collect();
    if own.is_empty() {
        return evidence.thin(None);
    }
    let foreign = unsaid.len() as f32 > own.len() as f32 * FOREIGN && own.len() > 5;
    let literal = evidence.is_literal_said();
    if let (Some(group), false) = (evidence.unsaid_name(&unsaid, foreign), literal) {
        return evidence.never(group);
    }
    if foreign {
        return if evidence.is_foreign_answer(sessions, fits) { Ok(Verdict::Answer) } else { evidence.thin(unsaid.first()) };
    }
    let in_session = fits.iter().map(|fit| fit.covers).fold(0.0, f32::max);
    let in_message = fits.iter().flat_map(|fit| &fit.matches).map(|fit| fit.covers).fold(0.0, f32::max);
    let scattered = own.len() <= FEW && in_session < FEW_IN_SESSION && in_message < FEW_IN_MESSAGE;
    let misquoted = evidence.question.quotes && in_message < QUOTED;
    let missing = own.len() <= SHORT && !unsaid.is_empty();
    if !literal && (scattered || misquoted || missing) || in_session < SHARE {
        return evidence.thin(unsaid.first());
    }
    Ok(Verdict::Answer)
}
