//! A new copy beside the live one, then in its place.

use std::sync::Arc;

use event_log::{FollowError, Log};

use crate::copies::{Copies, Live};
use crate::project::Projector;
use crate::replay::{Progress, ReplayError, Until, replay};
use crate::sink::{Checkpoint, Sink};

/// Commits that may be left when the live copy is stopped for the swap, and how often to try for it: each round has less to do,
/// unless more is written than can be applied.
const CLOSE: u64 = 256;
const ROUNDS: u32 = 8;

#[derive(Clone, Debug)]
pub struct Rebuilt {
    pub checkpoint: Checkpoint,
    /// Records that this run applied; one that was killed before it may have applied others.
    pub applied: u64,
    /// Where the copy can be read.
    pub address: String,
    /// A copy of the past never takes the place of the live one.
    pub swapped: bool,
}

/// Builds a copy from zero, or goes on with one whose builder was killed, and puts it in the place of the live one, which serves
/// and is fed until then. With an end other than the head the copy is only left where it can be read.
pub async fn rebuild<P: Projector, K: Copies<P::Change>>(
    log: &Log,
    projector: &Arc<P>,
    copies: &K,
    until: Until,
    mut progress: impl FnMut(Progress),
) -> Result<Rebuilt, ReplayError> {
    log.refresh().await;
    let label = label(until);
    let mut copy = claimed(copies, &label).await?;
    let mut before = copy.checkpoint().await?.records;
    let checkpoint = match catch_up(log, projector, &mut copy, until, &mut progress).await {
        Err(ReplayError::OtherHistory) => {
            copies.discard(copy).await?;
            copy = claimed(copies, &label).await?;
            before = 0;
            catch_up(log, projector, &mut copy, until, &mut progress).await?
        }
        done => done?,
    };
    let address = copies.address(&copy);
    if until != Until::Head {
        return Ok(Rebuilt { checkpoint, applied: checkpoint.records - before, address, swapped: false });
    }
    let checkpoint = put_in_place(log, projector, copies, copy, checkpoint, &mut progress).await?;
    Ok(Rebuilt { checkpoint, applied: checkpoint.records - before, address, swapped: true })
}

/// Feeds the live copy up to where the log is now, once. `None`: another process feeds it.
pub async fn advance<P: Projector, K: Copies<P::Change>>(
    log: &Log,
    projector: &Arc<P>,
    copies: &K,
    mut progress: impl FnMut(Progress),
) -> Result<Option<Checkpoint>, ReplayError> {
    log.refresh().await;
    if let Live::Current(mut copy) = copies.live().await? {
        if !copy.claim().await? {
            return Ok(None);
        }
        match replay(log, projector, &mut copy, Until::Position(log.position()), &mut progress).await {
            Err(ReplayError::OtherHistory) => {}
            done => return done.map(Some),
        }
    }
    Ok(Some(rebuild(log, projector, copies, Until::Head, progress).await?.checkpoint))
}

/// Comes close to a head that moves on.
async fn catch_up<P: Projector>(
    log: &Log,
    projector: &Arc<P>,
    copy: &mut impl Sink<P::Change>,
    until: Until,
    progress: &mut impl FnMut(Progress),
) -> Result<Checkpoint, ReplayError> {
    if until != Until::Head {
        return replay(log, projector, copy, until, progress).await;
    }
    let mut rounds = 1;
    loop {
        let at = replay(log, projector, copy, Until::Position(log.position()), progress).await?;
        if log.position().saturating_sub(at.position()) < CLOSE || rounds == ROUNDS {
            return Ok(at);
        }
        rounds += 1;
    }
}

fn label(until: Until) -> String {
    match until {
        Until::Head => "rebuild".into(),
        Until::Position(position) => format!("position {position}"),
        Until::Time(time) => format!("time {time}"),
    }
}

pub(crate) async fn claimed<C, K: Copies<C>>(copies: &K, label: &str) -> Result<K::Sink, ReplayError> {
    let mut copy = copies.beside(label).await?;
    if copy.claim().await? { Ok(copy) } else { Err(ReplayError::Busy) }
}

/// The live copy stands still for the last few commits, so that a watermark never goes back.
async fn put_in_place<P: Projector, K: Copies<P::Change>>(
    log: &Log,
    projector: &Arc<P>,
    copies: &K,
    mut copy: K::Sink,
    mut at: Checkpoint,
    progress: &mut impl FnMut(Progress),
) -> Result<Checkpoint, ReplayError> {
    let (hold, live) = copies.hold().await?;
    if live.position() > at.position() {
        log.refresh().await;
        at = replay(log, projector, &mut copy, Until::Position(live.position()), progress).await?;
    }
    if live.position() > at.position() && !matches!(log.follow(live.cursor).await, Err(FollowError::OtherHistory(_))) {
        return Err(ReplayError::Behind);
    }
    copies.swap(hold, &mut copy).await?;
    Ok(at)
}
