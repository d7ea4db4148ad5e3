//! The copy that serves: followed, rebuilt, verified, stopped and taken over.

use std::sync::Arc;
use std::time::Duration;

use events::StreamName;
use events::house as h;
use events::thread as t;
use postgres_rows::RowsProjector;
use projector::{
    Checkpoint, Copies, Dropped, Live, Pace, Projector, RunState, Runner, Sink, SinkError, Span, Until, rebuild, verify,
};

use crate::house::Town;
use crate::postgres::database;
use crate::running::{PACE, live_sums, run};
use crate::story::{Story, house, in_house, in_thread, thread};

#[tokio::test]
async fn rebuilding_gives_what_following_gave() {
    let Some(db) = database().await else { return };
    let mut story = Story::new().await;
    let running = run(&story.log, &db.rows);
    let mut town = Town::settle(1, &mut story).await;
    let position = town.live(&mut story, 500).await;
    running.reaches(position).await;
    let (followed_to, followed) = live_sums(&db.rows).await;

    let rebuilt = rebuild(&story.log, &Arc::new(RowsProjector), &db.rows, Until::Head, |_| {}).await.expect("a rebuild");
    assert!(rebuilt.swapped);
    assert_eq!(rebuilt.checkpoint.cursor, followed_to.cursor);
    assert_eq!(live_sums(&db.rows).await.1, followed);

    let report = verify(&story.log, &Arc::new(RowsProjector), &db.rows, |_| {}).await.expect("a report");
    assert!(report.equal(), "{report:?}");
    let next = town.live(&mut story, 20).await;
    running.reaches(next).await;
}

#[tokio::test]
async fn committing_a_span_twice_leaves_the_same_as_once() {
    let Some(db) = database().await else { return };
    let mut story = Story::new().await;
    let position = story.tell([in_house(0, h::Created { house_id: house(0), name: "one".into() })]).await;
    let running = run(&story.log, &db.rows);
    running.reaches(position).await;
    drop(running);
    let (checkpoint, sums) = live_sums(&db.rows).await;
    let Live::Current(mut sink) = db.rows.live().await.expect("a copy") else { panic!("another version") };
    let again = sink.commit(&Span { from: Checkpoint::default(), to: checkpoint }, Vec::new()).await;
    assert!(matches!(again, Err(SinkError::Moved)));
    assert_eq!(live_sums(&db.rows).await, (checkpoint, sums));
}

