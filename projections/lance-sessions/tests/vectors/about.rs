use lance_sessions::Filter;

use crate::site::{PLACE, Place, direction, fake, house, site};

#[tokio::test(flavor = "multi_thread")]
async fn a_session_is_about_what_its_people_asked_and_not_about_what_they_were_told() {
    let source = fake("fake-a", 256, true);
    let site = site(&source).await;
    let says = |session, role| Place { session, role, ..PLACE };
    site.say(says("asks", "user"), &["alpha beta".into(), "alpha gamma".into()]).await;
    site.say(says("strays", "user"), &["alpha beta".into(), "delta".into(), "epsilon".into()]).await;
    site.say(says("told", "assistant"), &["alpha beta".into()]).await;
    let of = ["asks", "strays", "told", "nowhere"].map(|id| id.parse().unwrap());
    let query = direction("alpha beta", 256).unwrap();
    let about = site.datasets.about(&house(), &query, "fake-a", &of).await.unwrap();
    assert_eq!(about.keys().map(|id| id.as_str()).collect::<Vec<_>>(), ["asks", "strays"]);
    assert!(about[&of[0]] > about[&of[1]], "{about:?}");
    let nearest = site.near(&source, "alpha beta", &Filter::default(), 3).await;
    assert!(about[&of[0]] < nearest[0].similarity, "the mean of two is not the nearer of them");
    assert!(site.datasets.about(&house(), &query, "fake-b", &of).await.unwrap().is_empty(), "of another model");

    // What is asked later counts, too.
    let more = ["alpha beta".into(), "alpha gamma".into(), "zeta".into(), "eta".into(), "theta".into()];
    site.say(says("asks", "user"), &more).await;
    let later = site.datasets.about(&house(), &query, "fake-a", &of).await.unwrap();
    assert!(later[&of[0]] < about[&of[0]] && later[&of[1]] == about[&of[1]], "{later:?}");
}
