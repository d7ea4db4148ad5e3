//! Any event of any kind.

use proptest::collection::{btree_set, vec};
use proptest::option::of;
use proptest::prelude::*;
use proptest::sample::select;

use crate::session::{self, Content as MessageContent, MessageId, PartId, Provenance, SessionId, Timestamp};
use crate::{
    AgentId, AgentKind, Chat, EnvironmentId, Event, EventId, HouseId, Json, JsonObject, KeyHash, KeyId, OutputStream, PiEntry,
    Role, RunId, Runtime, SandboxId, SecretId, StatusReason, ThreadId, ThreadStatus, Ulid, Uuid, directory, dispatch, house,
    thread,
};

pub(super) fn agent_id() -> impl Strategy<Value = AgentId> {
    any::<u128>().prop_map(|bits| AgentId(Uuid::from_u128(bits)))
}

pub(super) fn event_id() -> impl Strategy<Value = EventId> {
    any::<u128>().prop_map(|bits| EventId(Ulid(bits)))
}

/// JSON with spaces, number spellings, escapes and doubled keys that a parser would not write.
pub(super) fn json_text() -> impl Strategy<Value = String> {
    let leaf = select(vec![
        "null",
        "true",
        "0",
        "-0.0",
        "1.50",
        "1E400",
        "123456789012345678901234567890",
        r#""\u00e9\/""#,
        r#""\ud800""#,
        "\"é🙏\"",
    ]);
    leaf.prop_map(str::to_owned).prop_recursive(4, 32, 4, |inner| {
        let space = || select(vec!["", " ", "\n\t"]);
        let field = (space(), "[a-b\"]?", inner.clone()).prop_map(|(space, key, value)| {
            let key = key.replace('"', "\\\"");
            format!("{space}\"{key}\":{space}{value}")
        });
        prop_oneof![
            (vec(inner, 0..4), space()).prop_map(|(items, space)| format!("[{space}{}]", items.join(","))),
            (vec(field, 0..4), space()).prop_map(|(fields, space)| format!("{{{}{space}}}", fields.join(","))),
        ]
    })
}

fn config() -> impl Strategy<Value = JsonObject> {
    json_text().prop_map(|value| JsonObject::parse(&format!("{{ \"value\": {value}}}")).unwrap())
}

fn text() -> impl Strategy<Value = String> {
    prop_oneof![9 => ".{0,24}", 1 => Just("\0\u{2028}\"\\/\r\n🙏".to_owned())]
}

fn tags() -> impl Strategy<Value = Vec<String>> {
    btree_set("[a-z]{1,4}", 0..4).prop_map(|tags| tags.into_iter().collect())
}

macro_rules! short_ids {
    ($($function:ident $id:ident)*) => {$(
        fn $function() -> impl Strategy<Value = $id> {
            "[A-Za-z0-9_-]{1,64}".prop_map(|text| $id::new(&text).unwrap())
        }
    )*};
}

short_ids! {
    house_id HouseId
    thread_id ThreadId
    environment_id EnvironmentId
    secret_id SecretId
    sandbox_id SandboxId
    run_id RunId
    key_id KeyId
}

fn status() -> impl Strategy<Value = ThreadStatus> {
    use ThreadStatus::*;
    select(vec![Open, Closed, Idle, Running, Completed, Failed, Cancelled])
}

fn reason() -> impl Strategy<Value = StatusReason> {
    use StatusReason::*;
    select(vec![Finished, Error, Exit, Orphaned, Timeout, Cancelled, Resumed, Closed, Reopened])
}

fn role() -> impl Strategy<Value = Role> {
    select(vec![Role::Owner, Role::Member])
}

fn vault_id() -> impl Strategy<Value = Uuid> {
    any::<u128>().prop_map(Uuid::from_u128)
}

fn runtime() -> impl Strategy<Value = Runtime> {
    "[a-zü -]{1,64}".prop_map(|name| Runtime::new(&name).unwrap())
}

fn key_hash() -> impl Strategy<Value = KeyHash> {
    "[0-9a-f]{64}".prop_map(|hex| KeyHash::new(&hex).unwrap())
}

/// A strategy for a payload from one for each of its fields.
macro_rules! payload {
    ($($path:ident)::+ { $($field:ident: $strategy:expr),* $(,)? }) => {
        ($($strategy,)*).prop_map(|($($field,)*)| Event::from($($path)::+ { $($field),* })).boxed()
    };
}

