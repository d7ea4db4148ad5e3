//! Paths below `/v1/stream/__ds/`.

use std::sync::Arc;

use percent_encoding::percent_decode_str;

const ID_MAX: usize = 256;

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Route {
    Jwks,
    Subscription(Arc<str>),
    Streams(Arc<str>),
    /// A linked stream, by its decoded path.
    Stream(Arc<str>, String),
    Action(Arc<str>, Action),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Action {
    Callback,
    Claim,
    Ack,
    Release,
}

/// `path` as it came in, still encoded: an id or a stream may contain a slash.
pub(super) fn parse(path: &str) -> Option<Route> {
    let path = path.trim_start_matches('/');
    if path == "jwks.json" {
        return Some(Route::Jwks);
    }
    let rest = path.strip_prefix("subscriptions/")?;
    let (id, rest) = rest.split_once('/').map_or((rest, None), |(id, rest)| (id, Some(rest)));
    let id: Arc<str> = decode(id)?.into();
    if id.is_empty() || id.len() > ID_MAX || id.chars().any(char::is_control) {
        return None;
    }
    Some(match rest {
        None => Route::Subscription(id),
        Some("streams") => Route::Streams(id),
        Some("callback") => Route::Action(id, Action::Callback),
        Some("claim") => Route::Action(id, Action::Claim),
        Some("ack") => Route::Action(id, Action::Ack),
        Some("release") => Route::Action(id, Action::Release),
        Some(other) => Route::Stream(id, decode(other.strip_prefix("streams/")?)?),
    })
}

fn decode(text: &str) -> Option<String> {
    percent_decode_str(text).decode_utf8().ok().map(Into::into)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_told_apart_and_decoded_once() {
        let id: Arc<str> = "a/b".into();
        assert_eq!(parse("jwks.json"), Some(Route::Jwks));
        assert_eq!(parse("/subscriptions/a%2Fb"), Some(Route::Subscription(id.clone())));
        assert_eq!(parse("subscriptions/a%2Fb/streams"), Some(Route::Streams(id.clone())));
        assert_eq!(parse("subscriptions/a%2Fb/claim"), Some(Route::Action(id.clone(), Action::Claim)));
        assert_eq!(parse("subscriptions/a%2Fb/streams/m%2Fx%2520"), Some(Route::Stream(id.clone(), "m/x%20".into())));
        assert_eq!(parse("subscriptions/a%2Fb/streams/m/x"), Some(Route::Stream(id, "m/x".into())));
    }

    #[test]
    fn everything_else_is_nowhere() {
        for path in ["", "keys", "subscriptions", "subscriptions/"] {
            assert_eq!(parse(path), None, "{path}");
        }
        for rest in ["/claim", "x/", "x/claims", "%FF", "a%00"] {
            assert_eq!(parse(&format!("subscriptions/{rest}")), None, "{rest}");
        }
    }
}
