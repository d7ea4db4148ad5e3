use clap::{CommandFactory, Parser};

use super::*;

fn parse(line: &str) -> Result<Verb, clap::Error> {
    Args::try_parse_from(["arbe"].into_iter().chain(line.split(' '))).map(|args| args.verb)
}

#[test]
fn the_command_line_is_well_formed_and_completions_are_made() {
    Args::command().debug_assert();
    for shell in [Shell::Bash, Shell::Zsh, Shell::Fish, Shell::Elvish, Shell::PowerShell] {
        let mut script = Vec::new();
        clap_complete::generate(shell, &mut Args::command(), "arbe", &mut script);
        assert!(String::from_utf8(script).unwrap().contains("default-env"), "{shell}");
    }
}

#[test]
fn copies_are_reached_through_the_projections() {
    for line in
        ["projections copies", "projections --json copies", "projections drop rows_v1_3 --database-url postgres://db/arbe"]
    {
        assert!(parse(line).is_ok_and(|verb| verb.needs().remote.is_none() && verb.needs().database.is_some()), "{line}");
    }
}

#[test]
fn a_server_on_stdio_is_that_of_mcp() {
    let verb = parse("serve --transport stdio --house lab").unwrap().by_its_name();
    assert!(matches!(verb, Verb::Library(LibraryVerb::Mcp(mcp)) if mcp.house.as_deref() == Some("lab")));
    assert!(matches!(parse("serve --transport http").unwrap().by_its_name(), Verb::Serve(_)));
    assert!(matches!(parse("serve").unwrap().by_its_name(), Verb::Serve(_)));
}

#[test]
fn every_verb_is_understood() {
    for line in [
        "house list --json",
        "house create lab",
        "house show h1",
        "house show --house h1",
        "house rename lab --idempotency-key k",
        "house default-env e1",
        "house default-env --none",
        "agent register ada --kind human",
        "agent register pi --kind bot --runtime pi",
        "agent register ada --kind human --id 2f1c8a52-0000-4000-8000-000000000000",
        "agent list",
        "agent show",
        "agent rename me ada",
        "agent rename me --none",
        "agent key issue me --label laptop",
        "agent key list",
        "agent key revoke me k1",
        "member list",
        "member add a1 --role owner",
        "member role a1 member",
        "member remove a1",
        "env list",
        "env create rust --recipe {}",
        "env create rust --secret A --secret B --optional-secret C",
        "env show e1",
        "env update e1 --name rust",
        "env update e1 --recipe-file -",
        "env delete e1",
        "env bind e1 DATABASE_URL --optional",
        "env unbind e1 DATABASE_URL",
        "env bind-secret e1 DATABASE_URL --optional",
        "env unbind-secret e1 DATABASE_URL",
        "env view e1",
        "secret list --limit 3 --json",
        "secret view DATABASE_URL",
        "secret set DATABASE_URL --idempotency-key k",
        "secret delete DATABASE_URL --house h1",
        "vault check --json",
        "vault rotate --new-key --vault-key-file /k",
        "serve --vault-key-command gpg --resolve-token t",
        "thread list --parent t1 --tag x --pinned --status running --agent a1 --limit 5 --min-position 9",
        "thread create hello --tag a --tag b --pin --env e1",
        "thread create",
        "thread show t1",
        "thread rename t1 --none",
        "thread pin t1",
        "thread unpin t1",
        "thread tag t1 a b",
        "thread untag t1 a",
        "thread env t1 --none",
        "thread close t1",
        "thread reopen t1",
        "thread delegate t1 --agent a1 --tag x",
        "thread delegate t1 --agent pia fix --name n --env e1 --sandbox s1 --follow",
        "thread delegate t1 - --agent pia",
        "thread run t1 -- ls -l --json",
        "thread run t1 --cwd web --timeout 10m --json -- make",
        "thread cancel t1",
        "thread resume t1",
        "thread resume t1 -",
        "thread resume t1 -hello --json",
        "thread diagnose t1 --json",
        "thread prune --house h1",
        "thread start t1",
        "thread finish t1 r1 --status completed",
        "thread finish t1 r1 --status failed --message broken --error-class build --exit-code -9",
        "thread token t1",
        "sandbox list --limit 3 --json",
        "sandbox list --reconcile --limit 3",
        "sandbox list --runtime daytona",
        "sandbox list --provider daytona --reconcile",
        "sandbox show s1",
        "sandbox request local --env e1 --thread t1",
        "sandbox live s1 container-17",
        "sandbox dead s1 --reason gone",
        "sandbox destroy s1",
        "sandbox resume s1 --provider local",
        "permission list t1 --json",
        "permission allow t1 r1.1",
        "permission deny t1 r1.1 --reason no --idempotency-key k",
        "entry list t1 --after 3",
        "entry append t1 --type chat --payload {}",
        "entry append t1 --batch -",
        "say t1 -",
        "say t1 -hello --url http://localhost --token t",
        "say t1 hello --to a1 --reply-to 5WRWJC69WPZV5X2M5YCXF0HG6S",
        "tail t1 --from -1 --no-follow --json",
        "tail t1 --from-start",
        "tail t1 -n 3",
        "projections",
        "whoami --url http://localhost:1",
        "rebuild postgres-rows --until 12",
        "verify postgres-rows other",
        "log cat s --follow",
    ] {
        assert!(parse(line).is_ok(), "{line}: {}", parse(line).unwrap_err());
    }
}

#[test]
fn what_makes_no_sense_is_a_usage_error() {
    for line in [
        "thread show ../x",
        "thread rename t1",
        "thread tag t1",
        "thread create x --parent t1 --parent-agent a1",
        "thread run t1",
        "thread run t1 ls",
        "thread run t1 --timeout soon -- ls",
        "thread delegate t1 task",
        "thread delegate t1 --agent a1 --follow",
        "thread prune t1",
        "thread finish t1 r1",
        "thread finish t1 r1 --status failed --exit-code 1",
        "thread finish t1 r1 --status open",
        "sandbox request",
        "sandbox live s1",
        "permission allow t1",
        "permission allow t1 r1.1 --reason yes",
        "permission deny ../x r1.1",
        "house default-env",
        "house default-env e1 --none",
        "env update e1",
        "env bind e1 not-a-name",
        "env create x --secret not-a-name",
        "secret set not-a-name",
        "secret set NAME value",
        "secret",
        "vault",
        "env create x --recipe {} --recipe-file f",
        "agent register x --kind bot",
        "agent register x --kind human --id me",
        "say t1 hello --reply-to e1",
        "member add a1 --role king",
        "entry append t1 --type chat",
        "entry append t1 --type chat --payload {} --batch f",
        "entry append t1 --payload {}",
        "tail t1 --from 1_2 --from-start",
        "rebuild --until soon",
        "whoami --house a/b",
    ] {
        assert!(parse(line).is_err(), "{line}");
    }
}

#[test]
fn until_is_a_position_or_a_time() {
    assert_eq!("12".parse(), Ok(Until::Position(12)));
    assert_eq!("1970-01-01T00:00:01Z".parse(), Ok(Until::Time(1_000)));
    assert_eq!("1970-01-01T01:00:01+01:00".parse(), Ok(Until::Time(1_000)));
    assert!(matches!("2026-11-16".parse(), Ok(Until::Time(_))));
    assert!("1969-01-01T00:00:00Z".parse::<Until>().is_err());
    assert_eq!(Until::Time(1_000).to_string(), "1970-01-01T00:00:01Z");
}
