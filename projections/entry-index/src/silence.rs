//! Whether a question has an answer at all. One whose words are nowhere must not get the nearest thing to them.
//!
//! Nothing here knows a language. A word that is written like a name (`camelCase`, a path, a flag, letters with digits) and that nobody ever
//! said was not talked about. For other words it counts how much of the question, by the rarity of its words, one session covers.

use std::collections::BTreeSet;

use tantivy::schema::Field;

use crate::analysis;
use crate::error::IndexError;
use crate::groups::{self, Group, Lot};
use crate::question::{self, Literal, Question, Shape};
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
/// The share of a quoted line that one message has to cover: of one with words that nobody says, and of another.
const QUOTED: f32 = 0.8;
const QUOTED_AND_SAID: f32 = 0.6;
/// A question with more unsaid words than this share is in a language of its own; what it shares with others are names.
const FOREIGN: f32 = 0.4;
/// One with so many words that everybody here uses is in the language of the house, whatever it asks about; with so many it may still be
/// in another, if it has names.
const AT_HOME: f32 = 0.2;
const SURELY_AT_HOME: f32 = 0.4;
/// Sessions that may talk about what such a question names, and how often each has to.
const TOPIC_IN: usize = 4;
const TOPIC_TIMES: u64 = 2;

/// Of a question whose words are scattered over a session, one message covers less than this share; of one that is answered in its own
/// words, more than that.
const SCATTERED: f32 = 0.45;
const TOGETHER: f32 = 0.75;
/// Where no message says them together, a session has to say nearly all of them; more yet if one of them is said nowhere.
const NEARLY_ALL: f32 = 0.7;
const ALL_BUT_UNSAID: f32 = 0.75;
/// A question in another language is answered by the names in it.
const BY_NAMES: f32 = 0.6;

/// More messages than talk of one file.
const OF_MANY: u64 = 10;
/// Of a path that is found without its first directory: directories behind that.
const LONG_PATH: usize = 2;

#[derive(Clone, Debug, PartialEq)]
pub enum Verdict {
    /// The words are there. How far that tells what is meant, between 0 and 1: where one message says them, all the way.
    Answer { trust: f32 },
    /// They are not, but something else may mean the same: in these sessions, if the question has names, because they say them.
    Thin { why: String, named: Option<BTreeSet<String>> },
    /// It names what was never talked about, or has no word that anybody says.
    Never { why: String },
}

/// The verdict stands on pieces of the question that are meant as they are typed. The index knows words and not texts: if none of these
/// stands in a text that was found, the other verdict holds.
#[derive(Clone, Debug, PartialEq)]
pub struct Typed {
    pub pieces: Vec<String>,
    /// The messages that have all words of one of them. `None`: they are too many to look at.
    pub places: Option<Vec<TypedPlace>>,
    pub otherwise: Verdict,
}

/// A message by its session, that which this hangs on in the end, and its place in the log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TypedPlace {
    pub root: String,
    pub session_id: String,
    pub stream: String,
    pub seq: u64,
}

/// A plain word of a language other than the house's is a loan word if it is longer than this.
const LOAN: usize = 4;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Tongue {
    Home,
    /// So many of its words are unsaid.
    Unsaid,
    /// Its words are said, but those that hold it together hardly ever.
    Strange,
}

/// What is known about a question when it is to be answered or not.
pub(crate) struct Evidence<'a> {
    pub lots: &'a [Lot<'a>],
    pub field: Field,
    pub question: &'a Question,
    pub groups: &'a [Group],
    pub rarities: &'a [f32],
    pub said: &'a Said,
    /// What share of the question are words that everybody here uses.
    pub everyday: f32,
    /// Whether its short words are not those of the house's language.
    pub strange: bool,
}

impl<'a> Evidence<'a> {
    /// The words themselves, without what they are made of.
    fn own(&self) -> impl Iterator<Item = (usize, &Group)> {
        self.groups.iter().enumerate().filter(|(_, group)| group.factor == 1.0)
    }

    /// The words themselves, and those of them that nobody says.
    fn words(&self) -> (Vec<&Group>, Vec<&Group>) {
        let own: Vec<&Group> = self.own().map(|(_, group)| group).collect();
        let said = |group: &Group| group.is_said() || group.is_bridged(|n| self.groups[n].is_said());
        let unsaid = own.iter().filter(|group| !said(group)).copied().collect();
        (own, unsaid)
    }

    fn never(&self, group: &Group) -> Result<Verdict, IndexError> {
        Ok(Verdict::Never { why: self.unsaid(group)? })
    }