#[tokio::test]
async fn writes_go_on_while_a_copy_is_rebuilt_and_the_watermark_never_goes_back() {
    let Some(db) = database().await else { return };
    let mut story = Story::new().await;
    let running = run(&story.log, &db.rows);
    let mut town = Town::settle(2, &mut story).await;
    town.live(&mut story, 200).await;
    let mut watermark = running.monitor.watermark();
    let watching = tokio::spawn(async move {
        let mut last = 0;
        while watermark.reached(last + 1, Duration::from_secs(4)).await {
            assert!(watermark.position() > last);
            last = watermark.position();
        }
        last
    });
    let (log, rows) = (story.log.clone(), db.rows.clone());
    let rebuilding = tokio::spawn(async move { rebuild(&log, &Arc::new(RowsProjector), &rows, Until::Head, |_| {}).await });
    let mut position = 0;
    while !rebuilding.is_finished() {
        position = town.live(&mut story, 5).await;
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    rebuilding.await.expect("no panic").expect("a rebuild");
    position = position.max(town.live(&mut story, 20).await);
    running.reaches(position).await;
    assert_eq!(watching.await.expect("it only rises"), position);
    let report = verify(&story.log, &Arc::new(RowsProjector), &db.rows, |_| {}).await.expect("a report");
    assert!(report.equal(), "{report:?}");
}

#[tokio::test]
async fn no_copy_becomes_the_live_one_while_another_is_put_in_place() {
    let Some(db) = database().await else { return };
    let mut copy = db.rows.beside("rebuild").await.expect("a copy");
    let (hold, at) = db.rows.hold().await.expect("a hold");
    assert_eq!(at, Checkpoint::default(), "nothing is live yet");
    let rows = db.rows.clone();
    let first = tokio::spawn(async move { rows.live().await });
    tokio::time::sleep(Duration::from_millis(300)).await;
    assert!(!first.is_finished(), "whoever would make the first live copy waits");
    db.rows.swap(hold, &mut copy).await.expect("a swap");
    let Live::Current(found) = first.await.expect("no panic").expect("a copy") else { panic!("another version") };
    assert_eq!(db.rows.address(&found), db.rows.address(&copy));
}

#[tokio::test]
async fn an_event_nobody_knows_stops_the_projection_and_the_rows_serve_on() {
    let Some(db) = database().await else { return };
    let mut story = Story::new().await;
    let mut town = Town::settle(3, &mut story).await;
    let good = town.live(&mut story, 50).await;
    let odd = r#"{"id":"01ARZ3NDEKTSV4RRFFQ69G5FAV","ts":1,"type":"signal.thread.exploded","v":1,"payload":{}}"#;
    let stream = StreamName::House(house(0)).to_string();
    story.write(vec![(stream.clone(), vec![odd.into()])]).await;
    story.tell([in_house(0, h::Renamed { name: "never seen".into() })]).await;

    let mut running = run(&story.log, &db.rows);
    let stop = (&mut running.task).await.expect("no panic");
    assert_eq!((stop.stream.as_str(), stop.kind.as_str(), stop.position), (stream.as_str(), "signal.thread.exploded", good + 1));
    let status = running.monitor.status(story.log.position());
    assert_eq!((status.state, status.position, status.lag), (RunState::Stopped { stop }, good, 2));
    let mut tx = db.rows.read(&house(0)).await.expect("rows");
    let name: String = sqlx::query_scalar("select name from houses").fetch_one(&mut *tx).await.expect("a house");
    assert_ne!(name, "never seen");
    let noted = db.rows.copies().await.expect("copies")[0].stopped.clone().expect("a note");
    assert!(noted.contains("signal.thread.exploded"), "{noted}");
}

#[tokio::test]
async fn an_event_the_rows_refuse_is_named_and_what_came_before_it_is_kept() {
    let Some(db) = database().await else { return };
    let mut story = Story::new().await;
    let mut town = Town::settle(4, &mut story).await;
    let good = town.live(&mut story, 30).await;
    let stray = t::Renamed { name: Some("of no thread".into()) };
    story.tell([in_house(0, h::Renamed { name: "half".into() }), in_thread(9999, stray)]).await;
    let mut running = run(&story.log, &db.rows);
    let stop = (&mut running.task).await.expect("no panic");
    assert_eq!((stop.stream, stop.seq), (StreamName::Thread(thread(9999)).to_string(), 0));
    assert_eq!(running.monitor.status(0).position, good);
    let mut tx = db.rows.read(&house(0)).await.expect("rows");
    let name: String = sqlx::query_scalar("select name from houses").fetch_one(&mut *tx).await.expect("a house");
    assert_ne!(name, "half");
}

#[tokio::test]
async fn a_copy_of_another_history_is_built_anew() {
    let Some(db) = database().await else { return };
    let mut first = Story::new().await;
    let mut town = Town::settle(5, &mut first).await;
    let position = town.live(&mut first, 60).await;
    let running = run(&first.log, &db.rows);
    running.reaches(position).await;
    drop(running);

    let mut second = Story::new().await;
    let position = second.tell([in_house(7, h::Created { house_id: house(7), name: "elsewhere".into() })]).await;
    let running = run(&second.log, &db.rows);
    let patience = tokio::time::timeout(Duration::from_secs(20), async {
        loop {
            let status = running.monitor.status(position);
            if status.state == RunState::Active && status.position == position {
                return;
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    });
    patience.await.expect("a new copy");
    let mut tx = db.rows.read_all().await.expect("rows");
    let houses: Vec<String> = sqlx::query_scalar("select id from houses").fetch_all(&mut *tx).await.expect("houses");
    assert_eq!(houses, ["h7"]);
}

#[tokio::test]
async fn a_copy_of_an_older_version_serves_until_one_of_this_version_takes_its_place() {
    let Some(db) = database().await else { return };
    let mut story = Story::new().await;
    let mut town = Town::settle(9, &mut story).await;
    let position = town.live(&mut story, 60).await;
    let running = run(&story.log, &db.rows);
    running.reaches(position).await;
    drop(running);
    let (_, sums) = live_sums(&db.rows).await;
    let mut tx = db.rows.read_all().await.expect("rows");
    let older = "set local role none; update arbe.copies set version = version - 1 where state = 'live'";
    sqlx::raw_sql(older).execute(&mut *tx).await.expect("an update");
    tx.commit().await.expect("a commit");
    assert!(matches!(db.rows.live().await.expect("a copy"), Live::Outdated { version } if version + 1 == RowsProjector::VERSION));
    db.rows.read(&house(0)).await.expect("rows to read meanwhile");

    let running = run(&story.log, &db.rows);
    running.reaches(position).await;
    let copies = db.rows.copies().await.expect("copies");
    let states: Vec<_> = copies.iter().map(|copy| (copy.version as u32, copy.state.as_str())).collect();
    assert_eq!(states, [(RowsProjector::VERSION - 1, "retired"), (RowsProjector::VERSION, "live")]);
    assert_eq!(live_sums(&db.rows).await.1, sums);
}

#[tokio::test]
async fn one_runner_is_active_and_another_takes_over_when_it_is_gone() {
    let Some(db) = database().await else { return };
    let mut story = Story::new().await;
    let mut town = Town::settle(6, &mut story).await;
    let position = town.live(&mut story, 20).await;
    let first = run(&story.log, &db.rows);
    first.reaches(position).await;
    let second = run(&story.log, &db.rows);
    let position = town.live(&mut story, 50).await;
    second.reaches(position).await;
    assert_eq!(second.monitor.status(position).state, RunState::Passive);
    assert_eq!(second.monitor.status(position).events, 0);
    drop(first);
    let position = town.live(&mut story, 50).await;
    second.reaches(position).await;
    assert_eq!(second.monitor.status(position).state, RunState::Active);
    let report = verify(&story.log, &Arc::new(RowsProjector), &db.rows, |_| {}).await.expect("a report");
    assert!(report.equal(), "{report:?}");
}

#[tokio::test]
async fn a_runner_that_holds_its_claim_but_is_silent_is_taken_over_and_steps_back() {
    let Some(db) = database().await else { return };
    let mut story = Story::new().await;
    let Live::Current(mut silent) = db.rows.live().await.expect("a copy") else { panic!("another version") };
    assert!(silent.claim().await.expect("a claim"));
    let from = silent.checkpoint().await.expect("a checkpoint");
    let mut town = Town::settle(7, &mut story).await;
    let position = town.live(&mut story, 10).await;
    let pace = Pace { patience: Duration::from_millis(200), ..PACE };
    let runner = Runner::new(story.log.clone(), Arc::new(RowsProjector), db.rows.clone(), pace);
    let mut watermark = runner.monitor().watermark();
    let task = tokio::spawn(async move { runner.run().await });
    assert!(watermark.reached(position, Duration::from_secs(10)).await);
    let late = silent.commit(&Span { from, to: from }, Vec::new()).await;
    assert!(matches!(late, Err(SinkError::Moved)));
    task.abort();
}

#[tokio::test]
async fn a_copy_of_the_past_is_what_the_rows_were_then() {
    let Some(db) = database().await else { return };
    let mut story = Story::new().await;
    let mut town = Town::settle(8, &mut story).await;
    let then = town.live(&mut story, 100).await;
    let running = run(&story.log, &db.rows);
    running.reaches(then).await;
    let (_, sums) = live_sums(&db.rows).await;
    let now = town.live(&mut story, 100).await;
    running.reaches(now).await;
    let mut seen = 0;
    let past = rebuild(&story.log, &Arc::new(RowsProjector), &db.rows, Until::Position(then), |p| seen = p.position).await;
    let past = past.expect("a copy");
    assert_eq!((past.swapped, past.checkpoint.position(), seen), (false, then, then));
    assert_eq!(db.rows.sums_of(&past.address).await.expect("sums"), sums);
    let mut building = db.rows.beside("another").await.expect("a copy");
    assert!(building.claim().await.expect("a claim"));
    let copies = db.rows.copies().await.expect("copies");
    let live = copies.iter().find(|copy| copy.state == "live").expect("a live copy");
    for (schema, dropped) in [
        (live.schema.as_str(), Dropped::Live),
        (db.rows.address(&building).as_str(), Dropped::Busy),
        ("arbe", Dropped::Unknown),
        (past.address.as_str(), Dropped::Gone),
        (past.address.as_str(), Dropped::Unknown),
    ] {
        assert_eq!(db.rows.drop_copy(schema).await.expect("an answer"), dropped, "{schema}");
    }
    assert_ne!(live_sums(&db.rows).await.1, sums);
}

#[tokio::test]
async fn tables_that_other_hands_drop_are_named_and_a_rebuild_brings_them_back() {
    let Some(db) = database().await else { return };
    let mut story = Story::new().await;
    let position = story.tell([in_house(0, h::Created { house_id: house(0), name: "one".into() })]).await;
    let running = run(&story.log, &db.rows);
    running.reaches(position).await;
    assert_eq!(db.rows.damage().await.expect("an answer"), None);
    for (statement, named) in
        [("drop table rows_v2_1.threads cascade", "threads in"), ("drop schema rows_v2_1 cascade", "everything in")]
    {
        let mut tx = db.rows.read_all().await.expect("rows");
        for statement in ["set local role none", statement] {
            sqlx::raw_sql(statement).execute(&mut *tx).await.expect("a drop");
        }
        tx.commit().await.expect("a commit");
        let damage = db.rows.damage().await.expect("an answer").expect("damage");
        assert!(damage.starts_with(&format!("{named} schema rows_v2_1 is gone")), "{damage}");
        let report = verify(&story.log, &Arc::new(RowsProjector), &db.rows, |_| {}).await.expect("a report");
        let lost = report.tables.iter().filter(|table| table.live.is_none()).count();
        assert_eq!((report.equal(), lost), (false, if named == "threads in" { 1 } else { report.tables.len() }));
    }
    rebuild(&story.log, &Arc::new(RowsProjector), &db.rows, Until::Head, |_| {}).await.expect("a copy");
    assert_eq!(db.rows.damage().await.expect("an answer"), None);
    assert!(verify(&story.log, &Arc::new(RowsProjector), &db.rows, |_| {}).await.expect("a report").equal());
}

#[tokio::test]
async fn a_change_to_a_row_by_other_hands_is_found_by_verify() {
    let Some(db) = database().await else { return };
    let mut story = Story::new().await;
    let position = story.tell([in_house(0, h::Created { house_id: house(0), name: "one".into() })]).await;
    let running = run(&story.log, &db.rows);
    running.reaches(position).await;
    let mut tx = db.rows.read_all().await.expect("rows");
    sqlx::query("update houses set name = 'other'").execute(&mut *tx).await.expect("an update");
    tx.commit().await.expect("a commit");
    let report = verify(&story.log, &Arc::new(RowsProjector), &db.rows, |_| {}).await.expect("a report");
    let differ: Vec<_> = report.tables.iter().filter(|table| table.live != table.replayed).map(|t| t.table.as_str()).collect();
    assert_eq!(differ, ["houses"]);
}
