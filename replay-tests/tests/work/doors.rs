//! Who may come in, and what gets out.

use std::fs;
use std::net::UdpSocket;

use http_api::auth;
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use crate::house::{House, bash, now_ms};
use crate::story::Story;

const HOUR_MS: u64 = 60 * 60 * 1_000;

impl House {
    /// By which the server signs.
    pub fn key(&self) -> String {
        fs::read_to_string(self.scene.data().join("token-key")).unwrap()
    }

    /// The bot's, as the server signs them, with a key.
    pub fn token(&self, key: &str, thread: &str, at_ms: u64) -> String {
        let options = auth::Options { key: Sha256::digest(key.trim().as_bytes()).into(), issuer: None };
        options.thread_token(self.bot.parse().unwrap(), &thread.parse().unwrap(), at_ms).unwrap()
    }
}

const PLANTED: &str = "0000000f";

/// What a run does at its door, with this token in the place of its own: the status and the code of each answer.
fn at_the_door(house: &House, token: &str, thread: &str, run: &str) -> [(u16, String); 4] {
    let stream = format!("/api/stream/arbe-thread-{thread}");
    let entry = json!({ "type": "pi.entry", "payload": { "type": "label", "id": PLANTED } });
    let ends = format!("{stream}/runs/{run}/finish");
    let asked = [
        ("GET", stream.clone(), Value::Null),
        ("POST", stream.clone(), entry),
        ("POST", ends, json!({ "status": "completed" })),
        ("POST", format!("{stream}/token"), Value::Null),
    ];
    asked.map(|(method, path, body)| {
        let (status, answer) = house.scene.send_as(token, method, &path, &body);
        (status, answer["error"]["code"].as_str().unwrap_or_default().to_owned())
    })
}

#[test]
fn no_token_but_its_own_says_a_word_for_a_run_or_ends_it() {
    let Some(house) = House::start() else { return };
    let child = house.delegate(&bash("echo ran >> ran; while ! [ -e go ]; do sleep 0.1; done"));
    let other = house.delegate(&bash("true"));
    house.completed(&other, 1);
    let machine = house.in_a_tool(&child, "ran");
    let (key, run) = (house.key(), house.story(&child).run().to_owned());
    let planted = |story: &Story| story.of("pi.entry").iter().filter(|line| line["id"] == PLANTED).count();
    let told = house.story(&other).0.len();
    let good = house.token(&key, &child, now_ms());
    let (claims, signature) = good.rsplit_once('.').unwrap();
    let turned: String = signature.chars().rev().collect();
    let forged = [house.token("a key of somebody else", &child, now_ms()), format!("{claims}.{turned}"), format!("{claims}.")];
    // Renewing takes a token that has expired, though not for ever.
    let expired = house.token(&key, &child, now_ms() - 30 * HOUR_MS);
    for token in forged.iter().chain([&expired]) {
        let answers = at_the_door(&house, token, &child, &run);
        assert_eq!(answers, [(); 4].map(|()| (401, "unauthenticated".to_owned())), "{token}");
    }
    let elsewhere = house.token(&key, &other, now_ms());
    assert_eq!(at_the_door(&house, &elsewhere, &child, &run), [(); 4].map(|()| (403, "wrong_thread".to_owned())));
    let foreign = at_the_door(&house, &good, &other, house.story(&other).run());
    assert_eq!(foreign, [(); 4].map(|()| (403, "wrong_thread".to_owned())), "nor the other way round");
    let story = house.story(&child);
    assert_eq!((planted(&story), story.statuses()), (0, vec!["running"]), "{}", story.told());
    assert_eq!(house.story(&other).0.len(), told, "nothing is said there either");
    let answers = at_the_door(&house, &good, &child, "another").map(|(status, _)| status);
    assert_eq!((answers[0], answers[1], answers[3]), (200, 201, 201), "this is how they are signed");
    fs::write(machine.directory.join("work/go"), "").unwrap();
    assert_eq!(planted(&house.completed(&child, 1)), 1);
}

