//! The statements that apply folded changes. Each takes all rows of its kind as one JSON array.

pub(crate) const HOUSES_NEW: &str = "
insert into houses (id, name, default_environment_id, created_at)
select id, name, default_environment_id, arbe.at(created_at)
from json_to_recordset($1::json) u(id text, name text, default_environment_id text, created_at bigint)";

pub(crate) const AGENTS_NEW: &str = "
insert into agents (id, kind, runtime, name, created_at)
select id, kind, runtime, name, arbe.at(created_at)
from json_to_recordset($1::json) u(id uuid, kind text, runtime text, name text, created_at bigint)";

pub(crate) const AGENT_KEYS_NEW: &str = "
insert into agent_keys (agent_id, id, hash, label, created_at, revoked_at)
select agent_id, id, hash, label, arbe.at(created_at), arbe.at(revoked_at)
from json_to_recordset($1::json) u(agent_id uuid, id text, hash text, label text, created_at bigint, revoked_at bigint)";

pub(crate) const MEMBERS_NEW: &str = "
insert into members (house_id, agent_id, role, joined_at)
select house_id, agent_id, role, arbe.at(joined_at)
from json_to_recordset($1::json) u(house_id text, agent_id uuid, role text, joined_at bigint)";

pub(crate) const ENVIRONMENTS_NEW: &str = "
insert into environments (id, house_id, name, config, secret_bindings, created_at)
select id, house_id, name, config, secret_bindings, arbe.at(created_at)
from json_to_recordset($1::json) u(id text, house_id text, name text, config jsonb, secret_bindings jsonb, created_at bigint)
on conflict (id) do nothing";

pub(crate) const SECRETS_NEW: &str = "
insert into secrets (id, house_id, name, author_id, vault_secret_id, created_at, rotated_at, deleted_at)
select id, house_id, name, author_id, vault_secret_id, arbe.at(created_at), arbe.at(rotated_at), arbe.at(deleted_at)
from json_to_recordset($1::json)
    u(id text, house_id text, name text, author_id uuid, vault_secret_id uuid, created_at bigint, rotated_at bigint,
      deleted_at bigint)
on conflict (id) where deleted_at is null do nothing";

pub(crate) const SANDBOXES_NEW: &str = "
insert into sandboxes (id, house_id, environment_id, provider, provider_ref, status, created_at, destroyed_at)
select id, house_id, environment_id, provider, provider_ref, status, arbe.at(created_at), arbe.at(destroyed_at)
from json_to_recordset($1::json)
    u(id text, house_id text, environment_id text, provider text, provider_ref text, status text, created_at bigint,
      destroyed_at bigint)
on conflict (id) do nothing";

pub(crate) const THREADS_NEW: &str = "
insert into threads (id, house_id, stream_id, name, pinned_at, parent_thread_id, parent_agent_id, environment_id, sandbox_id,
    agent_id, tags, status, created_at, updated_at)
select id, house_id, stream_id, name, arbe.at(pinned_at), parent_thread_id, parent_agent_id, environment_id, sandbox_id,
    agent_id, tags, status, arbe.at(created_at), arbe.at(updated_at)
from json_to_recordset($1::json)
    u(id text, house_id text, stream_id text, name text, pinned_at bigint, parent_thread_id text, parent_agent_id uuid,
      environment_id text, sandbox_id text, agent_id uuid, tags text[], status text, created_at bigint, updated_at bigint)";

pub(crate) const HOUSES_CHANGED: &str = "
update houses t set
    name = coalesce(j->>'name', t.name),
    default_environment_id =
        case when j ? 'default_environment_id' then j->>'default_environment_id' else t.default_environment_id end
from jsonb_array_elements($1::jsonb) j where t.id = j->>'key'";

pub(crate) const AGENTS_CHANGED: &str = "
update agents t set name = j->>'name'
from jsonb_array_elements($1::jsonb) j where t.id = (j->>'key')::uuid";

pub(crate) const AGENT_KEYS_CHANGED: &str = "
update agent_keys t set revoked_at = arbe.at((j->>'revoked_at')::bigint)
from jsonb_array_elements($1::jsonb) j where t.agent_id = (j->'key'->>0)::uuid and t.id = j->'key'->>1";

pub(crate) const MEMBERS_CHANGED: &str = "
update members t set role = j->>'role'
from jsonb_array_elements($1::jsonb) j where t.house_id = j->'key'->>0 and t.agent_id = (j->'key'->>1)::uuid";

