//! Live reads through the doors of a thread: they go on where they ended, and end with the right to them.

use std::time::{Duration, Instant};

use jsonwebtoken::{EncodingKey, Header};
use serde_json::{Value, json};

use crate::town::{KEY, Person, Town};

/// What was promised to end a live read, and some room for a slow machine.
const SOON: Duration = Duration::from_secs(6);

/// An open SSE response.
struct Sse {
    response: reqwest::Response,
    text: String,
}

impl Sse {
    async fn open(town: &Town, token: &str, door: &str, offset: &str) -> Self {
        let request = reqwest::Client::new().get(format!("{}{door}?offset={offset}&live=sse", town.url));
        let response = request.header("authorization", format!("Bearer {token}")).send().await.unwrap();
        assert_eq!(response.status().as_u16(), 200);
        Self { response, text: String::new() }
    }

    /// Reads until this has come and the control event after it.
    async fn until(&mut self, wanted: &str) {
        let reading = async {
            while !self.text.split_once(wanted).is_some_and(|(_, after)| after.contains("event: control")) {
                let chunk =
                    self.response.chunk().await.unwrap().unwrap_or_else(|| panic!("ended without {wanted}: {}", self.text));
                self.text.push_str(std::str::from_utf8(&chunk).unwrap());
            }
        };
        assert!(tokio::time::timeout(SOON, reading).await.is_ok(), "no {wanted} in {}", self.text);
    }

    fn offset(&self) -> String {
        let last = self.text.rsplit("\"streamNextOffset\":\"").next().unwrap();
        last.split('"').next().unwrap().to_owned()
    }

    /// Everything that comes until it ends, which must be soon.
    async fn end(mut self) -> String {
        let reading = async {
            while let Ok(Some(chunk)) = self.response.chunk().await {
                self.text.push_str(std::str::from_utf8(&chunk).unwrap());
            }
        };
        assert!(tokio::time::timeout(SOON, reading).await.is_ok(), "still open: {}", self.text);
        self.text
    }
}

/// A house of Ada's with a thread, and both doors to it.
async fn thread(town: &Town) -> (String, String, [String; 2]) {
    let house = town.make(&town.ada, "/api/houses", &json!({ "name": "home" }), "house_id").await;
    let thread = town.make(&town.ada, "/api/threads", &json!({ "house_id": house }), "thread_id").await;
    let doors = [format!("/api/threads/{thread}/stream"), format!("/api/stream/arbe-thread-{thread}")];
    (house, thread, doors)
}

async fn say(town: &Town, who: &Person, thread: &str, text: &str) {
    let said = town.post(who, &format!("/api/threads/{thread}/entries"), &json!({ "text": text })).await;
    assert_eq!(said.status, 201, "{said:?}");
}

