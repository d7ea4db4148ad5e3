//! The ways out of a machine: what its recipe names, and what every run needs.

use std::time::Duration;

use commands::ports::{Recipe, Relay};
use events::SandboxId;
use futures::future::join_all;
use tokio::net::lookup_host;

use crate::dispatcher::{Inner, Later};
use crate::prompt::address_of;
use crate::surroundings::Trouble;

/// The ports of a relayed machine's loopback that lead to this server and to the model.
pub(crate) const DOOR_PORT: u16 = 4_437;
pub(crate) const MODEL_PORT: u16 = 4_438;
/// A name that is not found by then is no reason to keep a run waiting.
const LOOK_UP: Duration = Duration::from_secs(2);

impl Inner {
    /// What a machine without a network may reach besides what its recipe names: this server, and the model. A model whose words are
    /// encrypted keeps its name, so it is one more address of the recipe's. The others reach everything, or what is named and these two.
    pub(crate) fn ways_out(&self, provider: &str, recipe: &Recipe) -> Result<(Vec<Relay>, Vec<String>), Trouble> {
        let model = self.model(recipe)?.and_then(|model| address_of(&model.base_url));
        if !self.options.relayed.contains(provider) {
            let own = address_of(&self.options.door.url).into_iter().chain(model).map(|(to, _)| to);
            return Ok((Vec::new(), widened(&recipe.egress, own)));
        }
        let (mut relays, mut egress) =
            (vec![Relay { port: DOOR_PORT, to: self.options.door.address.clone() }], recipe.egress.clone());
        match model {
            Some((to, false)) => relays.push(Relay { port: MODEL_PORT, to }),
            Some((to, true)) if !egress.contains(&to) => egress.push(to),
            Some((_, true)) | None => {}
        }
        Ok((relays, egress))
    }

    /// A machine whose every address is handed in by this server reaches its inner ones only if the operator says so. Who wrote the
    /// recipe hears it on the thread: from within the machine it looks like an address that does not answer.
    pub(crate) async fn say_what_is_closed(&self, id: &SandboxId, provider: &str, recipe: &Recipe) -> Result<(), Later> {
        if !self.options.relayed.contains(provider) {
            return Ok(());
        }
        let looks = join_all(recipe.egress.iter().map(|to| self.is_closed(to))).await;
        let closed: Vec<_> = recipe.egress.iter().zip(looks).filter(|(_, closed)| *closed).map(|(to, _)| to.as_str()).collect();
        if closed.is_empty() {
            return Ok(());
        }
        let message = format!(
            "not reachable from this sandbox: {}; that is of this server's own or of a private network, and its --reach does not name it",
            closed.join(", ")
        );
        self.warn_all_on(id, "closed", "egress_closed", &message).await
    }

    async fn is_closed(&self, to: &str) -> bool {
        match tokio::time::timeout(LOOK_UP, lookup_host(to)).await {
            Ok(Ok(found)) => {
                let found: Vec<_> = found.collect();
                !found.is_empty() && !found.iter().any(|address| self.options.reach.allows(to, address.ip()))
            }
            // Whoever asks for it is told that it is not there.
            Ok(Err(_)) | Err(_) => false,
        }
    }
}

/// Without any name it is not narrowed at all.
fn widened(egress: &[String], own: impl Iterator<Item = String>) -> Vec<String> {
    let mut all = egress.to_vec();
    for to in own.filter(|to| !egress.is_empty() && !egress.contains(to)) {
        all.push(to);
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_narrowed_to_some_addresses_still_reaches_its_thread_and_its_model() {
        let own = || ["door.example:443", "model.example:443"].map(str::to_owned).into_iter();
        assert_eq!(widened(&[], own()), [] as [String; 0]);
        let named = ["git.example:443", "model.example:443"].map(str::to_owned);
        assert_eq!(widened(&named, own()), ["git.example:443", "model.example:443", "door.example:443"]);
    }
}
