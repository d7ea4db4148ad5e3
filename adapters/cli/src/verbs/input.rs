//! What a verb is given on its line, in a file or on stdin.

use std::io::Read;
use std::path::Path;

use anyhow::Context;
use serde_json::value::RawValue;

use crate::output::Usage;

pub(super) fn read(file: &Path) -> anyhow::Result<String> {
    let mut text = String::new();
    if file == Path::new("-") {
        std::io::stdin().read_to_string(&mut text).context("stdin")?;
    } else {
        text = std::fs::read_to_string(file).with_context(|| file.display().to_string())?;
    }
    if text.contains('\0') {
        return Err(Usage("what was given holds a NUL".into()).into());
    }
    Ok(text)
}

/// Kept as it is written, numbers and all.
pub(super) fn json(line: Option<String>, file: Option<&Path>) -> anyhow::Result<Option<Box<RawValue>>> {
    let (text, place) = match (line, file) {
        (Some(text), _) => (text, "what was given".to_owned()),
        (None, Some(file)) => (read(file)?, file.display().to_string()),
        (None, None) => return Ok(None),
    };
    let parsed = serde_json::from_str(text.trim()).map_err(|error| Usage(format!("{place} is not JSON: {error}")))?;
    Ok(Some(parsed))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::output::code;

    #[test]
    fn a_nul_is_a_usage_error() {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("words");
        std::fs::write(&file, "a\0b").unwrap();
        assert_eq!(code(&read(&file).unwrap_err()), 2);
    }

    #[test]
    fn json_is_kept_to_the_letter() {
        let kept = json(Some(r#" {"n": 1.10, "n": 12345678901234567890123} "#.into()), None).unwrap().unwrap();
        assert_eq!(kept.get(), r#"{"n": 1.10, "n": 12345678901234567890123}"#);
        assert_eq!(code(&json(Some("{".into()), None).unwrap_err()), 2);
        assert!(json(None, None).unwrap().is_none());
    }
}