pub(super) fn event() -> impl Strategy<Value = Event> {
    let families = [
        content(),
        thread(),
        machines_of_threads(),
        dispatch(),
        commands(),
        house(),
        environments(),
        secrets_and_sandboxes(),
        directory(),
        session(),
    ];
    proptest::strategy::Union::new(families.into_iter().flatten())
}

type Strategies = Vec<BoxedStrategy<Event>>;

fn content() -> Strategies {
    let pi = ("pi\\.[a-z_.]{1,20}", any::<u32>(), json_text());
    vec![
        payload!(Chat { text: text(), to: of(agent_id()), reply_to: of(event_id()) }),
        pi.prop_map(|(kind, v, payload)| PiEntry::new(&kind, v, Json::parse(&payload).unwrap()).unwrap().into()).boxed(),
    ]
}

fn thread() -> Strategies {
    vec![
        payload!(thread::Created {
            thread_id: thread_id(),
            house_id: house_id(),
            name: of(text()),
            parent_thread_id: of(thread_id()),
            parent_agent_id: of(agent_id()),
            environment_id: of(environment_id()),
            sandbox_id: of(sandbox_id()),
            agent_id: of(agent_id()),
            tags: tags(),
            pinned: any::<bool>(),
        }),
        payload!(thread::Renamed { name: of(text()) }),
        Just(thread::Pinned {}.into()).boxed(),
        Just(thread::Unpinned {}.into()).boxed(),
        payload!(thread::Tagged { tags: tags() }),
        payload!(thread::EnvironmentSet { environment_id: of(environment_id()) }),
        payload!(thread::StatusChanged { status: status(), run_id: of(run_id()), reason: of(reason()) }),
        payload!(thread::AgentSpawn { child_thread_id: thread_id() }),
        payload!(thread::ChildFinished { child_thread_id: thread_id(), status: status() }),
    ]
}

fn machines_of_threads() -> Strategies {
    vec![
        payload!(thread::SandboxSet { sandbox_id: of(sandbox_id()) }),
        payload!(thread::SandboxResumed { sandbox_id: sandbox_id(), from_sandbox_id: sandbox_id() }),
        payload!(thread::PiFailed { run_id: of(run_id()), error_class: text(), message: text(), exit_code: of(any::<i32>()) }),
        payload!(thread::PiSessionOrphaned { run_id: of(run_id()), silent_ms: any::<u64>() }),
    ]
}

fn dispatch() -> Strategies {
    vec![
        payload!(dispatch::Queued { run_id: run_id(), by: of(agent_id()) }),
        payload!(dispatch::Claimed { run_id: run_id(), server: text() }),
        payload!(dispatch::SessionStarted { run_id: run_id(), sandbox_id: of(sandbox_id()), session_ref: of(text()) }),
        payload!(dispatch::Heartbeat { run_id: run_id() }),
        payload!(dispatch::PiWaiting { run_id: run_id(), waiting_for: text() }),
        payload!(dispatch::Failed { run_id: of(run_id()), error_class: text(), message: text() }),
        payload!(dispatch::Reset { run_id: run_id(), why: text() }),
        payload!(dispatch::Cancelled { run_id: run_id() }),
        payload!(dispatch::Warned { run_id: of(run_id()), warning: text(), message: text() }),
    ]
}

fn commands() -> Strategies {
    let stream = || select(vec![OutputStream::Stdout, OutputStream::Stderr]);
    vec![
        payload!(dispatch::CommandStarted { command_id: text(), command: text(), sandbox_id: of(sandbox_id()), cwd: of(text()) }),
        payload!(dispatch::CommandOutput { command_id: text(), stream: stream(), text: text() }),
        payload!(dispatch::CommandFinished {
            command_id: text(),
            exit_code: of(any::<i32>()),
            truncated: any::<bool>(),
            duration_ms: any::<u64>(),
        }),
        payload!(dispatch::PermissionRequested { request_id: text(), action: text(), detail: of(text()) }),
        payload!(dispatch::PermissionResolved { request_id: text(), allowed: any::<bool>() }),
    ]
}

fn house() -> Strategies {
    vec![
        payload!(house::Created { house_id: house_id(), name: text() }),
        payload!(house::Renamed { name: text() }),
        payload!(house::DefaultEnvironmentSet { environment_id: of(environment_id()) }),
        payload!(house::MemberAdded { agent_id: agent_id(), role: role() }),
        payload!(house::MemberRoleSet { agent_id: agent_id(), role: role() }),
        payload!(house::MemberRemoved { agent_id: agent_id() }),
    ]
}

