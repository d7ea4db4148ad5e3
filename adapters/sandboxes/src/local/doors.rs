//! What a machine without a network may reach, and under which of its own addresses.

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr, SocketAddrV4};

use commands::ports::{MachineError, Wanted};
use serde::{Deserialize, Serialize};

/// One address of the machine's own loopback, and where it leads.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Door {
    pub(crate) listen: SocketAddrV4,
    pub(crate) to: String,
    /// The name by which programs inside know it.
    pub(crate) name: Option<String>,
}

impl Door {
    /// Only a right that programs have no other use for lets them listen there.
    pub(crate) fn is_low(&self) -> bool {
        self.listen.port() < 1024
    }
}

/// The relays at their ports, and every host of the recipe at its own name and port: a name leads to an address of the loopback that
/// no other name has, so that programs need not know of it, and certificates are right. Where the two meet, the relay has it.
pub(crate) fn of(wanted: &Wanted) -> Result<Vec<Door>, MachineError> {
    let mut doors: BTreeMap<SocketAddrV4, Door> = BTreeMap::new();
    for relay in &wanted.relays {
        let listen = SocketAddrV4::new(Ipv4Addr::LOCALHOST, relay.port);
        let taken = doors.insert(listen, Door { listen, to: relay.to.clone(), name: None });
        if taken.is_some_and(|other| other.to != relay.to) {
            return Err(MachineError::Refused(format!("two ways out begin at {listen}")));
        }
    }
    let mut names = Vec::new();
    for to in &wanted.recipe.egress {
        match named(to, &mut names) {
            Ok(door) => {
                doors.entry(door.listen).or_insert(door);
            }
            // It has a port, if not a name.
            Err(_) if wanted.relays.iter().any(|relay| relay.to == *to) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(doors.into_values().collect())
}

/// Where a repository that is not of this host is, as a recipe's egress would name it.
pub(crate) fn of_repository(repo: &str) -> Option<String> {
    match repo.split_once("://") {
        Some(_) => {
            let url = reqwest::Url::parse(repo).ok()?;
            let usual = match url.scheme() {
                "git" => Some(9418),
                "ssh" => Some(22),
                _ => url.port_or_known_default(),
            };
            Some(format!("{}:{}", url.host_str()?, url.port().or(usual)?))
        }
        // As ssh has it: me@host:path
        None => {
            let (host, _) = repo.split_once(':')?;
            let host = host.rsplit('@').next().filter(|host| !host.is_empty() && !host.contains('/'))?;
            Some(format!("{host}:22"))
        }
    }
}

fn named(to: &str, names: &mut Vec<String>) -> Result<Door, MachineError> {
    let refuse = |why: &str| MachineError::Refused(format!("egress to {to:?}: {why}"));
    let (host, port) = to.rsplit_once(':').ok_or_else(|| refuse("it is written as host:port"))?;
    let port = port.parse::<u16>().ok().filter(|port| *port > 0).ok_or_else(|| refuse("it is written as host:port"))?;
    let known = host.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'-'));
    if host.is_empty() || !known {
        return Err(refuse("this is no name of a host"));
    }
    if host == "localhost" {
        return Ok(Door { listen: SocketAddrV4::new(Ipv4Addr::LOCALHOST, port), to: to.to_owned(), name: None });
    }
    match host.parse() {
        Ok(IpAddr::V4(address)) if address.is_loopback() => {
            Ok(Door { listen: SocketAddrV4::new(address, port), to: to.to_owned(), name: None })
        }
        Ok(IpAddr::V4(_) | IpAddr::V6(_)) => Err(refuse("a local machine reaches others by name only")),
        Err(_) => {
            let at = names.iter().position(|name| name == host).unwrap_or_else(|| {
                names.push(host.to_owned());
                names.len() - 1
            });
            let last = u8::try_from(at + 1).ok().filter(|last| *last < 255).ok_or_else(|| refuse("too many hosts"))?;
            let listen = SocketAddrV4::new(Ipv4Addr::new(127, 0, 1, last), port);
            Ok(Door { listen, to: to.to_owned(), name: Some(host.to_owned()) })
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(to: &str) -> Result<Door, MachineError> {
        named(to, &mut Vec::new())
    }

    #[test]
    fn a_host_keeps_its_name_and_its_port() {
        let mut names = Vec::new();
        let first = named("git.example:443", &mut names).unwrap();
        let second = named("api.example:443", &mut names).unwrap();
        let again = named("git.example:22", &mut names).unwrap();
        assert_eq!(first.listen.to_string(), "127.0.1.1:443");
        assert_eq!(second.listen.to_string(), "127.0.1.2:443");
        assert_eq!(again.listen.to_string(), "127.0.1.1:22");
        assert_eq!(first.name.as_deref(), Some("git.example"));
    }

    #[test]
    fn an_address_of_the_loopback_stays_what_it_is() {
        assert_eq!(at("127.0.0.1:8080").unwrap().listen.to_string(), "127.0.0.1:8080");
        assert_eq!(at("localhost:8080").unwrap().listen.to_string(), "127.0.0.1:8080");
    }

    #[test]
    fn a_repository_is_at_a_host_and_a_port() {
        for (repo, at) in [
            ("https://git.example/a/b.git", Some("git.example:443")),
            ("https://me@git.example:8443/a", Some("git.example:8443")),
            ("http://git.example/a", Some("git.example:80")),
            ("ssh://git@git.example/a", Some("git.example:22")),
            ("git://git.example/a", Some("git.example:9418")),
            ("git@git.example:a/b.git", Some("git.example:22")),
            ("file:///srv/a", None),
            ("/srv/a", None),
            ("./a:b", None),
        ] {
            assert_eq!(of_repository(repo).as_deref(), at, "{repo}");
        }
    }

    #[test]
    fn what_cannot_be_handed_in_is_refused() {
        for to in ["", "host", "host:", "host:0", "host:70000", ":80", "10.0.0.1:80", "a b:80", "a\nb:80", "[::1]:80"] {
            assert!(matches!(at(to), Err(MachineError::Refused(_))), "{to:?}");
        }
    }
}
