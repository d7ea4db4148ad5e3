use codecs::check::lineages;
use codecs::lineage::{Lineage, TooDeep};
use events::session::{Message, Session};

use crate::support::{Files, canonical, codec};

fn session(id: &str, parent: Option<&str>) -> (Session, Vec<Message>) {
    let parent = parent.map_or(String::new(), |it| format!(r#""parent_session_id":"{it}","#));
    let (mut session, _) = canonical(&format!(
        r#"{{"id":"{id}",{parent}"source_agent":"pi","created_at":"2026-01-01T00:00:00Z","project":"p","options":{{}}}}"#
    ));
    session.options.clear();
    (session, Vec::new())
}

/// `adapter-lineage-complete-restore`: nesting is a typed error, never a part of the whole.
#[test]
fn a_child_of_a_child_is_refused() {
    let (root, messages) = session("a", None);
    let children = vec![session("b", Some("a")), session("c", Some("b"))];
    let error = Lineage::new(root, messages, children).unwrap_err();
    assert_eq!(error, TooDeep { parent: "b".parse().unwrap(), child: "c".parse().unwrap() });
    assert_eq!(error.to_string(), "session c hangs on b, which hangs on another: restoring goes one level deep");
}

#[test]
fn a_session_comes_with_all_its_children() {
    let (root, messages) = session("a", Some("elsewhere"));
    let lineage = Lineage::new(root, messages, vec![session("b", Some("a")), session("c", Some("a"))]).unwrap();
    let ids: Vec<_> = lineage.all().map(|(session, _)| session.id.as_str()).collect();
    assert_eq!(ids, ["a", "b", "c"]);
}

#[test]
fn sessions_are_grouped_under_those_they_hang_on() {
    let file = |id: &str, parent: &str| {
        let header =
            crate::pi::HEADER.replace("s1", id).replace("\"cwd\"", &format!("\"parentSession\":\"/x/1_{parent}.jsonl\",\"cwd\""));
        (format!("1_{id}.jsonl"), header)
    };
    let files: Vec<_> = [("a", "elsewhere"), ("b", "a"), ("c", "a"), ("d", "b")].map(|(id, parent)| file(id, parent)).into();
    let files: Vec<_> = files.iter().map(|(path, body)| (path.as_str(), body)).collect();
    let lineages = lineages(Files::of(&files).parse(codec("pi")).sessions);
    let ids = |it: &Lineage| it.all().map(|(session, _)| session.id.to_string()).collect::<Vec<_>>();
    assert_eq!(
        lineages.iter().map(ids).collect::<Vec<_>>(),
        [vec!["a", "b", "c"], vec!["d"]],
        "who hangs on a child stands alone"
    );
}
