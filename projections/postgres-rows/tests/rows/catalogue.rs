//! `migrations/README.md` against a migrated database: neither says more than the other.

use std::collections::{BTreeMap, BTreeSet};

use sqlx::FromRow;
use sqlx::postgres::PgRow;

use crate::postgres::Database;
use crate::rules::{forbidden, settled};

const README: &str = include_str!("../../../../migrations/README.md");

/// The rows of the table under a heading, as cells without their quotes.
fn table(heading: &str) -> Vec<Vec<&'static str>> {
    let (_, section) = README.split_once(&format!("\n## {heading}\n")).expect(heading);
    let section = section.split("\n## ").next().unwrap_or_default();
    let lines = section.lines().filter(|line| line.starts_with("| ")).skip(2);
    lines.map(|line| line.trim_matches('|').split(" | ").map(|cell| cell.trim().trim_matches('`')).collect()).collect()
}

async fn query<T: for<'r> FromRow<'r, PgRow> + Send + Unpin>(db: &Database, sql: &'static str) -> Vec<T> {
    let mut tx = db.rows.read_all().await.expect("a transaction");
    sqlx::query_as(sql).fetch_all(&mut *tx).await.expect(sql)
}

#[tokio::test]
async fn every_constraint_has_a_line_and_a_case() {
    let Some((db, _story, _running)) = settled().await else { return };
    let made: Vec<(String, String, String)> = query(
        &db,
        "select conname::text, contype::text, pg_get_constraintdef(oid) from pg_constraint
        where connamespace = current_schema()::regnamespace and contype in ('c', 'f', 'p', 'u', 'x')
        union all
        select indexname::text, 'u', 'UNIQUE ' || split_part(indexdef, ' USING btree ', 2) from pg_indexes
        where schemaname = current_schema() and indexdef like '%UNIQUE%WHERE%'",
    )
    .await;
    let lines = table("Constraints");
    let said: BTreeMap<&str, &str> = lines.iter().map(|line| (line[0], line[1])).collect();
    assert_eq!(said.len(), lines.len(), "a line per constraint");
    let names: BTreeSet<&str> = made.iter().map(|(name, ..)| name.as_str()).collect();
    assert_eq!(names, said.keys().copied().collect());
    let tried = forbidden();
    assert_eq!(names, tried.iter().map(|(name, _)| *name).collect());
    for (name, kind, definition) in &made {
        assert!(kind == "c" || said[name.as_str()] == definition, "{name}: {definition}");
    }
}

#[tokio::test]
async fn every_column_that_is_never_null_has_its_origin() {
    let Some((db, _story, _running)) = settled().await else { return };
    let made: Vec<(String, String)> = query(
        &db,
        "select c.relname::text, a.attname::text from pg_attribute a join pg_class c on c.oid = a.attrelid
        where c.relnamespace = current_schema()::regnamespace and c.relkind = 'r' and a.attnum > 0 and a.attnotnull",
    )
    .await;
    let mut said = BTreeSet::new();
    for line in table("Columns that are never null") {
        for column in line[1..].iter().flat_map(|cell| cell.split(", ")).filter(|column| *column != "none") {
            assert!(said.insert((line[0].to_owned(), column.to_owned())), "{} {column} twice", line[0]);
        }
    }
    assert_eq!(said, made.into_iter().collect());
}

#[tokio::test]
async fn every_policy_has_a_line_and_every_table_forces_them() {
    let Some((db, _story, _running)) = settled().await else { return };
    let made: Vec<(String, String, String, String)> = query(
        &db,
        "select tablename || '.' || policyname, cmd, array_to_string(roles, ','), permissive from pg_policies
        where schemaname = current_schema()",
    )
    .await;
    assert!(made.iter().all(|(.., permissive)| permissive == "PERMISSIVE"), "{made:?}");
    let made: BTreeSet<[&str; 3]> = made.iter().map(|(name, cmd, roles, _)| [name.as_str(), cmd, roles]).collect();
    let lines = table("Row level security");
    assert_eq!(made, lines.iter().map(|line| [line[0], line[1], line[2]]).collect());
    let free: Vec<(String,)> = query(
        &db,
        "select relname::text from pg_class where relnamespace = current_schema()::regnamespace and relkind in ('r', 'p', 'm')
        and not (relrowsecurity and relforcerowsecurity)",
    )
    .await;
    assert_eq!(free, []);
}

#[tokio::test]
async fn every_index_has_a_line() {
    let Some((db, _story, _running)) = settled().await else { return };
    let made: Vec<(String, String)> = query(
        &db,
        "select tablename::text, split_part(indexdef, ' USING ', 2) from pg_indexes where schemaname = current_schema()
        and indexdef not like '%UNIQUE%WHERE%'
        and indexname not in (select conname from pg_constraint where connamespace = current_schema()::regnamespace)",
    )
    .await;
    let lines = table("Access paths");
    let said: BTreeSet<_> = lines.iter().map(|line| (line[0].to_owned(), line[1].to_owned())).collect();
    assert_eq!(said, made.into_iter().collect());
}

/// A rebuilt row is the row that was: nothing in it is drawn or stamped by the database.
#[tokio::test]
async fn no_default_and_no_trigger_makes_a_value_of_its_own() {
    let Some((db, _story, _running)) = settled().await else { return };
    let defaults: Vec<(String,)> = query(
        &db,
        "select pg_get_expr(d.adbin, d.adrelid) from pg_attrdef d join pg_class c on c.oid = d.adrelid
        where c.relnamespace = current_schema()::regnamespace",
    )
    .await;
    assert!(!defaults.is_empty() && defaults.iter().all(|(value,)| value.starts_with('\'')), "{defaults:?}");
    let triggers: Vec<(String,)> = query(
        &db,
        "select t.tgname::text from pg_trigger t join pg_class c on c.oid = t.tgrelid
        where c.relnamespace = current_schema()::regnamespace and not t.tgisinternal",
    )
    .await;
    assert_eq!(triggers, []);
}

#[tokio::test]
async fn the_two_roles_own_nothing_and_cannot_go_around_the_policies() {
    let Some((db, _story, _running)) = settled().await else { return };
    let roles: Vec<(String, bool, bool, bool)> = query(
        &db,
        "select rolname::text, rolsuper, rolbypassrls, rolcanlogin from pg_roles
        where rolname in ('arbe_projector', 'arbe_reader') order by 1",
    )
    .await;
    let bound = |name: &str| (name.to_owned(), false, false, false);
    assert_eq!(roles, [bound("arbe_projector"), bound("arbe_reader")]);
    let owned: Vec<(String,)> =
        query(&db, "select relname::text from pg_class where pg_get_userbyid(relowner) in ('arbe_reader', 'arbe_projector')")
            .await;
    assert_eq!(owned, []);
}
