//! The shell scripts that run in a distant machine. Values of secrets stand only in a file that a shell reads and deletes.

use std::collections::BTreeMap;
use std::time::Duration;

use commands::ports::{Execute, Launch, MachineError, Plain};
use zeroize::Zeroizing;

/// Exit codes of our own scripts, away from those that shells use.
pub(crate) const NAME_TAKEN: i32 = 97;
pub(crate) const NOT_HELD: i32 = 98;

/// How much longer than its caller waits a command can go on if the caller is gone.
const GRACE: Duration = Duration::from_secs(30);

/// Where things are in a machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Layout {
    home: String,
}

impl Layout {
    pub(crate) fn new(home: &str) -> Self {
        Self { home: home.trim_end_matches('/').to_owned() }
    }

    pub(crate) fn tree(&self) -> String {
        format!("{}/work", self.home)
    }

    pub(crate) fn inbox(&self, id: &str) -> String {
        format!("{}/.arbe/in/{id}", self.home)
    }

    pub(crate) fn job(&self, name: &str) -> String {
        format!("{}/.arbe/jobs/{name}", self.home)
    }

    pub(crate) fn ready(&self) -> String {
        format!("{}/.arbe/ready", self.home)
    }

    /// A path as callers write it for every provider, with `/work` for the tree and `~` or `/home/agent` for the home directory.
    fn real(&self, path: &str) -> Option<String> {
        let below = |root: &str| path.strip_prefix(root).filter(|rest| rest.is_empty() || rest.starts_with('/'));
        match (below("/work"), below("/home/agent").or_else(|| below("~"))) {
            (Some(rest), _) => Some(format!("{}{rest}", self.tree())),
            (None, Some(rest)) => Some(format!("{}{rest}", self.home)),
            (None, None) => None,
        }
    }

    /// Of a file. One without a slash at its beginning is relative to the home directory.
    pub(crate) fn path(&self, path: &str) -> Result<String, MachineError> {
        let strays = path.contains('\0') || path.split('/').any(|part| part == "..") || path.ends_with('/') || path.is_empty();
        let real = match self.real(path) {
            Some(real) => Some(real).filter(|real| *real != self.tree() && *real != self.home),
            None if path.starts_with('/') => None,
            None => Some(format!("{}/{path}", self.home)),
        };
        let refused = || MachineError::Refused(format!("{path:?} leads out of the machine's own directories"));
        real.filter(|_| !strays).ok_or_else(refused)
    }

    fn within_tree(&self, cwd: Option<&str>) -> Result<String, MachineError> {
        match cwd.map(|cwd| cwd.trim_end_matches('/')) {
            None | Some("" | "." | "/work") => Ok(self.tree()),
            Some(whole) if whole.starts_with("/work/") => self.path(whole),
            Some(inside) => self.path(&format!("/work/{}", inside.trim_start_matches("./"))),
        }
    }
}

pub(crate) fn quote(text: &str) -> String {
    format!("'{}'", text.replace('\'', r"'\''"))
}

/// A hold on a machine that pauses when nobody talks to it.
#[derive(Clone, Debug)]
pub(crate) struct Hold {
    pub(crate) socket: String,
    pub(crate) expiry: Duration,
    pub(crate) refresh: Duration,
}

impl Hold {
    /// Makes the hold, or prolongs it.
    pub(crate) fn take(&self, name: &str) -> String {
        let body = format!("{{\"expire\":{}}}", self.expiry.as_secs().max(1));
        let curl = self.curl("PUT", name);
        format!("{curl} -H 'Content-Type: application/json' -d {} >/dev/null 2>&1", quote(&body))
    }

    fn release(&self, name: &str) -> String {
        format!("{} >/dev/null 2>&1", self.curl("DELETE", name))
    }

    fn curl(&self, verb: &str, name: &str) -> String {
        format!("curl -sf -m 10 --unix-socket {} -X {verb} http://sprite/v1/tasks/arbe-{name}", quote(&self.socket))
    }
}

pub(crate) type Script = Zeroizing<Vec<u8>>;

