use std::collections::BTreeMap;

use commands::Secret;
use commands::ports::Vault;
use events::SecretId;
use object_store::ObjectStoreExt;
use vault::ObjectVault;

use crate::faults::Faulty;
use crate::shelf::{Objects, at, bytes, files, house, memory, place, plain, secret, vault};

async fn filled(objects: &Objects) -> ObjectVault {
    let vault = vault(objects, &[1]).await;
    for n in 1..=20 {
        vault.keep(&house(in_house(n)), &secret("s1"), at(n), &plain(&n.to_string())).await.unwrap();
    }
    vault
}

fn in_house(n: u128) -> &'static str {
    if n.is_multiple_of(2) { "even" } else { "odd" }
}

async fn rotates(objects: Objects) {
    filled(&objects).await;
    let mut before = BTreeMap::new();
    for n in 1..=20 {
        before.insert(n, bytes(&objects, &place(in_house(n), n)).await);
    }
    let both = vault(&objects, &[2, 1]).await;
    both.keep(&house("odd"), &secret("s1"), at(21), &plain("21")).await.unwrap();
    let mut told = Vec::new();
    let rotated = both.rotate(|done, all| told.push((done, all))).await.unwrap();
    assert_eq!((rotated.rewrapped, rotated.already, rotated.gone, rotated.verified, rotated.remaining), (20, 1, 0, 21, 0));
    assert!(rotated.unopened.is_empty());
    assert_eq!((told.len(), told.last()), (21, Some(&(21, 21))));

    let only = vault(&objects, &[2]).await;
    for (n, before) in &before {
        assert_eq!(only.reveal(&house(in_house(*n)), &secret("s1"), at(*n)).await.unwrap().expose(), n.to_string().as_bytes());
        let after = bytes(&objects, &place(in_house(*n), *n)).await;
        let value = n.to_string().len() + 16 + 12;
        assert_eq!(after[after.len() - value..], before[before.len() - value..], "the sealed value is as it was");
        assert_ne!(after[..after.len() - value], before[..before.len() - value]);
    }
    let again = only.rotate(|_, _| {}).await.unwrap();
    assert_eq!((again.rewrapped, again.already, again.verified), (0, 21, 21));
}

#[tokio::test]
async fn a_new_key_takes_over_and_no_value_is_touched() {
    rotates(memory()).await;
    let directory = tempfile::tempdir().unwrap();
    rotates(files(directory.path())).await;
}

#[tokio::test]
async fn a_rotation_that_broke_off_goes_on() {
    let objects = memory();
    filled(&objects).await;
    let failing = Faulty::after_puts(objects.clone(), 7);
    let broken = vault(&failing, &[2, 1]).await.rotate(|_, _| {}).await.unwrap_err();
    assert!(broken.to_string().contains("cannot be reached"), "{broken}");
    let rotated = vault(&objects, &[2, 1]).await.rotate(|_, _| {}).await.unwrap();
    assert!(rotated.already >= 1 && rotated.rewrapped >= 1, "{rotated:?}");
    assert_eq!((rotated.rewrapped + rotated.already, rotated.verified, rotated.remaining), (20, 20, 0));
}

#[tokio::test]
async fn what_cannot_be_opened_is_named_and_left_as_it_is() {
    let objects = memory();
    filled(&objects).await;
    vault(&objects, &[9]).await.keep(&house("odd"), &secret("s1"), at(99), &plain("lost")).await.unwrap();
    objects.put(&place("even", 2), vec![0; 10].into()).await.unwrap();
    objects.put(&"vault/stray".into(), b"x".to_vec().into()).await.unwrap();
    let lost = bytes(&objects, &place("odd", 99)).await;
    let rotated = vault(&objects, &[2, 1]).await.rotate(|_, _| {}).await.unwrap();
    let named: Vec<_> = rotated.unopened.iter().map(|unopened| unopened.object.clone()).collect();
    assert_eq!(named, [place("even", 2).to_string(), place("odd", 99).to_string(), "vault/stray".to_owned()]);
    assert_eq!((rotated.rewrapped, rotated.verified), (19, 19));
    assert_eq!(bytes(&objects, &place("odd", 99)).await, lost);
}

#[tokio::test]
async fn a_check_counts_by_key_and_names_what_is_missing() {
    let objects = memory();
    let vault = filled(&objects).await;
    let known = |n: u128, id: &str, name: &str| {
        (secret(id), Secret { house_id: house(in_house(n)), name: name.to_owned(), vault_secret_id: at(n) })
    };
    let sound = vault.check(&[known(1, "s1", "A"), known(2, "s1", "B")], |_, _| {}).await.unwrap();
    assert_eq!((sound.by_key.values().copied().collect::<Vec<_>>(), sound.unnamed), (vec![20], 18));
    assert!(sound.is_sound());
    let unsound = vault.check(&[known(1, "s2", "A"), known(77, "s7", "GONE")], |_, _| {}).await.unwrap();
    assert_eq!(unsound.damaged.iter().map(|one| one.object.clone()).collect::<Vec<_>>(), [place("odd", 1).to_string()]);
    assert!(unsound.missing.iter().any(|missing| missing.name == "GONE"), "{unsound:?}");
    assert!(!unsound.is_sound());
}

#[tokio::test]
async fn what_was_rotated_or_deleted_during_a_check_is_not_missing() {
    let vault = filled(&memory()).await;
    let version = |n: u128| Secret { house_id: house("odd"), name: "A".to_owned(), vault_secret_id: at(n) };
    let before: Vec<_> = ["s1", "s2", "s3"].iter().zip(77..).map(|(id, n)| (secret(id), version(n))).collect();
    let checked = vault.check(&before, |_, _| {}).await.unwrap();
    assert_eq!(checked.missing.len(), 3);
    let now = |id: &SecretId| match id.as_str() {
        "s1" => Some(version(1)),
        "s3" => Some(version(79)),
        _ => None,
    };
    let checked = vault.confirm(checked, now).await.unwrap();
    assert_eq!(checked.missing.iter().map(|it| it.secret_id.as_str()).collect::<Vec<_>>(), ["s3"]);
}
