//! Daytona's control plane: sandboxes are found, made, started and taken away.

use std::collections::BTreeMap;
use std::net::IpAddr;

use commands::ports::{Limits, MachineError, Verdict, Wanted};
use reqwest::{Method, RequestBuilder, StatusCode, Url};
use tokio::time::{Instant, sleep, sleep_until};

use super::shapes::{BuildInfo, CreateSandbox, Page, Sandbox};
use super::state::verdict;
use super::{Inner, LABEL_ENVIRONMENT, LABEL_HOUSE, LABEL_SANDBOX, LABEL_THREAD, NAME_PREFIX};
use crate::remote::http::{Effect, Failure, join, with};
use crate::remote::variables;

const MOST_ON_A_PAGE: &str = "200";
/// Images are built, everything else is the name of a snapshot.
const IMAGE_SCHEME: &str = "docker://";
const MIB_PER_GB: u64 = 1024;
/// After a lost answer the sandbox may take a moment to be seen.
const LOOKS: u32 = 3;

impl Inner {
    fn url(&self, parts: &[&str]) -> Url {
        join(&self.options.base_url, parts)
    }

    pub(super) fn request(&self, method: Method, url: Url) -> RequestBuilder {
        let request = self.http.request(method, url);
        match &self.options.organization {
            Some(organization) => request.header("X-Daytona-Organization-ID", organization),
            None => request,
        }
    }

    /// By the name that the platform gave it, or by Daytona's own id.
    pub(super) async fn look(&self, sandbox: &str) -> Result<Sandbox, Failure> {
        self.http.json(self.request(Method::GET, self.url(&["sandbox", sandbox])), Effect::Asks).await
    }

    /// The same, where it counts whether a sandbox is gone: that is believed if it is not listed either.
    pub(super) async fn sought(&self, sandbox: &str) -> Result<Sandbox, Failure> {
        let failure = match self.look(sandbox).await {
            Err(failure) => failure,
            found => return found,
        };
        let MachineError::Gone(why) = &failure.error else { return Err(failure) };
        match self.list(("name", NAME_PREFIX)).await {
            Ok(listed) if listed.iter().all(|one| one.id != sandbox) => Err(failure),
            Ok(_) => Err(Failure::doubtful(why, "it is listed")),
            Err(error) => Err(Failure::doubtful(why, &format!("nothing is listed: {}", error.error))),
        }
    }

    pub(super) async fn change(&self, sandbox: &str, verb: &str) -> Result<(), Failure> {
        let request = self.request(Method::POST, self.url(&["sandbox", sandbox, verb]));
        self.http.send(request, Effect::Changes).await.map(drop)
    }

    pub(super) async fn delete(&self, sandbox: &str) -> Result<(), Failure> {
        let request = self.request(Method::DELETE, self.url(&["sandbox", sandbox]));
        self.http.send(request, Effect::Changes).await.map(drop)
    }

    /// All pages. `filter` is a pair of the query.
    pub(super) async fn list(&self, filter: (&str, &str)) -> Result<Vec<Sandbox>, Failure> {
        let mut sandboxes = Vec::new();
        let mut cursor: Option<String> = None;
        loop {
            let mut query = vec![filter, ("limit", MOST_ON_A_PAGE)];
            query.extend(cursor.as_deref().map(|cursor| ("cursor", cursor)));
            let request = self.request(Method::GET, with(self.url(&["sandbox"]), &query));
            let page: Page = self.http.json(request, Effect::Asks).await?;
            sandboxes.extend(page.items);
            match page.next_cursor {
                Some(next) if cursor.as_ref() != Some(&next) => cursor = Some(next),
                Some(_) | None => return Ok(sandboxes),
            }
        }
    }

    /// Names are unique and labels are ours, so both are asked: the first is seen at once, the second tells whose it is.
    pub(super) async fn find(&self, wanted: &Wanted) -> Result<Option<Sandbox>, MachineError> {
        match self.look(&name(wanted)).await {
            Ok(sandbox) if sandbox.labels.get(LABEL_SANDBOX).map(String::as_str) == Some(wanted.sandbox.as_str()) => {
                return Ok(Some(sandbox));
            }
            Ok(_) => return Err(MachineError::Refused("its name is taken by a sandbox of somebody else".to_owned())),
            Err(failure) => match failure.error {
                MachineError::Gone(_) => {}
                error @ (MachineError::Refused(_)
                | MachineError::Setup(_)
                | MachineError::Unavailable(_)
                | MachineError::Unknown(_)) => return Err(error),
            },
        }
        let labels = serde_json::json!({ LABEL_SANDBOX: wanted.sandbox.as_str() }).to_string();
        let mut found = self.list(("labels", &labels)).await?;
        found.retain(|sandbox| !matches!(verdict(sandbox), Verdict::Dead { .. }));
        Ok(found.pop())
    }

