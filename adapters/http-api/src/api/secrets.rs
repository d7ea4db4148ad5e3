//! Secrets: their names here, their values in the vault. A value comes in with a body and goes out through [`resolve`] alone.

use axum::http::Method;
use commands::Rejection;
use commands::command::{DeleteSecret, RotateSecret, SetSecret};
use commands::ports::Plain;
use events::{AgentId, HouseId, SecretId, Uuid};
use queries::{Page, Secret};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::access::{found, limit};
use super::answer::{Answer, Created, Done, Ok200, Queried};
use super::docs::Routes;
use super::error::ApiError;
use super::extract::{Caller, Key, Known, Path, Query};
use super::server::AtLeast;
use crate::random;

mod keeping;
mod resolve;
mod value;

use keeping::{Kept, to_the_end, vault};
pub(super) use resolve::{RESOLVE, resolve};
use value::{Confidential, plain};

pub(super) fn routes(routes: Routes) -> Routes {
    const ALL: &str = "/api/secrets";
    const ONE: &str = "/api/secrets/{secret_id}";
    routes
        .add(&Method::GET, ALL, "list_secrets", "The secrets of a house, by name", list)
        .add(&Method::POST, ALL, "create_secret", "Keep a value under a new name", create)
        .add(&Method::GET, ONE, "get_secret", "What is known of a secret, which is not its value", get)
        .add(&Method::DELETE, ONE, "delete_secret", "Forget the value for good", delete)
        .add(
            &Method::PUT,
            "/api/secrets/{secret_id}/value",
            "rotate_secret",
            "Replace the value; the old one is forgotten",
            rotate,
        )
}

