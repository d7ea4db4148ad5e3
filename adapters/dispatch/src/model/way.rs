//! The way to a model. Environments name addresses, and whoever writes one is a guest in this server's networks.

use std::net::SocketAddr;

use commands::ports::Reach;
use url::Url;

use super::ModelError;
use crate::prompt::address_of;

/// A client that connects to what was looked at, and follows nobody elsewhere.
pub(super) async fn client(base_url: &str, reach: &Reach) -> Result<reqwest::Client, ModelError> {
    let none = || ModelError::Unreachable("its address is not one of http or https".to_owned());
    let host = Url::parse(base_url).ok().and_then(|url| url.host_str().map(str::to_owned)).ok_or_else(none)?;
    let (to, _) = address_of(base_url).ok_or_else(none)?;
    let found = tokio::net::lookup_host(&to).await.map_err(|error| ModelError::Unreachable(error.to_string()))?;
    let open: Vec<SocketAddr> = found.filter(|address| reach.allows(&to, address.ip())).collect();
    if open.is_empty() {
        return Err(ModelError::Refused(format!("{to} is of this server's own networks, and its --reach does not name it")));
    }
    let client = reqwest::Client::builder().redirect(reqwest::redirect::Policy::none()).resolve_to_addrs(&host, &open);
    client.build().map_err(|error| ModelError::Unreachable(error.to_string()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn an_inner_address_needs_the_servers_leave() {
        let (none, some) = (Reach::default(), Reach(["127.0.0.1:8080".to_owned()].into()));
        for url in ["http://127.0.0.1:8080/v1", "http://169.254.169.254/latest", "http://[::1]:8080/v1"] {
            assert!(matches!(client(url, &none).await, Err(ModelError::Refused(_))), "{url}");
        }
        assert!(client("http://127.0.0.1:8080/v1", &some).await.is_ok());
        assert!(matches!(client("http://127.0.0.1:22/v1", &some).await, Err(ModelError::Refused(_))));
        assert!(matches!(client("unix:/run/model", &some).await, Err(ModelError::Unreachable(_))));
    }
}