/// A token for the thread that is good for a moment only.
fn short(town: &Town, agent: &Person, thread: &str, seconds: u64) -> String {
    let now = town.log.now_ms() / 1_000;
    let claims =
        json!({ "sub": agent.id, "iat": now, "exp": now + seconds, "iss": "arbe", "aud": "arbe-thread", "thread": thread });
    jsonwebtoken::encode(&Header::default(), &claims, &EncodingKey::from_secret(&KEY)).unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_live_read_goes_on_where_the_last_one_ended() {
    let Some(town) = Town::start().await else { return };
    let ada = town.ada.clone();
    let (_, thread, doors) = thread(&town).await;
    let scoped = town.send(&ada.key, "POST", &format!("/api/threads/{thread}/token"), None, &[]).await.json();
    let scoped = scoped["token"].as_str().unwrap();
    for (round, (door, token)) in doors.iter().zip([ada.key.as_str(), scoped]).enumerate() {
        let [first, second, third] = ["first", "second", "third"].map(|word| format!("{word} of {round}"));
        let mut sse = Sse::open(&town, token, door, "-1").await;
        sse.until("signal.thread.created").await;
        say(&town, &ada, &thread, &first).await;
        sse.until(&first).await;
        let offset = sse.offset();
        drop(sse);
        say(&town, &ada, &thread, &second).await;
        let mut sse = Sse::open(&town, token, door, &offset).await;
        sse.until(&second).await;
        assert!(!sse.text.contains(&first), "{}", sse.text);

        let poll = format!("{door}?offset={}&live=long-poll", sse.offset());
        let poll = town.send(token, "GET", &poll, None, &[]);
        let (poll, ()) = tokio::join!(poll, say(&town, &ada, &thread, &third));
        let texts: Vec<Value> = poll.json().as_array().unwrap().iter().map(|entry| entry["payload"]["text"].clone()).collect();
        assert_eq!(texts, [json!(third)]);
        let missed = format!("{door}?offset={offset}&live=long-poll");
        let missed = town.send(token, "GET", &missed, None, &[]).await.json();
        assert_eq!(missed.as_array().unwrap().len(), 2, "{missed}");
    }
    town.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_member_who_is_removed_hears_nothing_more() {
    let Some(town) = Town::start().await else { return };
    let (ada, bob) = (town.ada.clone(), town.bob.clone());
    let (house, thread, doors) = thread(&town).await;
    let members = format!("/api/houses/{house}/members");
    for talk in [true, false] {
        town.make(&ada, &members, &json!({ "agent_id": bob.id, "role": "member" }), "agent_id").await;
        let scoped = town.send(&bob.key, "POST", &format!("/api/threads/{thread}/token"), None, &[]).await.json();
        let scoped = scoped["token"].as_str().unwrap().to_owned();
        let mut open = Vec::new();
        for (door, token) in doors.iter().zip([&bob.key, &scoped]) {
            let mut sse = Sse::open(&town, token, door, "now").await;
            sse.until("").await;
            open.push(sse);
        }
        let polls = doors.iter().zip([&bob.key, &scoped]).map(|(door, token)| {
            let (town, path) = (&town, format!("{door}?offset=now&live=long-poll"));
            async move { town.send(token, "GET", &path, None, &[]).await }
        });
        let remove = async {
            tokio::time::sleep(Duration::from_millis(300)).await;
            let removed = town.send(&ada.key, "DELETE", &format!("{members}/{}", bob.id), None, &[]).await;
            assert_eq!(removed.status, 200, "{removed:?}");
            if talk {
                say(&town, &ada, &thread, "he is gone").await;
            }
            Instant::now()
        };
        let (polls, removed) = tokio::join!(futures::future::join_all(polls), remove);
        assert!(removed.elapsed() < SOON);
        for poll in polls {
            assert_eq!(poll.code(), (404, "not_found".into()), "{poll:?}");
        }
        for sse in open {
            let text = sse.end().await;
            assert!(!text.contains("he is gone"), "{text}");
        }
        assert!(removed.elapsed() < SOON * 2);
        let (reopened, head) = (town.get(&bob, &doors[0]).await, town.send(&scoped, "HEAD", &doors[1], None, &[]).await);
        assert_eq!((reopened.status, head.status), (404, 404));
    }
    town.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_live_read_ends_with_the_token_or_key_it_came_with() {
    let Some(town) = Town::start().await else { return };
    let ada = town.ada.clone();
    let (_, thread, doors) = thread(&town).await;
    let token = short(&town, &ada, &thread, 3);
    let mut sse = Sse::open(&town, &token, &doors[1], "now").await;
    sse.until("").await;
    let poll = format!("{}?offset=now&live=long-poll", doors[1]);
    let ended = town.send(&token, "GET", &poll, None, &[]).await;
    assert_eq!(ended.code(), (401, "unauthenticated".into()));
    assert!(ended.text.contains("expired"), "{ended:?}");
    sse.end().await;
    assert_eq!(town.send(&token, "GET", &doors[1], None, &[]).await.code().0, 401);

    let keys = format!("/api/agents/{}/keys", ada.id);
    let made = town.post(&ada, &keys, &json!({})).await.json();
    let (key, id) = (made["key"].as_str().unwrap(), made["key_id"].as_str().unwrap());
    let mut sse = Sse::open(&town, key, &doors[0], "now").await;
    sse.until("").await;
    assert_eq!(town.send(&ada.key, "DELETE", &format!("{keys}/{id}"), None, &[]).await.status, 200);
    say(&town, &ada, &thread, "after the key").await;
    assert!(!sse.end().await.contains("after the key"));
    town.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_token_opens_no_live_read_of_another_thread() {
    let Some(town) = Town::start().await else { return };
    let ada = town.ada.clone();
    let (house, mine, _) = thread(&town).await;
    let other = town.make(&ada, "/api/threads", &json!({ "house_id": house }), "thread_id").await;
    let token = short(&town, &ada, &mine, 60);
    for live in ["sse", "long-poll"] {
        let path = format!("/api/stream/arbe-thread-{other}?offset=now&live={live}");
        assert_eq!(town.send(&token, "GET", &path, None, &[]).await.code(), (403, "wrong_thread".into()), "{live}");
        let path = format!("/api/threads/{mine}/stream?offset=now&live={live}");
        assert_eq!(town.send(&token, "GET", &path, None, &[]).await.code(), (403, "forbidden".into()), "{live}");
    }
    town.end().await;
}
