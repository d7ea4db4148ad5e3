//! The few files of `/etc` that are a machine's own.

use std::collections::BTreeMap;
use std::fs::{self, Permissions};
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use super::doors::Door;

pub(crate) const FILES: [&str; 5] = ["passwd", "group", "hosts", "nsswitch.conf", "gitconfig"];

/// Names are looked up in files only: there is nobody else to ask.
const NSSWITCH: &str = "passwd: files\ngroup: files\nhosts: files\nservices: files\nprotocols: files\n";
const PASSWD: &str =
    "root:x:0:0:root:/root:/bin/sh\nagent:x:1000:1000:agent:/home/agent:/bin/sh\nnobody:x:65534:65534:nobody:/:/bin/false\n";
const GROUP: &str = "root:x:0:\nagent:x:1000:\nnogroup:x:65534:\n";

/// A repository of the host belongs to somebody else, which git would not have. Tokens are taken from the environment when git asks
/// for them: `GITHUB_TOKEN` for github.com, and `GIT_TOKEN` for the host that the tree came from.
const SAFE: &str = "[safe]\n\tdirectory = *\n[advice]\n\tdetachedHead = false\n";

pub(crate) fn write(directory: &Path, doors: &[Door], repo: Option<&str>) -> io::Result<()> {
    let put = |name: &str, text: &str| {
        fs::write(directory.join(name), text)?;
        fs::set_permissions(directory.join(name), Permissions::from_mode(0o644))
    };
    put("passwd", PASSWD)?;
    put("group", GROUP)?;
    put("nsswitch.conf", NSSWITCH)?;
    put("hosts", &hosts(doors))?;
    put("gitconfig", &gitconfig(repo))
}

fn hosts(doors: &[Door]) -> String {
    let named: BTreeMap<_, _> = doors.iter().filter_map(|door| Some((door.name.as_ref()?, door.listen.ip()))).collect();
    let named = named.iter().map(|(name, address)| format!("{address} {name}\n"));
    std::iter::once("127.0.0.1 localhost sandbox\n::1 localhost\n".to_owned()).chain(named).collect()
}

fn gitconfig(repo: Option<&str>) -> String {
    let helper = |url: &str, variable: &str| {
        format!(
            "[credential \"{url}\"]\n\thelper = \"!f() {{ test \\\"$1\\\" = get && test -n \\\"${variable}\\\" && \
             printf 'username=x-access-token\\\\npassword=%s\\\\n' \\\"${variable}\\\"; }}; f\"\n"
        )
    };
    let origin = repo.and_then(origin).map(|origin| helper(&origin, "GIT_TOKEN")).unwrap_or_default();
    format!("{SAFE}{}{origin}", helper("https://github.com", "GITHUB_TOKEN"))
}

/// `https://host`, if a token may be shown there at all.
fn origin(repo: &str) -> Option<String> {
    let rest = repo.strip_prefix("https://")?;
    let host = rest.split('/').next()?.rsplit('@').next()?;
    let known = host.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'-' | b':'));
    (known && !host.is_empty()).then(|| format!("https://{host}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_is_shown_to_the_host_of_the_tree_only() {
        assert_eq!(origin("https://git.example/a/b.git").as_deref(), Some("https://git.example"));
        assert_eq!(origin("https://me@git.example:8443/a").as_deref(), Some("https://git.example:8443"));
        assert_eq!(origin("http://git.example/a"), None);
        assert_eq!(origin("https://a\"]b/"), None);
    }

    #[test]
    fn git_reads_the_tokens_out_of_the_environment() {
        let directory = tempfile::tempdir().unwrap();
        write(directory.path(), &[], Some("https://git.example/a/b.git")).unwrap();
        let ask = |host: &str| {
            let input = tempfile::NamedTempFile::new().unwrap();
            fs::write(input.path(), format!("protocol=https\nhost={host}\n\n")).unwrap();
            let mut git = std::process::Command::new("git");
            git.args(["credential", "fill"])
                .env_clear()
                .env("PATH", "/usr/local/bin:/usr/bin:/bin")
                .env("HOME", directory.path());
            git.env("GIT_CONFIG_SYSTEM", directory.path().join("gitconfig")).env("GIT_TERMINAL_PROMPT", "0");
            git.env("GIT_TOKEN", "token-1").env("GITHUB_TOKEN", "token-2").stdin(fs::File::open(input.path()).unwrap());
            String::from_utf8(git.output().unwrap().stdout).unwrap()
        };
        assert!(ask("git.example").contains("password=token-1"));
        assert!(ask("github.com").contains("password=token-2"));
        assert!(!ask("other.example").contains("token"));
    }
}
