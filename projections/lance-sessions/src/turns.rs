//! Houses share one model: each has it for a while, and then the next.

use events::HouseId;

use crate::copies::Datasets;
use crate::embed::Again;

/// Texts of a turn. What is embedded at once is never cut, so a quick model makes more of them.
const TURN: u64 = 512;

impl Datasets {
    /// Gives each of these houses a turn at what is missing, and returns those that have more. What keeps one from it keeps no other.
    pub async fn embed_in_turn(&self, houses: Vec<HouseId>) -> Vec<HouseId> {
        let mut more = Vec::new();
        for house in houses {
            match self.embed_some(&house, Again::Missing, TURN, |_| {}).await {
                Ok(made) => {
                    if made.done > 0 {
                        tracing::info!(%house, messages = made.done, "embedded");
                    }
                    more.extend((made.done >= TURN).then_some(house));
                }
                Err(error) => tracing::warn!(%house, %error, "messages could not be embedded; trying again"),
            }
        }
        more
    }
}
