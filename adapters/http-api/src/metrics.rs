//! Prometheus text exposition of what the server does.

use std::fmt::Write as _;
use std::sync::atomic::{AtomicU64, Ordering};

use axum::body::Body;
use axum::http::{HeaderValue, Response, StatusCode, header};
use event_log::Log;

#[derive(Debug, Default)]
pub(crate) struct Metrics {
    /// Responses by hundreds of their status.
    responses: [AtomicU64; 6],
    pub(crate) sse_open: AtomicU64,
    pub(crate) long_polls_open: AtomicU64,
}

impl Metrics {
    pub(crate) fn count(&self, status: StatusCode) {
        let class = usize::from(status.as_u16() / 100).min(5);
        self.responses[class].fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn render(&self, log: &Log) -> Response<Body> {
        let mut out = String::new();
        let mut metric = |name: &str, kind: &str, help: &str, values: &[(&str, u64)]| {
            let _ = writeln!(out, "# HELP arbe_{name} {help}\n# TYPE arbe_{name} {kind}");
            for (labels, value) in values {
                let _ = writeln!(out, "arbe_{name}{labels} {value}");
            }
        };
        let counters = log.counters();
        let get = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        let classes = ["{class=\"1xx\"}", "{class=\"2xx\"}", "{class=\"3xx\"}", "{class=\"4xx\"}", "{class=\"5xx\"}"];
        let responses: Vec<_> = classes.iter().zip(&self.responses[1..]).map(|(class, n)| (*class, get(n))).collect();
        metric("stream_responses_total", "counter", "Responses of the stream API.", &responses);
        for (name, help, counter) in [
            ("slots_written_total", "Slots this server made durable.", &counters.slots_written),
            ("slot_bytes_written_total", "Bytes of those slots.", &counters.bytes_written),
            ("records_written_total", "Records in those slots.", &counters.records_written),
            ("slots_lost_total", "Slots another writer took first.", &counters.slots_lost),
            ("claims_total", "Times this server became owner.", &counters.claims),
            ("forwarded_total", "Commands passed to the owner.", &counters.forwarded),
            ("packs_total", "Packs made or adopted.", &counters.packs),
            ("checkpoints_total", "Checkpoints written.", &counters.checkpoints),
        ] {
            metric(name, "counter", help, &[("", get(counter))]);
        }
        for (name, help, value) in [
            ("owner", "1 if this server owns the log.", u64::from(log.is_owner())),
            ("log_position", "Slots seen.", log.position()),
            ("streams", "Streams in the table.", log.stream_count() as u64),
            ("cached_bytes", "Bytes of slots, blocks and blobs in memory.", log.cached_bytes() as u64),
            ("tail_subscriptions", "Readers waiting at a tail.", log.waiting_readers() as u64),
            ("sse_open", "Open SSE responses.", get(&self.sse_open)),
            ("long_polls_open", "Open long-polls.", get(&self.long_polls_open)),
        ] {
            metric(name, "gauge", help, &[("", value)]);
        }
        let mut response = Response::new(Body::from(out));
        let kind = HeaderValue::from_static("text/plain; version=0.0.4; charset=utf-8");
        response.headers_mut().insert(header::CONTENT_TYPE, kind);
        response
    }
}
