//! What is found, and what gets no answer.

use entry_index::{MessageFilter, Verdict};

use crate::site::{QUIET, TALK, ids, site, speak_of_fish};

#[tokio::test(flavor = "multi_thread")]
async fn what_was_never_said_gets_no_answer() {
    let site = site().await;
    speak_of_fish(&site).await;
    site.follow().await;
    for question in ["kangaroo", "volcano eruption schedule", "which kangaroo ate the invoice", "犀牛"] {
        let ranked = site.ask("h-1", question, &MessageFilter::default(), 9);
        assert!(matches!(ranked.verdict, Verdict::Never { .. } | Verdict::Thin { .. }), "{question}: {:?}", ranked.verdict);
    }
    for question in ["trundleWidget", "how does trundleWidget see the walrus and the heron", "src/trundle.rs"] {
        let ranked = site.ask("h-1", question, &MessageFilter::default(), 9);
        assert!(matches!(ranked.verdict, Verdict::Never { .. }), "{question}: {:?}", ranked.verdict);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn fragments_paths_short_words_and_words_of_two_characters_are_found() {
    let site = site().await;
    site.say(TALK, "code", &["we call tokioRuntimeBuilder in crates/lantern/src/wick.rs with --no-verify"]).await;
    site.say(TALK, "japanese", &["日本語の検索は速い"]).await;
    site.say(TALK, "short", &["the ci is red"]).await;
    for n in 0..5 {
        site.say(TALK, &format!("other-{n}"), &[QUIET]).await;
    }
    site.follow().await;
    for (question, session) in [
        ("tokioRuntimeBuilder", "code"),
        ("RuntimeBuil", "code"),
        ("untimebuild", "code"),
        ("runtime", "code"),
        ("crates/lantern/src/wick.rs", "code"),
        ("wick.rs", "code"),
        ("--no-verify", "code"),
        ("検索", "japanese"),
        ("日本", "japanese"),
        ("ci", "short"),
        ("CI", "short"),
    ] {
        let ranked = site.ask("h-1", question, &MessageFilter::default(), 9);
        assert_eq!(ids(&ranked).first().map(String::as_str), Some(session), "{question}: {}", ranked.plan);
        assert!(matches!(ranked.verdict, Verdict::Answer { .. }), "{question}");
    }
}
