//! What was told, held against what is there.

use std::sync::Arc;

use event_log::{Receipt, Rejection, Status};

use super::fold::{Fold, Placed};
use super::history::{Answer, History, Told};

/// Everything that is not as it was said.
pub fn hold_against(history: &History, fold: &Fold) -> Vec<String> {
    let mut wrong = Vec::new();
    let told = history.told.lock();
    for one in told.iter() {
        if let Err(what) = judge(one, fold) {
            wrong.push(format!("{} ({:?}, retried={}): {what}", one.marker, one.answer, one.retried));
        }
    }
    for (id, slots) in fold.ids.iter().filter(|(_, slots)| slots.len() > 1) {
        wrong.push(format!("command {id:032x} is in slots {slots:?}"));
    }
    wrong.extend(order(&told, fold));
    wrong.extend(pages(history, fold));
    let followed = history.followed.lock();
    if *followed != fold.commits {
        wrong.push(format!("a follower saw {} commits of {}, or others", followed.len(), fold.commits.len()));
    }
    wrong
}

fn places<'a>(told: &Told, fold: &'a Fold) -> &'a [Placed] {
    fold.placed.get(&told.marker).map_or(&[], Vec::as_slice)
}

fn judge(told: &Told, fold: &Fold) -> Result<(), String> {
    let placed = places(told, fold);
    let id = told.command.id;
    // A producer's number is the stream's to know: in a stream that was deleted and made again, a retry is new.
    let scattered = |place: &Placed| place.slot != placed[0].slot && (id.is_some() || place.generation == placed[0].generation);
    if placed.iter().any(|place| !told.appends.contains(&place.stream) || scattered(place)) {
        return Err(format!("found where it does not belong: {placed:?}"));
    }
    let last = placed.last().map_or(0, |place| place.slot);
    let placed: Vec<Placed> = placed.iter().filter(|place| place.slot == last).cloned().collect();
    let whole = || told.appends.iter().filter(|_| !placed.is_empty()).try_for_each(|stream| once(stream, &placed).map(drop));
    match &told.answer {
        Answer::Done(receipt) => told.appends.iter().try_for_each(|stream| done(told, receipt, stream, &placed)),
        // A refusal says nothing of an earlier attempt that its client no longer waited for.
        Answer::Rejected(rejection) if placed.is_empty() || told.retried => refused(told, rejection, fold).and_then(|()| whole()),
        Answer::Rejected(_) | Answer::NotWritten if !placed.is_empty() => Err(format!("found all the same: {placed:?}")),
        Answer::Rejected(_) | Answer::NotWritten | Answer::Unknown => whole(),
    }
}

fn once<'a>(stream: &Arc<str>, placed: &'a [Placed]) -> Result<&'a Placed, String> {
    let mut here = placed.iter().filter(|place| place.stream == *stream);
    match (here.next(), here.next()) {
        (Some(place), None) => Ok(place),
        (None, _) => Err(format!("is not in {stream}, but in {placed:?}")),
        (Some(_), Some(_)) => Err(format!("is in {stream} more than once: {placed:?}")),
    }
}

fn done(told: &Told, receipt: &Receipt, stream: &Arc<str>, placed: &[Placed]) -> Result<(), String> {
    let outcome = receipt.outcomes.iter().find(|outcome| outcome.stream == *stream);
    let outcome = outcome.ok_or_else(|| format!("the receipt does not speak of {stream}"))?;
    let creation =
        told.command.changes.iter().any(|(name, change)| name == stream && matches!(change, event_log::Change::Create(_)));
    match outcome.status {
        Status::Already if creation && placed.is_empty() => Ok(()),
        Status::Already => once(stream, placed).map(drop),
        Status::Done => {
            let place = once(stream, placed)?;
            let there = (place.slot + 1, place.generation, place.end);
            let said = (receipt.position, outcome.tail.generation, outcome.tail.position);
            if there == said { Ok(()) } else { Err(format!("said to be at {said:?}, is at {there:?}")) }
        }
    }
}

/// A refusal must have had its reason at some time.
fn refused(told: &Told, rejection: &Rejection, fold: &Fold) -> Result<(), String> {
    let had = |stream: &Arc<str>, tail| fold.tails.contains(&(stream.clone(), tail));
    if let Rejection::Conflict { stream, expected, actual } = rejection {
        if expected == actual {
            return Err("a conflict of equals".into());
        }
        if actual.is_some_and(|tail| !had(stream, tail)) {
            return Err(format!("{stream} never ended at {actual:?}"));
        }
    }
    if let Rejection::Closed { tail } = rejection {
        let named = |stream: &Arc<str>| told.command.changes.iter().any(|(name, _)| name == stream);
        let ended = fold.incarnations.values().any(|life| life.closed && life.units() == tail.position && named(&life.stream));
        if !ended {
            return Err("no such stream was ever closed there".into());
        }
    }
    Ok(())
}

fn acknowledged_slot(told: &Told, fold: &Fold) -> Option<u64> {
    let Answer::Done(receipt) = &told.answer else { return None };
    let slot = places(told, fold).last()?.slot;
    (slot < receipt.position).then_some(slot)
}

/// What was acknowledged before something else was asked for stands before it in the log.
fn order(told: &[Told], fold: &Fold) -> Option<String> {
    let mut done: Vec<(u64, &Told)> = told.iter().filter_map(|one| Some((acknowledged_slot(one, fold)?, one))).collect();
    let mut asked = done.clone();
    done.sort_by_key(|(_, one)| one.told_at);
    asked.sort_by_key(|(_, one)| one.asked_at);
    let mut before = done.into_iter().peekable();
    let mut latest: Option<(u64, &Told)> = None;
    for (slot, one) in asked {
        while let Some(next) = before.next_if(|(_, earlier)| earlier.told_at < one.asked_at) {
            latest = latest.filter(|(highest, _)| *highest > next.0).or(Some(next));
        }
        if let Some((highest, earlier)) = latest.filter(|(highest, _)| *highest >= slot) {
            let (a, b) = (&earlier.marker, &one.marker);
            return Some(format!("{b} in slot {slot} was asked after {a} in slot {highest} was acknowledged"));
        }
    }
    None
}

/// Nobody ever read what is not there.
fn pages(history: &History, fold: &Fold) -> Vec<String> {
    let mut wrong = Vec::new();
    for seen in history.seen.lock().iter() {
        let there = fold.incarnations.get(&seen.generation).filter(|life| life.units() >= seen.to);
        if there.is_none_or(|life| life.page(seen.from, seen.to) != seen.bytes) {
            wrong.push(format!(
                "{} {}..{} was read as {:?}",
                seen.stream,
                seen.from,
                seen.to,
                String::from_utf8_lossy(&seen.bytes)
            ));
        }
    }
    wrong
}