    fn thin(&self, unsaid: &[&Group], sessions: &Sessions) -> Result<Verdict, IndexError> {
        let why = unsaid.first().map_or_else(|| Ok("no session says enough of it".to_owned()), |group| self.unsaid(group))?;
        Ok(Verdict::Thin { why, named: self.named(sessions) })
    }

    /// The sessions that say everything in the question that may be a name. `None`: it has nothing of the kind. What a sentence begins
    /// with may be one in a few words that ask nothing.
    fn named(&self, sessions: &Sessions) -> Option<BTreeSet<String>> {
        let few = self.own().count() <= SHORT && !self.question.asks;
        let is_name = |group: &Group| group.word.capital && if group.word.opens { few } else { group.is_said() };
        let names: Vec<usize> = self.own().filter(|(_, group)| is_name(group)).map(|(n, _)| n).collect();
        let (first, others) = names.split_first()?;
        let says_all = |place: &&u32| others.iter().all(|n| self.said[*n].contains_key(*place));
        let id = |place: &u32| Some(sessions.all[*place as usize].note.as_ref()?.id.clone());
        Some(self.said[*first].keys().filter(says_all).filter_map(id).collect())
    }

    fn unsaid(&self, group: &Group) -> Result<String, IndexError> {
        groups::unsaid(self.lots, self.field, group)
    }

    /// Whether it is a path with a directory that nobody writes and a name that many files have: `crates/wick/src/lib.rs`. Where a path
    /// begins at a root, its first directories are those of somebody's machine; a long one may begin where everybody works.
    fn is_elsewhere(&self, literal: &Literal) -> bool {
        let signs = ['/', '\\'];
        let Some((first, rest)) = literal.text.split_once(signs) else { return false };
        let relative = !literal.text.starts_with(['/', '\\', '~', '.']);
        let begins = if rest.matches(signs).count() >= LONG_PATH { analysis::terms_of(first) } else { Vec::new() };
        // What nearly everybody says has no group any more.
        let many = || groups::of_piece(self.groups, literal).is_none_or(|group| group.frequency > OF_MANY);
        let of_it = |group: &&Group| group.word.chunk == literal.chunk && group.factor == 1.0;
        let unsaid = |group: &Group| !group.is_said() && !begins.contains(&group.word.term);
        relative && !literal.either && self.groups.iter().filter(of_it).any(unsaid) && many()
    }

