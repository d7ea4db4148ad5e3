//! Payloads too large for a slot: content-addressed objects, written before the record that names them.

use bytes::Bytes;
use object_store::ObjectStoreExt;
use object_store::path::Path;
use sha2::{Digest as _, Sha256};

use crate::command::{Change, Command, SubmitError};
use crate::core::{Cached, Core, Damage, FetchError, Value};
use crate::log::Log;
use crate::record::{Body, Payload};
use crate::store::{StoreError, get_object, put_once};

pub const INLINE_MAX: usize = 1 << 20;

#[must_use]
pub fn path(sha256: &[u8; 32]) -> Path {
    let hex = hex(sha256);
    Path::from(format!("blobs/{}/{hex}", &hex[..2]))
}

pub(crate) fn needed(command: &Command) -> bool {
    let large = |payload: &Payload| matches!(&payload.body, Body::Inline(data) if data.len() > INLINE_MAX);
    command.changes.iter().any(|(_, change)| match change {
        Change::Create(create) => create.payload.as_ref().is_some_and(|p| p.as_ref().is_ok_and(large)),
        Change::Append(append) => append.payload.as_ref().is_ok_and(large),
        Change::Close { .. } | Change::Delete | Change::Renew | Change::Expire => false,
    })
}

pub(crate) async fn spill(core: &Core, command: &mut Command) -> Result<(), SubmitError> {
    for (_, change) in &mut command.changes {
        let payload = match change {
            Change::Create(create) => create.payload.as_mut().and_then(|p| p.as_mut().ok()),
            Change::Append(append) => append.payload.as_mut().ok(),
            Change::Close { .. } | Change::Delete | Change::Renew | Change::Expire => None,
        };
        if let Some(payload) = payload {
            spill_payload(core, payload).await?;
        }
        if let Change::Create(create) = change
            && let Some((_, prefix)) = create.fork.as_mut().and_then(|fork| fork.prefix.as_mut())
        {
            spill_payload(core, prefix).await?;
        }
    }
    Ok(())
}

async fn spill_payload(core: &Core, payload: &mut Payload) -> Result<(), SubmitError> {
    let Body::Inline(data) = &payload.body else { return Ok(()) };
    if data.len() <= INLINE_MAX {
        return Ok(());
    }
    let data = data.clone();
    let sha256: [u8; 32] = Sha256::digest(&data).into();
    let len = data.len() as u32;
    put_once(core.store.objects.as_ref(), &path(&sha256), data)
        .await
        .map_err(|error| SubmitError::NotWritten(error.to_string()))?;
    payload.body = Body::Blob { sha256, len };
    Ok(())
}

impl Log {
    /// Stores bytes beside the streams, under the hex of their SHA-256. They are durable when this returns.
    pub async fn put_blob(&self, data: Bytes) -> Result<String, SubmitError> {
        let sha256: [u8; 32] = Sha256::digest(&data).into();
        put_once(self.core.store.objects.as_ref(), &path(&sha256), data)
            .await
            .map_err(|error| SubmitError::NotWritten(error.to_string()))?;
        Ok(hex(&sha256))
    }

    /// What was stored under a hash, checked.
    pub async fn blob(&self, hash: &str) -> Result<Bytes, FetchError> {
        let sha256 = digest(hash).ok_or_else(|| missing(hash))?;
        let data = get_object(self.core.store.objects.as_ref(), &path(&sha256)).await?.ok_or_else(|| missing(hash))?;
        if Sha256::digest(&data)[..] != sha256[..] {
            let what = "the blob does not match its name".into();
            return Err(Damage { key: path(&sha256).to_string(), what }.into());
        }
        Ok(data)
    }

    /// How many bytes were stored under a hash. None of them is read.
    pub async fn blob_bytes(&self, hash: &str) -> Result<u64, FetchError> {
        let key = path(&digest(hash).ok_or_else(|| missing(hash))?);
        match self.core.store.objects.head(&key).await {
            Ok(found) => Ok(found.size),
            Err(object_store::Error::NotFound { .. }) => Err(missing(hash)),
            Err(error) => Err(StoreError::transient(key, error).into()),
        }
    }
}

fn missing(hash: &str) -> FetchError {
    Damage { key: format!("blobs/{hash}"), what: "there is no such blob".into() }.into()
}

fn digest(hash: &str) -> Option<[u8; 32]> {
    let bytes = |at: usize| hash.get(at..at + 2).and_then(|digits| u8::from_str_radix(digits, 16).ok());
    let bytes: Option<Vec<u8>> = (0..hash.len()).step_by(2).map(bytes).collect();
    bytes?.try_into().ok()
}

fn hex(sha256: &[u8; 32]) -> String {
    sha256.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// The whole payload, checked.
pub(crate) async fn load(core: &Core, payload: &Payload) -> Result<Bytes, FetchError> {
    let (sha256, len) = match &payload.body {
        Body::Inline(data) => return Ok(data.clone()),
        Body::Blob { sha256, len } => (sha256, *len as usize),
    };
    if let Some(Value::Bytes(data)) = core.cache.lock().get(&Cached::Blob(*sha256)) {
        return Ok(data);
    }
    let key = path(sha256);
    let damage = |what: String| FetchError::from(Damage { key: key.to_string(), what });
    let found = get_object(core.store.objects.as_ref(), &key).await?;
    let data = found.ok_or_else(|| damage("the payload is missing".into()))?;
    if data.len() != len || Sha256::digest(&data)[..] != sha256[..] {
        return Err(damage("the payload does not match its name".into()));
    }
    core.cache.lock().insert(Cached::Blob(*sha256), Value::Bytes(data.clone()), len);
    Ok(data)
}
