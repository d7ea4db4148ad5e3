use std::os::unix::fs::PermissionsExt;

use commands::ports::{Vault, VaultError};
use vault::{KeyError, KeySource, ObjectVault, OpenError, Options, add_key};

use crate::shelf::{at, house, memory, plain, secret, vault};

fn file(path: &std::path::Path) -> Options {
    Options { keys: vec![KeySource::File(path.to_owned())] }
}

fn command(argv: &[&str]) -> Options {
    Options { keys: vec![KeySource::Command(argv.iter().map(|&word| word.to_owned()).collect())] }
}

#[tokio::test]
async fn the_first_start_makes_a_key_file_for_one_user_and_later_ones_use_it() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("deep/vault-key");
    let objects = memory();
    let first = ObjectVault::open(objects.clone(), file(&path)).await.unwrap();
    assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
    let text = std::fs::read_to_string(&path).unwrap();
    assert_eq!(std::fs::read_dir(path.parent().unwrap()).unwrap().count(), 1, "nothing unfinished is left");
    first.keep(&house("home"), &secret("s1"), at(1), &plain("v")).await.unwrap();
    let second = ObjectVault::open(objects, file(&path)).await.unwrap();
    assert_eq!(second.key_ids(), first.key_ids());
    assert_eq!(second.reveal(&house("home"), &secret("s1"), at(1)).await.unwrap().expose(), b"v");
    assert_eq!(std::fs::read_to_string(&path).unwrap(), text);
}

#[tokio::test]
async fn a_key_file_that_others_may_read_is_refused() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("vault-key");
    ObjectVault::open(memory(), file(&path)).await.unwrap();
    for mode in [0o640, 0o604, 0o620, 0o644, 0o660] {
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(mode)).unwrap();
        let error = ObjectVault::open(memory(), file(&path)).await.unwrap_err();
        assert!(matches!(error, OpenError::Key(KeyError::Exposed { mode: seen, .. }) if seen == mode), "{error}");
    }
    for mode in [0o600, 0o400] {
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(mode)).unwrap();
        ObjectVault::open(memory(), file(&path)).await.unwrap();
    }
}

#[tokio::test]
async fn a_lost_key_is_not_replaced_while_there_are_values() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("vault-key");
    let objects = memory();
    let vault = ObjectVault::open(objects.clone(), file(&path)).await.unwrap();
    vault.keep(&house("home"), &secret("s1"), at(1), &plain("v")).await.unwrap();
    std::fs::remove_file(&path).unwrap();
    let error = ObjectVault::open(objects, file(&path)).await.unwrap_err();
    assert!(matches!(error, OpenError::KeyLost(_)), "{error}");
    assert!(!path.exists());
}

#[tokio::test]
async fn a_key_file_that_is_cut_short_is_neither_used_nor_replaced() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("vault-key");
    for text in ["", "\n", "c2hvcnQ=\n"] {
        std::fs::write(&path, text).unwrap();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o600)).unwrap();
        let error = ObjectVault::open(memory(), file(&path)).await.unwrap_err();
        assert!(matches!(error, OpenError::Key(KeyError::Empty { .. } | KeyError::Malformed { .. })), "{error}");
        assert_eq!(std::fs::read_to_string(&path).unwrap(), text);
    }
    let none = ObjectVault::open(memory(), Options::default()).await.unwrap_err();
    assert!(matches!(none, OpenError::Key(KeyError::NoSource)), "{none}");
}

#[tokio::test]
async fn a_command_prints_the_key() {
    let hex = "01".repeat(32);
    let printed = ObjectVault::open(memory(), command(&["/bin/echo", &hex])).await.unwrap();
    assert_eq!(printed.key_ids(), vault(&memory(), &[1]).await.key_ids());
    for (argv, why) in [
        (vec!["/no/such/program"], "cannot be started"),
        (vec!["/bin/sh", "-c", "echo sk-half; exit 3"], "failed with"),
        (vec!["/bin/sh", "-c", "head -c 100000 /dev/zero"], "printed more than"),
        (vec!["/bin/sh", "-c", "echo sk-half"], "line 1 of what the command printed"),
        (vec![], "cannot be started"),
    ] {
        let error = ObjectVault::open(memory(), command(&argv)).await.unwrap_err().to_string();
        assert!(error.contains(why) && !error.contains("sk-half"), "{error}");
    }
}

#[tokio::test]
async fn the_first_key_seals_and_all_of_them_open() {
    let objects = memory();
    let (home, token) = (house("home"), secret("s1"));
    vault(&objects, &[1]).await.keep(&home, &token, at(1), &plain("old")).await.unwrap();
    let both = vault(&objects, &[2, 1]).await;
    assert_eq!(both.reveal(&home, &token, at(1)).await.unwrap().expose(), b"old");
    both.keep(&home, &token, at(2), &plain("new")).await.unwrap();
    let only = vault(&objects, &[2]).await;
    assert_eq!(only.reveal(&home, &token, at(2)).await.unwrap().expose(), b"new");
    let error = only.reveal(&home, &token, at(1)).await.unwrap_err();
    assert!(matches!(&error, VaultError::Sealed(why) if why.contains("not among those")), "{error}");
}

#[tokio::test]
async fn a_running_server_takes_up_a_key_that_was_added_to_its_file() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("vault-key");
    let objects = memory();
    let (home, token) = (house("home"), secret("s1"));
    let running = ObjectVault::open(objects.clone(), file(&path)).await.unwrap();
    let old = running.key_ids()[0];
    let new = add_key(&path).unwrap();
    assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
    let other = ObjectVault::open(objects.clone(), file(&path)).await.unwrap();
    assert_eq!(other.key_ids(), [new, old]);
    other.keep(&home, &token, at(1), &plain("new")).await.unwrap();
    assert_eq!(running.reveal(&home, &token, at(1)).await.unwrap().expose(), b"new");

    let third = add_key(&path).unwrap();
    running.keep(&home, &token, at(2), &plain("newer")).await.unwrap();
    assert_eq!(running.key_ids(), [third, new, old], "who writes looks for the newest key first");
}

#[tokio::test]
async fn keys_that_are_added_at_once_are_all_there() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("vault-key");
    let first = ObjectVault::open(memory(), file(&path)).await.unwrap().key_ids();
    let added = std::thread::scope(|scope| {
        let adding: Vec<_> = (0..8).map(|_| scope.spawn(|| add_key(&path).unwrap())).collect();
        adding.into_iter().map(|one| one.join().unwrap()).collect::<Vec<_>>()
    });
    let mut there = ObjectVault::open(memory(), file(&path)).await.unwrap().key_ids();
    let mut all = [first, added].concat();
    there.sort();
    all.sort();
    assert_eq!(there, all);
}
