//! The projector dies between every two of its steps: after each request that it ever makes to Postgres, before it hears the answer.
//! Reading and projecting happen between two requests and leave nothing behind.

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use commands::command::RenameHouse;
use event_log::Log;
use events::{Entry, StreamName};
use postgres_rows::{Rows, RowsProjector};
use projector::{ReplayError, Until, rebuild, verify};
use sqlx::postgres::PgConnectOptions;
use sqlx::{Connection, PgConnection};

use crate::dump::dump;
use crate::play::{acted, drawn, memory, write};
use crate::postgres::{Ground, database, ground};
use crate::running::run;
use crate::scene::{SYSTEM, house};
use crate::wire::Wire;

const DIES: &str = "dies";

/// Runs `work` through a wire that is cut; says whether it was.
async fn dies<F: Future>(requests: u64, to: &PgConnectOptions, work: impl FnOnce(PgConnectOptions) -> F) -> bool {
    let wire = Wire::cut_after(requests, to);
    let died = tokio::select! {
        biased;
        () = wire.death() => true,
        _ = work(wire.options(to).application_name(DIES)) => false,
    };
    drop(wire);
    sessions_end(to).await;
    died
}

/// What a dead process has begun is undone by Postgres when it notices.
async fn sessions_end(to: &PgConnectOptions) {
    let mut conn = PgConnection::connect_with(to).await.unwrap();
    let left = "select count(*) from pg_stat_activity where datname = current_database() and application_name = $1";
    while sqlx::query_scalar::<_, i64>(left).bind(DIES).fetch_one(&mut conn).await.unwrap() > 0 {
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
}

async fn connect(ground: &Ground) -> Rows {
    Rows::connect(ground.options.clone(), 3).await.unwrap()
}

/// A log of two parts: the second is one commit, made on demand.
struct Tale {
    log: Log,
    entries: Vec<(StreamName, u64, Entry)>,
    first: u64,
}

impl Tale {
    async fn begin() -> Self {
        let mut scene = acted(&drawn(600));
        scene.given(SYSTEM, RenameHouse { house_id: house("h"), name: "the end".into() });
        let log = memory().await;
        let first = write(&log, &scene.log[..scene.log.len() - 1]).await;
        Self { log, entries: scene.log, first }
    }

    /// Safe to call again, and to be dropped: a commit in memory is made at the first poll or not at all.
    async fn end(&self) -> u64 {
        if self.log.position() == self.first {
            write(&self.log, &self.entries[self.entries.len() - 1..]).await
        } else {
            self.first + 1
        }
    }

    async fn follow(&self, rows: &Rows) {
        let running = run(&self.log, rows);
        running.reaches(self.first).await;
        running.reaches(self.end().await).await;
    }
}

async fn expected() -> Option<String> {
    let db = database().await?;
    Tale::begin().await.follow(&db.rows).await;
    let text = dump(&db.rows).await;
    assert!(text.lines().count() > 40, "{text}");
    Some(text)
}

#[tokio::test]
async fn a_runner_that_dies_at_any_step_ends_in_the_same_rows() {
    let Some(expected) = expected().await else { return };
    let mut cuts = 0;
    loop {
        let (tale, ground) = (Tale::begin().await, ground().await.unwrap());
        let first_start = async |options| {
            tale.follow(&Rows::connect(options, 3).await.unwrap()).await;
        };
        let died = dies(cuts, &ground.options, first_start).await;
        let rows = connect(&ground).await;
        tale.follow(&rows).await;
        assert_eq!(dump(&rows).await, expected, "after request {cuts}");
        rows.close().await;
        if !died {
            break;
        }
        cuts += 1;
    }
    assert!(cuts > 30, "only {cuts} requests");
}

/// A live copy that nobody feeds any more.
async fn settled(tale: &Tale) -> Option<(Ground, Rows)> {
    let ground = ground().await?;
    let rows = connect(&ground).await;
    tale.follow(&rows).await;
    Some((ground, rows))
}

/// The copy that the last rebuild left behind is dropped by the next.
async fn let_time_pass(rows: &Rows, to: &PgConnectOptions) {
    let mut conn = PgConnection::connect_with(to).await.unwrap();
    let passed = "update arbe.copies set retired_at = now() - interval '2 minutes' where state = 'retired'";
    sqlx::query(passed).execute(&mut conn).await.unwrap();
    let retired = rows.copies().await.unwrap().iter().filter(|copy| copy.state == "retired").count();
    assert!(retired <= 2, "{retired} copies wait to be dropped");
}

#[tokio::test]
async fn a_rebuild_that_dies_at_any_step_is_finished_by_the_next() {
    let tale = Tale::begin().await;
    let Some((ground, rows)) = settled(&tale).await else { return };
    let before = dump(&rows).await;
    let again = async |rows: &Rows| rebuild(&tale.log, &Arc::new(RowsProjector), rows, Until::Head, |_| {}).await;
    again(&rows).await.unwrap();
    let mut cuts = 0;
    loop {
        let_time_pass(&rows, &ground.options).await;
        let work = async |options| {
            again(&Rows::connect(options, 3).await.unwrap()).await.unwrap();
        };
        let died = dies(cuts, &ground.options, work).await;
        assert_eq!(dump(&rows).await, before, "the live copy serves after request {cuts}");
        assert!(again(&rows).await.unwrap().swapped);
        assert_eq!(dump(&rows).await, before, "after request {cuts}");
        let copies = rows.copies().await.unwrap();
        assert!(copies.iter().all(|copy| copy.state != "building"), "{copies:?}");
        if !died {
            break;
        }
        cuts += 1;
    }
    assert!(cuts > 30, "only {cuts} requests");
    rows.close().await;
}

#[tokio::test]
async fn a_verification_that_dies_at_any_step_leaves_nothing_in_the_way_of_the_next() {
    let tale = Tale::begin().await;
    let Some((ground, rows)) = settled(&tale).await else { return };
    let again = async |rows: &Rows| -> Result<bool, ReplayError> {
        Ok(verify(&tale.log, &Arc::new(RowsProjector), rows, |_| {}).await?.equal())
    };
    let mut cuts = 0;
    while dies(cuts, &ground.options, async |options| {
        again(&Rows::connect(options, 3).await.unwrap()).await.unwrap();
    })
    .await
    {
        if cuts % 5 == 0 {
            assert!(again(&rows).await.unwrap(), "after request {cuts}");
            assert_eq!(rows.copies().await.unwrap().len(), 1);
        }
        cuts += 1;
    }
    assert!(cuts > 30, "only {cuts} requests");
    rows.close().await;
}