fn exports(env: &BTreeMap<String, String>, secrets: &BTreeMap<String, Plain>) -> Result<Script, MachineError> {
    let mut script = Zeroizing::new(Vec::new());
    let plain = env.iter().filter(|(name, _)| !secrets.contains_key(*name)).map(|(name, value)| (name, value.as_bytes()));
    for (name, value) in plain.chain(secrets.iter().map(|(name, value)| (name, value.expose()))) {
        let is_name = name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_');
        if !is_name || name.is_empty() || name.as_bytes()[0].is_ascii_digit() || value.contains(&0) {
            return Err(MachineError::Refused(format!("{name:?} cannot be a variable of the environment")));
        }
        script.extend_from_slice(b"export ");
        script.extend_from_slice(name.as_bytes());
        script.extend_from_slice(b"='");
        for part in value.split_inclusive(|byte| *byte == b'\'') {
            script.extend_from_slice(part);
            if part.ends_with(b"'") {
                script.extend_from_slice(b"\\''");
            }
        }
        script.extend_from_slice(b"'\n");
    }
    Ok(script)
}

/// The variables stand between two parts.
fn assemble(
    before: &str,
    env: &BTreeMap<String, String>,
    secrets: &BTreeMap<String, Plain>,
    after: &str,
) -> Result<Script, MachineError> {
    let exports = exports(env, secrets)?;
    let mut script = Zeroizing::new(Vec::with_capacity(before.len() + exports.len() + after.len() + 64));
    script.extend_from_slice(b"rm -f -- \"$0\"\n");
    script.extend_from_slice(before.as_bytes());
    script.extend_from_slice(&exports);
    script.extend_from_slice(after.as_bytes());
    Ok(script)
}

/// Runs one command and ends with its code. Its processes are known by a variable that they hand on.
pub(crate) fn inline(layout: &Layout, id: &str, execute: &Execute) -> Result<Script, MachineError> {
    let directory = quote(&layout.within_tree(execute.cwd.as_deref())?);
    let seconds = (execute.timeout + GRACE).as_secs();
    let command = quote(&execute.command);
    let body = format!(
        "cd -- {directory} || exit 126\n\
         guard=; command -v timeout >/dev/null 2>&1 && guard='timeout -s KILL {seconds}'\n\
         ARBE_JOB={id} setsid $guard sh -c {command} </dev/null &\n\
         wait $!\n\
         exit $?\n"
    );
    assemble("", &execute.env, &execute.secrets, &body)
}

/// Begins a process, says `started`, and writes down how it ended.
pub(crate) fn detached(layout: &Layout, launch: &Launch, hold: Option<&Hold>) -> Result<Script, MachineError> {
    let name = checked(&launch.name)?;
    let (tree, job) = (quote(&layout.tree()), quote(&layout.job(name)));
    let real = |word: &String| layout.real(word).unwrap_or_else(|| word.clone());
    let argv: Vec<String> = launch.argv.iter().map(|word| quote(&real(word))).collect();
    let env = launch.env.iter().map(|(name, value)| (name.clone(), real(value))).collect();
    let (take, keep, release) = match hold {
        None => (String::new(), String::new(), String::new()),
        Some(hold) => {
            let (take, seconds) = (hold.take(name), hold.refresh.as_secs_f64());
            (
                format!("{take} || {{ rm -rf -- \"$d\"; exit {NOT_HELD}; }}\n"),
                format!(
                    "( while sleep {seconds} && kill -0 $p 2>/dev/null; do {take}; done ) </dev/null >/dev/null 2>&1 &\nkeeper=$!\n"
                ),
                format!("kill $keeper 2>/dev/null\n{}\n", hold.release(name)),
            )
        }
    };
    // Only the process itself has the variables: whatever else runs beside it shows its own to every tool.
    let before = format!("d={job}\ncd -- {tree} || exit 126\n{take}(\n");
    // A program that is not there is gone before anybody can ask when it began.
    let after = format!(
        "export ARBE_JOB={name}\nexec setsid {argv}\n) </dev/null >\"$d/log\" 2>&1 &\n\
         p=$!\n\
         began() {{ sed 's/.*) //' \"/proc/$1/stat\" 2>/dev/null | cut -d' ' -f20; }}\n\
         b=$(began $p)\n\
         echo \"$$ $(began $$) $p ${{b:-0}} $(cat /proc/sys/kernel/random/boot_id)\" >\"$d/part\"\n\
         mv \"$d/part\" \"$d/pid\"\n\
         {keep}\
         echo started\n\
         wait $p\n\
         code=$?\n\
         echo $code >\"$d/part\"\nmv \"$d/part\" \"$d/exit\"\n\
         {release}\
         exit $code\n",
        argv = argv.join(" ")
    );
    assemble(&before, &env, &launch.secrets, &after)
}

