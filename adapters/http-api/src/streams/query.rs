//! The query of a read.

use event_log::{From, Offset};
use percent_encoding::percent_decode_str;

use crate::errors::Error;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Live {
    LongPoll,
    Sse,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Query {
    pub(super) from: From,
    pub(super) live: Option<Live>,
    pub(super) cursor: Option<u64>,
}

/// Unknown parameters are ignored.
pub(super) fn parse(raw: &str) -> Result<Query, Error> {
    let (mut offset, mut live, mut cursor) = (None, None, None);
    for pair in raw.split('&').filter(|pair| !pair.is_empty()) {
        let (key, value) = pair.split_once('=').unwrap_or((pair, ""));
        let slot = match key {
            "offset" => &mut offset,
            "live" => &mut live,
            "cursor" => &mut cursor,
            _ => continue,
        };
        let value = percent_decode_str(value).decode_utf8().map_err(|_| Error::Bad("the query is not UTF-8"))?.into_owned();
        if slot.replace(value).is_some() {
            return Err(Error::Bad("offset, live and cursor are given once"));
        }
    }
    let live = match live.as_deref() {
        None => None,
        Some("long-poll") => Some(Live::LongPoll),
        Some("sse") => Some(Live::Sse),
        Some(_) => return Err(Error::Bad("live is long-poll or sse")),
    };
    if live.is_some() && offset.is_none() {
        return Err(Error::Bad("a live read needs an offset"));
    }
    let from = match offset.as_deref() {
        None | Some("-1") => From::Start,
        Some("now") => From::Now,
        Some(token) => From::At(Offset::parse(token).ok_or(Error::Bad("the offset is not one this server gave out"))?),
    };
    Ok(Query { from, live, cursor: cursor.and_then(|text| text.parse().ok()) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn offsets_and_modes_are_read() {
        assert_eq!(parse("").unwrap(), Query { from: From::Start, live: None, cursor: None });
        let at = From::At(Offset { generation: 1, position: 2 });
        assert_eq!(
            parse("x=1&offset=1_2&live=sse&cursor=7").unwrap(),
            Query { from: at, live: Some(Live::Sse), cursor: Some(7) }
        );
        assert_eq!(parse("offset=now&cursor=x").unwrap(), Query { from: From::Now, live: None, cursor: None });
    }

    #[test]
    fn what_could_be_misread_is_refused() {
        for raw in
            ["offset=", "offset=1_2&offset=1_2", "offset=a", "offset=1_2%00", "live=sse", "offset=-1&live=x", "offset=..%2F"]
        {
            assert!(parse(raw).is_err(), "{raw}");
        }
    }
}