    /// An answer that was lost is made up for by looking, and never by asking again for a sandbox.
    pub(super) async fn make(&self, wanted: &Wanted) -> Result<Sandbox, MachineError> {
        let body = self.order(wanted)?;
        let request = self.request(Method::POST, self.url(&["sandbox"])).json(&body).timeout(self.options.start_patience);
        let failure = match self.http.json(request, Effect::Changes).await {
            Ok(sandbox) => return Ok(sandbox),
            Err(failure) => failure,
        };
        let in_doubt = matches!(failure.error, MachineError::Unknown(_)) || failure.is(StatusCode::CONFLICT);
        for look in 1..=LOOKS {
            if !in_doubt {
                break;
            }
            if let Some(sandbox) = self.find(wanted).await? {
                return Ok(sandbox);
            }
            sleep(self.options.poll * look).await;
        }
        Err(failure.error)
    }

    fn order(&self, wanted: &Wanted) -> Result<CreateSandbox, MachineError> {
        let recipe = &wanted.recipe;
        if !wanted.relays.is_empty() {
            return Err(MachineError::Refused("a sandbox of Daytona reaches the world by itself and has no relays".to_owned()));
        }
        let image = recipe.image.as_deref().or(self.options.snapshot.as_deref());
        let built = image.and_then(|image| image.strip_prefix(IMAGE_SCHEME));
        let Limits { cpus, memory_mib, disk_mib, pids: _, seconds: _ } = recipe.limits;
        if built.is_none() && (cpus.is_some() || memory_mib.is_some() || disk_mib.is_some()) {
            return Err(MachineError::Refused(format!("a snapshot has its own size; limits need an image as {IMAGE_SCHEME}…")));
        }
        let (addresses, domains) = allowed(&recipe.egress);
        Ok(CreateSandbox {
            name: name(wanted),
            snapshot: image.filter(|_| built.is_none()).map(str::to_owned),
            build_info: built.map(|image| BuildInfo { dockerfile_content: format!("FROM {image}\n") }),
            env: variables(recipe),
            labels: labels(wanted),
            auto_stop_interval: self.options.auto_stop.as_secs().div_ceil(60),
            auto_delete_interval: i64::try_from(self.options.auto_delete.as_secs().div_ceil(60)).unwrap_or(i64::MAX),
            network_allow_list: addresses,
            domain_allow_list: domains,
            target: self.options.target.clone(),
            cpu: cpus.map(u64::from),
            memory: memory_mib.map(|mib| mib.div_ceil(MIB_PER_GB)),
            disk: disk_mib.map(|mib| mib.div_ceil(MIB_PER_GB)),
        })
    }

    /// Waits, and starts it where it stands still.
    pub(super) async fn started(&self, sandbox: &str) -> Result<Sandbox, MachineError> {
        let until = Instant::now() + self.options.start_patience;
        let mut asked = false;
        loop {
            let now = self.sought(sandbox).await?;
            match verdict(&now) {
                Verdict::Live => return Ok(now),
                Verdict::Dead { why } => return Err(MachineError::Gone(why)),
                Verdict::Resumable if !asked => {
                    let verb = if now.state.as_deref() == Some("error") { "recover" } else { "start" };
                    match self.change(sandbox, verb).await {
                        Ok(()) => {}
                        // The state tells what became of it.
                        Err(Failure { error: MachineError::Unknown(_), .. }) => {}
                        Err(failure) => return Err(failure.error),
                    }
                    asked = true;
                    continue;
                }
                Verdict::Resumable | Verdict::Unknown { .. } => {}
            }
            if Instant::now() >= until {
                let state = now.state.unwrap_or_default();
                return Err(MachineError::Unknown(format!("it is still {state}")));
            }
            sleep_until(until.min(Instant::now() + self.options.poll)).await;
        }
    }
}

pub(super) fn name(wanted: &Wanted) -> String {
    format!("{NAME_PREFIX}{}", wanted.sandbox)
}

fn labels(wanted: &Wanted) -> BTreeMap<String, String> {
    let mut labels = BTreeMap::from([
        (LABEL_HOUSE.to_owned(), wanted.house.to_string()),
        (LABEL_ENVIRONMENT.to_owned(), wanted.environment.to_string()),
        (LABEL_SANDBOX.to_owned(), wanted.sandbox.to_string()),
    ]);
    if let Some(thread) = &wanted.thread {
        labels.insert(LABEL_THREAD.to_owned(), thread.to_string());
    }
    labels
}

/// Addresses as networks, and names as domains. Ports cannot be told.
fn allowed(egress: &[String]) -> (Option<String>, Option<String>) {
    let (mut networks, mut domains) = (Vec::new(), Vec::new());
    for target in egress {
        let host = target.rsplit_once(':').map_or(target.as_str(), |(host, _)| host).trim_matches(['[', ']']);
        match host.parse::<IpAddr>() {
            Ok(IpAddr::V4(address)) => networks.push(format!("{address}/32")),
            Ok(IpAddr::V6(address)) => networks.push(format!("{address}/128")),
            Err(_) => domains.push(host.to_owned()),
        }
    }
    let joined = |list: Vec<String>| (!list.is_empty()).then(|| list.join(","));
    (joined(networks), joined(domains))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_may_be_reached_is_told_as_networks_and_domains() {
        let egress = ["api.example.org:443", "10.1.2.3:80", "[fe80::1]:22"].map(str::to_owned);
        let (networks, domains) = allowed(&egress);
        assert_eq!(networks.as_deref(), Some("10.1.2.3/32,fe80::1/128"));
        assert_eq!(domains.as_deref(), Some("api.example.org"));
        assert_eq!(allowed(&[]), (None, None));
    }
}
