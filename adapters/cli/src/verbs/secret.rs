//! `arbe secret …`

use std::io::{IsTerminal, Read};

use anyhow::Context;
use commands::secrets::is_reserved;
use reqwest::Method;
use serde_json::{Value, json};
use zeroize::Zeroizing;

use super::Platform;
use crate::args::SecretVerb;
use crate::client::{Answer, CallError};
use crate::output::{NotFound, Usage, note};
use crate::row::{Column, cell};

mod unseen;

const COLUMNS: &[Column] = &[
    ("NAME", "name"),
    ("ROTATED", "~rotated_at"),
    ("SECRET", "secret_id"),
    ("HOUSE", "house_id"),
    ("BOUND BY", "bound_by"),
    ("CREATED", "@created_at"),
    ("BY", "author_id"),
];

/// Bytes, as the server has it.
const VALUE_MAX: usize = 64 << 10;

pub(super) async fn run(platform: &Platform, verb: SecretVerb) -> anyhow::Result<()> {
    match verb {
        SecretVerb::List(limit) => {
            let house = platform.house().await?;
            platform.list(&["secrets"], vec![("house", house)], limit.limit, COLUMNS).await
        }
        SecretVerb::View(one) => {
            let house = platform.house().await?;
            let id = named(platform, &house, &one.name).await?;
            platform.show(&["secrets", &id], COLUMNS).await
        }
        SecretVerb::Set(one) => set(platform, &one.name).await,
        SecretVerb::Delete(one) => {
            let house = platform.house().await?;
            let id = named(platform, &house, &one.name).await?;
            let answer = platform.change(Method::DELETE, &["secrets", &id], ()).await?;
            platform.done(&answer, "deleted, and its value forgotten")
        }
    }
}

async fn find(platform: &Platform, house: &str, name: &str) -> anyhow::Result<Option<String>> {
    let query = vec![("house", house.to_owned()), ("name", name.to_owned())];
    let found = platform.items(&["secrets"], query, Some(1)).await?;
    let Some(row) = found.first() else { return Ok(None) };
    Ok(Some(cell(&serde_json::from_str::<Value>(row.get())?, "secret_id")))
}

async fn named(platform: &Platform, house: &str, name: &str) -> anyhow::Result<String> {
    find(platform, house, name).await?.ok_or_else(|| NotFound(format!("the house has no secret {name}")).into())
}

/// A name that is there gets the value, one that is not is made. Somebody else may be faster, and an earlier try of this very command may
/// have done it already: then it is the other of the two.
async fn set(platform: &Platform, name: &str) -> anyhow::Result<()> {
    let value = value(name)?;
    let house = platform.house().await?;
    let found = find(platform, &house, name).await?;
    let tried = match &found {
        Some(id) => rotate(platform, id, &value).await,
        None => create(platform, &house, name, &value).await,
    };
    let (answer, made) = match (tried, found) {
        (Err(error), Some(_)) if is(&error, "idempotency_key_reused") => (create(platform, &house, name, &value).await?, true),
        (Err(error), None) if is(&error, "name_taken") => {
            (rotate(platform, &named(platform, &house, name).await?, &value).await?, false)
        }
        (tried, found) => (tried?, found.is_none()),
    };
    tell_if_reserved(name);
    platform.done(&answer, if made { "set" } else { "rotated; the old value is forgotten" })
}

/// It is kept and bound like any other.
pub(super) fn tell_if_reserved(name: &str) {
    if is_reserved(name) {
        note(format_args!("{name} is a reserved name: runs will not get its value"));
    }
}

async fn create(platform: &Platform, house: &str, name: &str, value: &str) -> anyhow::Result<Answer> {
    platform.change(Method::POST, &["secrets"], json!({ "house_id": house, "name": name, "value": value })).await
}

async fn rotate(platform: &Platform, id: &str, value: &str) -> anyhow::Result<Answer> {
    platform.change(Method::PUT, &["secrets", id, "value"], json!({ "value": value })).await
}

fn is(error: &anyhow::Error, expected: &str) -> bool {
    matches!(error.downcast_ref(), Some(CallError::Answered { code, .. }) if code == expected)
}

/// From stdin only: a command line can be seen by everybody on the machine.
fn value(name: &str) -> anyhow::Result<Zeroizing<String>> {
    let stdin = std::io::stdin();
    if !stdin.is_terminal() {
        return cut(stdin);
    }
    let prompt =
        || note(format_args!("the value of {name} (not shown), then Enter and Ctrl-D; Ctrl-C leaves everything as it is"));
    unseen::unseen(prompt, || cut(stdin)).context("the terminal")?
}

/// Without the line break that `echo` and Enter put at the end.
fn cut(input: impl Read) -> anyhow::Result<Zeroizing<String>> {
    let mut bytes = Zeroizing::new(Vec::with_capacity(VALUE_MAX + 3));
    input.take(VALUE_MAX as u64 + 3).read_to_end(&mut bytes).context("stdin")?;
    let text = std::str::from_utf8(&bytes).map_err(|_| Usage("the value on stdin is not text in UTF-8".into()))?;
    let text = text.strip_suffix('\n').map_or(text, |text| text.strip_suffix('\r').unwrap_or(text));
    if text.is_empty() {
        return Err(
            Usage("there is no value on stdin; pipe it in, such as: pass show token | arbe secret set NAME".into()).into()
        );
    }
    if text.contains('\0') {
        return Err(Usage("the value on stdin holds a NUL, which no variable can".into()).into());
    }
    if text.len() > VALUE_MAX {
        return Err(Usage(format!("the value on stdin is larger than {VALUE_MAX} bytes")).into());
    }
    Ok(Zeroizing::new(text.to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::output::code;

    #[test]
    fn one_line_break_at_the_end_is_not_part_of_the_value() {
        for (given, expected) in
            [("a", "a"), ("a\n", "a"), ("a\r\n", "a"), ("a\n\n", "a\n"), (" a b \n", " a b "), ("a\nb", "a\nb")]
        {
            assert_eq!(cut(given.as_bytes()).unwrap().as_str(), expected, "{given:?}");
        }
        let most = "x".repeat(VALUE_MAX);
        assert_eq!(cut(format!("{most}\r\n").as_bytes()).unwrap().len(), VALUE_MAX);
    }

    #[test]
    fn nothing_too_much_and_no_text_are_usage_errors_that_show_nothing() {
        let long = "sk".repeat(VALUE_MAX);
        for given in [b"".as_slice(), b"\n", b"\r\n", b"sk\xff", b"sk\0x\n", long.as_bytes()] {
            let error = cut(given).unwrap_err();
            assert!(code(&error) == 2 && !error.to_string().contains("sk"), "{error}");
        }
    }
}
