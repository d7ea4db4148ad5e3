//! Two houses on one real server: each finds its own words through every door, and nothing of the other's through any.

#![expect(clippy::disallowed_methods, reason = "tests ask for the time")]

use std::sync::{Arc, Weak};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use anyhow::{Context, Result, ensure};
use events::AgentId;
use parking_lot::Mutex;
use replay_tests::servers::{ArbeServer, without_postgres};
use replay_tests::soak::http::request;
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

#[path = "finding/meaning.rs"]
mod meaning;

/// An entry can be found so soon after its append.
const SOON: Duration = Duration::from_secs(1);
const HOUR_MS: u64 = 3_600_000;

/// What is said in a house. Both speak of a furnace; nothing else is in both.
struct Told {
    session: &'static str,
    project: &'static str,
    client: &'static str,
    message: &'static str,
    asked: &'static str,
    answered: &'static str,
    entry: &'static str,
}

const OURS: Told = Told {
    session: "session-of-the-walrus",
    project: "/srv/walrusry",
    client: "walrus-client",
    message: "walrus-message",
    asked: "why does the walrus sleep near the furnace",
    answered: "because of walrusHandlerFactory in src/walrus.rs",
    entry: "the walrus is awake",
};

const THEIRS: Told = Told {
    session: "session-of-the-heron",
    project: "/srv/heronry",
    client: "heron-client",
    message: "heron-message",
    asked: "the zibberquax melts the saffronvault near the furnace",
    answered: "call zibberquaxHandlerFactory of the saffronvault in src/zibber.rs",
    entry: "zibberquax and saffronvault are back at the furnace",
};

/// No answer to a stranger has any of these, unless the stranger said it first.
const SECRETS: [&str; 3] = ["saffronvault", "zibberquax", "heron"];
/// Words, identifiers, fragments, slips and a path of their house.
const LOOKED_FOR: [&str; 9] = [
    "zibberquax",
    "saffronvault",
    "zibberquaxHandlerFactory",
    "ibberqua",
    "quaxHandlerFac",
    "zibberquas",
    "saffronvalt",
    "src/zibber.rs",
    "where does the zibberquax melt",
];

struct Site {
    server: ArbeServer,
    ours: Owner,
    theirs: Owner,
}

/// Somebody with a house of their own, and a thread in it.
struct Owner {
    url: String,
    token: String,
    agent: String,
    house: String,
    thread: String,
}

#[derive(Debug)]
struct Reply {
    status: u16,
    text: String,
}

impl Reply {
    fn json(&self) -> Result<Value> {
        serde_json::from_str(&self.text).with_context(|| format!("{self:?}"))
    }

    /// Nothing of the other house is in it.
    fn keeps_quiet(&self, asked: &str) -> Result<()> {
        let (text, asked) = (self.text.to_lowercase(), asked.to_lowercase());
        let leak = SECRETS.iter().find(|secret| text.contains(**secret) && !asked.contains(**secret));
        ensure!(leak.is_none(), "{asked} is answered with {leak:?}: {self:?}");
        Ok(())
    }
}

/// One server for all tests, for as long as one of them runs.
static SHARED: Mutex<Weak<Site>> = Mutex::new(Weak::new());

impl Site {
    /// `None` if tests without Postgres are to be skipped.
    fn shared() -> Result<Option<Arc<Self>>> {
        if without_postgres() {
            return Ok(None);
        }
        let mut kept = SHARED.lock();
        if let Some(site) = kept.upgrade() {
            return Ok(Some(site));
        }
        let site = Arc::new(Self::start(&[])?);
        *kept = Arc::downgrade(&site);
        Ok(Some(site))
    }

