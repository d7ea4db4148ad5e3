//! The options of bubblewrap: what a process of a machine sees, and with which variables it begins.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use commands::ports::{MachineError, Plain};
use zeroize::Zeroizing;

use super::Options;
use super::doors::Door;
use super::meta::{Meta, Place};
use super::relays;

/// Where the working tree is inside.
pub(crate) const TREE: &str = "/work";
pub(crate) const HOME: &str = "/home/agent";
const SOCKETS: &str = "/run/arbe";
const HELPER: &str = "/run/arbe-helper";

/// What every program may need of `/etc`. Names of users and hosts are the machine's own.
const ETC: [&str; 9] = [
    "/etc/ssl",
    "/etc/pki",
    "/etc/ca-certificates",
    "/etc/alternatives",
    "/etc/ld.so.cache",
    "/etc/ld.so.conf",
    "/etc/ld.so.conf.d",
    "/etc/localtime",
    "/etc/mime.types",
];

/// The variables of one process. Later ones win, and secrets over all.
pub(crate) struct Variables<'a> {
    pub(crate) env: &'a BTreeMap<String, String>,
    pub(crate) secrets: &'a BTreeMap<String, Plain>,
}

/// Each ended by a zero byte, as `--args` reads them. Holds the values of secrets, so it is wiped.
pub(crate) struct Arguments(Zeroizing<Vec<u8>>);

impl Arguments {
    fn with_room(room: usize) -> Self {
        Self(Zeroizing::new(Vec::with_capacity(room)))
    }

    fn add<const N: usize>(&mut self, words: [&[u8]; N]) {
        for word in words {
            self.0.extend_from_slice(word);
            self.0.push(0);
        }
    }

    fn say<const N: usize>(&mut self, words: [&str; N]) {
        self.add(words.map(str::as_bytes));
    }

    fn bind(&mut self, how: &str, from: &Path, to: &str) {
        self.add([how.as_bytes(), from.as_os_str().as_encoded_bytes(), to.as_bytes()]);
    }

    pub(crate) fn bytes(&self) -> &[u8] {
        &self.0
    }
}

pub(crate) fn arguments(
    options: &Options,
    place: &Place,
    meta: &Meta,
    variables: &Variables<'_>,
    cwd: Option<&str>,
) -> Result<Arguments, MachineError> {
    let secret: usize = variables.secrets.iter().map(|(name, value)| name.len() + value.expose().len() + 16).sum();
    // No reallocation may leave a copy of a secret behind.
    let mut arguments = Arguments::with_room((64 << 10) + options.tools.len() * 512 + sizes(meta, variables) + secret);
    let low = meta.doors.iter().any(Door::is_low);
    isolate(&mut arguments, low);
    system(&mut arguments, options, low);
    machine(&mut arguments, options, place, meta);
    arguments.say(["--remount-ro", "/", "--chdir", &directory(cwd)?]);
    environment(&mut arguments, options, meta, variables)?;
    Ok(arguments)
}

fn sizes(meta: &Meta, variables: &Variables<'_>) -> usize {
    meta.env.iter().chain(variables.env).map(|(name, value)| name.len() + value.len() + 16).sum()
}

fn isolate(arguments: &mut Arguments, low: bool) {
    arguments.say(["--unshare-user", "--unshare-all", "--die-with-parent", "--new-session"]);
    arguments.say(["--uid", "1000", "--gid", "1000", "--hostname", "sandbox", "--cap-drop", "ALL"]);
    if low {
        // Counts in the machine's own network only. The relay gives it up before the command begins.
        arguments.say(["--cap-add", "CAP_NET_BIND_SERVICE"]);
    } else {
        // A namespace of users around the command, in which the right above would not count.
        arguments.say(["--disable-userns"]);
    }
}

/// Terminals need such a namespace too.
fn devices(arguments: &mut Arguments, low: bool) {
    if !low {
        return arguments.say(["--dev", "/dev"]);
    }
    arguments.say(["--tmpfs", "/dev"]);
    for device in ["/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom", "/dev/tty"] {
        arguments.say(["--dev-bind", device, device]);
    }
    for (target, name) in [("", "/dev/fd"), ("/0", "/dev/stdin"), ("/1", "/dev/stdout"), ("/2", "/dev/stderr")] {
        arguments.say(["--symlink", &format!("/proc/self/fd{target}"), name]);
    }
}

