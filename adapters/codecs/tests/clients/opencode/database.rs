use std::path::Path;

use codecs::artifact::Body;
use codecs::check;
use codecs::opencode::rows::{Fresh, Written, write};
use codecs::value::Value;
use rusqlite::Connection;

use super::{assert_survives, bundles, codec, fixtures, parse, recorded, told};

fn recorded_database() -> tempfile::TempDir {
    recorded(&fixtures("opencode").join("1.18.33"))
}

fn change(home: &Path, sql: &str) {
    Connection::open(home.join("opencode.db")).unwrap().execute_batch(sql).unwrap();
}

fn listing(home: &Path) -> Vec<(String, u64)> {
    let entries = std::fs::read_dir(home).unwrap().map(|it| it.unwrap());
    let mut listing: Vec<_> = entries.map(|it| (it.file_name().into_string().unwrap(), it.metadata().unwrap().len())).collect();
    listing.sort();
    listing
}

fn rows(home: &Path) -> Vec<(String, Value)> {
    let [bundle] = bundles(home).try_into().unwrap();
    let contents = check::parse(codec(), &bundle).unwrap();
    let restored =
        check::lineages(contents.sessions).iter().flat_map(|it| codec().serialize.native(it).unwrap()).collect::<Vec<_>>();
    restored.into_iter().flat_map(|it| if let Body::Rows(rows) = it.body { rows } else { Vec::new() }).collect()
}

#[test]
fn accounts_credentials_and_the_event_log_are_never_read() {
    let home = recorded_database();
    change(
        home.path(),
        "CREATE TABLE account (id text, access_token text, session_id text); INSERT INTO account VALUES ('a', 'tok-secret', 's');
         CREATE TABLE credential (id text, value text); INSERT INTO credential VALUES ('c', 'tok-secret');
         CREATE TABLE control_account (email text, access_token text); INSERT INTO control_account VALUES ('e', 'tok-secret');
         CREATE TABLE event (id text, data text); INSERT INTO event VALUES ('e', 'tok-secret')",
    );
    let contents = parse(home.path());
    assert!(!contents.sessions.is_empty() && contents.faults.is_empty());
    assert!(!format!("{contents:?}").contains("tok-secret"));
    let [bundle] = bundles(home.path()).try_into().unwrap();
    assert!(!format!("{:?}", codec().parse.originals(&bundle)).contains("tok-secret"));
}

#[test]
fn rows_that_stand_only_in_the_log_are_read_and_nothing_is_written_beside() {
    let home = recorded_database();
    let quiet = listing(home.path());
    let before = parse(home.path()).sessions;
    assert_eq!(listing(home.path()), quiet);

    let writer = Connection::open(home.path().join("opencode.db")).unwrap();
    writer
        .execute_batch("PRAGMA journal_mode = WAL; UPDATE session SET title = 'Renamed', time_updated = time_updated + 1")
        .unwrap();
    let open = listing(home.path());
    assert!(open.iter().any(|(name, bytes)| name == "opencode.db-wal" && *bytes > 0), "{open:?}");
    let [bundle] = bundles(home.path()).try_into().unwrap();
    assert_eq!(bundle.files.len(), 2);
    let after = parse(home.path()).sessions;
    assert_eq!(listing(home.path()), open);
    assert_ne!(before, after);
    assert!(format!("{after:?}").contains("Renamed"));
}

#[test]
fn a_restored_database_is_one_that_opencode_opens_and_restoring_again_writes_over_nothing() {
    let home = recorded_database();
    let rows = rows(home.path());
    let fresh = tempfile::tempdir().unwrap();
    let path = fresh.path().join("opencode.db");
    let distinct = 49 + 20 + 2 + 1 + 1 + 1;
    let written = write(&path, &rows, Fresh::Client).unwrap();
    assert_eq!((written.inserted, written.unfit.len()), (distinct, 0));
    assert_eq!(parse(fresh.path()).sessions, parse(home.path()).sessions);
    let migrations: i64 =
        Connection::open(&path).unwrap().query_row("SELECT count(*) FROM migration", [], |row| row.get(0)).unwrap();
    assert!(migrations > 30);

    change(fresh.path(), "UPDATE session SET title = 'Mine'");
    let again = write(&path, &rows, Fresh::Client).unwrap();
    assert_eq!(again, Written { inserted: 0, present: written.inserted + written.present, unfit: Vec::new() });
    assert!(parse(fresh.path()).sessions.iter().all(|(session, _)| session.options["source"].get().contains("Mine")));
}

