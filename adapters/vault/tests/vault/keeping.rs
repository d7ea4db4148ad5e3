use commands::ports::{Vault, VaultError};
use object_store::ObjectStoreExt;
use vault::VALUE_MAX;

use crate::shelf::{Objects, at, bytes, files, house, memory, names, place, plain, secret, vault};

async fn is_kept_revealed_and_forgotten(objects: Objects) {
    let vault = vault(&objects, &[1]).await;
    let (home, token) = (house("home"), secret("s1"));
    vault.keep(&home, &token, at(1), &plain("hunter2")).await.unwrap();
    assert_eq!(names(&objects).await, [place("home", 1).to_string()]);
    assert_eq!(vault.reveal(&home, &token, at(1)).await.unwrap().expose(), b"hunter2");
    assert_eq!(vault.reveal(&home, &token, at(2)).await.unwrap_err(), VaultError::Gone);
    vault.forget(&home, at(1)).await.unwrap();
    assert_eq!(vault.reveal(&home, &token, at(1)).await.unwrap_err(), VaultError::Gone);
    vault.forget(&home, at(1)).await.unwrap();
    assert_eq!(names(&objects).await, [""; 0]);
}

#[tokio::test]
async fn a_value_is_kept_revealed_and_forgotten() {
    is_kept_revealed_and_forgotten(memory()).await;
    let directory = tempfile::tempdir().unwrap();
    is_kept_revealed_and_forgotten(files(directory.path())).await;
}

#[tokio::test]
async fn kept_again_it_is_the_same_value_or_refused() {
    let objects = memory();
    let vault = vault(&objects, &[1]).await;
    let (home, token) = (house("home"), secret("s1"));
    vault.keep(&home, &token, at(1), &plain("one")).await.unwrap();
    let first = bytes(&objects, &place("home", 1)).await;
    vault.keep(&home, &token, at(1), &plain("one")).await.unwrap();
    let other = vault.keep(&home, &token, at(1), &plain("two")).await.unwrap_err();
    assert!(matches!(other, VaultError::Refused(_)), "{other}");
    assert_eq!(bytes(&objects, &place("home", 1)).await, first);
}

#[tokio::test]
async fn a_value_has_a_largest_size() {
    let vault = vault(&memory(), &[1]).await;
    let (home, token) = (house("home"), secret("s1"));
    let most = "x".repeat(VALUE_MAX);
    vault.keep(&home, &token, at(1), &plain(&most)).await.unwrap();
    assert_eq!(vault.reveal(&home, &token, at(1)).await.unwrap().expose(), most.as_bytes());
    let more = vault.keep(&home, &token, at(2), &plain(&(most + "x"))).await.unwrap_err();
    assert!(matches!(more, VaultError::Refused(_)), "{more}");
    vault.keep(&home, &token, at(3), &plain("")).await.unwrap();
    assert_eq!(vault.reveal(&home, &token, at(3)).await.unwrap().expose(), b"");
}

#[tokio::test]
async fn a_tampered_object_is_not_opened() {
    let objects = memory();
    let vault = vault(&objects, &[1]).await;
    let (home, token) = (house("home"), secret("s1"));
    vault.keep(&home, &token, at(1), &plain("hunter2")).await.unwrap();
    let good = bytes(&objects, &place("home", 1)).await;
    for index in 0..good.len() {
        let mut bad = good.clone();
        bad[index] ^= 0x20;
        objects.put(&place("home", 1), bad.into()).await.unwrap();
        let error = vault.reveal(&home, &token, at(1)).await.unwrap_err();
        assert!(matches!(error, VaultError::Sealed(_)), "byte {index}: {error}");
    }
}

#[tokio::test]
async fn an_object_that_was_put_elsewhere_is_not_opened_there() {
    let objects = memory();
    let vault = vault(&objects, &[1]).await;
    let (home, token) = (house("home"), secret("s1"));
    vault.keep(&home, &token, at(1), &plain("hunter2")).await.unwrap();
    for (to, version) in [("away", 1), ("home", 2)] {
        objects.copy(&place("home", 1), &place(to, version)).await.unwrap();
        let error = vault.reveal(&house(to), &token, at(version)).await.unwrap_err();
        assert!(matches!(error, VaultError::Sealed(_)), "{to} {version}: {error}");
    }
    let error = vault.reveal(&home, &secret("s2"), at(1)).await.unwrap_err();
    assert!(matches!(error, VaultError::Sealed(_)), "{error}");
    assert!(vault.reveal(&home, &token, at(1)).await.is_ok());
}
