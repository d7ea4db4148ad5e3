//! Ends at every point where a runner can end, and starts again.

use std::future::Future;
use std::pin::pin;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use postgres_rows::RowsProjector;
use projector::{ReplayError, Runner, Until, rebuild};

use crate::house::Town;
use crate::live::{PACE, live_sums, run};
use crate::postgres::database;
use crate::story::Story;

/// Polls a future so many times, then drops it. Every await it comes by is a place to die.
async fn dies_after<F: Future>(polls: usize, future: F) -> Option<F::Output> {
    let mut future = pin!(future);
    let mut left = polls;
    std::future::poll_fn(move |context| {
        if left == 0 {
            return Poll::Ready(None);
        }
        left -= 1;
        future.as_mut().poll(context).map(Some)
    })
    .await
}

#[tokio::test]
async fn a_runner_that_dies_anywhere_ends_in_the_same_rows() {
    let (Some(db), Some(reference)) = (database().await, database().await) else { return };
    let mut story = Story::new().await;
    let mut town = Town::settle(11, &mut story).await;
    let mut position = story.log.position();
    for polls in 1..80 {
        position = town.live(&mut story, 3).await.max(position);
        let runner = Runner::new(story.log.clone(), Arc::new(RowsProjector), db.rows.clone(), PACE);
        let once = dies_after(polls, runner.run());
        // At the head nothing wakes the runner any more.
        let _ = tokio::time::timeout(Duration::from_millis(100), once).await;
    }
    let running = run(&story.log, &db.rows);
    running.reaches(position).await;
    let straight = run(&story.log, &reference.rows);
    straight.reaches(position).await;
    assert_eq!(live_sums(&db.rows).await, live_sums(&reference.rows).await);
}

#[tokio::test]
async fn a_rebuild_that_dies_anywhere_goes_on_where_it_was() {
    let Some(db) = database().await else { return };
    let mut story = Story::new().await;
    let mut town = Town::settle(12, &mut story).await;
    let position = town.live(&mut story, 300).await;
    let running = run(&story.log, &db.rows);
    running.reaches(position).await;
    let (_, sums) = live_sums(&db.rows).await;
    let mut rebuilt = None;
    for polls in (1..40).chain((40..600).step_by(5)) {
        match dies_after(polls, rebuild(&story.log, &Arc::new(RowsProjector), &db.rows, Until::Head, |_| {})).await {
            Some(Ok(done)) => {
                rebuilt = Some(done);
                break;
            }
            // The session of the one that died may live a moment longer.
            Some(Err(ReplayError::Busy)) => tokio::time::sleep(Duration::from_millis(20)).await,
            Some(Err(error)) => panic!("{error}"),
            None => {}
        }
        if polls % 10 == 0 {
            assert_eq!(live_sums(&db.rows).await.1, sums);
        }
    }
    assert!(rebuilt.expect("an end").swapped);
    assert_eq!(live_sums(&db.rows).await.1, sums);
    assert_eq!(db.rows.copies().await.expect("copies").iter().filter(|copy| copy.state == "building").count(), 0);
}