fn environments() -> Strategies {
    vec![
        payload!(house::EnvironmentCreated { environment_id: environment_id(), name: text(), config: config() }),
        payload!(house::EnvironmentUpdated { environment_id: environment_id(), name: text(), config: config() }),
        payload!(house::SecretBound { environment_id: environment_id(), name: text(), required: any::<bool>() }),
        payload!(house::SecretUnbound { environment_id: environment_id(), name: text() }),
        payload!(house::EnvironmentDeleted { environment_id: environment_id() }),
    ]
}

fn secrets_and_sandboxes() -> Strategies {
    vec![
        payload!(house::SecretSet { secret_id: secret_id(), name: text(), vault_secret_id: vault_id() }),
        payload!(house::SecretRotated { secret_id: secret_id(), vault_secret_id: vault_id() }),
        payload!(house::SecretDeleted { secret_id: secret_id() }),
        payload!(house::SandboxRequested { sandbox_id: sandbox_id(), environment_id: environment_id(), provider: text() }),
        payload!(house::SandboxLive { sandbox_id: sandbox_id(), provider_ref: text() }),
        payload!(house::SandboxDead { sandbox_id: sandbox_id(), reason: of(text()) }),
        payload!(house::SandboxDestroyed { sandbox_id: sandbox_id() }),
    ]
}

fn directory() -> Strategies {
    let kind = || select(vec![AgentKind::Human, AgentKind::Bot]);
    vec![
        payload!(directory::Registered { agent_id: agent_id(), kind: kind(), runtime: of(runtime()), name: of(text()) }),
        payload!(directory::Renamed { agent_id: agent_id(), name: of(text()) }),
        payload!(directory::KeyIssued { agent_id: agent_id(), key_id: key_id(), hash: key_hash(), label: of(text()) }),
        payload!(directory::KeyRevoked { agent_id: agent_id(), key_id: key_id() }),
    ]
}

fn moment() -> impl Strategy<Value = Timestamp> {
    (0..4_000_000_000_000_000_i64).prop_map(|micros| Timestamp::from_micros(micros).unwrap())
}

fn options() -> impl Strategy<Value = session::Options> {
    proptest::collection::btree_map("[a-z]{1,6}", json_text().prop_map(|text| Json::parse(&text).unwrap()), 0..3)
}

fn session() -> Strategies {
    let sessions = ("[a-z/ ]{1,9}", "[a-z-]{1,9}", moment(), text(), options());
    let messages = ("[a-z~ ]{1,9}", moment(), options(), message_content());
    vec![
        sessions
            .prop_map(|(id, source_agent, created_at, project, options)| {
                let id = SessionId::new(&id).unwrap();
                let (parent_session_id, parent_message_id) = (Some(id.clone()), None);
                let session =
                    session::Session { id, parent_session_id, parent_message_id, source_agent, created_at, project, options };
                session::Recorded { session }.into()
            })
            .boxed(),
        messages
            .prop_map(|(id, timestamp, options, content)| {
                let message = session::Message { id: MessageId::new(&id).unwrap(), timestamp, options, content };
                session::MessageRecorded { message }.into()
            })
            .boxed(),
    ]
}

fn message_content() -> impl Strategy<Value = MessageContent> {
    let value = || json_text().prop_map(|text| Json::parse(&text).unwrap());
    let part = |body: BoxedStrategy<session::AssistantBody>| {
        let provenance = select(vec![Provenance::Conversational, Provenance::Injected]);
        (0_u8..9, provenance, options(), body).prop_map(|(id, provenance, options, body)| session::Part {
            id: PartId::new(&id.to_string()).unwrap(),
            provenance,
            options,
            body,
        })
    };
    let body = prop_oneof![
        text().prop_map(|text| session::Text { text }.into()),
        text().prop_map(|text| session::Reasoning { text }.into()),
        (text(), of(text()), text()).prop_map(|(media_type, file_name, data)| {
            session::File { media_type, file_name, data: session::Data::Inline(data) }.into()
        }),
        (text(), text(), value(), any::<bool>()).prop_map(|(call_id, name, params, provider_executed)| {
            session::ToolCall { call_id, name, params, provider_executed }.into()
        }),
        (text(), of(text()), any::<bool>(), value()).prop_map(|(call_id, name, is_failure, result)| session::ToolResult {
            call_id,
            name,
            is_failure,
            result
        }
        .into()),
        (text(), text()).prop_map(|(approval_id, tool_call_id)| session::ApprovalRequest { approval_id, tool_call_id }.into()),
    ];
    prop_oneof![
        text().prop_map(MessageContent::System),
        proptest::collection::vec(part(body.boxed()), 0..4).prop_map(MessageContent::Assistant),
    ]
}
