//! Which sessions, and which messages of them, say what a question asks for.
//!
//! A message is scored by its words, and so is a session as a whole: what a question asks for is often said over several messages. Both are
//! counted inside the house and nowhere else. Filters come first: what they leave out is neither scored nor counted for a session.

use std::cmp::Reverse;
use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use events::HouseId;
use tantivy::columnar::ColumnValues;

use crate::error::IndexError;
use crate::filter::{self, MessageFilter};
use crate::groups::{self, Group, Lot, WHOLE};
use crate::question::{Literal, Question, Shape, Word};
use crate::silence::{self, Typed, TypedPlace, Verdict};
use crate::view::{Sessions, View};

const K1: f32 = 1.2;
const B: f32 = 0.75;
/// How much of a session's score its best message makes up, beside the session as a whole.
const BEST: f32 = 0.8;
/// A word that more than this share of all messages say tells nothing, whatever its language.
const COMMON: f64 = 0.2;
const FEW_MESSAGES: u64 = 100;
/// A word that one of so many messages says, and not only a few, is one that everybody here uses.
const EVERYDAY: u64 = 50;
const FEWEST: u64 = 3;
/// Letters of the words that hold sentences together, and how few messages say one of another language, where there are enough to tell.
const SHORT_WORD: usize = 4;
const SENTENCE: usize = 6;
const HARDLY: u64 = 200;
const MANY_MESSAGES: u64 = 1_000;
const SHORT_WEIGHS: f32 = 0.25;
/// Messages of one session that are told.
const MATCHES: usize = 3;
/// Messages that are looked at for a piece that is meant as it is typed.
const MOST_PLACES: usize = 100;
/// Forms of a word that a plan tells.
const MOST_TOLD: usize = 16;

/// A message that fits, and where it stands in the log.
#[derive(Clone, Debug, PartialEq)]
pub struct Fit {
    pub stream: String,
    pub seq: u64,
    pub session_id: String,
    pub score: f32,
    /// Microseconds.
    pub time: i64,
    /// What share of the question it covers, by the weight of the words.
    pub covers: f32,
    /// The same, with other forms of a word counted for less.
    pub firmly: f32,
}

/// A session that fits, with those that it spawned.
#[derive(Clone, Debug, PartialEq)]
pub struct SessionFit {
    pub session_id: String,
    pub source_agent: String,
    pub project: String,
    /// Microseconds.
    pub created_at: i64,
    pub last_at: i64,
    pub score: f32,
    /// What share of the question is said anywhere in it.
    pub covers: f32,
    /// The best first.
    pub matches: Vec<Fit>,
}

/// What the index says to a question.
#[derive(Clone, Debug)]
pub struct Ranked {
    /// The best first.
    pub sessions: Vec<SessionFit>,
    pub verdict: Verdict,
    pub typed: Option<Typed>,
    /// What they were found by, in whatever form.
    pub heard: BTreeSet<String>,
    /// What was asked of the index, for those who want to know.
    pub plan: String,
}

/// The weights of one collection of texts.
struct Scale {
    documents: f32,
    average: f32,
}

impl Scale {
    fn new(documents: u64, length: u64) -> Self {
        let documents = documents.max(1) as f32;
        Self { documents, average: (length as f32 / documents).max(1.0) }
    }

    fn rarity(&self, frequency: u64) -> f32 {
        let frequency = (frequency as f32).min(self.documents);
        (1.0 + (self.documents - frequency + 0.5) / (frequency + 0.5)).ln()
    }

    fn weight(&self, hundredths: u32, length: u64) -> f32 {
        let times = hundredths as f32 / WHOLE as f32;
        times / (times + K1 * (1.0 - B + B * length as f32 / self.average))
    }
}

/// What a question asks for, inside a house.
pub(crate) struct Asked<'a> {
    pub view: &'a View,
    pub house: &'a HouseId,
    pub question: &'a Question,
    pub filter: &'a MessageFilter,
}