    fn start(flags: &[&str]) -> Result<Self> {
        let server = ArbeServer::platform(&[&["--sandbox-provider", "none"], flags].concat())?;
        let url = server.url().to_owned();
        let mut ours = Owner::new(&url, server.data("owner-token")?)?;
        ours.house = text(&ours.get("/api/me")?.json()?["houses"][0]["house_id"])?;
        let stranger = ours.make("/api/agents", &json!({ "kind": "human", "name": "stranger" }), "agent_id")?;
        let mut theirs = Owner::new(&url, token(&server, stranger.parse()?)?)?;
        theirs.house = theirs.make("/api/houses", &json!({ "name": "elsewhere" }), "house_id")?;
        ours.settle(&OURS)?;
        theirs.settle(&THEIRS)?;
        Ok(Self { server, ours, theirs })
    }

    /// An ERROR in the server's log is a failure, whoever caused it.
    fn is_well(&self) -> Result<()> {
        let log = self.server.log();
        let errors: Vec<_> = log.lines().filter(|line| line.contains("ERROR")).collect();
        ensure!(errors.is_empty(), "{errors:#?}");
        Ok(())
    }
}

/// As the server signs them: nobody issues a key for another human.
fn token(server: &ArbeServer, agent: AgentId) -> Result<String> {
    let key = Sha256::digest(server.data("token-key")?).into();
    let now = u64::try_from(SystemTime::now().duration_since(UNIX_EPOCH)?.as_millis())?;
    http_api::auth::agent_token(&key, agent, now, HOUR_MS).context("the token is signed")
}

fn text(value: &Value) -> Result<String> {
    Ok(value.as_str().with_context(|| format!("{value} is a text"))?.to_owned())
}

impl Owner {
    fn new(url: &str, token: String) -> Result<Self> {
        let mut owner = Self { url: url.to_owned(), token, agent: String::new(), house: String::new(), thread: String::new() };
        owner.agent = text(&owner.get("/api/me")?.json()?["agent_id"])?;
        Ok(owner)
    }

    fn send(&self, method: &str, path: &str, body: &Value) -> Result<Reply> {
        let mut headers = vec![("Authorization", format!("Bearer {}", self.token))];
        if path == "/mcp" {
            headers.push(("Accept", "application/json, text/event-stream".to_owned()));
            headers.push(("MCP-Protocol-Version", "2025-06-18".to_owned()));
        }
        let body = if body.is_null() { String::new() } else { body.to_string() };
        headers.extend((!body.is_empty()).then(|| ("Content-Type", "application/json".to_owned())));
        let answer = request(&self.url, method, path, &headers, body.as_bytes())?;
        Ok(Reply { status: answer.status, text: String::from_utf8(answer.body)? })
    }

    fn get(&self, path: &str) -> Result<Reply> {
        self.send("GET", path, &Value::Null)
    }

    /// It succeeds.
    fn ask(&self, path: &str, body: &Value) -> Result<Value> {
        let reply = self.send("POST", path, body)?;
        ensure!((200..300).contains(&reply.status), "{path} {body}: {reply:?}");
        reply.json()
    }

    fn make(&self, path: &str, body: &Value, id: &str) -> Result<String> {
        text(&self.ask(path, body)?[id])
    }

    /// Returns the position up to which it is written.
    fn say(&self, words: &str) -> Result<u64> {
        let done = self.ask(&format!("/api/threads/{}/entries", self.thread), &json!({ "text": words }))?;
        done["position"].as_u64().context("a position")
    }

    /// Fills the house, and waits until everything can be found and read.
    fn settle(&mut self, told: &Told) -> Result<()> {
        self.thread = self.make("/api/threads", &json!({ "house_id": self.house }), "thread_id")?;
        let done = self.ask("/v1/ingest", &batch(told))?;
        ensure!(done["refused"] == 0, "{done}");
        let position = self.say(told.entry)?;
        let all = json!({ "protocol_version": 1, "query": "furnace", "min_position": position });
        self.ask("/v1/search", &all)?;
        self.ask("/v1/get", &json!({ "protocol_version": 1, "session_id": told.session, "min_position": position }))?;
        Ok(())
    }

    fn search(&self, asked: &Value) -> Result<Reply> {
        self.send("POST", "/v1/search", &versioned(asked)?)
    }

