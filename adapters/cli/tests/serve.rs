//! How a server starts, and what keeps it from starting.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::io::{Read, Write};
use std::net::TcpListener;
use std::path::Path;
use std::process::{Command, Output};

use tempfile::TempDir;

/// Sees nothing of the machine that it runs on.
fn arbe(data: &Path, line: &str) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_arbe"));
    command.args(line.split_whitespace()).env_clear().env("HOME", "/nonexistent").env("ARBE_DATA_DIR", data);
    command.output().unwrap()
}

/// The exit code is that of usage, nothing was made, and this is what was said.
fn refused(line: &str, file: &str) -> String {
    let directory = TempDir::new().unwrap();
    let (data, config) = (directory.path().join("data"), directory.path().join("config.toml"));
    std::fs::write(&config, file).unwrap();
    let done = arbe(&data, &format!("{line} --config {}", config.display()));
    let told = String::from_utf8(done.stderr).unwrap();
    assert_eq!(done.status.code(), Some(2), "{line} {file}: {told}");
    assert!(done.stdout.is_empty() && !data.exists(), "{line} {file}");
    told
}

#[test]
fn a_setting_that_cannot_be_meant_is_a_usage_error_that_says_what_to_do() {
    for (line, file, what) in [
        ("serve --listen nonsense", "", "such as 127.0.0.1:4437"),
        ("serve --listen 127.0.0.1:70000", "", "such as 127.0.0.1:4437"),
        ("serve", "listen = 'nonsense'", "such as 127.0.0.1:4437"),
        ("serve --store nonsense://", "", "use memory:, file:///directory"),
        ("serve", "store = 'nonsense://'", "use memory:, file:///directory"),
        ("serve", "auth_hs256_secret = 's'\nauth_jwks = 'f'", "leave one of them out"),
        ("serve --auth-issuer me", "", "set one of them"),
        ("serve", "colour = 'red'", "unknown field `colour`, expected one of `data_dir`"),
        ("serve", "listen = 5", "expected a string"),
        ("serve", "token_key = ''", "the token key is empty"),
        ("serve --public-url arbe.example.org", "", "such as https://"),
        ("serve --long-poll-timeout 2h", "", "at most an hour"),
        ("serve --memory-mib many", "", "invalid digit"),
        ("serve --log-level a=b=c", "", "such as info"),
        ("serve --database-url mysql://db", "", "not of the form postgres://"),
        ("serve --database-url postgres://db/arbe?sslmode=require&sslrootcert=f", "", "only with sslmode=verify-full"),
        ("serve --no-such-flag", "", "unexpected argument"),
        ("serve --auth-jwks /no/such/keys.json", "", "the issuer's keys (--auth-jwks) in /no/such/keys.json: No such file"),
        ("serve --tools /no/such/tools", "", "/no/such/tools (--tools) is not a directory"),
        ("serve --repositories /no/such/code", "", "/no/such/code (--repositories) is not a directory"),
        ("serve --runner /no/such/runner", "", "/no/such/runner (--runner) is not a file"),
        ("serve --watch-every 0s", "", "watch_every is a time, such as 10s"),
        ("serve --sandbox-provider moon", "", "possible values: local, daytona, sprite, none"),
        ("serve --reach nowhere", "", "such as 127.0.0.1:8080"),
        ("verify", "colour = 'red'", "unknown field `colour`"),
        ("verify rows --database-url none", "", "leave database_url out"),
    ] {
        let told = refused(line, file);
        assert!(told.contains(what), "{line} {file}: {told}");
    }
}

#[test]
fn a_directory_without_postgres_is_refused_by_name_before_anything_starts() {
    let empty = TempDir::new().unwrap();
    let empty = empty.path().display();
    for (line, what) in [
        ("serve --pg-bin /no/such/bin".to_owned(), "/no/such/bin (pg_bin) is not a directory"),
        (format!("serve --pg-bin {empty}"), "has no initdb and postgres that run"),
        ("serve --database-url none --pg-bin /no/such/bin".to_owned(), "/no/such/bin (pg_bin) is not a directory"),
        (format!("rebuild --pg-bin {empty}"), "leave pg_bin out to have it looked for"),
    ] {
        let told = refused(&line, "");
        assert!(told.contains(what), "{line}: {told}");
    }
}

#[test]
fn a_configuration_file_that_is_not_there_is_named() {
    let directory = TempDir::new().unwrap();
    let done = arbe(directory.path(), "serve --config /no/such.toml");
    let told = String::from_utf8(done.stderr).unwrap();
    assert_eq!(done.status.code(), Some(2), "{told}");
    assert!(told.contains("/no/such.toml: No such file"), "{told}");
}

/// Says to each that comes what a Postgres says instead of a welcome, the last of it for ever.
fn postgres_that_says(codes: &'static [&'static str]) -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    std::thread::spawn(move || {
        for (n, stream) in listener.incoming().enumerate() {
            let mut stream = stream.unwrap();
            let _ = stream.read(&mut [0; 1024]);
            let code = codes[n.min(codes.len() - 1)];
            let fields = format!("SFATAL\0VFATAL\0C{code}\0Mno, says {code}\0\0");
            let length = u32::try_from(fields.len() + 4).unwrap().to_be_bytes();
            let _ = stream.write_all(&[b"E", &length[..], fields.as_bytes()].concat());
        }
    });
    port
}

#[test]
fn a_database_that_is_still_starting_is_waited_for_and_one_that_refuses_is_not() {
    let directory = TempDir::new().unwrap();
    let port = postgres_that_says(&["57P03", "57P03", "28000"]);
    let url = format!("postgres://arbe@127.0.0.1:{port}/arbe?sslmode=disable");
    let done = arbe(directory.path(), &format!("serve --listen 127.0.0.1:0 --store memory: --database-url {url}"));
    let told = String::from_utf8(done.stderr).unwrap();
    assert_eq!(done.status.code(), Some(1), "{told}");
    assert_eq!(told.matches("the database takes no connections; trying again for 30 s").count(), 1, "{told}");
    assert!(told.contains("no, says 57P03") && told.trim_end().ends_with("no, says 28000"), "{told}");
}
