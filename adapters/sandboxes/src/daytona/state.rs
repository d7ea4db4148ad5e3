//! What a state of Daytona's means for us.

use commands::ports::Verdict;

use super::shapes::Sandbox;

/// On the way from one state to another nothing can be concluded. A state that is not known here is one of those.
pub(super) fn verdict(sandbox: &Sandbox) -> Verdict {
    let state = sandbox.state.as_deref().unwrap_or("unknown");
    let why = || match &sandbox.error_reason {
        Some(reason) => format!("it is {state}: {reason}"),
        None => format!("it is {state}"),
    };
    match state {
        "started" => Verdict::Live,
        "stopped" | "archived" | "paused" => Verdict::Resumable,
        "error" if sandbox.recoverable == Some(true) => Verdict::Resumable,
        "destroyed" | "destroying" | "removing" | "build_failed" | "error" => Verdict::Dead { why: why() },
        _ => Verdict::Unknown { why: why() },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(state: &str, recoverable: Option<bool>) -> Verdict {
        let labels = std::collections::BTreeMap::new();
        verdict(&Sandbox {
            id: "s".to_owned(),
            labels,
            state: Some(state.to_owned()),
            recoverable,
            error_reason: None,
            toolbox_proxy_url: String::new(),
        })
    }

    #[test]
    fn every_published_state_has_its_verdict() {
        assert_eq!(of("started", None), Verdict::Live);
        for state in ["stopped", "archived", "paused"] {
            assert_eq!(of(state, None), Verdict::Resumable, "{state}");
        }
        for state in ["destroyed", "destroying", "removing", "build_failed", "error"] {
            assert!(matches!(of(state, None), Verdict::Dead { .. }), "{state}");
            assert!(state == "error" || matches!(of(state, Some(true)), Verdict::Dead { .. }), "{state}");
        }
        assert_eq!(of("error", Some(true)), Verdict::Resumable);
        let on_the_way = "creating restoring starting stopping pending_build building_snapshot unknown pulling_snapshot archiving \
                          resizing snapshotting forking pausing resuming something_new";
        for state in on_the_way.split_whitespace() {
            assert!(matches!(of(state, None), Verdict::Unknown { .. }), "{state}");
        }
    }
}
