//! Sprites as such: found, made, listed and taken away.

use commands::ports::{Limits, MachineError, Verdict, Wanted};
use reqwest::{Method, StatusCode, Url};
use tokio::time::sleep;

use super::shapes::{Config, CreateSprite, NetworkPolicy, Page, Rule, Sprite};
use super::{Inner, LABEL_ENVIRONMENT, LABEL_HOUSE, LABEL_SANDBOX, LABEL_THREAD, NAME_PREFIX};
use crate::remote::http::{Effect, Failure, join, with};
use crate::remote::variables;

const MOST_ON_A_PAGE: &str = "50";
const MIB_PER_GB: u64 = 1024;
/// After a lost answer the sprite may take a moment to be seen.
const LOOKS: u32 = 3;

/// A sprite that is warm or cold has its files. Cold ones have lost their processes.
pub(super) fn verdict(sprite: &Sprite) -> Verdict {
    match sprite.status.as_deref() {
        Some("running") => Verdict::Live,
        Some("warm" | "cold") => Verdict::Resumable,
        Some(status) => Verdict::Unknown { why: format!("it is {status}") },
        None => Verdict::Unknown { why: "it has no status".to_owned() },
    }
}

pub(super) fn label(name: &str, value: &str) -> String {
    format!("{name}={value}")
}

impl Inner {
    pub(super) fn url(&self, parts: &[&str]) -> Url {
        join(&join(&self.options.base_url, &["v1"]), parts)
    }

    pub(super) async fn look(&self, sprite: &str) -> Result<Sprite, Failure> {
        self.http.json(self.http.request(Method::GET, self.url(&["sprites", sprite])), Effect::Asks).await
    }

    /// The same, where it counts whether a sprite is gone: that is believed if it is not listed either.
    pub(super) async fn sought(&self, sprite: &str) -> Result<Sprite, Failure> {
        let failure = match self.look(sprite).await {
            Err(failure) => failure,
            found => return found,
        };
        let MachineError::Gone(why) = &failure.error else { return Err(failure) };
        match self.list().await {
            Ok(listed) if listed.iter().all(|one| one.name != sprite) => Err(failure),
            Ok(_) => Err(Failure::doubtful(why, "it is listed")),
            Err(error) => Err(Failure::doubtful(why, &format!("nothing is listed: {}", error.error))),
        }
    }

    pub(super) async fn delete(&self, sprite: &str) -> Result<(), Failure> {
        let request = self.http.request(Method::DELETE, self.url(&["sprites", sprite]));
        self.http.send(request, Effect::Changes).await.map(drop)
    }

    pub(super) async fn list(&self) -> Result<Vec<Sprite>, Failure> {
        let mut sprites = Vec::new();
        let mut token: Option<String> = None;
        loop {
            let mut query = vec![("prefix", NAME_PREFIX), ("max_results", MOST_ON_A_PAGE)];
            query.extend(token.as_deref().map(|token| ("continuation_token", token)));
            let request = self.http.request(Method::GET, with(self.url(&["sprites"]), &query));
            let page: Page = self.http.json(request, Effect::Asks).await?;
            sprites.extend(page.sprites);
            match page.next_continuation_token {
                Some(next) if page.has_more && token.as_ref() != Some(&next) => token = Some(next),
                Some(_) | None => return Ok(sprites),
            }
        }
    }

    pub(super) async fn find(&self, name: &str) -> Result<Option<Sprite>, MachineError> {
        match self.look(name).await {
            Ok(sprite) => Ok(Some(sprite)),
            Err(Failure { error: MachineError::Gone(_), .. }) => Ok(None),
            Err(failure) => Err(failure.error),
        }
    }