#[test]
fn a_row_for_which_a_database_has_no_column_is_said_and_the_others_are_written() {
    let home = recorded_database();
    change(home.path(), "ALTER TABLE part ADD COLUMN aura text; UPDATE part SET aura = 'blue' WHERE rowid = 1");
    assert_survives(home.path());
    let fresh = tempfile::tempdir().unwrap();
    let written = write(&fresh.path().join("opencode.db"), &rows(home.path()), Fresh::Client).unwrap();
    assert_eq!(written.unfit, ["part.aura"]);
    assert!(written.inserted > 60);
}

/// `adapter-integrity-no-silent-drops`: the row's number is where it is found, and the row is carried as it stands.
#[test]
fn a_row_that_holds_no_json_is_a_fault_with_its_place_and_is_carried() {
    let home = recorded_database();
    let count = |home: &Path| parse(home).sessions.iter().map(|it| told(&it.1).len()).sum::<usize>();
    let before = count(home.path());
    change(
        home.path(),
        "UPDATE message SET data = '{\"role\": oops' WHERE rowid = 1; UPDATE part SET data = 'gone' WHERE rowid = 4",
    );
    let contents = parse(home.path());
    let faults: Vec<_> = contents.faults.iter().map(ToString::to_string).collect();
    assert_eq!(faults.len(), 2, "{faults:?}");
    assert!(faults[0].starts_with("opencode: opencode.db#message:1: not JSON"), "{faults:?}");
    assert!(faults[1].starts_with("opencode: opencode.db#part:4: not JSON"), "{faults:?}");
    assert_eq!(count(home.path()), before - 1);
    assert_survives(home.path());
}

#[test]
fn a_file_that_is_no_database_is_a_fault() {
    let home = tempfile::tempdir().unwrap();
    super::write(home.path(), "opencode.db", "this is not a database, whatever it is called");
    let contents = parse(home.path());
    assert!(contents.faults[0].to_string().starts_with("opencode: opencode.db: cannot be read"), "{:?}", contents.faults);
}

#[test]
fn a_tree_that_was_moved_into_the_database_is_left_to_the_database() {
    let home = recorded_database();
    let sessions = parse(home.path()).sessions;
    let id = sessions[0].0.id.as_str();
    super::write(home.path(), &format!("storage/session/p/{id}.json"), super::session(id, serde_json::json!({})));
    super::write(home.path(), &format!("storage/session_diff/{id}.json"), "[]");
    super::write(home.path(), "storage/session/p/ses_old.json", super::session("ses_old", serde_json::json!({})));
    let found = bundles(home.path());
    let files: Vec<Vec<_>> =
        found.iter().map(|it| it.files.iter().map(|it| it.to_string_lossy().into_owned()).collect()).collect();
    let diff = format!("storage/session_diff/{id}.json");
    assert_eq!(files, [vec!["opencode.db", &diff], vec!["storage/session/p/ses_old.json"]]);
    assert_survives(home.path());
}

#[test]
fn a_session_that_hangs_on_a_child_and_two_that_hang_on_each_other_stand_alone() {
    let home = recorded_database();
    let columns = "project_id, slug, directory, title, version, time_created, time_updated";
    for (id, parent) in [("'ses_deep'", "id"), ("'ses_one'", "'ses_two'"), ("'ses_two'", "'ses_one'")] {
        change(
            home.path(),
            &format!(
                "INSERT INTO session (id, parent_id, {columns}) SELECT {id}, {parent}, {columns} FROM session WHERE parent_id IS NOT NULL LIMIT 1"
            ),
        );
    }
    assert_eq!(parse(home.path()).sessions.len(), 5);
    assert_survives(home.path());
}