    /// Paths, flags and dotted names all of whose words are said, and one of them seldom enough to tell something.
    fn said_literals(&self) -> Vec<&'a Literal> {
        let group = |need: &String| self.groups.iter().find(|group| group.word.term == *need);
        let said = |literal: &&Literal| {
            let needed: Vec<&Group> = literal.needs.iter().filter_map(group).collect();
            !needed.is_empty() && needed.iter().all(|group| group.is_said()) && !self.is_elsewhere(literal)
        };
        self.question.literals.iter().filter(said).collect()
    }

    fn tongue(&self, own: &[&Group], unsaid: usize, literal: bool) -> Tongue {
        let names = literal || own.iter().any(|group| group.word.shape == Shape::Name && group.is_said());
        let at_home = if names { SURELY_AT_HOME } else { AT_HOME };
        if unsaid as f32 > own.len() as f32 * FOREIGN && own.len() > 5 && self.everyday < at_home {
            Tongue::Unsaid
        } else if self.strange && !self.question.quotes {
            Tongue::Strange
        } else {
            Tongue::Home
        }
    }

    /// An unsaid word that is written as a name, or is what a path or a flag cannot do without.
    fn unsaid_name<'b>(&self, unsaid: &[&'b Group], tongue: Tongue, said: &[&Literal]) -> Option<&'b Group> {
        let home = tongue == Tongue::Home;
        let sentence = home && self.own().filter(|(_, group)| group.word.shape != Shape::Pair).count() > SHORT;
        let named = |group: &&&Group| {
            if said.iter().any(|literal| literal.chunk == group.word.chunk) {
                return false;
            }
            let own = |it: &&Literal| it.chunk == group.word.chunk;
            let needed = |it: &Literal| it.needs.contains(&group.word.term) || self.is_elsewhere(it);
            let literal = self.question.literals.iter().filter(own).any(needed);
            match group.word.shape {
                Shape::Name => literal || !sentence || !question::is_slight(&group.word.term),
                Shape::Capital => home,
                Shape::Plain | Shape::Pair => literal && home,
            }
        };
        unsaid.iter().find(named).copied()
    }

    /// Two words that tell something, in one message; one that a few sessions talk about; or one in another script than the rest, which
    /// nobody writes but to name something.
    fn is_foreign_answer(&self, tongue: Tongue, sessions: &Sessions, fits: &[SessionFit]) -> bool {
        let telling = |group: &Group| {
            let length = group.word.term.chars().count();
            let loan = tongue == Tongue::Unsaid || group.word.shape != Shape::Plain || length > LOAN;
            group.frequency * 20 <= sessions.messages.max(20) && length > 1 && loan
        };
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

/// With the pieces that it stands on, and what holds if they are not there as they are typed.
pub(crate) fn verdict<'a>(
    evidence: &Evidence<'a>,
    sessions: &Sessions,
    fits: &[SessionFit],
) -> Result<(Verdict, Option<(Vec<&'a Literal>, Verdict)>), IndexError> {
    let (own, unsaid) = evidence.words();
    if own.is_empty() {
        return Ok((evidence.thin(&[], sessions)?, None));
    }
    // A word by itself that nobody says means nothing else; nor do several of which nobody says one in any form.
    let unheard = !own.iter().any(|group| group.is_known());
    if let (Some(group), true) = (unsaid.first(), unheard || own.len() == 1) {
        return Ok((evidence.never(group)?, None));
    }
    let said = evidence.said_literals();
    let verdict = judged(evidence, &said, sessions, fits)?;
    let (either, typed): (Vec<&Literal>, Vec<&Literal>) = said.into_iter().partition(|literal| literal.either);
    if typed.is_empty() {
        return Ok((verdict, None));
    }
    let named = |literal: &&Literal| literal.text.starts_with("--") || literal.text.contains(['/', '\\']);
    let all = typed.len() == evidence.question.literals.iter().filter(|literal| !literal.either).count();
    let nothing_else = own.iter().all(|group| typed.iter().any(|literal| literal.chunk == group.word.chunk));
    let otherwise = match typed.first() {
        Some(first) if all && (nothing_else || typed.iter().any(named)) => {
            // Only what may be found was looked at.
            let filtered = evidence.lots.iter().any(|lot| lot.wanted.is_some());
            let nobody = if filtered { "nothing that the filter lets through has" } else { "nobody writes" };
            Verdict::Never { why: format!("{nobody} {:?}", first.stands) }
        }
        Some(_) | None => judged(evidence, &either, sessions, fits)?,
    };
    Ok((verdict, Some((typed, otherwise))))
}

/// The verdict, if these pieces stand somewhere as they are typed.
fn judged(evidence: &Evidence<'_>, said: &[&Literal], sessions: &Sessions, fits: &[SessionFit]) -> Result<Verdict, IndexError> {
    let (own, unsaid) = evidence.words();
    let literal = said.iter().any(|literal| !literal.either);
    let tongue = evidence.tongue(&own, unsaid.len(), literal);
    if let (Some(group), false) = (evidence.unsaid_name(&unsaid, tongue, said), literal) {
        return evidence.never(group);
    }
    if tongue != Tongue::Home {
        let named = evidence.is_foreign_answer(tongue, sessions, fits);
        return if named { Ok(Verdict::Answer { trust: BY_NAMES }) } else { evidence.thin(&unsaid, sessions) };
    }
    let in_session = fits.iter().map(|fit| fit.covers).fold(0.0, f32::max);
    let in_message = fits.iter().flat_map(|fit| &fit.matches).map(|fit| fit.covers).fold(0.0, f32::max);
    let scattered = own.len() <= FEW && in_session < FEW_IN_SESSION && in_message < FEW_IN_MESSAGE;
    let misquoted = evidence.question.quotes && in_message < if unsaid.is_empty() { QUOTED_AND_SAID } else { QUOTED };
    let missing = own.len() <= SHORT && !unsaid.is_empty();
    // Whoever pastes a line looks for that line, and not for one that means the same.
    if !literal && misquoted {
        let unsaid = unsaid.first().map(|group| evidence.unsaid(group)).transpose()?;
        return Ok(Verdict::Never { why: unsaid.unwrap_or_else(|| "no message has this line".to_owned()) });
    }
    if !literal && (scattered || missing) || in_session < SHARE {
        return evidence.thin(&unsaid, sessions);
    }
    let firmly = fits.iter().flat_map(|fit| &fit.matches).map(|fit| fit.firmly).fold(0.0, f32::max);
    let trust = if literal { 1.0 } else { ((firmly - SCATTERED) / (TOGETHER - SCATTERED)).clamp(0.0, 1.0) };
    let nearly_all = if unsaid.is_empty() { NEARLY_ALL } else { ALL_BUT_UNSAID };
    if trust == 0.0 && in_session < nearly_all {
        return evidence.thin(&unsaid, sessions);
    }
    Ok(Verdict::Answer { trust })
}