    /// Names are unique. An answer that was lost is made up for by looking, and never by asking again for a sprite.
    pub(super) async fn make(&self, wanted: &Wanted) -> Result<Sprite, MachineError> {
        let body = self.order(wanted)?;
        let request = self.http.request(Method::POST, self.url(&["sprites"])).json(&body).timeout(self.options.start_patience);
        let failure = match self.http.json(request, Effect::Changes).await {
            Ok(sprite) => return Ok(sprite),
            Err(failure) => failure,
        };
        let in_doubt = matches!(failure.error, MachineError::Unknown(_)) || failure.is(StatusCode::CONFLICT);
        for look in 1..=LOOKS {
            if !in_doubt {
                break;
            }
            if let Some(sprite) = self.find(&body.name).await? {
                return Ok(sprite);
            }
            sleep(self.options.poll * look).await;
        }
        Err(failure.error)
    }

    fn order(&self, wanted: &Wanted) -> Result<CreateSprite, MachineError> {
        let recipe = &wanted.recipe;
        if !wanted.relays.is_empty() {
            return Err(MachineError::Refused("a sprite reaches the world by itself and has no relays".to_owned()));
        }
        let runtime = recipe.image.clone();
        if runtime.as_deref().is_some_and(|runtime| !matches!(runtime, "default" | "dev")) {
            return Err(MachineError::Refused("the image of a sprite is `default` or `dev`".to_owned()));
        }
        let Limits { cpus, memory_mib, disk_mib, pids: _, seconds: _ } = recipe.limits;
        let storage_gb = disk_mib.map(|mib| mib.div_ceil(MIB_PER_GB));
        let region = self.options.region.clone();
        let sized = cpus.is_some() || memory_mib.is_some() || storage_gb.is_some() || region.is_some();
        Ok(CreateSprite {
            name: name(wanted)?,
            labels: labels(wanted),
            environment: variables(recipe),
            config: sized.then_some(Config { ram_mb: memory_mib, cpus, storage_gb, region }),
            runtime,
            wait_for_capacity: true,
        })
    }

    /// Nothing but what is named can be reached, if anything is named.
    pub(super) async fn confine(&self, sprite: &str, egress: &[String]) -> Result<(), MachineError> {
        if egress.is_empty() {
            return Ok(());
        }
        let host = |target: &String| target.rsplit_once(':').map_or(target.clone(), |(host, _)| host.to_owned());
        let mut rules: Vec<Rule> = egress.iter().map(|target| Rule { domain: host(target), action: "allow" }).collect();
        rules.push(Rule { domain: "*".to_owned(), action: "deny" });
        let request = self.http.request(Method::POST, self.url(&["sprites", sprite, "policy", "network"]));
        self.http.send(request.json(&NetworkPolicy { rules }), Effect::Changes).await?;
        Ok(())
    }
}

/// It is part of an internet address.
pub(super) fn name(wanted: &Wanted) -> Result<String, MachineError> {
    let id = wanted.sandbox.as_str();
    let plain = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
    if id.len() <= 48 && id.bytes().all(plain) {
        return Ok(format!("{NAME_PREFIX}{id}"));
    }
    Err(MachineError::Refused(format!("{id:?} cannot name a sprite")))
}

fn labels(wanted: &Wanted) -> Vec<String> {
    let mut labels = vec![
        label(LABEL_HOUSE, wanted.house.as_str()),
        label(LABEL_ENVIRONMENT, wanted.environment.as_str()),
        label(LABEL_SANDBOX, wanted.sandbox.as_str()),
    ];
    labels.extend(wanted.thread.as_ref().map(|thread| label(LABEL_THREAD, thread.as_str())));
    labels
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_published_status_has_its_verdict() {
        let of =
            |status: Option<&str>| verdict(&Sprite { name: "s".to_owned(), status: status.map(str::to_owned), labels: None });
        assert_eq!(of(Some("running")), Verdict::Live);
        assert_eq!(of(Some("warm")), Verdict::Resumable);
        assert_eq!(of(Some("cold")), Verdict::Resumable);
        assert!(matches!(of(Some("something_new")), Verdict::Unknown { .. }));
        assert!(matches!(of(None), Verdict::Unknown { .. }));
    }
}
