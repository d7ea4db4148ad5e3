-- What is known of the copies of every projection. Each copy of the rows is a schema of its own; queries read the live one.

create schema if not exists arbe;

create table arbe.copies (
    id         bigint generated always as identity primary key,
    projection text not null,
    version    integer not null check (version > 0),
    -- Why it was made; an unfinished copy is found again by it.
    label      text not null,
    schema     text not null unique,
    state      text not null check (state in ('building', 'live', 'retired')),
    retired_at timestamptz,
    -- The checkpoint: changed only in the transaction of the changes it stands for.
    next       bigint not null default 0 check (next >= 0),
    digest     bytea not null default decode(repeat('00', 32), 'hex') check (length(digest) = 32),
    records    bigint not null default 0,
    time_ms    bigint not null default 0,
    -- The event that cannot be applied, while that is so.
    stopped    text
);

create unique index copies_one_live on arbe.copies (projection) where state = 'live';
create unique index copies_one_per_label on arbe.copies (projection, version, label) where state = 'building';

create function arbe.at(ms bigint) returns timestamptz
    language sql immutable parallel safe
    return to_timestamp(ms / 1000.0);

-- Queries run as arbe_reader, which sees one house; whoever feeds or checks a copy runs as arbe_projector, which sees all of them.
-- Neither owns anything, so row level security binds both. The owner only becomes one or the other; where it can be kept from
-- inheriting their rights, it sees nothing by itself.
do $$
declare
    own text;
begin
    foreach own in array array['arbe_reader', 'arbe_projector'] loop
        begin
            if not exists (select from pg_roles where rolname = own) then
                execute format('create role %I nologin', own);
            end if;
        exception when duplicate_object or unique_violation then
            null;
        end;
        if not exists (
            select from pg_auth_members m
            where m.roleid = own::regrole and m.member = current_user::regrole
        ) and not (select rolsuper from pg_roles where rolname = current_user) then
            if current_setting('server_version_num')::integer >= 160000 then
                execute format('grant %I to %I with inherit false, set true', own, current_user);
            else
                execute format('grant %I to %I', own, current_user);
            end if;
        end if;
    end loop;
end
$$;

grant usage on schema arbe to arbe_reader, arbe_projector;
grant select on arbe.copies to arbe_reader, arbe_projector;
grant update on arbe.copies to arbe_projector;
grant execute on function arbe.at to arbe_reader, arbe_projector;
