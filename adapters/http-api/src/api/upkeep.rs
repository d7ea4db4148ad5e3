//! What an operator asks: whether machines live, why a run hangs, and a sweep now.

use axum::http::Method;
use commands::ports::{Diagnosis, Pruned, Seen};
use events::HouseId;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::answer::{Done, Ok200};
use super::docs::Routes;
use super::extract::{Body, Caller, MaybeBody, Path, Query};
use super::houses::HousePath;
use super::sandboxes::Empty;
use super::server::AtLeast;
use super::threads::ThreadPath;

pub(super) fn routes(routes: Routes) -> Routes {
    routes
        .add(
            &Method::POST,
            "/api/sandboxes/reconcile",
            "reconcile_sandboxes",
            "Ask after every machine of a house, and settle what is dead",
            reconcile,
        )
        .add(
            &Method::GET,
            "/api/threads/{thread_id}/diagnosis",
            "diagnose_thread",
            "What is known of a thread's run and machine, and what happens next",
            diagnose,
        )
        .add(
            &Method::POST,
            "/api/houses/{house_id}/prune",
            "prune_house",
            "End the runs that are over, take machines away that are idle or over, and give up sandboxes that nobody waits for, now",
            prune,
        )
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Reconcile {
    house_id: HouseId,
}

#[derive(Debug, Serialize, JsonSchema)]
struct Reconciled {
    items: Vec<Seen>,
}

async fn reconcile(caller: Caller, Body(body): Body<Reconcile>) -> Ok200<Reconciled> {
    caller.house(&body.house_id, |_| ())?;
    let items = caller.hands()?.reconcile(&body.house_id).await?;
    done(&caller, Reconciled { items })
}

async fn diagnose(caller: Caller, Path(path): Path<ThreadPath>, Query(query): Query<AtLeast>) -> Ok200<Diagnosis> {
    caller.folded(query.min_position).await?;
    caller.thread(&path.thread_id, |_| ())?;
    let diagnosis = caller.hands()?.diagnose(&path.thread_id).await?;
    done(&caller, diagnosis)
}

async fn prune(caller: Caller, Path(path): Path<HousePath>, _: MaybeBody<Empty>) -> Ok200<Pruned> {
    caller.house(&path.house_id, |_| ())?;
    let pruned = caller.hands()?.prune(&path.house_id).await?;
    done(&caller, pruned)
}

fn done<T>(caller: &Caller, body: T) -> Ok200<T> {
    Ok(Done { position: caller.app.log.position(), body })
}
