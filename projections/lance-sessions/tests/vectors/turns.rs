//! Houses that share one model.

use events::HouseId;

use crate::site::{PLACE, Place, fake, house, numbered, site};

#[tokio::test(flavor = "multi_thread")]
async fn a_house_with_much_to_embed_keeps_no_other_waiting() {
    let source = fake("fake-a", 256, false);
    let site = site(&source).await;
    let (large, small) = (house(), HouseId::new("h-2").unwrap());
    for session in ["s/1", "s/2", "s/3"] {
        site.say_in(&large, Place { session, ..PLACE }, &numbered("alpha", 400)).await;
    }
    site.say_in(&small, PLACE, &["beta".into()]).await;
    site.follow().await;
    let embedded = async |house: &HouseId| site.datasets.coverage(house, "fake-a").await.unwrap().embedded;
    let mut left = site.datasets.embed_in_turn(vec![large.clone(), small.clone()]).await;
    assert_eq!((&left[..], embedded(&small).await), (std::slice::from_ref(&large), 1));
    assert!((512..1_200).contains(&embedded(&large).await));
    let mut turns = 1;
    while !left.is_empty() {
        left = site.datasets.embed_in_turn(left).await;
        turns += 1;
    }
    assert_eq!((embedded(&large).await, turns), (1_200, 3));
}