#[derive(Debug, Deserialize, JsonSchema)]
struct SecretPath {
    secret_id: SecretId,
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Which {
    /// May be left out by who is in one house only.
    #[serde(default)]
    house: Option<HouseId>,
    /// Only the one of this name.
    #[serde(default)]
    #[schemars(regex(pattern = "^[A-Za-z_][A-Za-z0-9_]{0,127}$"))]
    name: Option<String>,
    #[serde(default)]
    cursor: Option<String>,
    #[serde(default)]
    #[schemars(range(min = 1, max = 200))]
    limit: Option<u16>,
    /// Waits until what is read includes this position.
    #[serde(default)]
    min_position: Option<u64>,
}

async fn list(caller: Caller, Query(query): Query<Which>, known: Known) -> Queried<Page<Secret>> {
    caller.reach(query.min_position).await?;
    let house = caller.scope(query.house)?;
    let (name, limit) = (query.name.as_deref(), limit(query.limit)?);
    if name.is_some_and(|name| name.contains('\0')) {
        return Err(ApiError::bad_request("a name holds no NUL"));
    }
    Ok(Answer::of(caller.plane()?.queries.secrets(&house, name, query.cursor.as_deref(), limit).await?, known.0))
}

async fn get(caller: Caller, Path(path): Path<SecretPath>, Query(query): Query<AtLeast>, known: Known) -> Queried<Secret> {
    caller.reach(query.min_position).await?;
    let house = caller.secret(&path.secret_id)?.house_id;
    let secret = caller.plane()?.queries.secret(&house, &path.secret_id).await?;
    Ok(Answer::of(found(secret)?, known.0))
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct NewSecret {
    house_id: HouseId,
    #[schemars(regex(pattern = "^[A-Za-z_][A-Za-z0-9_]{0,127}$"))]
    name: String,
    /// At most 64 KiB. Shown to nobody.
    #[serde(deserialize_with = "plain")]
    #[schemars(with = "String", length(min = 1, max = 65536))]
    value: Plain,
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct NewValue {
    /// At most 64 KiB. Shown to nobody.
    #[serde(deserialize_with = "plain")]
    #[schemars(with = "String", length(min = 1, max = 65536))]
    value: Plain,
}

/// What is known of a secret. All of it but ids and name is left out while the rows are behind.
#[derive(Debug, Serialize, JsonSchema)]
struct SecretKept {
    secret_id: SecretId,
    house_id: HouseId,
    name: String,
    /// The environments that bind it, by id.
    #[serde(skip_serializing_if = "Option::is_none")]
    bound_by: Option<Vec<String>>,
    /// Who made it. It gates nothing.
    #[serde(skip_serializing_if = "Option::is_none")]
    author_id: Option<AgentId>,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("format" = "date-time"))]
    created_at: Option<String>,
    /// When the value came that it has now.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("format" = "date-time"))]
    rotated_at: Option<String>,
}

impl SecretKept {
    fn of(kept: Kept, name: String, row: Option<Secret>) -> Self {
        let (secret_id, house_id) = (kept.secret, kept.house);
        match row {
            None => Self { secret_id, house_id, name, bound_by: None, author_id: None, created_at: None, rotated_at: None },
            Some(row) => Self {
                secret_id,
                house_id,
                name,
                bound_by: Some(row.bound_by),
                author_id: row.author_id,
                created_at: Some(row.created_at),
                rotated_at: Some(row.rotated_at),
            },
        }
    }
}

#[derive(Debug, Serialize, JsonSchema)]
struct SecretGone {
    id: SecretId,
    secret_id: SecretId,
}

async fn create(caller: Caller, key: Key, Confidential(body): Confidential<NewSecret>) -> Created<SecretKept> {
    let NewSecret { house_id, name, value } = body;
    caller.house(&house_id, |_| ())?;
    value::check(&value)?;
    // A repeated request finds its own name taken, and is answered by the log.
    if key.0.is_none() && caller.plane()?.commands.with_world(|world| world.secret_named(&house_id, &name).is_some()) {
        return Err(Rejection::NameTaken.into());
    }
    let bits = drawn(&caller, &key, &["create", house_id.as_str(), &name]);
    let kept = Kept { house: house_id, secret: secret_id(bits)?, at: Uuid::from_u128(bits) };
    to_the_end(set(caller, key, kept, name, value)).await
}

/// The value first, then the event: a secret that the log knows has its value.
async fn set(caller: Caller, key: Key, kept: Kept, name: String, value: Plain) -> Created<SecretKept> {
    let mine = kept.keep(&caller, &value).await?;
    let set = SetSecret {
        house_id: kept.house.clone(),
        secret_id: Some(kept.secret.clone()),
        name: name.clone(),
        vault_secret_id: kept.at,
    };
    let done = caller.execute(&key, set).await;
    kept.settle(&caller, mine, &done).await;
    let position = done?.position;
    let row = kept.row(&caller, position).await;
    Ok(Done { position, body: SecretKept::of(kept, name, row) })
}

async fn rotate(
    caller: Caller,
    Path(path): Path<SecretPath>,
    key: Key,
    Confidential(body): Confidential<NewValue>,
) -> Ok200<SecretKept> {
    let before = caller.secret(&path.secret_id)?;
    value::check(&body.value)?;
    let at = Uuid::from_u128(drawn(&caller, &key, &["rotate", path.secret_id.as_str()]));
    let kept = Kept { house: before.house_id.clone(), secret: path.secret_id, at };
    to_the_end(replace(caller, key, kept, before, body.value)).await
}

async fn replace(caller: Caller, key: Key, kept: Kept, before: commands::Secret, value: Plain) -> Ok200<SecretKept> {
    let mine = kept.keep(&caller, &value).await?;
    let rotate = RotateSecret { secret_id: kept.secret.clone(), vault_secret_id: kept.at };
    let done = caller.execute(&key, rotate).await;
    kept.settle(&caller, mine, &done).await;
    let position = done?.position;
    Kept { at: before.vault_secret_id, ..kept.clone() }.forget(&caller, position).await;
    let row = kept.row(&caller, position).await;
    Ok(Done { position, body: SecretKept::of(kept, before.name, row) })
}

async fn delete(caller: Caller, Path(path): Path<SecretPath>, key: Key) -> Ok200<SecretGone> {
    vault(&caller)?;
    to_the_end(take_away(caller, key, path.secret_id)).await
}

/// The event first: a secret without its value would be worse than a value without its secret.
async fn take_away(caller: Caller, key: Key, secret_id: SecretId) -> Ok200<SecretGone> {
    let before = caller.secret(&secret_id).ok();
    let position = caller.execute(&key, DeleteSecret { secret_id: secret_id.clone() }).await?.position;
    if let Some(before) = before {
        let kept = Kept { house: before.house_id, secret: secret_id.clone(), at: before.vault_secret_id };
        kept.forget(&caller, position).await;
    }
    Ok(Done { position, body: SecretGone { id: secret_id.clone(), secret_id } })
}

/// The ids of a value and its secret; the same for a request that is repeated.
fn drawn(caller: &Caller, key: &Key, request: &[&str]) -> u128 {
    match &key.0 {
        None => u128::from_be_bytes(random::bytes()),
        Some(key) => {
            let agent = caller.agent.to_string();
            event_log::command_id(&[&["secret", &agent, key], request].concat())
        }
    }
}

/// 80 bits, as every id has.
fn secret_id(bits: u128) -> Result<SecretId, ApiError> {
    SecretId::new(&format!("{:020x}", bits >> 48)).map_err(|error| ApiError::internal(error.to_string()))
}
