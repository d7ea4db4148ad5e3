//! Which addresses of this server's own networks work may be led to. Whoever writes a recipe is a guest there.

use std::collections::BTreeSet;
use std::net::IpAddr;

/// Addresses of this host and of private networks, as `host:port` or `host:*`. Public ones need no leave.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Reach(pub BTreeSet<String>);

impl Reach {
    /// Whether `to`, a `host:port`, may be reached at this address.
    #[must_use]
    pub fn allows(&self, to: &str, address: IpAddr) -> bool {
        is_public(address) || self.names(to)
    }

    fn names(&self, to: &str) -> bool {
        let any_port = |(host, _): (&str, &str)| self.0.contains(&format!("{host}:*"));
        self.0.contains(to) || to.rsplit_once(':').is_some_and(any_port)
    }
}

fn is_public(address: IpAddr) -> bool {
    match address.to_canonical() {
        IpAddr::V4(it) => {
            let [first, second, ..] = it.octets();
            let shared = first == 100 && second & 0xc0 == 64;
            let own = it.is_loopback() || it.is_private() || it.is_link_local() || first == 0;
            // From 240 on all is reserved, the broadcast too.
            !(own || shared || first >= 240 || it.is_multicast())
        }
        IpAddr::V6(it) => {
            let own = it.is_loopback() || it.is_unspecified() || it.is_unique_local() || it.is_unicast_link_local();
            // Addresses of the fourth version in the clothes of the sixth lead wherever a translator likes.
            let clothed =
                matches!(it.segments(), [0, 0, 0, 0, 0, 0, ..] | [0x64, 0xff9b, 0, 0, 0, 0, ..] | [0x64, 0xff9b, 1, ..]);
            !(own || clothed || it.is_multicast())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_addresses_of_the_open_network_are_public() {
        for own in ["127.0.0.1", "10.1.2.3", "172.16.0.1", "192.168.1.1", "169.254.169.254", "100.64.0.1", "0.0.0.0", "::1"] {
            assert!(!is_public(own.parse().unwrap()), "{own}");
        }
        for own in ["fd00::1", "fe80::1", "::ffff:127.0.0.1", "224.0.0.1", "::", "240.0.0.1", "255.255.255.255"] {
            assert!(!is_public(own.parse().unwrap()), "{own}");
        }
        for own in ["64:ff9b::a00:1", "64:ff9b::5db8:d822", "64:ff9b:1::1", "::10.0.0.1", "::93.184.216.34"] {
            assert!(!is_public(own.parse().unwrap()), "{own}");
        }
        for open in ["93.184.216.34", "172.32.0.1", "100.128.0.1", "2606:2800:220:1::1", "64:ff9c::1", "::ffff:93.184.216.34"] {
            assert!(is_public(open.parse().unwrap()), "{open}");
        }
    }

    #[test]
    fn an_inner_address_is_reached_by_the_name_that_was_allowed() {
        let reach = Reach(["db.internal:5432".to_owned(), "127.0.0.1:*".to_owned()].into());
        let inner = IpAddr::from([10, 0, 0, 1]);
        assert!(reach.allows("db.internal:5432", inner) && reach.allows("127.0.0.1:99", IpAddr::from([127, 0, 0, 1])));
        assert!(!reach.allows("db.internal:22", inner) && !reach.allows("evil.example:5432", inner));
    }
}
