use axum::http::{HeaderMap, Method, Response};
use bytes::Bytes;
use event_log::Log;
#[derive(Debug, Default)]
pub struct Options;
#[derive(Debug, thiserror::Error)]
#[error("x")]
pub struct OpenError;
#[derive(Debug)]
pub struct Subscriptions;
impl Subscriptions {
    pub async fn open(_log: Log, _o: Options) -> Result<Self, OpenError> { Ok(Self) }
    pub async fn handle(&self, _m: &Method, _p: &str, _q: &str, _h: &HeaderMap, _b: Bytes, _base: &str) -> Response<Bytes> { Response::new(Bytes::new()) }
}
