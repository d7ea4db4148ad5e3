//! Servers of one log, over HTTP.

use std::time::Duration;

use event_log::{Command, PeerError, PeerReply, Peers};

use crate::app::{PEER_HEALTH, PEER_SECRET, PEER_SUBMIT};

const CONNECT: Duration = Duration::from_secs(2);
const ANSWER: Duration = Duration::from_secs(10);
const ALIVE: Duration = Duration::from_secs(2);

#[derive(Clone, Debug)]
pub struct HttpPeers {
    client: reqwest::Client,
    secret: String,
}

impl HttpPeers {
    /// `secret` is the log's own, from its cluster object.
    pub fn new(secret: String) -> Result<Self, reqwest::Error> {
        let client = reqwest::Client::builder()
            .connect_timeout(CONNECT)
            .timeout(ANSWER)
            .no_proxy()
            .redirect(reqwest::redirect::Policy::none())
            .tcp_nodelay(true)
            .build()?;
        Ok(Self { client, secret })
    }
}

#[async_trait::async_trait]
impl Peers for HttpPeers {
    async fn submit(&self, url: &str, command: &Command) -> Result<PeerReply, PeerError> {
        let request = self.client.post(format!("{url}{PEER_SUBMIT}")).header(PEER_SECRET, &self.secret).body(command.to_wire());
        let response = request.send().await.map_err(|error| {
            let why = error.to_string();
            if error.is_connect() { PeerError::Unreachable(why) } else { PeerError::Lost(why) }
        })?;
        if !response.status().is_success() {
            return Err(PeerError::Lost(format!("{url} answered {}", response.status())));
        }
        let body = response.bytes().await.map_err(|error| PeerError::Lost(error.to_string()))?;
        PeerReply::decode(&body)
    }

    /// Alive as a server of this log: whoever else answers there now does not know its secret.
    async fn is_alive(&self, url: &str) -> bool {
        let answer = self.client.get(format!("{url}{PEER_HEALTH}")).header(PEER_SECRET, &self.secret).timeout(ALIVE).send().await;
        answer.is_ok_and(|response| response.status().is_success())
    }
}
