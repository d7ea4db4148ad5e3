//! A scripted model that speaks chat completions. What it answers is told by the last words of the user:
//! `RUN: cmd` calls the shell, `FAIL n` answers 500 n times, `HTTP 400` always, `LENGTH` stops short, `HANG` never ends, `SLOW` takes its
//! time, `SPELL text` says it letter by letter; anything else is echoed with the number of turns that it saw.

use std::convert::Infallible;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use http_body_util::combinators::BoxBody;
use http_body_util::{BodyExt, Full};
use hyper::body::{Frame, Incoming};
use hyper::service::service_fn;
use hyper::{Request, Response};
use hyper_util::rt::TokioIo;
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio::sync::mpsc;

type Body = BoxBody<Bytes, Infallible>;

/// What comes bit by bit.
struct Bits(mpsc::Receiver<Bytes>);

impl hyper::body::Body for Bits {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        self.0.poll_recv(context).map(|bit| bit.map(|bit| Ok(Frame::data(bit))))
    }
}

/// Gives its base URL.
pub async fn start() -> String {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/v1", listener.local_addr().unwrap());
    let failures = Arc::new(AtomicUsize::new(0));
    tokio::spawn(async move {
        while let Ok((connection, _)) = listener.accept().await {
            let failures = failures.clone();
            let serve = service_fn(move |request| {
                let failures = failures.clone();
                async move { Ok::<_, hyper::Error>(answer(request, &failures).await) }
            });
            tokio::spawn(hyper::server::conn::http1::Builder::new().serve_connection(TokioIo::new(connection), serve));
        }
    });
    url
}

async fn answer(request: Request<Incoming>, failures: &AtomicUsize) -> Response<Body> {
    let asked: Value = serde_json::from_slice(&request.into_body().collect().await.unwrap().to_bytes()).unwrap_or_default();
    let messages = asked["messages"].as_array().cloned().unwrap_or_default();
    let users: Vec<String> = messages.iter().filter(|it| it["role"] == "user").map(|it| text(&it["content"])).collect();
    let last = users.last().cloned().unwrap_or_default();
    if messages.last().is_some_and(|it| it["role"] == "tool") {
        return told(vec![format!("DONE {}", text(&messages.last().unwrap()["content"]))], "stop", None);
    }
    let often = last.strip_prefix("FAIL ").and_then(|rest| rest.split_whitespace().next()?.parse().ok()).unwrap_or(0);
    if failures.load(Ordering::SeqCst) < often {
        failures.fetch_add(1, Ordering::SeqCst);
        return refused(500);
    }
    match last.split_once(": ") {
        Some(("RUN", command)) => told(vec!["I will run it.".to_owned()], "tool_calls", Some(command)),
        _ if last.starts_with("HTTP 400") => refused(400),
        _ if last.starts_with("LENGTH") => told(vec!["short".to_owned()], "length", None),
        _ if last.starts_with("HANG") => told(vec!["I".to_owned(), "HANG".to_owned()], "stop", None),
        _ if last.starts_with("SLOW") => told((0..10).map(|n| format!("piece{n} ")).collect(), "stop", None),
        _ if last.starts_with("SPELL ") => told(last[6..].chars().map(String::from).collect(), "stop", None),
        _ => told(vec![format!("ECHO {last} users={} {users:?}", users.len())], "stop", None),
    }
}

fn text(content: &Value) -> String {
    match content {
        Value::String(text) => text.clone(),
        Value::Array(parts) => parts.iter().filter_map(|part| part["text"].as_str()).collect(),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::Object(_) => String::new(),
    }
}

fn refused(status: u16) -> Response<Body> {
    let body = json!({ "error": { "type": "api_error", "message": format!("scripted {status}") } }).to_string();
    Response::builder().status(status).header("content-type", "application/json").body(Full::new(body.into()).boxed()).unwrap()
}

fn told(pieces: Vec<String>, stop: &'static str, command: Option<&str>) -> Response<Body> {
    let command = command.map(|command| json!({ "command": command }).to_string());
    let (sender, bits) = mpsc::channel(4);
    tokio::spawn(async move {
        let chunk = |delta: Value, finish: Value| {
            let choice = json!({ "index": 0, "delta": delta, "finish_reason": finish });
            let chunk =
                json!({ "id": "c1", "object": "chat.completion.chunk", "created": 1, "model": "m1", "choices": [choice] });
            Bytes::from(format!("data: {chunk}\n\n"))
        };
        let slow = pieces.len() > 2;
        drop(sender.send(chunk(json!({ "role": "assistant", "content": "" }), Value::Null)).await);
        for piece in pieces {
            if piece == "HANG" {
                tokio::time::sleep(Duration::from_secs(600)).await;
            }
            if slow {
                tokio::time::sleep(Duration::from_millis(150)).await;
            }
            drop(sender.send(chunk(json!({ "content": piece }), Value::Null)).await);
        }
        if let Some(arguments) = command {
            let call =
                json!({ "index": 0, "id": "call_1", "type": "function", "function": { "name": "bash", "arguments": arguments } });
            drop(sender.send(chunk(json!({ "tool_calls": [call] }), Value::Null)).await);
        }
        drop(sender.send(chunk(json!({}), json!(stop))).await);
        let usage = json!({ "id": "c1", "object": "chat.completion.chunk", "created": 1, "model": "m1", "choices": [],
            "usage": { "prompt_tokens": 11, "completion_tokens": 7, "total_tokens": 18 } });
        drop(sender.send(Bytes::from(format!("data: {usage}\n\ndata: [DONE]\n\n"))).await);
    });
    Response::builder().header("content-type", "text/event-stream").body(Bits(bits).boxed()).unwrap()
}
