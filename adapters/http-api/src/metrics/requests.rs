//! Requests of the platform's API by route, method and status, and how long they took.

use std::collections::BTreeMap;
use std::time::Duration;

use axum::http::{Method, StatusCode};
use parking_lot::Mutex;

use super::Text;

/// The route a response comes from, as the API's description names it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Template(pub(crate) &'static str);

/// What no route took.
const ELSEWHERE: &str = "none";
/// Upper bounds of the buckets, in seconds.
const BOUNDS: [f64; 12] = [0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0];

#[derive(Debug, Default)]
pub(crate) struct Requests(Mutex<BTreeMap<(&'static str, &'static str), Seen>>);

#[derive(Debug, Default)]
struct Seen {
    statuses: BTreeMap<u16, u64>,
    /// The last is for what took longer than any bound.
    buckets: [u64; BOUNDS.len() + 1],
    seconds: f64,
}

impl Requests {
    /// `took` ends where the answer begins: a live read goes on after it.
    pub(crate) fn count(&self, route: Option<&Template>, method: &Method, status: StatusCode, took: Duration) {
        let seconds = took.as_secs_f64();
        let bucket = BOUNDS.iter().position(|bound| seconds <= *bound).unwrap_or(BOUNDS.len());
        let mut all = self.0.lock();
        let seen = all.entry((route.map_or(ELSEWHERE, |route| route.0), known(method))).or_default();
        *seen.statuses.entry(status.as_u16()).or_default() += 1;
        seen.buckets[bucket] += 1;
        seen.seconds += seconds;
    }

    pub(super) fn render(&self, out: &mut Text) {
        let all = self.0.lock();
        out.family("api_requests_total", "counter", "Requests of the platform's API.");
        for ((route, method), seen) in all.iter() {
            for (status, n) in &seen.statuses {
                out.sample(&[("route", route), ("method", method), ("status", &status.to_string())], n);
            }
        }
        out.family("api_request_seconds", "histogram", "Time until the answer of such a request began.");
        for ((route, method), seen) in all.iter() {
            let labels = [("route", *route), ("method", *method)];
            let mut below = 0;
            for (bound, n) in BOUNDS.iter().map(ToString::to_string).chain(["+Inf".to_owned()]).zip(&seen.buckets) {
                below += n;
                out.part("_bucket", &[labels[0], labels[1], ("le", &bound)], below);
            }
            out.part("_sum", &labels, seen.seconds);
            out.part("_count", &labels, below);
        }
    }
}

/// A client can make up as many methods as it likes.
fn known(method: &Method) -> &'static str {
    match *method {
        Method::GET => "GET",
        Method::HEAD => "HEAD",
        Method::POST => "POST",
        Method::PUT => "PUT",
        Method::PATCH => "PATCH",
        Method::DELETE => "DELETE",
        Method::OPTIONS => "OPTIONS",
        _ => "other",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buckets_are_cumulative_and_made_up_methods_are_one() {
        let requests = Requests::default();
        let route = Some(Template("/api/me"));
        for (ms, status) in [(1, 200), (2, 200), (9_000, 503)] {
            requests.count(route.as_ref(), &Method::GET, StatusCode::from_u16(status).unwrap(), Duration::from_millis(ms));
        }
        for method in ["BREW", "WHEN"] {
            requests.count(None, &method.parse().unwrap(), StatusCode::NOT_FOUND, Duration::ZERO);
        }
        let mut out = Text::default();
        requests.render(&mut out);
        let text = out.finish();
        for line in [
            r#"arbe_api_requests_total{route="/api/me",method="GET",status="200"} 2"#,
            r#"arbe_api_requests_total{route="none",method="other",status="404"} 2"#,
            r#"arbe_api_request_seconds_bucket{route="/api/me",method="GET",le="0.001"} 1"#,
            r#"arbe_api_request_seconds_bucket{route="/api/me",method="GET",le="5"} 2"#,
            r#"arbe_api_request_seconds_bucket{route="/api/me",method="GET",le="+Inf"} 3"#,
            r#"arbe_api_request_seconds_sum{route="/api/me",method="GET"} 9.003"#,
            r#"arbe_api_request_seconds_count{route="/api/me",method="GET"} 3"#,
        ] {
            assert!(text.lines().any(|found| found == line), "{line} is not in\n{text}");
        }
    }
}