    fn read(&self, asked: &Value) -> Result<Reply> {
        self.send("POST", "/v1/get", &versioned(asked)?)
    }

    /// The ids of sessions that are found.
    fn found(&self, asked: &Value) -> Result<Vec<String>> {
        let reply = self.search(asked)?;
        ensure!(reply.status == 200, "{reply:?}");
        let answer = reply.json()?;
        answer["sessions"].as_array().context("sessions")?.iter().map(|session| text(&session["session_id"])).collect()
    }

    fn mcp(&self, method: &str, params: Value) -> Result<Reply> {
        let reply = self.send("POST", "/mcp", &json!({ "jsonrpc": "2.0", "id": 1, "method": method, "params": params }))?;
        ensure!(reply.status == 200, "{method}: {reply:?}");
        Ok(reply)
    }

    /// What a tool says, and whether that is a refusal.
    fn call(&self, tool: &str, arguments: &Value) -> Result<(String, bool)> {
        let reply = self.mcp("tools/call", json!({ "name": tool, "arguments": arguments }))?;
        let answer = reply.json()?;
        Ok((text(&answer["result"]["content"][0]["text"])?, answer["result"]["isError"] == true))
    }
}

fn versioned(asked: &Value) -> Result<Value> {
    let mut body = asked.clone();
    body.as_object_mut().context("fields")?.insert("protocol_version".to_owned(), json!(1));
    Ok(body)
}

fn batch(told: &Told) -> Value {
    let said = |id: &str, role: &str, second: u32, words: &str| {
        let timestamp = format!("2026-01-01T00:00:{second:02}Z");
        let message = json!({ "kind": "message", "session_id": told.session, "id": id, "role": role, "timestamp": timestamp });
        let part = json!({ "kind": "part", "session_id": told.session, "message_id": id, "id": "0", "type": "text",
            "provenance": "conversational", "text": words });
        [message, part]
    };
    let session = json!({ "kind": "session", "id": told.session, "source_agent": told.client, "project": told.project,
        "created_at": "2026-01-01T00:00:00Z" });
    let asked = said(told.message, "user", 1, told.asked);
    let answered = said("answer", "assistant", 2, told.answered);
    let events: Vec<Value> = std::iter::once(session).chain(asked).chain(answered).collect();
    json!({ "protocol_version": 1, "events": events })
}