pub(crate) fn rank(asked: &Asked<'_>, most: usize) -> Result<Ranked, IndexError> {
    let sessions = asked.view.sessions(asked.house);
    let (lots, numbers, plan) = lots(asked, &sessions)?;
    let field = asked.view.fields.text;
    let mut groups = groups::all(&lots, field, asked.question)?;
    let (everyday, strange) = (everyday(&groups, &sessions), is_strange(asked.question, &groups, &sessions));
    groups.extend(groups::joined(asked.question, &groups));
    let common = |group: &Group| sessions.messages >= FEW_MESSAGES && group.frequency as f64 > sessions.messages as f64 * COMMON;
    let plan = format!("{plan}{}", told(&groups, &sessions));
    let heard = groups::heard(&groups);
    if groups.iter().any(|group| group.is_known() && !common(group)) {
        groups.retain(|group| !common(group));
    }
    groups::link(&mut groups);
    // Who says the same short words speaks the same language, and not of the same.
    let weight = |group: &Group| if strange && is_short(group) { SHORT_WEIGHS } else { 1.0 };
    let (mut scored, said) = score(asked.view, &lots, &numbers, &groups, weight, &sessions)?;
    scored.truncate(most);
    let rarities = rarities(&groups, &sessions);
    let fits: Vec<SessionFit> = scored
        .into_iter()
        .filter_map(|found| session_fit(asked.view, &numbers, &groups, (&rarities, &said), &sessions, found))
        .collect();
    let (groups, rarities, said) = (groups.as_slice(), rarities.as_slice(), &said);
    let question = asked.question;
    let evidence = silence::Evidence { lots: &lots, field, question, groups, rarities, said, everyday, strange };
    let (verdict, typed) = silence::verdict(&evidence, &sessions, &fits)?;
    let typed = match typed {
        Some((pieces, otherwise)) => {
            let places = places(asked.view, &numbers, groups, &pieces, &sessions)?;
            Some(Typed { pieces: pieces.into_iter().map(|it| it.stands.clone()).collect(), places, otherwise })
        }
        None => None,
    };
    Ok(Ranked { sessions: fits, verdict, typed, heard, plan })
}

/// Where the words of one of the pieces are said in one message, if that is not too many messages to look at.
fn places(
    view: &View,
    numbers: &[u32],
    groups: &[Group],
    pieces: &[&Literal],
    sessions: &Sessions,
) -> Result<Option<Vec<TypedPlace>>, IndexError> {
    let segments: Vec<_> = view.segments().collect();
    let mut docs = BTreeSet::new();
    for piece in pieces {
        let Some(joined) = groups::of_piece(groups, piece) else { return Ok(None) };
        for (lot, hits) in joined.hits.iter().enumerate() {
            docs.extend(hits.iter().map(|(doc, _)| (lot, *doc)));
        }
        if docs.len() > MOST_PLACES {
            return Ok(None);
        }
    }
    let mut places = Vec::new();
    for (lot, doc) in docs {
        let (_, segment, table) = segments[numbers[lot] as usize];
        let session = sessions.place(table.stream(doc)).map(|place| &sessions.all[place as usize]);
        let root = session.and_then(|it| sessions.all[it.root as usize].note.as_ref());
        let (Some(own), Some(root)) = (session.and_then(|it| it.note.as_ref()), root) else { continue };
        let seq = segment.fast_fields().u64("seq")?.first(doc).unwrap_or_default();
        places.push(TypedPlace { root: root.id.clone(), session_id: own.id.clone(), stream: own.stream.clone(), seq });
    }
    Ok(Some(places))
}

/// What share of the question are words that many messages say.
fn everyday(groups: &[Group], sessions: &Sessions) -> f32 {
    let word = |group: &&Group| group.factor == 1.0 && group.word.term.chars().any(char::is_alphabetic);
    let own = groups.iter().filter(word);
    let often = own.clone().filter(|group| group.frequency >= (sessions.messages / EVERYDAY).max(FEWEST)).count();
    often as f32 / own.count().max(1) as f32
}

/// Whether most of the short words of a sentence are hardly ever said here: those of the language of the house are said all the time.
fn is_strange(question: &Question, groups: &[Group], sessions: &Sessions) -> bool {
    let prose = |group: &&Group| group.factor == 1.0 && !question.literals.iter().any(|it| it.chunk == group.word.chunk);
    let words = groups.iter().filter(prose);
    let short = words.clone().filter(|group| is_short(group));
    let hardly = short.clone().filter(|group| group.exactly * HARDLY < sessions.messages).count();
    let tells = sessions.messages >= MANY_MESSAGES && words.count() >= SENTENCE;
    tells && hardly >= 2 && hardly * 2 > short.count()
}

fn is_short(group: &Group) -> bool {
    let Word { term, shape, .. } = &group.word;
    let plain = matches!(shape, Shape::Plain | Shape::Capital);
    plain && term.chars().all(char::is_alphabetic) && term.chars().count() <= SHORT_WORD
}

type Lots<'a> = (Vec<Lot<'a>>, Vec<u32>, String);

fn lots<'a>(asked: &Asked<'a>, sessions: &Sessions) -> Result<Lots<'a>, IndexError> {
    let (mut lots, mut numbers, mut plan) = (Vec::new(), Vec::new(), String::new());
    for (number, segment, table) in asked.view.segments() {
        let Some(inside) = table.messages(asked.house) else { continue };
        let field = asked.view.fields.text;
        let query = filter::messages(&asked.view.fields, asked.house, asked.filter, sessions);
        let wanted = match &query {
            Some(query) => Some(filter::docs(asked.view, segment, query.as_ref())?),
            None => None,
        };
        if plan.is_empty() {
            plan = filter::told(query.as_deref());
        }
        let (inverted, norms) = (segment.inverted_index(field)?, segment.get_fieldnorms_reader(field)?);
        lots.push(Lot { inverted, norms, inside, wanted, words: &table.words });
        numbers.push(number);
    }
    Ok((lots, numbers, plan))
}