/// Bindings are kept sorted by name, so that the same bindings are the same value however they came about.
pub(crate) const ENVIRONMENTS_CHANGED: &str = r#"
update environments t set
    name = coalesce(j->>'name', t.name),
    config = coalesce(j->'config', t.config),
    secret_bindings = case when not j ? 'bindings' then t.secret_bindings else (
        select coalesce(jsonb_agg(binding order by binding->>'name' collate "C"), '[]')
        from (
            select old as binding from jsonb_array_elements(t.secret_bindings) old where not (j->'bindings') ? (old->>'name')
            union all
            select jsonb_build_object('name', name, 'required', required)
            from jsonb_each(j->'bindings') new(name, required) where required <> 'null'
        ) kept
    ) end
from jsonb_array_elements($1::jsonb) j where t.id = j->'key'->>1 and t.house_id = j->'key'->>0"#;

pub(crate) const SECRETS_CHANGED: &str = "
update secrets t set
    vault_secret_id = coalesce((j->>'vault_secret_id')::uuid, t.vault_secret_id),
    rotated_at = coalesce(arbe.at((j->>'rotated_at')::bigint), t.rotated_at),
    deleted_at = arbe.at((j->>'deleted_at')::bigint)
from jsonb_array_elements($1::jsonb) j
where t.id = j->'key'->>1 and t.house_id = j->'key'->>0 and t.deleted_at is null";

pub(crate) const SANDBOXES_CHANGED: &str = "
update sandboxes t set
    status = j->>'status',
    provider_ref = coalesce(j->>'provider_ref', t.provider_ref),
    destroyed_at = coalesce(arbe.at((j->>'destroyed_at')::bigint), t.destroyed_at)
from jsonb_array_elements($1::jsonb) j where t.id = j->'key'->>1 and t.house_id = j->'key'->>0";

pub(crate) const THREADS_CHANGED: &str = "
update threads t set
    name = case when j ? 'name' then j->>'name' else t.name end,
    pinned_at = case when j ? 'pinned_at' then arbe.at((j->>'pinned_at')::bigint) else t.pinned_at end,
    environment_id = case when j ? 'environment_id' then j->>'environment_id' else t.environment_id end,
    sandbox_id = case when j ? 'sandbox_id' then j->>'sandbox_id' else t.sandbox_id end,
    tags = case when j ? 'tags' then array(select jsonb_array_elements_text(j->'tags')) else t.tags end,
    status = coalesce(j->>'status', t.status),
    updated_at = arbe.at((j->>'updated_at')::bigint)
from jsonb_array_elements($1::jsonb) j where t.id = j->>'key'";

pub(crate) const WORK_DONE: &str = "
delete from reconciliation t using json_to_recordset($1::json) u(kind text, subject text)
where t.kind = u.kind and t.subject = u.subject";

pub(crate) const WORK_SEEN: &str = "
update reconciliation t set seen = arbe.at(u.seen)
from json_to_recordset($1::json) u(kind text, subject text, seen bigint)
where t.kind = u.kind and t.subject = u.subject";

/// A notice to a parent is only due where there is one; work on a sandbox only where the house has it. Of two deaths the
/// first has the cause.
pub(crate) const WORK_PUT: &str = "
insert into reconciliation (kind, subject, house_id, thread_id, sandbox_id, agent_id, since, seen, detail)
select u.kind, u.subject, coalesce(u.house_id, t.house_id), u.thread_id, u.sandbox_id, coalesce(u.agent_id, t.agent_id),
    arbe.at(u.since), arbe.at(u.seen), u.detail
from json_to_recordset($1::json)
    u(kind text, subject text, house_id text, thread_id text, sandbox_id text, agent_id uuid, since bigint, seen bigint,
      detail jsonb)
left join threads t on t.id = u.thread_id
left join sandboxes s on s.id = u.sandbox_id and s.house_id = u.house_id
where coalesce(u.house_id, t.house_id) is not null and (u.kind <> 'parent_notice' or t.parent_thread_id is not null)
    and (u.house_id is null or s.id is not null)
on conflict (kind, subject) do update set
    house_id = excluded.house_id, thread_id = excluded.thread_id, sandbox_id = excluded.sandbox_id,
    agent_id = excluded.agent_id, since = excluded.since, seen = excluded.seen, detail = excluded.detail
where excluded.kind <> 'sandbox_dead'";

pub(crate) const DROP_ENVIRONMENT: &str = "
delete from environments e where e.house_id = $1 and e.id = $2
    and not exists (select from threads t where t.house_id = e.house_id and t.environment_id = e.id)
    and not exists (select from sandboxes s where s.house_id = e.house_id and s.environment_id = e.id)";

pub(crate) const DROP_MEMBER: &str = "
delete from members m where m.house_id = $1 and m.agent_id = $2
    and not exists (select from threads t where t.house_id = m.house_id and t.agent_id = m.agent_id)";