#[test]
fn a_house_finds_its_own_words_over_http() -> Result<()> {
    let Some(site) = Site::shared()? else { return Ok(()) };
    for (owner, told, words) in [
        (&site.ours, &OURS, ["walrus", "walrusHandlerFactory", "HandlerFac", "src/walrus.rs"]),
        (&site.theirs, &THEIRS, ["saffronvault", "zibberquaxHandlerFactory", "ibberqua", "src/zibber.rs"]),
    ] {
        for query in words {
            let found = owner.found(&json!({ "query": query }))?;
            assert!(found.iter().any(|id| id == told.session), "{query}: {found:?}");
        }
        for filter in filters(told) {
            assert_eq!(owner.found(&filter)?, [told.session], "{filter}");
        }
        let entries = owner.get(&format!("/api/search?thread={}&q={}", owner.thread, words[0]))?.json()?;
        assert_eq!((&entries["total"], &entries["entries"][0]["thread_id"]), (&json!(1), &json!(owner.thread)), "{entries}");
        assert_eq!(owner.read(&json!({ "session_id": told.session }))?.json()?["messages"][0]["text"], told.asked);
    }
    let slip = site.theirs.search(&json!({ "query": "zibberquas" }))?.json()?;
    assert!(slip["hints"].to_string().contains("there is zibberquax"), "{slip}");
    let entries = site.theirs.get("/api/search?q=zobberquax")?.json()?;
    assert_eq!(entries["hints"], json!([r#"nobody says "zobberquax"; there is zibberquax"#]), "{entries}");
    site.is_well()
}

/// What only the named house has, in words that both say.
fn filters(told: &Told) -> [Value; 4] {
    let beginning = format!("{}*", &told.project[..told.project.len() - 2]);
    [
        json!({ "query": "furnace", "session_id": told.session }),
        json!({ "query": "furnace", "project": told.project }),
        json!({ "query": "furnace", "project": beginning }),
        json!({ "query": "furnace", "source_agent": told.client }),
    ]
}

#[test]
fn a_model_finds_the_words_of_its_house_over_mcp() -> Result<()> {
    let Some(site) = Site::shared()? else { return Ok(()) };
    let greeting =
        json!({ "protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": { "name": "test", "version": "1" } });
    let hello = site.theirs.mcp("initialize", greeting)?.json()?;
    assert_eq!(hello["result"]["serverInfo"]["name"], "arbe", "{hello}");
    let tools = site.theirs.mcp("tools/list", json!({}))?.json()?;
    let names: Vec<_> = tools["result"]["tools"].as_array().context("tools")?.iter().map(|tool| &tool["name"]).collect();
    assert_eq!(names, ["pond_search", "pond_get"]);
    let (found, refused) = site.theirs.call("pond_search", &json!({ "query": "saffronvault" }))?;
    assert!(!refused && found.contains(THEIRS.session) && found.contains(THEIRS.asked), "{found}");
    let message = json!({ "session_id": THEIRS.session, "message_id": THEIRS.message });
    let (got, refused) = site.theirs.call("pond_get", &message)?;
    assert!(!refused && got.contains(THEIRS.asked) && got.contains(THEIRS.answered), "{got}");
    let resource = |uri: &str| -> Result<String> {
        let read = site.theirs.mcp("resources/read", json!({ "uri": uri }))?.json()?;
        text(&read["result"]["contents"][0]["text"])
    };
    assert!(resource("schema://pond")?.contains("# What can be searched"));
    let stats: Value = serde_json::from_str(&resource("stats://pond")?)?;
    assert_eq!(stats["clients"][THEIRS.client], 1, "{stats}");
    assert!(stats["searchable_messages"].as_u64().is_some_and(|messages| messages >= 2), "{stats}");
    let nobody = request(&site.ours.url, "POST", "/mcp", &[], b"{}")?;
    assert_eq!(nobody.status, 401);
    site.is_well()
}

#[test]
fn a_house_finds_nothing_of_another_over_http() -> Result<()> {
    let Some(site) = Site::shared()? else { return Ok(()) };
    let (ours, theirs) = (&site.ours, &site.theirs);
    for query in LOOKED_FOR {
        let reply = ours.search(&json!({ "query": query }))?;
        assert_eq!((reply.status, &reply.json()?["sessions"]), (200, &json!([])), "{query}: {reply:?}");
        assert!(!reply.text.contains("there is"), "{query}: {reply:?}");
        reply.keeps_quiet(query)?;
        let entries = ours.get(&format!("/api/search?q={}", query.replace(' ', "%20")))?;
        assert_eq!((entries.status, &entries.json()?["total"]), (200, &json!(0)), "{query}: {entries:?}");
        assert!(entries.text.contains("nobody says") && !entries.text.contains("there is"), "{query}: {entries:?}");
        entries.keeps_quiet(query)?;
    }
    for filter in filters(&THEIRS) {
        let reply = ours.search(&filter)?;
        assert_eq!((reply.status, &reply.json()?["sessions"]), (200, &json!([])), "{filter}: {reply:?}");
        reply.keeps_quiet(&filter.to_string())?;
    }
    let named = ours.search(&json!({ "query": "furnace", "namespace": theirs.house }))?;
    assert_eq!((named.status, &named.json()?["error"]["code"]), (403, &json!("namespace_unknown")), "{named:?}");
    named.keeps_quiet("")?;
    for (path, status) in [
        (format!("/api/search?q=furnace&thread={}", theirs.thread), 404),
        (format!("/api/search?q=furnace&house={}", theirs.house), 404),
        (format!("/api/search?q=furnace&house={}&thread={}", ours.house, theirs.thread), 200),
        (format!("/api/search?author={}", theirs.agent), 200),
    ] {
        let reply = ours.get(&path)?;
        assert_eq!(reply.status, status, "{path}: {reply:?}");
        assert!(status == 404 || reply.json()?["total"] == 0, "{path}: {reply:?}");
        reply.keeps_quiet("")?;
    }
    site.is_well()
}

#[test]
fn a_house_reads_nothing_of_another_by_its_ids() -> Result<()> {
    let Some(site) = Site::shared()? else { return Ok(()) };
    let (ours, theirs) = (&site.ours, &site.theirs);
    for (wanted, status) in [
        (json!({ "session_id": THEIRS.session }), 404),
        (json!({ "message_id": THEIRS.message }), 404),
        (json!({ "session_id": THEIRS.session, "message_id": THEIRS.message }), 404),
        (json!({ "session_id": theirs.thread }), 404),
        (json!({ "session_id": THEIRS.session, "namespace": theirs.house }), 403),
        (json!({ "session_id": theirs.thread, "namespace": theirs.house }), 403),
    ] {
        let reply = ours.read(&wanted)?;
        assert_eq!(reply.status, status, "{wanted}: {reply:?}");
        reply.keeps_quiet(&wanted.to_string())?;
    }
    site.is_well()
}

#[test]
fn a_model_finds_and_reads_nothing_of_another_house() -> Result<()> {
    let Some(site) = Site::shared()? else { return Ok(()) };
    let (ours, theirs) = (&site.ours, &site.theirs);
    let mut searches: Vec<Value> = LOOKED_FOR.iter().map(|query| json!({ "query": query })).collect();
    searches.extend(filters(&THEIRS));
    for arguments in searches {
        let (said, refused) = ours.call("pond_search", &arguments)?;
        assert!(!refused && said.starts_with("No message fits.") && !said.contains("there is"), "{arguments}: {said}");
        Reply { status: 200, text: said }.keeps_quiet(&arguments.to_string())?;
    }
    for (tool, arguments) in [
        ("pond_search", json!({ "query": "furnace", "namespace": theirs.house })),
        ("pond_get", json!({ "session_id": THEIRS.session })),
        ("pond_get", json!({ "message_id": THEIRS.message })),
        ("pond_get", json!({ "session_id": theirs.thread })),
        ("pond_get", json!({ "session_id": THEIRS.session, "namespace": theirs.house })),
    ] {
        let (said, refused) = ours.call(tool, &arguments)?;
        assert!(refused, "{tool} {arguments}: {said}");
        Reply { status: 200, text: said }.keeps_quiet(&arguments.to_string())?;
    }
    let own = ours.mcp("resources/read", json!({ "uri": "stats://pond" }))?;
    own.keeps_quiet("")?;
    let other = ours.mcp("resources/read", json!({ "uri": format!("stats://pond?namespace={}", theirs.house) }))?;
    assert!(other.json()?["error"].is_object(), "{other:?}");
    other.keeps_quiet("")?;
    site.is_well()
}

#[test]
fn an_entry_is_found_within_a_second_of_its_append() -> Result<()> {
    let Some(site) = Site::shared()? else { return Ok(()) };
    for word in ["umbelliferous", "quernstone", "palimpsest", "ferrotype", "oubliette"] {
        site.ours.say(&format!("somebody mentions the {word} by the way"))?;
        let since = Instant::now();
        let found = loop {
            let found = site.ours.get(&format!("/api/search?q={word}"))?.json()?;
            if found["total"] == 1 || since.elapsed() > SOON {
                break found;
            }
            std::thread::sleep(Duration::from_millis(10));
        };
        assert_eq!((&found["total"], &found["entries"][0]["thread_id"]), (&json!(1), &json!(site.ours.thread)), "{found}");
        assert!(found["entries"][0]["snippet"].as_str().is_some_and(|text| text.contains(&format!("«{word}»"))), "{found}");
    }
    site.is_well()
}
