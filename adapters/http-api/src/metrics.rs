//! Prometheus text exposition of what the server does. Names and labels are what dashboards count on: never renamed.

use std::sync::atomic::{AtomicU64, Ordering};

use axum::body::Body;
use axum::http::{HeaderValue, Response, StatusCode, header};
use event_log::Log;

use crate::app::App;

mod platform;
mod requests;
mod text;

pub(crate) use requests::{Requests, Template};
use text::Text;

#[derive(Debug, Default)]
pub(crate) struct Metrics {
    /// Responses by hundreds of their status.
    responses: [AtomicU64; 6],
    pub(crate) sse_open: AtomicU64,
    pub(crate) long_polls_open: AtomicU64,
    /// Of the platform's API.
    pub(crate) requests: Requests,
}

pub(crate) async fn render(app: &App) -> Response<Body> {
    let mut out = Text::default();
    app.metrics.streams(&app.log, &mut out);
    app.metrics.requests.render(&mut out);
    if let Some(plane) = app.plane() {
        platform::render(&app.log, plane, &mut out).await;
    }
    let mut response = Response::new(Body::from(out.finish()));
    let kind = HeaderValue::from_static("text/plain; version=0.0.4; charset=utf-8");
    response.headers_mut().insert(header::CONTENT_TYPE, kind);
    response
}

impl Metrics {
    pub(crate) fn count(&self, status: StatusCode) {
        let class = usize::from(status.as_u16() / 100).min(5);
        self.responses[class].fetch_add(1, Ordering::Relaxed);
    }

    fn streams(&self, log: &Log, out: &mut Text) {
        let counters = log.counters();
        let get = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        out.family("stream_responses_total", "counter", "Responses of the stream API.");
        for (class, n) in ["1xx", "2xx", "3xx", "4xx", "5xx"].iter().zip(&self.responses[1..]) {
            out.sample(&[("class", class)], get(n));
        }
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
            out.one(name, "counter", help, get(counter));
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
            out.one(name, "gauge", help, value);
        }
    }
}