#[test]
fn a_token_opens_its_own_thread_for_its_time_and_nothing_else() {
    let Some(house) = House::start() else { return };
    let other = house.scene.make("/api/threads", &json!({ "house_id": house.id }), "thread_id");
    let issued = house.scene.make(&format!("/api/threads/{}/token", house.chat), &Value::Null, "token");
    let key = house.key();
    let with = |token: &str, thread: &str| {
        let stream = format!("/api/stream/arbe-thread-{thread}");
        let read = house.scene.send_as(token, "GET", &stream, &Value::Null);
        let said = house.scene.send_as(token, "POST", &stream, &json!({ "text": "hello" }));
        [read, said].map(|(status, answer)| (status, answer["error"]["code"].as_str().unwrap_or_default().to_owned()))
    };
    let codes = |token: &str, thread: &str| with(token, thread).map(|(status, code)| format!("{status} {code}"));
    assert_eq!(codes(&issued, &house.chat), ["200 ", "201 "]);
    assert_eq!(codes(&house.token(&key, &house.chat, now_ms()), &house.chat), ["200 ", "201 "], "this is how they are signed");
    assert_eq!(codes(&issued, &other), ["403 wrong_thread", "403 wrong_thread"]);
    let expired = house.token(&key, &house.chat, now_ms() - 3 * HOUR_MS);
    assert_eq!(codes(&expired, &house.chat), ["401 unauthenticated", "401 unauthenticated"]);
    let forged = house.token("a key of somebody else", &house.chat, now_ms());
    assert_eq!(codes(&forged, &house.chat), ["401 unauthenticated", "401 unauthenticated"]);
    let (head, rest) = issued.split_once('.').unwrap();
    let of_other = house.token(&key, &other, now_ms());
    let claims = of_other.split('.').nth(1).unwrap();
    let pieced = format!("{head}.{claims}.{}", rest.split_once('.').unwrap().1);
    assert_eq!(codes(&pieced, &other), ["401 unauthenticated", "401 unauthenticated"]);
    let (status, answer) = house.scene.send_as(&issued, "GET", &format!("/api/threads/{}", house.chat), &Value::Null);
    assert_eq!(status, 403, "only the stream: {answer}");
    assert_eq!(house.story(&house.chat).of("chat").len(), 2);
}

#[test]
fn a_tool_does_not_find_the_token_of_its_run() {
    let Some(house) = House::start() else { return };
    let look = "cat /proc/[0-9]*/environ 2>/dev/null | tr '\\0' '\\n' | grep -c ^ARBE_THREAD_ID; \
                cat /proc/[0-9]*/environ 2>/dev/null | tr '\\0' '\\n' | grep ^ARBE_STREAM_TOKEN; \
                grep -rl 'e[y]J0' ~ 2>/dev/null; echo end";
    let child = house.delegate(&bash(look));
    let story = house.completed(&child, 1);
    let (seen, found) = story.results()[0].split_once('\n').unwrap();
    assert!(seen.parse::<u32>().unwrap() > 0, "it has looked: {seen}");
    assert_eq!(found, "end\n");
}

/// The address by which this host reaches others, if it does.
fn own_address() -> Option<String> {
    let socket = UdpSocket::bind("0.0.0.0:0").ok()?;
    socket.connect("192.0.2.1:9").ok()?;
    Some(socket.local_addr().ok()?.ip().to_string())
}

#[test]
fn a_machine_reaches_the_server_and_the_model_through_their_doors_and_nothing_else() {
    let Some(house) = House::start() else { return };
    let ask = |host: &str, port: &str, path: &str| {
        let request = format!("printf 'GET {path} HTTP/1.0\\\\r\\\\n\\\\r\\\\n'");
        let open = format!("exec 3<>/dev/tcp/{host}/{port} && {request} >&3 && head -1 <&3");
        let ran = house.command(&house.chat, &format!("timeout 3 bash -c \"{open}\""));
        (ran["exit_code"] == 0, ran["output"].as_str().unwrap().trim().to_owned())
    };
    let answered = |port, path: &str| ask("127.0.0.1", port, path).1;
    let stream = format!("/api/stream/arbe-thread-{}", house.chat);
    assert_eq!(answered("4437", &stream), "HTTP/1.0 401 Unauthorized", "the server wants a token");
    for path in ["/api/me", "/api/threads", "/api/stream/../me", "/healthz", "/v1/stream/arbe-agents"] {
        assert_eq!(answered("4437", path), "HTTP/1.0 404 Not Found", "{path}");
    }
    assert_eq!(answered("4438", "/v1/models"), "HTTP/1.0 200 OK", "the model");
    let port = |url: &str| url.rsplit(':').next().unwrap().to_owned();
    let (server, model) = (port(&house.scene.url()), port(&house.scene.model.url()));
    let own = own_address();
    let hosts = ["127.0.0.1", "localhost", "::1"].into_iter().chain(own.as_deref());
    let mut closed: Vec<_> = hosts.flat_map(|host| [(host, &*server), (host, &*model)]).collect();
    closed.extend([("1.1.1.1", "53"), ("93.184.216.34", "80"), ("169.254.169.254", "80"), ("example.com", "80")]);
    for (host, port) in closed {
        let (reached, output) = ask(host, port, "/");
        assert!(!reached, "{host}:{port} is reached: {output}");
    }
    assert_eq!(house.command(&house.chat, "ls /run/arbe")["output"], "0.sock\n1.sock\n", "and these are all doors");
    let data = house.scene.data().join("owner-token");
    let ran = house.command(&house.chat, &format!("cat {}", data.display()));
    assert_ne!(ran["exit_code"], 0, "the owner's token is seen: {ran}");
}
