//! A machine that is a directory on this one. What it runs, really runs.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::atomic::{AtomicU32, Ordering};

use tempfile::TempDir;
use tokio::process::Command;

static MADE: AtomicU32 = AtomicU32::new(0);

/// What is in every machine besides its own files.
#[derive(Clone, Default)]
pub struct Image {
    /// Where its programs are, before those of this computer.
    pub path: Vec<PathBuf>,
    /// A directory of this computer, under another name.
    pub mount: Option<(PathBuf, &'static str)>,
}

pub struct Guest {
    home: TempDir,
    mark: String,
    image: Image,
    env: BTreeMap<String, String>,
}

impl Guest {
    pub fn new(image: &Image, env: BTreeMap<String, String>) -> Self {
        let mark = format!("{}-{}", std::process::id(), MADE.fetch_add(1, Ordering::Relaxed));
        Self { home: TempDir::new().unwrap(), mark, image: image.clone(), env }
    }

    pub fn home(&self) -> &Path {
        self.home.path()
    }

    pub fn command(&self, argv: &[String], directory: Option<&str>, env: &BTreeMap<String, String>) -> Command {
        let words = [self.entry(), argv.to_vec()].concat();
        let own = self.image.path.iter().map(PathBuf::as_path);
        let path = std::env::join_paths(own.chain(["/usr/local/bin", "/usr/bin", "/bin"].map(Path::new))).unwrap();
        let mut command = Command::new(&words[0]);
        command.args(&words[1..]).env_clear().env("PATH", path).env("HOME", self.home());
        command.env("GUEST", &self.mark).envs(&self.env).envs(env);
        command.current_dir(directory.map_or(self.home().to_owned(), |directory| self.home().join(directory)));
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        command
    }

    /// What makes the mount be there: all of this computer under a root of its own.
    fn entry(&self) -> Vec<String> {
        let Some((from, to)) = self.image.mount.as_ref().map(|(from, to)| (from, *to)) else { return Vec::new() };
        let mut words = vec!["bwrap".to_owned()];
        for entry in fs::read_dir("/").unwrap().flatten().filter(|entry| entry.path() != Path::new(to)) {
            let (path, kind) = (entry.path().to_str().unwrap().to_owned(), entry.file_type().unwrap());
            if kind.is_symlink() {
                words.extend(["--symlink".to_owned(), fs::read_link(&path).unwrap().to_str().unwrap().to_owned(), path]);
            } else if kind.is_dir() {
                words.extend(["--dev-bind".to_owned(), path.clone(), path]);
            }
        }
        words.extend(["--bind", from.to_str().unwrap(), to, "--"].map(str::to_owned));
        words
    }

    /// An absolute path, or one from the home directory; never one that leads out.
    pub fn path(&self, path: &str) -> Option<PathBuf> {
        let path = self.home().join(path);
        let inside = path.starts_with(self.home()) && !path.components().any(|part| part == std::path::Component::ParentDir);
        inside.then_some(path)
    }

    pub fn processes(&self) -> Vec<i32> {
        let wanted = format!("GUEST={}", self.mark);
        let holds = |pid: &i32| {
            let environ = fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
            environ.split(|byte| *byte == 0).any(|variable| variable == wanted.as_bytes())
        };
        let pids = fs::read_dir("/proc").unwrap().flatten().filter_map(|entry| entry.file_name().to_str()?.parse().ok());
        pids.filter(holds).collect()
    }

    /// As when a machine is switched off.
    pub fn kill_all(&self) {
        for _ in 0..20 {
            let left = self.processes();
            if left.is_empty() {
                return;
            }
            let pids: Vec<String> = left.iter().map(ToString::to_string).collect();
            let _ = std::process::Command::new("kill").arg("-KILL").args(&pids).stderr(Stdio::null()).status();
            std::thread::sleep(std::time::Duration::from_millis(10));
        }
    }
}

impl Drop for Guest {
    fn drop(&mut self) {
        self.kill_all();
    }
}
