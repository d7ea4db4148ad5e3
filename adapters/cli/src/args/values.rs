//! Values that are checked before anything is asked of a server.

use std::fmt;
use std::str::FromStr;

use events::{AgentId, EventId};
use jiff::Timestamp;
use jiff::civil::{Date, DateTime};
use jiff::tz::TimeZone;

const SECRET_NAME_MAX: usize = 128;

/// A moment of the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Until {
    Position(u64),
    /// Unix milliseconds.
    Time(u64),
}

impl FromStr for Until {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if let Ok(position) = text.parse() {
            return Ok(Self::Position(position));
        }
        let time = moment(text).and_then(|ms| u64::try_from(ms).ok());
        time.map(Self::Time).ok_or_else(|| "neither a position nor a time such as 2026-11-16T08:00:00Z".to_owned())
    }
}

/// Unix milliseconds; without an offset the time is the local one.
fn moment(text: &str) -> Option<i64> {
    let local = || {
        let civil = text.parse::<DateTime>().ok().or_else(|| text.parse::<Date>().ok().map(|date| date.at(0, 0, 0, 0)))?;
        civil.to_zoned(TimeZone::system()).ok().map(|zoned| zoned.timestamp())
    };
    text.parse::<Timestamp>().ok().or_else(local).map(Timestamp::as_millisecond)
}

/// A moment, in unix milliseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Moment(pub(crate) i64);

impl FromStr for Moment {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        moment(text).map(Self).ok_or_else(|| "not a time such as 2026-11-16T08:00:00Z".to_owned())
    }
}

impl fmt::Display for Until {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Position(position) => write!(f, "position {position}"),
            Self::Time(ms) => {
                let moment = i64::try_from(*ms).ok().and_then(|ms| Timestamp::from_millisecond(ms).ok());
                match moment {
                    Some(moment) => moment.fmt(f),
                    None => write!(f, "{ms} ms"),
                }
            }
        }
    }
}

pub(super) fn id(text: &str) -> Result<String, String> {
    let valid = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'-';
    if (1..=64).contains(&text.len()) && text.bytes().all(valid) {
        return Ok(text.to_owned());
    }
    Err("not an id: 1 to 64 letters, digits, `_` or `-`".into())
}

pub(super) fn agent_id(text: &str) -> Result<String, String> {
    text.parse::<AgentId>().map(|_| text.to_owned()).map_err(|error| error.to_string())
}

pub(super) fn entry_id(text: &str) -> Result<String, String> {
    text.parse::<EventId>().map(|_| text.to_owned()).map_err(|error| error.to_string())
}

pub(super) fn secret_name(text: &str) -> Result<String, String> {
    let first = text.bytes().next().is_some_and(|byte| byte.is_ascii_alphabetic() || byte == b'_');
    if first && text.len() <= SECRET_NAME_MAX && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_') {
        return Ok(text.to_owned());
    }
    Err("not a variable name of at most 128 letters, digits and `_`".into())
}
