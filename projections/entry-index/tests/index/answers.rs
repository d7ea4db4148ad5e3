//! What is found, and what gets no answer.

use entry_index::{EntryFilter, MessageFilter, Verdict};

use crate::site::{HALF_PAST, QUIET, TALK, ids, site, speak_of_fish};

#[tokio::test(flavor = "multi_thread")]
async fn what_was_never_said_gets_no_answer() {
    let site = site().await;
    speak_of_fish(&site).await;
    site.follow().await;
    for question in [
        "kangaroo",
        "volcano eruption schedule",
        "which kangaroo ate our invoice",
        "犀牛",
        "犀",
        "犀 牛 角",
        "trundleWidget",
        "how does trundleWidget see the walrus and the heron",
        "src/trundle.rs",
    ] {
        let ranked = site.ask("h-1", question, &MessageFilter::default(), 9);
        assert!(matches!(ranked.verdict, Verdict::Never { .. }), "{question}: {:?}", ranked.verdict);
    }
    let ranked = site.ask("h-1", "which kangaroo ate the invoice", &MessageFilter::default(), 9);
    assert!(matches!(ranked.verdict, Verdict::Thin { .. }), "everybody says one word of it: {:?}", ranked.verdict);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_character_is_found_alone_and_between_digits_whatever_stands_beside_it() {
    let site = site().await;
    let said = [("cat", "猫が好き"), ("date", "会议在3月5日举行"), ("chapter", "第3章の説明"), ("alone", "犬 walks")];
    site.thread("h-1", "t-1", "[]").await;
    for (session, text) in said {
        site.say(TALK, session, &[text]).await;
        site.chat("t-1", text).await;
    }
    site.say(TALK, "end", &["番犬"]).await;
    site.follow().await;
    for (question, sessions) in [
        ("猫", &["cat"][..]),
        ("き", &["cat"]),
        ("が", &["cat"]),
        ("3月5日", &["date"]),
        ("第3章", &["chapter"]),
        ("章", &["chapter"]),
        ("犬", &["alone", "end"]),
    ] {
        let ranked = site.ask("h-1", question, &MessageFilter::default(), 9);
        let mut found = ids(&ranked);
        found.retain(|id| id != "t-1");
        found.truncate(sessions.len());
        found.sort();
        assert_eq!(found, sessions, "{question}: {}", ranked.plan);
        assert_eq!(ranked.verdict, Verdict::Answer { trust: 1.0 }, "{question}");
        assert_eq!(site.find("h-1", question, &EntryFilter::default(), 9).total, 1, "{question}");
    }
    assert_eq!(site.find("h-1", "6月5日", &EntryFilter::default(), 9).total, 0);
    assert_eq!(site.find("h-1", "虎", &EntryFilter::default(), 9).total, 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_character_with_more_neighbours_than_other_words_have_forms_is_found_beside_each() {
    let site = site().await;
    site.thread("h-1", "t-1", "[]").await;
    let neighbours: Vec<char> = ('一'..).take(40).collect();
    for neighbour in &neighbours {
        site.chat("t-1", &format!("{neighbour}猫")).await;
    }
    site.follow().await;
    assert_eq!(site.find("h-1", "猫", &EntryFilter::default(), 9).total, neighbours.len() as u64);
    let plan = site.ask("h-1", "猫", &MessageFilter::default(), 9).plan;
    assert!(plan.contains("and 24 more"), "{plan}");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_entry_is_found_by_its_numbers() {
    let site = site().await;
    site.thread("h-1", "t-1", "[]").await;
    site.chat("t-1", "nothing of the kind").await;
    let failed = r#"{"error_class":"killed","message":"it was killed","exit_code":137}"#;
    site.write("t-1", false, 1, HALF_PAST, "signal.thread.pi_failed", failed).await;
    site.write("t-1", false, 1, HALF_PAST, "pi.message", r#"{"usage":{"input":138},"timestamp":1794838293803}"#).await;
    site.follow().await;
    let found = site.find("h-1", "137", &EntryFilter::default(), 9);
    assert_eq!((found.total, found.entries[0].seq), (1, 2));
    assert_eq!(site.find("h-1", "killed 137", &EntryFilter::default(), 9).total, 1);
    for unasked in ["138", "1794838293803"] {
        assert_eq!(site.find("h-1", unasked, &EntryFilter::default(), 9).total, 0, "{unasked}");
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

#[tokio::test(flavor = "multi_thread")]
async fn what_is_meant_as_typed_is_answered_only_if_it_stands_so() {
    let site = site().await;
    site.say(
        TALK,
        "build",
        &["skip the test, the cache is cold", "the date of the picker in main", "it was max, and then retries"],
    )
    .await;
    site.follow().await;
    for (question, piece) in [
        ("--skip-cache", "skip-cache"),
        ("what does --skip-cache=1 do to the build", "skip-cache"),
        ("ui/date/picker.main:12:3", "picker.main"),
        ("picker.main", "picker.main"),
    ] {
        let typed = site.ask("h-1", question, &MessageFilter::default(), 9).typed.unwrap();
        assert_eq!((typed.pieces, typed.places.unwrap().len()), (vec![piece.to_owned()], 1), "{question}");
        assert_eq!(typed.otherwise, Verdict::Never { why: format!("nobody writes {piece:?}") }, "{question}");
    }
    let elsewhere = MessageFilter { role: Some("assistant".into()), ..MessageFilter::default() };
    let Verdict::Never { why } = site.ask("h-1", "--skip-cache", &elsewhere, 9).typed.unwrap().otherwise else {
        panic!("it is a flag")
    };
    assert_eq!(why, r#"nothing that the filter lets through has "skip-cache""#, "others may write it");
    let ranked = site.ask("h-1", "the test of picker.main cache", &MessageFilter::default(), 9);
    assert!(!matches!(ranked.typed.unwrap().otherwise, Verdict::Never { .. }), "the other words are said, and it may be a slip");
    assert_eq!(site.ask("h-1", "the test, e.g. the cache", &MessageFilter::default(), 9).typed, None);
    let many: Vec<String> = (0..101).map(|n| format!("skip number {n} of the cache")).collect();
    site.say(TALK, "many", &many.iter().map(String::as_str).collect::<Vec<_>>()).await;
    site.follow().await;
    let typed = site.ask("h-1", "--skip-cache", &MessageFilter::default(), 9).typed.unwrap();
    assert_eq!(typed.places, None, "nobody looks at all of them, so nobody can say that it is not there");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_long_hash_is_found_whole_or_by_a_piece_and_one_that_only_begins_like_it_is_not_there() {
    let site = site().await;
    let beginning = "0123456789abcdef".repeat(4);
    let (said, unsaid) = (format!("{beginning}{}", "7".repeat(64)), format!("{beginning}{}", "8".repeat(64)));
    site.say(TALK, "sums", &[&format!("its sha512 is {said} and it is fine")]).await;
    site.thread("h-1", "t-1", "[]").await;
    site.chat("t-1", &format!("{said} it is")).await;
    site.follow().await;
    for there in [&said, &said.to_uppercase(), &beginning, "cdef0123456789abcdef"] {
        let ranked = site.ask("h-1", there, &MessageFilter::default(), 9);
        assert!(ids(&ranked).contains(&"sums".to_owned()), "{there}: {}", ranked.plan);
        assert!(matches!(ranked.verdict, Verdict::Answer { .. }), "{there}: {:?}", ranked.verdict);
        assert_eq!(site.find("h-1", there, &EntryFilter::default(), 9).total, 1, "{there}");
    }
    let ranked = site.ask("h-1", &unsaid, &MessageFilter::default(), 9);
    assert!(matches!(ranked.verdict, Verdict::Never { .. }), "{:?}", ranked.verdict);
    assert_eq!(site.find("h-1", &unsaid, &EntryFilter::default(), 9).total, 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn short_names_are_no_other_language() {
    let site = site().await;
    let said: Vec<String> = (0..1_000).map(|n| format!("the build of it is red for the {n} time and so on")).collect();
    site.say(TALK, "home", &said.iter().map(String::as_str).collect::<Vec<_>>()).await;
    site.say(TALK, "short", &["look at src/wob/blo.rs:12:5 and use zib-zab or rm -rf"]).await;
    site.follow().await;
    for question in ["src/wob/blo.rs", "blo.rs", "blo.rs:12:5", "zib-zab", "rm -rf", "zib and zab"] {
        let ranked = site.ask("h-1", question, &MessageFilter::default(), 9);
        assert_eq!(ids(&ranked).first().map(String::as_str), Some("short"), "{question}: {}", ranked.plan);
        assert!(matches!(ranked.verdict, Verdict::Answer { .. }), "{question}: {:?}", ranked.verdict);
    }
    let unsaid = site.ask("h-1", "src/wob/haar.rs", &MessageFilter::default(), 9).verdict;
    assert!(matches!(unsaid, Verdict::Never { .. }), "{unsaid:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn loan_words_answer_in_a_language_whose_short_words_hardly_anybody_says() {
    let site = site().await;
    let said: Vec<String> = (0..1_000).map(|n| format!("the build of it is red for the {n} time and so on")).collect();
    site.say(TALK, "home", &said.iter().map(String::as_str).collect::<Vec<_>>()).await;
    site.say(TALK, "away", &["estamos en la casa como siempre"]).await;
    site.say(TALK, "third", &["the harbour agent is the third", "harbour went red", "harbour again, harbour"]).await;
    site.follow().await;
    let ask = |question: &str| site.ask("h-1", question, &MessageFilter::default(), 9);
    let ranked = ask("integrar harbour como tercer agente en la build");
    assert_eq!((ids(&ranked)[0].as_str(), &ranked.verdict), ("third", &Verdict::Answer { trust: 0.6 }), "{}", ranked.plan);
    let thin = ask("faro como agente en la build").verdict;
    assert!(matches!(thin, Verdict::Thin { .. }), "{thin:?}");
    let home = ask("is the harbour in it and so on for the lighthouse rota").verdict;
    assert!(matches!(home, Verdict::Thin { .. }), "{home:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_name_is_found_with_an_end_that_nobody_wrote_and_a_slight_one_does_not_silence_a_sentence() {
    let site = site().await;
    site.say(TALK, "one", &["the cmdline_url of kitty is read once"]).await;
    site.say(TALK, "two", &["we masked the major and minor numbers of the device in the review of the crate"]).await;
    site.follow().await;
    assert_eq!(site.found("cmdline_urls"), ["one"]);
    let whole = "did the review say that the major and minor numbers of the device are masked to 8bit";
    let ranked = site.ask("h-1", whole, &MessageFilter::default(), 9);
    assert!(!matches!(ranked.verdict, Verdict::Never { .. }), "{:?}", ranked.verdict);
    let few = site.ask("h-1", "minor numbers masked to 8bit", &MessageFilter::default(), 9).verdict;
    assert!(matches!(few, Verdict::Never { .. }), "{few:?}");
}
