//! From a store URL to a [`Store`].

use std::os::unix::fs::DirBuilderExt;
use std::path::PathBuf;
use std::str::FromStr;
use std::sync::Arc;
use std::time::Duration;

use object_store::aws::{AmazonS3Builder, AmazonS3ConfigKey};
use object_store::azure::{AzureConfigKey, MicrosoftAzureBuilder};
use object_store::gcp::{GoogleCloudStorageBuilder, GoogleConfigKey};
use object_store::local::LocalFileSystem;
use object_store::memory::InMemory;
use object_store::prefix::PrefixStore;
use object_store::{ObjectStore, RetryConfig};
use url::Url;

use super::local::LocalSlots;
use super::slots::ObjectSlots;
use super::{PACK_SLOTS, Pace, Store};

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StoreUrl {
    Memory,
    File(PathBuf),
    Remote(Url),
}

#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    #[error(
        "{0:?} is not a store: use memory:, file:///directory, s3://bucket/prefix, gs://bucket/prefix or az://container/prefix"
    )]
    Url(String),
    #[error("{path}: {source}")]
    Directory {
        path: PathBuf,
        #[source]
        source: std::io::Error,
    },
    #[error(transparent)]
    Store(#[from] object_store::Error),
}

impl FromStr for StoreUrl {
    type Err = OpenError;

    fn from_str(text: &str) -> Result<Self, OpenError> {
        let bad = || OpenError::Url(text.to_owned());
        if text == "memory:" {
            return Ok(Self::Memory);
        }
        let url = Url::parse(text).map_err(|_| bad())?;
        match url.scheme() {
            "file" => match url.to_file_path() {
                Ok(path) if path.parent().is_some() => Ok(Self::File(path)),
                _ => Err(bad()),
            },
            "s3" | "gs" | "az" if url.host_str().is_some_and(|host| !host.is_empty()) => Ok(Self::Remote(url)),
            _ => Err(bad()),
        }
    }
}

impl std::fmt::Display for StoreUrl {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Memory => f.write_str("memory:"),
            Self::File(path) => write!(f, "file://{}", path.display()),
            Self::Remote(url) => f.write_str(url.as_str()),
        }
    }
}

impl StoreUrl {
    /// `options` are the store's own settings under their usual names (`AWS_ENDPOINT`, `AZURE_STORAGE_ACCOUNT_KEY`, …); names that
    /// are not the store's are ignored. With `create` a local directory is made.
    pub fn open(&self, options: &[(String, String)], create: bool) -> Result<Store, OpenError> {
        let url = self.to_string();
        match self {
            Self::Memory => {
                let objects: Arc<dyn ObjectStore> = Arc::new(InMemory::new());
                let pace = Pace {
                    depth: 1,
                    linger: Duration::ZERO,
                    poll: Duration::from_millis(5),
                    pack: PACK_SLOTS,
                    own_thread: false,
                };
                Ok(Store { slots: Arc::new(ObjectSlots::new(objects.clone(), pace)), objects, url })
            }
            Self::File(path) => {
                let failed = |source| OpenError::Directory { path: path.clone(), source };
                if create {
                    make_private(path).map_err(failed)?;
                }
                let slots = Arc::new(LocalSlots::open(path, create).map_err(failed)?);
                let objects = Arc::new(LocalFileSystem::new_with_prefix(path)?.with_fsync(true));
                Ok(Store { slots, objects, url })
            }
            Self::Remote(remote) => {
                let objects = remote_store(remote, options)?;
                Ok(Store { slots: Arc::new(ObjectSlots::new(objects.clone(), ObjectSlots::remote_pace())), objects, url })
            }
        }
    }
}

fn remote_store(url: &Url, options: &[(String, String)]) -> Result<Arc<dyn ObjectStore>, OpenError> {
    // Retries of a create are ours: only we can tell a lost reply from a lost race.
    let retry = RetryConfig { max_retries: 2, retry_timeout: Duration::from_secs(10), ..RetryConfig::default() };
    let known = |key: &str| key.to_ascii_lowercase();
    let objects: Arc<dyn ObjectStore> = match url.scheme() {
        "s3" => {
            let builder = options.iter().fold(AmazonS3Builder::new(), |builder, (key, value)| {
                known(key).parse::<AmazonS3ConfigKey>().map_or(builder.clone(), |key| builder.with_config(key, value))
            });
            Arc::new(builder.with_url(url.as_str()).with_retry(retry).build()?)
        }
        "gs" => {
            let builder = options.iter().fold(GoogleCloudStorageBuilder::new(), |builder, (key, value)| {
                known(key).parse::<GoogleConfigKey>().map_or(builder.clone(), |key| builder.with_config(key, value))
            });
            Arc::new(builder.with_url(url.as_str()).with_retry(retry).build()?)
        }
        _ => {
            let builder = options.iter().fold(MicrosoftAzureBuilder::new(), |builder, (key, value)| {
                known(key).parse::<AzureConfigKey>().map_or(builder.clone(), |key| builder.with_config(key, value))
            });
            Arc::new(builder.with_url(url.as_str()).with_retry(retry).build()?)
        }
    };
    Ok(match url.path().trim_matches('/') {
        "" => objects,
        prefix => Arc::new(PrefixStore::new(objects, prefix)),
    })
}

/// `meta/cluster.json` holds the secret that servers share. What lies above is not ours alone.
fn make_private(directory: &std::path::Path) -> std::io::Result<()> {
    if let Some(above) = directory.parent() {
        std::fs::create_dir_all(above)?;
    }
    std::fs::DirBuilder::new().recursive(true).mode(0o700).create(directory)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urls_of_the_five_stores_are_understood_and_nothing_else() {
        assert_eq!("memory:".parse::<StoreUrl>().unwrap(), StoreUrl::Memory);
        assert_eq!("file:///var/lib/x".parse::<StoreUrl>().unwrap(), StoreUrl::File("/var/lib/x".into()));
        for url in ["s3://bucket", "s3://bucket/some/prefix", "gs://b/p", "az://container/p"] {
            assert_eq!(url.parse::<StoreUrl>().unwrap().to_string(), url);
        }
        for url in ["", "file:", "file:///", "memory", "/tmp/x", "http://x/", "s3:///x", "ftp://a/b"] {
            assert!(url.parse::<StoreUrl>().is_err(), "{url}");
        }
    }
}
