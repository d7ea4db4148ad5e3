use std::collections::BTreeSet;

use commands::ports::Vault;
use object_store::ObjectStoreExt;
use vault::{GARBAGE_AGE, Swept};

use crate::shelf::{at, house, memory, names, place, plain, secret, vault};

#[tokio::test]
async fn what_nobody_names_is_forgotten_after_an_hour_and_nothing_else() {
    let objects = memory();
    let vault = vault(&objects, &[1]).await;
    for (in_house, version) in [("home", 1), ("home", 2), ("away", 3)] {
        vault.keep(&house(in_house), &secret("s1"), at(version), &plain("v")).await.unwrap();
    }
    objects.put(&"vault/stray".into(), b"x".to_vec().into()).await.unwrap();
    objects.put(&"j/0001".into(), b"log".to_vec().into()).await.unwrap();
    let made = objects.head(&place("away", 3)).await.unwrap().last_modified.timestamp_millis() as u64;
    let live = || BTreeSet::from([(house("home"), at(1)), (house("home"), at(3))]);

    let early = vault.sweep(made + GARBAGE_AGE.as_millis() as u64 - 60_000, live).await.unwrap();
    assert_eq!(early, Swept { kept: 1, young: 2, forgotten: 0 });
    assert_eq!(vault.sweep(0, live).await.unwrap().forgotten, 0);
    let late = vault.sweep(made + GARBAGE_AGE.as_millis() as u64 + 60_000, live).await.unwrap();
    assert_eq!(late, Swept { kept: 1, young: 0, forgotten: 2 });
    assert_eq!(names(&objects).await, ["j/0001".to_owned(), place("home", 1).to_string(), "vault/stray".to_owned()]);
    assert!(vault.reveal(&house("home"), &secret("s1"), at(1)).await.is_ok());
}