/// Takes the name and hands over to the uploaded script. Of two that try, one does.
pub(crate) fn claim(layout: &Layout, name: &str, script: &str) -> Result<Vec<String>, MachineError> {
    let claim = format!("mkdir -- \"$1\" 2>/dev/null || {{ rm -f -- \"$2\"; exit {NAME_TAKEN}; }}; exec sh \"$2\"");
    let words = ["sh", "-c", &claim, "arbe", &layout.job(checked(name)?), script];
    Ok(words.map(str::to_owned).to_vec())
}

/// Prints `running`, `exited CODE`, `lost` if nobody saw how it ended, or `absent` if there never was one. A job that was claimed a
/// moment ago counts as running.
pub(crate) fn state(layout: &Layout, name: &str) -> Result<String, MachineError> {
    let job = quote(&layout.job(checked(name)?));
    Ok(format!(
        "d={job}\n\
         ended() {{ [ -f \"$d/exit\" ] && echo \"exited $(cat \"$d/exit\")\"; }}\n\
         lives() {{ set -- \"$2\" $(sed 's/.*) //' \"/proc/$1/stat\" 2>/dev/null); [ \"$2\" != Z ] && [ \"${{21}}\" = \"$1\" ]; }}\n\
         ended && exit\n\
         if [ -f \"$d/pid\" ]; then\n\
         read -r s sb p pb boot <\"$d/pid\"\n\
         if [ \"$boot\" = \"$(cat /proc/sys/kernel/random/boot_id)\" ]; then\n\
         lives \"$s\" \"$sb\" && echo running && exit\n\
         ended && exit\n\
         lives \"$p\" \"$pb\" && echo running && exit\n\
         fi\n\
         ended || echo lost\n\
         elif [ -n \"$(find \"$d\" -maxdepth 0 -mmin -1 2>/dev/null)\" ]; then echo running\n\
         elif [ -d \"$d\" ]; then echo lost\n\
         else echo absent\n\
         fi\n"
    ))
}

/// Asks the first process of a job to end, and after a while kills all of them. Ends with 0 if none is left.
pub(crate) fn end(layout: &Layout, id: &str, patience: Duration) -> Result<String, MachineError> {
    let job = quote(&layout.job(checked(id)?));
    let tenths = patience.as_millis().div_ceil(100);
    Ok(format!(
        "d={job}\n\
         all() {{ grep -lzsxF ARBE_JOB={id} /proc/[0-9]*/environ | cut -d/ -f3; }}\n\
         p=; [ -f \"$d/pid\" ] && read -r s sb p rest <\"$d/pid\"\n\
         n=0\n\
         if [ {tenths} -gt 0 ]; then\n\
         for one in ${{p:-$(all)}}; do all | grep -qx $one && kill -TERM $one 2>/dev/null; done\n\
         while [ $n -lt {tenths} ] && all | grep -q \"^${{p:-[0-9]*}}$\"; do sleep 0.1; n=$((n+1)); done\n\
         fi\n\
         n=0\n\
         while [ $n -lt 20 ] && [ -n \"$(all)\" ]; do kill -KILL $(all) 2>/dev/null; sleep 0.05; n=$((n+1)); done\n\
         n=0\n\
         while [ $n -lt 20 ] && [ -f \"$d/pid\" ] && [ ! -f \"$d/exit\" ]; do sleep 0.05; n=$((n+1)); done\n\
         [ -z \"$(all)\" ]\n"
    ))
}

/// Prints `ready` if the machine was set up before, and `zstd` if it has that.
pub(crate) fn prepare(layout: &Layout) -> String {
    let (inbox, jobs) = (quote(layout.inbox("").trim_end_matches('/')), quote(layout.job("").trim_end_matches('/')));
    let (ready, tree) = (quote(&layout.ready()), quote(&layout.tree()));
    format!(
        "umask 077\nmkdir -p -- {inbox} {jobs} || exit 1\n\
         if [ -f {ready} ]; then echo ready; else rm -rf -- {tree}; mkdir -m 755 -- {tree} || exit 1; fi\n\
         command -v zstd >/dev/null 2>&1 && echo zstd\n\
         exit 0\n"
    )
}

