-- One copy of the rows, in the schema that is first in the search path. Never edited: a change is a new version, built beside.

create table houses (
    id                     text primary key,
    name                   text not null,
    default_environment_id text,
    created_at             timestamptz not null
);

create table agents (
    id         uuid primary key,
    kind       text not null check (kind in ('human', 'bot')),
    runtime    text,
    name       text,
    created_at timestamptz not null,
    constraint agents_human_has_no_runtime check (kind = 'bot' or runtime is null),
    constraint agents_bot_has_runtime check (kind <> 'bot' or runtime is not null)
);

create table members (
    house_id  text not null references houses (id) on delete cascade,
    agent_id  uuid not null references agents (id) on delete cascade,
    role      text not null check (role in ('owner', 'member')),
    joined_at timestamptz not null,
    primary key (house_id, agent_id)
);

create table environments (
    id              text primary key,
    house_id        text not null references houses (id) on delete cascade,
    name            text not null,
    config          jsonb not null default '{}',
    secret_bindings jsonb not null default '[]',
    created_at      timestamptz not null,
    unique (house_id, id)
);

create table secrets (
    id              text not null,
    house_id        text not null references houses (id) on delete cascade,
    name            text not null,
    -- Who made it. Gates nothing.
    author_id       uuid,
    vault_secret_id uuid not null,
    created_at      timestamptz not null,
    -- When the value came that it has now.
    rotated_at      timestamptz not null,
    deleted_at      timestamptz
);

-- What is deleted is in nobody's way.
create unique index secrets_id_key on secrets (id) where deleted_at is null;
create unique index secrets_house_id_name_key on secrets (house_id, name) where deleted_at is null;

create table sandboxes (
    id             text primary key,
    house_id       text not null references houses (id) on delete cascade,
    environment_id text not null,
    provider       text not null,
    provider_ref   text,
    status         text not null default 'pending' check (status in ('pending', 'live', 'dead')),
    created_at     timestamptz not null,
    destroyed_at   timestamptz,
    unique (house_id, id),
    foreign key (house_id, environment_id) references environments (house_id, id)
);

create table threads (
    id               text primary key,
    house_id         text not null references houses (id) on delete cascade,
    stream_id        text not null unique,
    name             text,
    pinned_at        timestamptz,
    parent_thread_id text,
    parent_agent_id  uuid references agents (id) on delete cascade,
    environment_id   text,
    sandbox_id       text,
    agent_id         uuid,
    tags             text[] not null default '{}',
    status           text not null default 'open',
    created_at       timestamptz not null,
    updated_at       timestamptz not null,
    unique (house_id, id),
    constraint threads_status_fits_driver check (
        (agent_id is null and status in ('open', 'closed')) or
        (agent_id is not null and status in ('idle', 'running', 'completed', 'failed', 'cancelled'))
    ),
    constraint threads_one_parent check (num_nonnulls(parent_thread_id, parent_agent_id) <= 1),
    foreign key (house_id, agent_id) references members (house_id, agent_id),
    foreign key (house_id, environment_id) references environments (house_id, id),
    foreign key (house_id, sandbox_id) references sandboxes (house_id, id) on delete set null (sandbox_id),
    foreign key (house_id, parent_thread_id) references threads (house_id, id) on delete cascade
);

create index on threads (parent_thread_id);
create index on threads (sandbox_id);
create index on threads (house_id) where pinned_at is not null;
create index on members (agent_id);
create index on environments using gin (secret_bindings);
create index on threads using gin (tags);
create index on environments (house_id);
create index on secrets (house_id);
create index on sandboxes (house_id);
create index on threads (house_id);

-- Not what people see of a house: the keys of agents (hashes only), and what drivers have to do.
create table agent_keys (
    agent_id   uuid not null references agents (id) on delete cascade,
    id         text not null,
    hash       text not null,
    label      text,
    created_at timestamptz not null,
    revoked_at timestamptz,
    primary key (agent_id, id)
);

create index on agent_keys (hash);

create table reconciliation (
    kind       text not null check (kind in (
                   'thread_idle', 'run_queued', 'run_live', 'parent_notice',
                   'command_running', 'permission_requested', 'sandbox_pending', 'sandbox_dead'
               )),
    -- What is pending: a thread, a sandbox, or a thread and an id of its own, as `thread/id`.
    subject    text not null,
    house_id   text not null references houses (id) on delete cascade,
    thread_id  text,
    sandbox_id text,
    -- For whom.
    agent_id   uuid,
    since      timestamptz not null,
    -- The last sign of life.
    seen       timestamptz not null,
    detail     jsonb not null default '{}',
    primary key (kind, subject)
);

create index on reconciliation (house_id);
create index on reconciliation (kind, since);
create index on reconciliation (thread_id);

-- A dead sandbox is only work while a thread stands on it.
create view pending with (security_invoker = true) as
    select r.*
    from reconciliation r
    where r.kind <> 'sandbox_dead'
       or exists (select from threads t where t.house_id = r.house_id and t.sandbox_id = r.subject);

-- Row level security, also for the owner.
do $$
declare
    own text;
begin
    foreach own in array array['houses', 'members', 'environments', 'secrets', 'sandboxes', 'threads', 'reconciliation', 'agents', 'agent_keys'] loop
        execute format('alter table %I enable row level security', own);
        execute format('alter table %I force row level security', own);
        execute format('create policy projector on %I to arbe_projector using (true)', own);
    end loop;
    foreach own in array array['members', 'environments', 'secrets', 'sandboxes', 'threads', 'reconciliation'] loop
        execute format(
            'create policy tenant on %I for select using (house_id = nullif(current_setting(''app.house_id'', true), ''''))', own);
    end loop;
    execute format('grant usage on schema %I to arbe_reader, arbe_projector', current_schema());
    execute format('grant select, insert, update, delete on all tables in schema %I to arbe_projector', current_schema());
end
$$;

create policy tenant on houses for select using (id = nullif(current_setting('app.house_id', true), ''));

-- Agents are global, but a house knows only its members.
create policy tenant on agents for select using (exists (select from members m where m.agent_id = agents.id));

grant select on houses, agents, members, environments, secrets, sandboxes, threads, reconciliation, pending to arbe_reader;