/// The programs of this host, to be read only.
fn system(arguments: &mut Arguments, options: &Options, low: bool) {
    arguments.say(["--ro-bind", "/usr", "/usr"]);
    for name in ["bin", "sbin", "lib", "lib32", "lib64", "libx32"] {
        let path = Path::new("/").join(name);
        match fs::read_link(&path) {
            Ok(target) => arguments.bind("--symlink", &target, &format!("/{name}")),
            Err(_) => arguments.bind("--ro-bind-try", &path, &format!("/{name}")),
        }
    }
    for path in ETC {
        arguments.say(["--ro-bind-try", path, path]);
    }
    arguments.say(["--proc", "/proc"]);
    devices(arguments, low);
    let size = (options.scratch_mib << 20).to_string();
    arguments.say(["--size", &size, "--tmpfs", "/dev/shm", "--remount-ro", "/dev"]);
    arguments.say(["--size", &size, "--tmpfs", "/tmp", "--chmod", "1777", "/tmp", "--dir", "/var/tmp", "--dir", "/run"]);
    for tool in options.tools.iter().filter(|tool| !tool.starts_with("/usr")) {
        arguments.bind("--ro-bind", tool, &tool.to_string_lossy());
    }
}

fn machine(arguments: &mut Arguments, options: &Options, place: &Place, meta: &Meta) {
    for name in super::etc::FILES {
        arguments.bind("--ro-bind", &place.etc().join(name), &format!("/etc/{name}"));
    }
    arguments.bind("--bind", &place.tree(), TREE);
    arguments.bind("--bind", &place.home(), HOME);
    if !meta.doors.is_empty() {
        arguments.bind("--ro-bind", &place.sockets(), SOCKETS);
        arguments.bind("--ro-bind", &options.helper, HELPER);
    }
    if let Some(repository) = &meta.repository {
        arguments.bind("--ro-bind", repository, &repository.to_string_lossy());
    }
}

fn directory(cwd: Option<&str>) -> Result<String, MachineError> {
    let cwd = cwd.unwrap_or_default();
    let cwd =
        cwd.strip_prefix(TREE).filter(|rest| rest.is_empty() || rest.starts_with('/')).unwrap_or(cwd).trim_start_matches('/');
    let inner =
        Path::new(cwd).components().all(|part| matches!(part, std::path::Component::Normal(_) | std::path::Component::CurDir));
    if !inner || cwd.contains('\0') {
        return Err(MachineError::Refused(format!("{cwd:?} is no directory of the working tree")));
    }
    Ok(format!("{TREE}/{cwd}").trim_end_matches('/').to_owned())
}

fn environment(arguments: &mut Arguments, options: &Options, meta: &Meta, variables: &Variables<'_>) -> Result<(), MachineError> {
    let mut path = Vec::new();
    for directory in options.path.iter().map(|path| path.to_string_lossy()) {
        path.push(directory.into_owned());
    }
    path.push("/usr/local/bin:/usr/bin:/bin:/usr/local/sbin:/usr/sbin:/sbin".to_owned());
    arguments.say(["--clearenv", "--setenv", "PATH", &path.join(":"), "--setenv", "HOME", HOME, "--setenv", "USER", "agent"]);
    arguments.say(["--setenv", "LOGNAME", "agent", "--setenv", "LANG", "C.UTF-8", "--setenv", "SHELL", "/bin/sh"]);
    arguments.say(["--setenv", "GIT_CONFIG_SYSTEM", "/etc/gitconfig", "--setenv", "GIT_TERMINAL_PROMPT", "0"]);
    let plain = meta.env.iter().chain(variables.env).map(|(name, value)| (name, value.as_bytes()));
    for (name, value) in plain.chain(variables.secrets.iter().map(|(name, value)| (name, value.expose()))) {
        if name.is_empty() || name.contains(['=', '\0']) || value.contains(&0) {
            return Err(MachineError::Refused(format!("{name:?} cannot be a variable with its value")));
        }
        arguments.add([b"--setenv", name.as_bytes(), value]);
    }
    Ok(())
}

/// The command, behind a relay if there are doors.
pub(crate) fn command(meta: &Meta, leading: &[String], command: Vec<String>) -> Vec<String> {
    if meta.doors.is_empty() {
        return command;
    }
    let doors = meta.doors.iter().enumerate().map(|(index, door)| format!("{}={SOCKETS}/{}", door.listen, relays::socket(index)));
    let relay = std::iter::once(HELPER.to_owned()).chain(leading.iter().cloned()).chain(["relay".to_owned()]);
    relay.chain(doors).chain(["--".to_owned()]).chain(command).collect()
}