/// Puts the working tree in a file, and prints how large it is before it is compressed. Only then is anything left.
pub(crate) fn pack(layout: &Layout, file: &str) -> String {
    let (tree, file) = (quote(&layout.tree()), quote(file));
    format!(
        "umask 077\ncd -- {tree} || exit 1\nf={file}\nkept=\n\
         trap '[ -n \"$kept\" ] || rm -f -- \"$f\"; rm -f -- \"$f.zst\"' EXIT\n\
         trap 'exit 4' HUP INT TERM\n\
         tar -cf \"$f\" . 2>/dev/null; [ $? -le 1 ] || exit 2\n\
         size=$(wc -c <\"$f\") || exit 3\n\
         if command -v zstd >/dev/null 2>&1; then zstd -q -f -o \"$f.zst\" -- \"$f\" && mv -- \"$f.zst\" \"$f\" || exit 3; fi\n\
         kept=1\n\
         echo \"$size\"\n"
    )
}

/// Takes a working tree out of a file, which is deleted.
pub(crate) fn unpack(layout: &Layout, file: &str, compressed: bool) -> String {
    let (tree, file) = (quote(&layout.tree()), quote(file));
    let read = if compressed { "zstd -q -d -c --" } else { "cat --" };
    format!(
        "f={file}\ntrap 'rm -f -- \"$f\"' EXIT\ntrap 'exit 4' HUP INT TERM\n\
         {read} \"$f\" | tar -C {tree} --no-same-owner -xf -\n"
    )
}

/// Clones and sets up, in the working tree.
pub(crate) fn build(repo: Option<&str>, branch: Option<&str>, setup: Option<&str>) -> String {
    let mut steps = vec!["set -e".to_owned(), "export GIT_TERMINAL_PROMPT=0".to_owned()];
    if let Some(repo) = repo {
        let branch = branch.map(|branch| format!("--branch {} ", quote(branch))).unwrap_or_default();
        steps.push(format!("git clone {branch}-- {} .", quote(repo)));
    }
    if let Some(setup) = setup {
        steps.push(format!("sh -c {}", quote(setup)));
    }
    steps.join("\n")
}

/// A name becomes a directory and stands in scripts.
fn checked(name: &str) -> Result<&str, MachineError> {
    let plain = name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'-');
    if plain && (1..=100).contains(&name.len()) {
        return Ok(name);
    }
    Err(MachineError::Refused(format!("{name:?} cannot name a process")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_with_quotes_and_line_breaks_stays_one_value() {
        let secrets = BTreeMap::from([("A".to_owned(), Plain::new(b"it's\n'two' lines".to_vec()))]);
        let script = exports(&BTreeMap::new(), &secrets).unwrap();
        let shown = format!("{}printf %s \"$A\"", String::from_utf8(script.to_vec()).unwrap());
        let printed = std::process::Command::new("sh").args(["-c", &shown]).output().unwrap().stdout;
        assert_eq!(printed, b"it's\n'two' lines");
    }

    #[test]
    fn what_cannot_be_a_variable_is_refused() {
        for name in ["", "1A", "A B", "A;rm", "A=B"] {
            let env = BTreeMap::from([(name.to_owned(), "x".to_owned())]);
            assert!(matches!(exports(&env, &BTreeMap::new()), Err(MachineError::Refused(_))), "{name:?}");
        }
    }

    #[test]
    fn a_path_stays_in_the_tree_or_in_the_home_directory() {
        let layout = Layout::new("/home/box/");
        assert_eq!(layout.path("/work/a/b").unwrap(), "/home/box/work/a/b");
        assert_eq!(layout.path("notes/x").unwrap(), "/home/box/notes/x");
        assert_eq!(layout.path("~/x").unwrap(), "/home/box/x");
        assert_eq!(layout.path("/home/agent/x").unwrap(), "/home/box/x");
        for path in ["../x", "/etc/passwd", "/work/../x", "a/../../b", "", "/work", "~", "/workshop/x"] {
            assert!(matches!(layout.path(path), Err(MachineError::Refused(_))), "{path:?}");
        }
    }

    #[test]
    fn a_name_that_is_no_plain_word_is_refused() {
        let layout = Layout::new("/home/box");
        for name in ["", "a/b", "..", "a b", "$(id)"] {
            assert!(matches!(state(&layout, name), Err(MachineError::Refused(_))), "{name:?}");
        }
    }
}
