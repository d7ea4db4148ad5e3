//! Which server, and the token for it.

use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use anyhow::{Context, bail};
use url::{Host, Url};

use crate::config::Config;
use crate::output::{Refused, Usage, note};

/// Written by the server when it listens.
pub(crate) const URL_FILE: &str = "server.url";
/// Written at the first start, for its user only.
pub(crate) const TOKEN_FILE: &str = "owner-token";

#[derive(Clone, Debug)]
pub(crate) struct Endpoint {
    pub(crate) url: Url,
    pub(crate) token: String,
    pub(crate) token_source: String,
    /// The server may listen elsewhere after a restart.
    url_file: Option<PathBuf>,
}

impl Endpoint {
    pub(crate) fn find(config: &Config) -> anyhow::Result<Self> {
        let (url, url_file) = match &config.url {
            Some(given) => (parse(given).map_err(|why| Usage(format!("the server's URL {given:?} {why}")))?, None),
            None => {
                let path = config.data_dir.join(URL_FILE);
                (read_url(&path)?, Some(path))
            }
        };
        let (token, token_source) = match &config.token {
            Some(given) => (given.trim().to_owned(), "that was given".to_owned()),
            None if url_file.is_none()
                && !is_loopback(&url)
                && Some(&url) != read_url(&config.data_dir.join(URL_FILE)).ok().as_ref() =>
            {
                let why = format!(
                    "no token for {url}: set ARBE_TOKEN or `token` in the configuration file (the one in {} is for the server of that directory)",
                    config.data_dir.display(),
                );
                return Err(Refused(why).into());
            }
            None => {
                let path = config.data_dir.join(TOKEN_FILE);
                (read_token(&path)?, format!("in {}", path.display()))
            }
        };
        if token.is_empty() || !token.bytes().all(|byte| byte.is_ascii_graphic()) {
            return Err(Refused(format!("the token {token_source} is not one")).into());
        }
        Ok(Self { url, token, token_source, url_file })
    }

    /// Where the server is now, if it has moved.
    pub(crate) fn moved(&self) -> Option<Url> {
        self.url_file.as_deref().and_then(|path| read_url(path).ok())
    }
}

fn parse(text: &str) -> Result<Url, String> {
    let url = Url::parse(text.trim()).map_err(|error| format!("is not one: {error}"))?;
    if !matches!(url.scheme(), "http" | "https") || url.host().is_none() {
        return Err("is not one of http or https".into());
    }
    Ok(url)
}

fn read_url(path: &Path) -> anyhow::Result<Url> {
    let text = match std::fs::read_to_string(path) {
        Ok(text) => text,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            bail!("no server is known: {} does not exist; start one with `arbe serve`, or set ARBE_URL or --url", path.display());
        }
        Err(error) => return Err(error).with_context(|| path.display().to_string()),
    };
    parse(&text).map_err(|why| anyhow::anyhow!("{}: {:?} {why}", path.display(), text.trim()))
}

fn read_token(path: &Path) -> anyhow::Result<String> {
    let text = match std::fs::read_to_string(path) {
        Ok(text) => text,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            let why = format!(
                "no token: looked at --token, ARBE_TOKEN, `token` in the configuration file and {}, which the first `arbe serve` writes",
                path.display()
            );
            return Err(Refused(why).into());
        }
        Err(error) => return Err(error).with_context(|| path.display().to_string()),
    };
    let mode = std::fs::metadata(path).with_context(|| path.display().to_string())?.permissions().mode();
    if mode & 0o077 != 0 {
        note(format_args!("warning: others can read {0}; run `chmod 600 {0}`", path.display()));
    }
    Ok(text.trim().to_owned())
}

pub(crate) fn is_loopback(url: &Url) -> bool {
    match url.host() {
        Some(Host::Ipv4(ip)) => ip.is_loopback(),
        Some(Host::Ipv6(ip)) => ip.is_loopback(),
        Some(Host::Domain(name)) => name == "localhost" || name.ends_with(".localhost"),
        None => false,
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;
    use crate::args::Args;
    use crate::output::code;

    fn find(directory: &Path, line: &[&str]) -> anyhow::Result<Endpoint> {
        let directory = directory.to_str().unwrap();
        let config = directory.to_owned() + "/config.toml";
        std::fs::write(&config, "").unwrap();
        let line = ["arbe", "--data-dir", directory, "--config", &config, "whoami"].into_iter().chain(line.iter().copied());
        Endpoint::find(&Config::load(&Args::try_parse_from(line)?)?)
    }

    fn with_token() -> tempfile::TempDir {
        let directory = tempfile::tempdir().unwrap();
        std::fs::write(directory.path().join(TOKEN_FILE), "arbe_owner\n").unwrap();
        directory
    }

    #[test]
    fn what_is_given_wins_over_the_data_directory() {
        let directory = with_token();
        std::fs::write(directory.path().join(URL_FILE), "http://127.0.0.1:1\n").unwrap();
        let endpoint = find(directory.path(), &[]).unwrap();
        assert_eq!((endpoint.url.as_str(), endpoint.token.as_str()), ("http://127.0.0.1:1/", "arbe_owner"));
        let endpoint = find(directory.path(), &["--url", "https://arbe.example/base", "--token", "t"]).unwrap();
        assert_eq!((endpoint.url.as_str(), endpoint.token.as_str()), ("https://arbe.example/base", "t"));
    }

    #[test]
    fn the_owners_token_goes_to_no_other_machine() {
        let directory = with_token();
        let refused = find(directory.path(), &["--url", "https://elsewhere.example"]).unwrap_err();
        assert_eq!(code(&refused), 4);
        assert!(find(directory.path(), &["--url", "http://localhost:4437"]).is_ok());
        std::fs::write(directory.path().join(URL_FILE), "https://elsewhere.example").unwrap();
        assert!(find(directory.path(), &["--url", "https://elsewhere.example"]).is_ok());
    }

    #[test]
    fn what_is_missing_is_named_with_what_to_do() {
        let directory = tempfile::tempdir().unwrap();
        let error = find(directory.path(), &[]).unwrap_err();
        assert!(error.to_string().contains("arbe serve") && error.to_string().contains("ARBE_URL"), "{error}");
        assert_eq!(code(&error), 1);
        let error = find(directory.path(), &["--url", "http://127.0.0.1:1"]).unwrap_err();
        assert!(error.to_string().contains("ARBE_TOKEN") && error.to_string().contains(TOKEN_FILE), "{error}");
        assert_eq!(code(&error), 4);
        assert_eq!(code(&find(directory.path(), &["--url", "ftp://x", "--token", "t"]).unwrap_err()), 2);
    }

    #[test]
    fn a_server_that_moved_is_found_again() {
        let directory = with_token();
        std::fs::write(directory.path().join(URL_FILE), "http://127.0.0.1:1").unwrap();
        let endpoint = find(directory.path(), &[]).unwrap();
        std::fs::write(directory.path().join(URL_FILE), "http://127.0.0.1:2").unwrap();
        assert_eq!(endpoint.moved().unwrap().as_str(), "http://127.0.0.1:2/");
        assert!(find(directory.path(), &["--url", "http://127.0.0.1:1"]).unwrap().moved().is_none());
    }
}
