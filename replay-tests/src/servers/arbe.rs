use std::fs::Permissions;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::process::{Command, ExitStatus, Output};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use tempfile::TempDir;

use super::process::Process;
use crate::directories;

const READY: Duration = Duration::from_secs(60);

/// One `arbe serve`, of streams only or of the whole platform, with a data directory of its own, which outlives [`ArbeServer::restart`].
pub struct ArbeServer {
    process: Process,
    directory: TempDir,
    store: String,
    env: Vec<(String, String)>,
    flags: Vec<String>,
}

impl ArbeServer {
    pub fn start(store: &str, env: &[(String, String)], flags: &[&str]) -> Result<Self> {
        // A flag says otherwise.
        let env = [&[("ARBE_DATABASE_URL".to_owned(), "none".to_owned())], env].concat();
        Self::launch(tempfile::tempdir()?, store.to_owned(), &env, flags)
    }

    /// The platform, with its log in files and a Postgres of its own.
    pub fn platform(flags: &[&str]) -> Result<Self> {
        Self::platform_in(tempfile::tempdir()?, flags)
    }

    /// The same on what is in a directory already: its `data` is the server's.
    pub fn platform_in(directory: TempDir, flags: &[&str]) -> Result<Self> {
        // Postgres does not run as root, and must find its way to what it owns.
        std::fs::set_permissions(directory.path(), Permissions::from_mode(0o755))?;
        let store = format!("file://{}", data(&directory).join("log").display());
        Self::launch(directory, store, &[], flags)
    }

    fn launch(directory: TempDir, store: String, env: &[(String, String)], flags: &[&str]) -> Result<Self> {
        let flags: Vec<_> = flags.iter().map(|flag| flag.to_string()).collect();
        let process = spawn(&directory, &store, env, &flags)?;
        let server = Self { process, directory, store, env: env.to_vec(), flags };
        server.wait_until_ready()?;
        Ok(server)
    }

    /// A file of its data directory, such as the owner's token.
    pub fn data(&self, file: &str) -> Result<String> {
        let path = data(&self.directory).join(file);
        let text = std::fs::read_to_string(&path).with_context(|| path.display().to_string())?;
        Ok(text.trim().to_owned())
    }

    pub fn url(&self) -> &str {
        &self.process.url
    }

    pub fn store(&self) -> &str {
        &self.store
    }

    pub fn data_dir(&self) -> PathBuf {
        data(&self.directory)
    }

    pub fn kill9(&mut self) -> Result<()> {
        self.process.kill()
    }

    /// Kills the server if it still runs; the new one has another port.
    pub fn restart(&mut self) -> Result<()> {
        self.process.kill()?;
        self.process = spawn(&self.directory, &self.store, &self.env, &self.flags)?;
        self.wait_until_ready()
    }

    /// The same, with other flags.
    pub fn restart_with(&mut self, flags: &[&str]) -> Result<()> {
        self.flags = flags.iter().map(|flag| flag.to_string()).collect();
        self.restart()
    }

    /// `arbe` on what the server has, for what is not asked over HTTP.
    pub fn beside(&self, args: &[&str]) -> Result<Output> {
        let mut command = bare()?;
        command.args(["--store", &self.store, "--data-dir"]).arg(self.data_dir()).args(args).env("HOME", self.directory.path());
        Ok(command.output()?)
    }

    pub fn stop(&mut self) -> Result<ExitStatus> {
        self.process.terminate()
    }

    /// Standard error of all its lives.
    pub fn log(&self) -> String {
        std::fs::read_to_string(log_file(&self.directory)).unwrap_or_default()
    }

    fn wait_until_ready(&self) -> Result<()> {
        let deadline = Instant::now() + READY;
        loop {
            let answer = status(self.url(), "/readyz");
            if matches!(answer, Ok(200)) {
                return Ok(());
            }
            if Instant::now() > deadline {
                bail!("not ready after {READY:?}: /readyz gave {answer:?}; its log:\n{}", self.log());
            }
            std::thread::sleep(Duration::from_millis(20));
        }
    }
}

/// A private Postgres outlives a server that is killed.
impl Drop for ArbeServer {
    fn drop(&mut self) {
        if data(&self.directory).join("postgres").exists() {
            self.process.terminate().ok();
        }
    }
}

fn spawn(directory: &TempDir, store: &str, env: &[(String, String)], flags: &[String]) -> Result<Process> {
    let mut command = bare()?;
    command
        .args(["serve", "--listen", "127.0.0.1:0", "--store", store, "--data-dir"])
        .arg(data(directory))
        .args(["--long-poll-timeout", "500ms"])
        .args(flags)
        .env("HOME", directory.path())
        .envs(env.iter().map(|(key, value)| (key, value)));
    Process::spawn(command, &log_file(directory))
}

/// `arbe`, set up by nothing but its own defaults.
pub(super) fn bare() -> Result<Command> {
    let mut command = Command::new(directories::arbe_binary()?);
    for (key, _) in std::env::vars().filter(|(key, _)| configures(key)) {
        command.env_remove(key);
    }
    Ok(command)
}

/// What the developer's shell says about stores and about arbe must not reach the server under test.
fn configures(variable: &str) -> bool {
    ["ARBE_", "AWS_", "AZURE_", "GOOGLE_", "XDG_"].iter().any(|prefix| variable.starts_with(prefix))
}

fn data(directory: &TempDir) -> PathBuf {
    directory.path().join("data")
}

fn log_file(directory: &TempDir) -> PathBuf {
    directory.path().join("stderr.log")
}

/// The status of a GET. By hand, because one line of HTTP is no reason for a client library.
fn status(url: &str, path: &str) -> Result<u16> {
    let host = url.strip_prefix("http://").context("a plain HTTP URL")?;
    let mut stream = TcpStream::connect(host)?;
    stream.set_read_timeout(Some(Duration::from_secs(5)))?;
    write!(stream, "GET {path} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n")?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer)?;
    let code = answer.split(' ').nth(1).context("a status line")?;
    Ok(code.parse()?)
}
