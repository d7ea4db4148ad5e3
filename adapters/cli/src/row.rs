//! Rows of the API as people read them.

use jiff::Timestamp;
use jiff::tz::TimeZone;
use serde_json::Value;

use crate::output::{clean, list, table};

/// A title, and where the value is: `a.b` goes deeper, `@` in front means a time, `~` how long ago it was, `#` a number without its
/// fraction.
pub(crate) type Column = (&'static str, &'static str);

pub(crate) fn cell(row: &Value, place: &str) -> String {
    let bare = place.trim_start_matches(['@', '~', '#']);
    let value = bare.split('.').fold(row, |value, key| &value[key]);
    match place.chars().next() {
        Some('@') => moment(value, |moment| local(moment, TimeZone::system())),
        Some('~') => moment(value, |moment| ago(moment, now())),
        Some('#') => value.as_f64().map_or_else(String::new, |number| format!("{number:.0}")),
        _ => text(value),
    }
}

fn text(value: &Value) -> String {
    match value {
        Value::Null => String::new(),
        Value::Bool(yes) => if *yes { "yes" } else { "no" }.to_owned(),
        Value::Number(number) => number.to_string(),
        Value::String(text) => clean(text),
        Value::Array(items) => items.iter().map(text).collect::<Vec<_>>().join(","),
        Value::Object(_) => clean(&value.to_string()),
    }
}

fn moment(value: &Value, tell: impl FnOnce(Timestamp) -> String) -> String {
    let parsed = match value {
        Value::Number(ms) => ms.as_i64().and_then(|ms| Timestamp::from_millisecond(ms).ok()),
        Value::String(text) => text.parse().ok(),
        Value::Null | Value::Bool(_) | Value::Array(_) | Value::Object(_) => None,
    };
    parsed.map_or_else(|| text(value), tell)
}

#[expect(clippy::disallowed_methods, reason = "for people, who read how old something is")]
fn now() -> Timestamp {
    Timestamp::now()
}

/// In the largest unit that fits, rounded down. The clock of a server may be ahead of ours.
fn ago(moment: Timestamp, now: Timestamp) -> String {
    let seconds = now.duration_since(moment).as_secs().max(0);
    let units = [(86_400, "day"), (3_600, "hour"), (60, "minute"), (1, "second")];
    let (size, unit) = units.into_iter().find(|(size, _)| seconds >= *size).unwrap_or((1, "second"));
    let count = seconds / size;
    format!("{count} {unit}{} ago", if count == 1 { "" } else { "s" })
}

pub(crate) fn local(moment: Timestamp, zone: TimeZone) -> String {
    moment.to_zoned(zone).strftime("%Y-%m-%d %H:%M:%S").to_string()
}

pub(crate) fn rows(columns: &[Column], rows: &[Value]) -> String {
    let titles: Vec<&str> = columns.iter().map(|(title, _)| *title).collect();
    let cells = |row: &Value| columns.iter().map(|(_, place)| cell(row, place)).collect();
    table(&titles, &rows.iter().map(cells).collect::<Vec<_>>())
}

/// One row, downwards, without what it does not have.
pub(crate) fn one(columns: &[Column], row: &Value) -> String {
    let cells = columns.iter().map(|(title, place)| (*title, cell(row, place)));
    list(&cells.filter(|(_, value)| !value.is_empty()).collect::<Vec<_>>())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_cell_is_what_is_there_or_nothing() {
        let row = json!({"id": "t1", "agent": {"name": "a\u{1b}b"}, "tags": ["x", "y"], "name": null, "pinned": true, "n": 7.5});
        for (place, expected) in [
            ("id", "t1"),
            ("agent.name", "a\u{fffd}b"),
            ("tags", "x,y"),
            ("name", ""),
            ("missing.deeper", ""),
            ("@name", ""),
            ("pinned", "yes"),
            ("n", "7.5"),
            ("#n", "8"),
        ] {
            assert_eq!(cell(&row, place), expected, "{place}");
        }
    }

    #[test]
    fn times_are_local_whether_text_or_milliseconds() {
        let moment = Timestamp::from_millisecond(1_794_817_238_000).unwrap();
        assert_eq!(local(moment, TimeZone::UTC), "2026-11-16 08:20:38");
        let row = json!({"a": 1_794_817_238_000_u64, "b": "2026-11-16T08:20:38Z", "c": "soon"});
        assert_eq!(cell(&row, "@a"), cell(&row, "@b"));
        assert_eq!(cell(&row, "@c"), "soon");
    }

    #[test]
    fn an_age_is_told_in_its_largest_unit() {
        let now = Timestamp::from_millisecond(1_794_817_238_000).unwrap();
        for (seconds, expected) in [
            (-5, "0 seconds ago"),
            (0, "0 seconds ago"),
            (1, "1 second ago"),
            (119, "1 minute ago"),
            (7_200, "2 hours ago"),
            (86_399, "23 hours ago"),
            (40 * 86_400, "40 days ago"),
        ] {
            assert_eq!(ago(now - jiff::SignedDuration::from_secs(seconds), now), expected);
        }
        assert!(cell(&json!({"a": "2000-01-01T00:00:00Z"}), "~a").ends_with(" days ago"));
        assert_eq!(cell(&json!({"a": "soon"}), "~a") + &cell(&json!({}), "~a"), "soon");
    }

    #[test]
    fn rows_make_a_table_and_one_row_a_list() {
        let columns: &[Column] = &[("ID", "id"), ("N", "n"), ("NAME", "name")];
        let data = [json!({"id": "a", "n": 1, "name": "first"}), json!({"id": "bcd", "n": 22})];
        assert_eq!(rows(columns, &data), "ID   N   NAME\na     1  first\nbcd  22\n");
        assert_eq!(one(columns, &data[1]), "ID  bcd\nN   22\n");
    }
}
