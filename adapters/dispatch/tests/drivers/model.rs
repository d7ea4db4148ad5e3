//! A model that answers by a script: in the words of both APIs, over real HTTP, streaming.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::http::{Response, StatusCode};
use axum::routing::post;
use parking_lot::Mutex;
use serde_json::{Value, json};
use tokio::net::TcpListener;

#[derive(Clone, Debug)]
pub enum Line {
    Says(&'static str),
    Calls(&'static str, Value),
    Fails(u16),
    /// It refuses, in words that nobody can keep.
    Garbles,
    /// The stream ends in the middle.
    Breaks,
    Waits,
    /// One word after the other, for ever.
    Rambles,
    /// A line that does not end.
    Drones,
    /// A refusal that does not end.
    Curses,
    /// A word, and then silence.
    Stalls,
}

#[derive(Debug, Default)]
struct Script {
    lines: VecDeque<Line>,
    asked: Vec<Value>,
    /// Bytes of what does not end.
    poured: usize,
}

#[derive(Clone, Debug)]
pub struct Model {
    script: Arc<Mutex<Script>>,
    pub url: String,
}

impl Model {
    pub async fn start(lines: impl IntoIterator<Item = Line>) -> Self {
        let script = Arc::new(Mutex::new(Script { lines: lines.into_iter().collect(), ..Script::default() }));
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}/v1", listener.local_addr().unwrap());
        let route = |anthropic: bool, script: Arc<Mutex<Script>>| {
            post(move |body: String| answer(script.clone(), serde_json::from_str(&body).unwrap(), anthropic))
        };
        let router = Router::new()
            .route("/v1/chat/completions", route(false, script.clone()))
            .route("/v1/messages", route(true, script.clone()));
        tokio::spawn(async move { axum::serve(listener, router).await.unwrap() });
        Self { script, url }
    }

    pub fn config(&self, api: &str) -> Value {
        json!({ "api": api, "base_url": self.url, "model": "scripted-1" })
    }

    pub fn asked(&self) -> Vec<Value> {
        self.script.lock().asked.clone()
    }

    pub fn poured(&self) -> usize {
        self.script.lock().poured
    }

    pub fn add(&self, line: Line) {
        self.script.lock().lines.push_back(line);
    }
}

async fn answer(script: Arc<Mutex<Script>>, body: Value, anthropic: bool) -> Response<Body> {
    let line = {
        let mut script = script.lock();
        script.asked.push(body);
        script.lines.pop_front().unwrap_or(Line::Says("I have nothing to say."))
    };
    let text = match (&line, anthropic) {
        (Line::Waits, _) => {
            tokio::time::sleep(Duration::from_secs(600)).await;
            String::new()
        }
        (Line::Fails(status), _) => {
            let mut response = Response::new(Body::from(r#"{"error":{"message":"no luck today","type":"x"}}"#));
            *response.status_mut() = StatusCode::from_u16(*status).unwrap();
            return response;
        }
        (Line::Garbles, _) => {
            let mut response = Response::new(Body::from("bad\0luck"));
            *response.status_mut() = StatusCode::BAD_REQUEST;
            return response;
        }
        (Line::Rambles | Line::Drones | Line::Curses | Line::Stalls, _) => return endless(script, &line, anthropic),
        (_, false) => openai(&line),
        (_, true) => anthropic_events(&line),
    };
    let mut response = Response::new(Body::from(text));
    response.headers_mut().insert("content-type", "text/event-stream".parse().unwrap());
    response
}

fn endless(script: Arc<Mutex<Script>>, line: &Line, anthropic: bool) -> Response<Body> {
    let word = "word ".repeat(12 << 10);
    let word = match (line, anthropic) {
        (Line::Rambles, false) => said(&word),
        (Line::Rambles, true) => spoken(&word),
        _ => word,
    };
    let first = if anthropic { anthropic_events(line) } else { openai(line) };
    let stalls = matches!(line, Line::Stalls);
    let pieces = futures::stream::unfold(Some(first), move |first| {
        let (script, word) = (script.clone(), word.clone());
        async move {
            let piece = match first {
                Some(first) => first,
                None if stalls => std::future::pending().await,
                None => word,
            };
            // Slower than what a thread takes: only its sum is too much.
            tokio::time::sleep(Duration::from_millis(2)).await;
            script.lock().poured += piece.len();
            Some((Ok::<_, std::io::Error>(piece), None))
        }
    });
    let mut response = Response::new(Body::from_stream(pieces));
    response.headers_mut().insert("content-type", "text/event-stream".parse().unwrap());
    if matches!(line, Line::Curses) {
        *response.status_mut() = StatusCode::BAD_REQUEST;
    }
    response
}

fn said(text: &str) -> String {
    let choice = json!({ "index": 0, "delta": { "content": text }, "finish_reason": null });
    let chunk = json!({ "id": "c1", "object": "chat.completion.chunk", "created": 1, "model": "m", "choices": [choice] });
    format!("data: {chunk}\n\n")
}

fn spoken(text: &str) -> String {
    let delta = json!({ "type": "content_block_delta", "index": 0, "delta": { "type": "text_delta", "text": text } });
    format!("event: content_block_delta\ndata: {delta}\n\n")
}

fn openai(line: &Line) -> String {
    let chunk = |delta: Value, finish: Value| {
        let choice = json!({ "index": 0, "delta": delta, "finish_reason": finish });
        let chunk =
            json!({ "id": "c1", "object": "chat.completion.chunk", "created": 1, "model": "scripted-1", "choices": [choice] });
        format!("data: {chunk}\n\n")
    };
    match line {
        Line::Says(text) => {
            let (first, second) = text.split_at(text.len() / 2);
            let end = chunk(json!({}), json!("stop"));
            [chunk(json!({ "content": first }), Value::Null), chunk(json!({ "content": second }), Value::Null), end].concat()
                + "data: [DONE]\n\n"
        }
        Line::Calls(name, arguments) => {
            let arguments = arguments.to_string();
            let (first, second) = arguments.split_at(arguments.len() / 2);
            let begun = json!({ "index": 0, "id": format!("call_{name}"), "type": "function", "function": { "name": name, "arguments": first } });
            let rest = json!({ "index": 0, "function": { "arguments": second } });
            let pieces = [begun, rest].map(|call| chunk(json!({ "tool_calls": [call] }), Value::Null));
            pieces.concat() + &chunk(json!({}), json!("tool_calls")) + "data: [DONE]\n\n"
        }
        Line::Drones => "data: ".to_owned(),
        Line::Breaks | Line::Waits | Line::Fails(_) | Line::Garbles | Line::Rambles | Line::Curses | Line::Stalls => {
            chunk(json!({ "content": "half a " }), Value::Null)
        }
    }
}

fn anthropic_events(line: &Line) -> String {
    let event = |value: Value| format!("event: {}\ndata: {value}\n\n", value["type"].as_str().unwrap());
    let start = event(json!({ "type": "message_start", "message": { "usage": { "input_tokens": 5, "output_tokens": 0 } } }));
    let end = |reason: &str| {
        event(json!({ "type": "message_delta", "delta": { "stop_reason": reason }, "usage": { "output_tokens": 7 } }))
            + &event(json!({ "type": "message_stop" }))
    };
    let delta = |delta: Value| event(json!({ "type": "content_block_delta", "index": 0, "delta": delta }));
    match line {
        Line::Says(text) => {
            let block =
                event(json!({ "type": "content_block_start", "index": 0, "content_block": { "type": "text", "text": "" } }));
            start
                + &block
                + &event(json!({ "type": "ping" }))
                + &delta(json!({ "type": "text_delta", "text": text }))
                + &end("end_turn")
        }
        Line::Calls(name, arguments) => {
            let block = json!({ "type": "tool_use", "id": format!("toolu_{name}"), "name": name, "input": {} });
            let block = event(json!({ "type": "content_block_start", "index": 0, "content_block": block }));
            let input = delta(json!({ "type": "input_json_delta", "partial_json": arguments.to_string() }));
            start + &block + &input + &end("tool_use")
        }
        Line::Drones => "data: ".to_owned(),
        Line::Breaks | Line::Waits | Line::Fails(_) | Line::Garbles | Line::Rambles | Line::Curses | Line::Stalls => {
            start + &delta(json!({ "type": "text_delta", "text": "half a " }))
        }
    }
}
