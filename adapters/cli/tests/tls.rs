//! `arbe serve` and a Postgres that takes encrypted connections only.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::io::{BufRead, BufReader};
use std::net::TcpListener;
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use postgres_rows::{Cluster, ClusterOptions};
use tempfile::TempDir;

#[path = "../../../projections/postgres-rows/tests/rows/missing.rs"]
mod missing;
use missing::unless_missing;

/// A process that outlives no test.
struct Ended(Child);

impl Drop for Ended {
    fn drop(&mut self) {
        let _ = Command::new("kill").args(["-INT", &self.0.id().to_string()]).status();
        let _ = self.0.wait();
    }
}

struct Secured {
    port: u16,
    directory: TempDir,
    _postgres: Ended,
}

fn openssl(directory: &Path, line: &str) {
    let made = Command::new("openssl").args(line.split(' ')).current_dir(directory).output().unwrap();
    assert!(made.status.success(), "{line}: {}", String::from_utf8_lossy(&made.stderr));
}

/// Two authorities; the first has signed a certificate for `localhost`.
fn certificates(directory: &Path) {
    let new = "req -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes";
    for name in ["ours", "other"] {
        openssl(directory, &format!("{new} -x509 -days 2 -subj /CN={name} -keyout {name}.key -out {name}.pem"));
    }
    openssl(directory, &format!("{new} -subj /CN=localhost -keyout server.key -out server.csr"));
    std::fs::write(directory.join("names"), "subjectAltName=DNS:localhost\nbasicConstraints=CA:FALSE\n").unwrap();
    openssl(
        directory,
        "x509 -req -in server.csr -CA ours.pem -CAkey ours.key -CAcreateserial -days 2 -extfile names -out server.pem",
    );
}

impl Secured {
    /// The cluster is made by the one who makes ours, and then started otherwise.
    fn start() -> Option<Self> {
        let directory = tempfile::Builder::new().prefix("tls-").tempdir_in("/tmp").unwrap();
        std::fs::set_permissions(directory.path(), PermissionsExt::from_mode(0o755)).unwrap();
        let home = directory.path().join("cluster");
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
        let binary = runtime.block_on(async {
            let cluster = unless_missing(Cluster::start(ClusterOptions { directory: home.clone(), binaries: None }).await)?;
            let binary = std::fs::read_link(format!("/proc/{}/exe", cluster.pid().unwrap())).unwrap();
            cluster.stop().await;
            Some(binary)
        })?;
        let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let postgres = encrypted_only(directory.path(), &binary, &home.join("pg"), port);
        Some(Self { port, directory, _postgres: postgres })
    }

    fn file(&self, name: &str) -> String {
        self.directory.path().join(name).display().to_string()
    }

    /// The first line of a server that is ready, or why it did not start.
    fn serve(&self, host: &str, query: &str) -> Result<String, String> {
        let url = format!("postgres://arbe@{host}:{}/arbe?{query}", self.port);
        let data = tempfile::tempdir().unwrap();
        let mut command = Command::new(env!("CARGO_BIN_EXE_arbe"));
        command.args(["serve", "--listen", "127.0.0.1:0", "--store", "memory:", "--log-level", "error"]);
        command.args(["--database-url", &url, "--data-dir"]).arg(data.path());
        command.env_clear().env("HOME", "/nonexistent").stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut server = Ended(command.spawn().unwrap());
        let first = BufReader::new(server.0.stdout.take().unwrap()).lines().next();
        let told = server.0.stderr.take().unwrap();
        first.map(Result::unwrap).ok_or_else(|| BufReader::new(told).lines().map_while(Result::ok).collect::<Vec<_>>().join("\n"))
    }
}

fn encrypted_only(directory: &Path, binary: &PathBuf, data: &Path, port: u16) -> Ended {
    certificates(directory);
    let owner = std::fs::metadata(data).unwrap();
    let key = directory.join("server.key");
    std::fs::set_permissions(&key, PermissionsExt::from_mode(0o600)).unwrap();
    chown(&key, Some(owner.uid()), Some(owner.gid())).unwrap();
    std::fs::write(data.join("pg_hba.conf"), "hostssl all all samehost trust\n").unwrap();
    let mut command = Command::new(binary);
    command.arg("-D").arg(data).args(["-p", &port.to_string(), "-c", "listen_addresses=localhost", "-c", "ssl=on"]);
    command.args(["-c", "unix_socket_directories=", "-c"]).arg(format!("ssl_key_file={}", key.display()));
    command.arg("-c").arg(format!("ssl_cert_file={}", directory.join("server.pem").display()));
    if owner.uid() != std::fs::metadata("/proc/self").unwrap().uid() {
        command.uid(owner.uid()).gid(owner.gid());
    }
    let log = directory.join("postgres.log");
    command.env_clear().current_dir("/").stdout(Stdio::null()).stderr(std::fs::File::create(&log).unwrap());
    let postgres = Ended(command.spawn().unwrap());
    let ready = || std::fs::read_to_string(&log).unwrap().contains("ready to accept connections");
    let started = Instant::now();
    while !ready() {
        assert!(started.elapsed() < Duration::from_secs(30), "{}", std::fs::read_to_string(&log).unwrap());
        std::thread::sleep(Duration::from_millis(20));
    }
    postgres
}

#[test]
fn a_database_is_reached_encrypted_and_only_if_it_is_the_one_that_is_meant() {
    let Some(secured) = Secured::start() else { return };
    let (ours, other) = (secured.file("ours.pem"), secured.file("other.pem"));
    for (host, query) in [
        ("localhost", "sslmode=require".to_owned()),
        ("localhost", format!("sslmode=verify-full&sslrootcert={ours}")),
        ("127.0.0.1", format!("sslmode=verify-ca&sslrootcert={ours}")),
    ] {
        let ready = secured.serve(host, &query);
        assert!(ready.as_ref().is_ok_and(|line| line.contains("on http://")), "{host} {query}: {ready:?}");
    }
    for (host, query, why) in [
        ("localhost", format!("sslmode=verify-full&sslrootcert={other}"), "name who signed it with sslrootcert=FILE"),
        ("localhost", "sslmode=verify-full".to_owned(), "name who signed it with sslrootcert=FILE"),
        ("127.0.0.1", format!("sslmode=verify-full&sslrootcert={ours}"), "not valid for name \"127.0.0.1\""),
        ("localhost", "sslmode=disable".to_owned(), "no encryption"),
        ("localhost", format!("sslmode=require&sslrootcert={ours}"), "only with sslmode=verify-full"),
        ("localhost", "sslmode=verify-full&sslrootcert=/no/such.pem".to_owned(), "sslrootcert=/no/such.pem: No such file"),
    ] {
        let told = secured.serve(host, &query).unwrap_err();
        assert!(told.contains(why) && told.lines().count() == 1, "{host} {query}: {told}");
    }
}