/// A session by its place, and its messages.
struct Found {
    place: u32,
    score: f32,
    /// Segment (as a lot), document, score.
    messages: Vec<(u32, u32, f32)>,
}

/// How often each word is said in each session, in hundredths.
pub(crate) type Said = Vec<HashMap<u32, u32>>;

fn score(
    view: &View,
    lots: &[Lot<'_>],
    numbers: &[u32],
    groups: &[Group],
    weight: impl Fn(&Group) -> f32,
    sessions: &Sessions,
) -> Result<(Vec<Found>, Said), IndexError> {
    let messages = Scale::new(sessions.messages, sessions.length);
    let wholes = Scale::new(sessions.roots, sessions.length);
    let tables: Vec<_> = view.segments().map(|(_, _, table)| table).collect();
    let root = |lot: usize, doc: u32| {
        let stream = tables[numbers[lot] as usize].stream(doc);
        sessions.place(stream).map(|place| sessions.all[place as usize].root)
    };
    // By their places: there are far fewer sessions than messages to be counted.
    let mut found: Vec<Option<Found>> = Vec::new();
    found.resize_with(sessions.all.len(), || None);
    let mut of_message: Vec<Vec<f32>> = lots.iter().map(|lot| vec![0.0; lot.norms.num_docs() as usize]).collect();
    let mut touched: Vec<(u32, u32)> = Vec::new();
    let mut said = Said::new();
    let mut sums = vec![0_u32; sessions.all.len()];
    for group in groups {
        let weight = weight(group) * group.factor;
        let rarity = weight * messages.rarity(group.frequency);
        let mut places: Vec<u32> = Vec::new();
        for (lot, hits) in group.hits.iter().enumerate() {
            let scores = &mut of_message[lot];
            for (doc, times) in hits {
                let length = lots[lot].norms.fieldnorm(*doc).into();
                let score = &mut scores[*doc as usize];
                if *score == 0.0 {
                    touched.push((lot as u32, *doc));
                }
                *score += rarity * messages.weight(*times, length);
                if let Some(root) = root(lot, *doc) {
                    let sum = &mut sums[root as usize];
                    if *sum == 0 {
                        places.push(root);
                    }
                    *sum = sum.saturating_add(*times);
                }
            }
        }
        let in_session: HashMap<u32, u32> =
            places.into_iter().map(|place| (place, std::mem::take(&mut sums[place as usize]))).collect();
        let rarity = weight * wholes.rarity(in_session.len() as u64);
        for (place, times) in &in_session {
            let at = found[*place as usize].get_or_insert_with(|| Found { place: *place, score: 0.0, messages: Vec::new() });
            at.score += rarity * wholes.weight(*times, sessions.all[*place as usize].length);
        }
        said.push(in_session);
    }
    let columns = columns(view, numbers)?;
    // How segments are laid out changes with merges: it must not tell which of two comes first.
    let place = |lot: u32, doc: u32| {
        let (times, seqs) = &columns[lot as usize];
        let stream = tables[numbers[lot as usize] as usize].stream(doc);
        (Reverse(times.get_val(doc)), stream, Reverse(seqs.get_val(doc)))
    };
    for (lot, doc) in touched {
        let score = of_message[lot as usize][doc as usize];
        if let Some(at) = root(lot as usize, doc).and_then(|root| found[root as usize].as_mut()) {
            keep(&mut at.messages, (lot, doc, score), place);
        }
    }
    Ok((combined(found), said))
}

type Columns = (Arc<dyn ColumnValues<i64>>, Arc<dyn ColumnValues<u64>>);

/// When each message was said, and where in its stream.
fn columns(view: &View, numbers: &[u32]) -> Result<Vec<Columns>, IndexError> {
    let segments: Vec<_> = view.segments().collect();
    let of = |number: &u32| {
        let fast = segments[*number as usize].1.fast_fields();
        Ok((fast.i64("time")?.first_or_default_col(0), fast.u64("seq")?.first_or_default_col(0)))
    };
    numbers.iter().map(of).collect()
}

/// The few best messages, whichever comes first; of the same the newest.
fn keep<P: Ord>(messages: &mut Vec<(u32, u32, f32)>, new: (u32, u32, f32), place: impl Fn(u32, u32) -> P) {
    let better = |one: &(u32, u32, f32), two: &(u32, u32, f32)| {
        one.2 > two.2 || (one.2 == two.2 && place(one.0, one.1) < place(two.0, two.1))
    };
    let at = messages.iter().position(|known| better(&new, known)).unwrap_or(messages.len());
    if at < MATCHES {
        messages.insert(at, new);
        messages.truncate(MATCHES);
    }
}

fn combined(found: Vec<Option<Found>>) -> Vec<Found> {
    let mut found: Vec<Found> = found.into_iter().flatten().filter(|session| !session.messages.is_empty()).collect();
    let best_session = found.iter().map(|session| session.score).fold(f32::MIN_POSITIVE, f32::max);
    let best_message = found.iter().map(|session| session.messages[0].2).fold(f32::MIN_POSITIVE, f32::max);
    for session in &mut found {
        session.score = (session.score / best_session + BEST * session.messages[0].2 / best_message) / (1.0 + BEST);
    }
    found.sort_by(|one, two| two.score.total_cmp(&one.score).then(one.place.cmp(&two.place)));
    found
}

/// What each word weighs when it is asked how much of a question is covered. A word that nobody says weighs as much as the rarest.
pub(crate) fn rarities(groups: &[Group], sessions: &Sessions) -> Vec<f32> {
    let scale = Scale::new(sessions.messages, sessions.length);
    let of = |group: &Group| match group.factor {
        1.0 => scale.rarity(group.frequency),
        _ => 0.0,
    };
    groups.iter().map(of).collect()
}

fn session_fit(
    view: &View,
    numbers: &[u32],
    groups: &[Group],
    (rarities, said): (&[f32], &Said),
    sessions: &Sessions,
    found: Found,
) -> Option<SessionFit> {
    let root = &sessions.all[found.place as usize];
    let whole: f32 = rarities.iter().sum();
    let segments: Vec<_> = view.segments().collect();
    let mut matches = Vec::new();
    for (lot, doc, score) in found.messages {
        let (_, segment, table) = segments[numbers[lot as usize] as usize];
        let place = sessions.place(table.stream(doc))?;
        let note = sessions.all[place as usize].note.as_ref()?;
        let (mut covers, mut firmly) = (0.0, 0.0);
        let says = |n: usize| groups[n].in_document(lot, doc);
        for (n, group) in groups.iter().enumerate() {
            let hundredths = if group.is_bridged(|n| says(n) > 0) { WHOLE } else { says(n) };
            covers += if hundredths > 0 { rarities[n] } else { 0.0 };
            firmly += rarities[n] * hundredths.min(WHOLE) as f32 / WHOLE as f32;
        }
        let fast = segment.fast_fields();
        let seq = fast.u64("seq").ok()?.first(doc)?;
        let time = fast.i64("time").ok()?.first(doc)?;
        let [covers, firmly] = [covers, firmly].map(|sum| sum / whole.max(f32::MIN_POSITIVE));
        matches.push(Fit { stream: note.stream.clone(), seq, session_id: note.id.clone(), score, time, covers, firmly });
    }
    let says = |n: usize| said[n].contains_key(&found.place);
    let covers = groups.iter().zip(rarities).enumerate().filter(|(n, (group, _))| says(*n) || group.is_bridged(says));
    let covers: f32 = covers.map(|(_, (_, rarity))| rarity).sum();
    let note = root.note.as_ref()?;
    let last_at = root.last.max(matches.iter().map(|fit| fit.time).max().unwrap_or(i64::MIN));
    Some(SessionFit {
        session_id: note.id.clone(),
        source_agent: note.source_agent.clone(),
        project: note.project.clone(),
        created_at: note.created_at,
        last_at,
        score: found.score,
        covers: covers / whole.max(f32::MIN_POSITIVE),
        matches,
    })
}

fn told(groups: &[Group], sessions: &Sessions) -> String {
    let mut text = format!("messages {} in {} sessions\n", sessions.messages, sessions.roots);
    for group in groups {
        let shape = match group.word.shape {
            Shape::Plain => "word",
            Shape::Capital => "capital",
            Shape::Name => "name",
            Shape::Pair => "pair",
        };
        let others = group.forms.iter().skip(1).map(|(form, _)| form.as_str());
        let forms = others.clone().take(MOST_TOLD).collect::<Vec<_>>().join(", ");
        let more = others.len().saturating_sub(MOST_TOLD);
        let forms = if more == 0 { forms } else { format!("{forms} and {more} more") };
        text.push_str(&format!(
            "{shape} {:?} x {:.2}: {} messages, {} as written{}\n",
            group.word.term,
            group.factor,
            group.frequency,
            group.exactly,
            if forms.is_empty() { String::new() } else { format!(", also as {forms}") }
        ));
    }
    text
}
