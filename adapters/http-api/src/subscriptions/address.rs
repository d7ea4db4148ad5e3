//! Where a webhook may be: not inside.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use reqwest::Url;
use reqwest::dns::{Addrs, Name, Resolve, Resolving};

const URL_MAX: usize = 2_048;

#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum UrlRejected {
    #[error("webhook.url must be a URL of at most {URL_MAX} bytes")]
    Malformed,
    #[error("webhook.url must not carry a user name or password")]
    Credentials,
    #[error("webhook.url must use https, or http on localhost or 127.0.0.x for development")]
    Scheme,
    #[error("webhook.url must not point into a private, link-local or otherwise special network")]
    Private,
}

#[derive(Debug, thiserror::Error)]
#[error("{0} is not on the public internet")]
struct NotPublic(String);

pub(super) fn check(text: &str) -> Result<Url, UrlRejected> {
    let url = Url::parse(text).ok().filter(|_| text.len() <= URL_MAX).ok_or(UrlRejected::Malformed)?;
    if !url.username().is_empty() || url.password().is_some() {
        return Err(UrlRejected::Credentials);
    }
    let host = url.host_str().ok_or(UrlRejected::Malformed)?;
    let literal = host.trim_start_matches('[').trim_end_matches(']').parse::<IpAddr>().ok();
    match (url.scheme(), literal) {
        ("http", None) if host == "localhost" => Ok(url),
        ("http", Some(IpAddr::V4(ip))) if ip.is_loopback() => Ok(url),
        ("https", Some(ip)) if is_public(ip) => Ok(url),
        ("https", Some(_)) => Err(UrlRejected::Private),
        ("https", None) if is_local_name(host) => Err(UrlRejected::Private),
        ("https", None) => Ok(url),
        _ => Err(UrlRejected::Scheme),
    }
}

fn is_local_name(host: &str) -> bool {
    let host = host.trim_end_matches('.');
    host == "localhost" || [".localhost", ".local", ".internal"].iter().any(|suffix| host.ends_with(suffix))
}

/// Looks names up and keeps only addresses that a webhook may have, so that what is checked is what is connected to.
#[derive(Clone, Copy, Debug)]
pub(super) struct PublicOnly;

impl Resolve for PublicOnly {
    fn resolve(&self, name: Name) -> Resolving {
        Box::pin(async move {
            let host = name.as_str().to_owned();
            let found = tokio::net::lookup_host((host.as_str(), 0)).await?;
            let allowed: Vec<SocketAddr> = found.filter(|address| may_connect(&host, address.ip())).collect();
            if allowed.is_empty() {
                return Err(NotPublic(host).into());
            }
            Ok(Box::new(allowed.into_iter()) as Addrs)
        })
    }
}

fn may_connect(host: &str, ip: IpAddr) -> bool {
    if host == "localhost" { ip.is_loopback() } else { is_public(ip) }
}

fn is_public(ip: IpAddr) -> bool {
    match ip {
        IpAddr::V4(ip) => is_public_v4(ip),
        IpAddr::V6(ip) => is_public_v6(ip),
    }
}

/// Not in one of the special-purpose registries.
fn is_public_v4(ip: Ipv4Addr) -> bool {
    let [a, b, c, _] = ip.octets();
    let shared = a == 100 && (64..128).contains(&b);
    let protocol = a == 192 && b == 0 && c == 0;
    let relay = a == 192 && b == 88 && c == 99;
    let benchmark = a == 198 && (18..20).contains(&b);
    let special = ip.is_private() || ip.is_loopback() || ip.is_link_local() || ip.is_documentation();
    !(special || shared || protocol || relay || benchmark || a == 0 || a >= 224)
}

/// Global unicast without the parts of it that stand for something else, such as an IPv4 address.
fn is_public_v6(ip: Ipv6Addr) -> bool {
    let [a, b, ..] = ip.segments();
    let global = a & 0xe000 == 0x2000;
    let protocol = a == 0x2001 && b < 0x0200;
    let documentation = (a == 0x2001 && b == 0x0db8) || (a == 0x3fff && b < 0x1000);
    let from_v4 = a == 0x2002;
    global && !(protocol || documentation || from_v4)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn public_https_and_local_http_are_allowed() {
        for url in [
            "https://worker.example/hooks",
            "https://worker.example:8443/hooks?x=1",
            "https://93.184.216.34/",
            "https://[2606:4700::1111]/",
            "http://localhost:3000/hook",
            "http://127.0.0.1:8080/hook",
            "http://127.0.0.77/hook",
        ] {
            assert!(check(url).is_ok(), "{url}");
        }
    }

    #[test]
    fn plain_http_elsewhere_is_not() {
        for url in ["http://10.0.0.1/hook", "http://w.example/", "http://[::1]/", "http://localhost.x.example/", "ftp://x/"] {
            assert_eq!(check(url), Err(UrlRejected::Scheme), "{url}");
        }
        assert_eq!(check("file:///etc/passwd"), Err(UrlRejected::Malformed));
    }

    #[test]
    fn the_inside_is_not_reachable_by_any_spelling() {
        for url in [
            "https://10.1.2.3/",
            "https://172.16.0.1/",
            "https://192.168.1.1/",
            "https://127.0.0.1/",
            "https://2130706433/",
            "https://0x7f.1/",
            "https://169.254.169.254/latest/meta-data/",
            "https://100.64.0.1/",
            "https://0.0.0.0/",
            "https://224.0.0.1/",
            "https://255.255.255.255/",
            "https://localhost/",
            "https://x.localhost/",
            "https://metadata.google.internal/",
            "https://[::]/",
            "https://[::1]/",
            "https://[::ffff:10.0.0.1]/",
            "https://[64:ff9b::a00:1]/",
            "https://[2002:a00:1::]/",
            "https://[2001:db8::1]/",
            "https://[fe80::1]/",
            "https://[fd00:ec2::254]/",
        ] {
            assert_eq!(check(url), Err(UrlRejected::Private), "{url}");
        }
    }

    #[test]
    fn odd_urls_are_refused() {
        assert_eq!(check("worker.example/hook"), Err(UrlRejected::Malformed));
        assert_eq!(check(&format!("https://x.example/{}", "a".repeat(URL_MAX))), Err(UrlRejected::Malformed));
        assert_eq!(check("https://user:pw@worker.example/"), Err(UrlRejected::Credentials));
    }

    #[test]
    fn a_name_counts_by_the_addresses_it_has_when_it_is_called() {
        let ip = |text: &str| text.parse::<IpAddr>().unwrap();
        assert!(may_connect("worker.example", ip("93.184.216.34")));
        assert!(!may_connect("worker.example", ip("10.0.0.1")));
        assert!(!may_connect("worker.example", ip("127.0.0.1")));
        assert!(may_connect("localhost", ip("127.0.0.1")));
        assert!(!may_connect("localhost", ip("93.184.216.34")));
    }
}
