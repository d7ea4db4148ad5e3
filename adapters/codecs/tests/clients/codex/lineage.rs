use std::collections::BTreeMap;

use codecs::check::{Contents, parse};
use codecs::lineage::Lineage;
use codecs::restore::{Place, restore};
use codecs::value::{Reader, Value};
use events::session::{Message, Session};

use super::{ID, codec, contents, fixture, header};

fn only(contents: Contents) -> (Session, Vec<Message>) {
    contents.sessions.into_iter().next().unwrap()
}

#[test]
fn a_spawned_agent_names_its_parent() {
    let (child, _) = only(fixture("6000-7000"));
    assert_eq!(child.parent_session_id.unwrap().as_str(), ID);
    assert_eq!(child.parent_message_id, None, "a spawn has no place where it was cut");
    let (child, _) = only(fixture("a358-71f0"));
    assert_eq!(child.parent_session_id.unwrap().as_str(), "01a1e4b6-a305-7b41-b04c-b0513dd794c1");
}

#[test]
fn a_header_copied_from_the_parent_does_not_make_the_file_the_parents() {
    let own = header().replace("\"cwd\":\"/srv/demo\",", "\"forked_from_id\":\"theirs\",");
    let (session, _) = only(contents(own + &header().replace(ID, "theirs")));
    assert_eq!((session.id.as_str(), session.project.as_str()), (ID, "/srv/demo"));
    assert_eq!(session.parent_session_id.unwrap().as_str(), "theirs");
}

/// `model-parent-pointer-coherence`
#[test]
fn a_fork_names_the_last_message_that_it_shares() {
    let (fork, _) = only(fixture("a214-76a1"));
    let (parent, messages) = only(fixture("14-15-34"));
    assert_eq!(fork.parent_session_id, Some(parent.id));
    assert_eq!(fork.parent_message_id.as_ref(), messages.last().map(|message| &message.id));
}

/// `adapter-lineage-complete-restore`
#[test]
fn children_are_restored_with_their_parent_each_in_its_file() {
    let home = crate::support::fixtures("codex").join("hand");
    let mut all = BTreeMap::new();
    for bundle in codec().parse.discover(&home).unwrap() {
        let (session, messages) = only(parse(codec(), &bundle).unwrap());
        all.insert(session.id.to_string(), (session, messages));
    }
    let (session, messages) = all.remove(ID).unwrap();
    let lineage = Lineage::new(session, messages, all.into_values().collect()).unwrap();
    let restored = restore(codec(), &lineage, &Place { directory: "/srv/demo".to_owned() }).unwrap();
    assert!(restored.native);
    assert_eq!((restored.session_id.as_str(), restored.artifacts.len()), (ID, 2));
    for artifact in restored.artifacts {
        let text = std::fs::read_to_string(home.join(&artifact.path)).unwrap();
        let mut reader = Reader::new(&text);
        let back = artifact.body.to_text().unwrap();
        for line in back.lines() {
            assert!(reader.read().unwrap().unwrap().same(&Reader::only(line).unwrap()));
        }
        assert_eq!(reader.read().unwrap(), None::<Value>);
    }
}

/// `adapter-lineage-complete-restore`
#[test]
fn a_child_of_a_child_is_a_typed_error() {
    let (child, _) = only(fixture("6000-7000"));
    let (mut parent, messages) = only(fixture("2025-10-14T22-34-00"));
    parent.id = "another".parse().unwrap();
    let error = Lineage::new(parent, messages, vec![(child.clone(), Vec::new())]).unwrap_err();
    assert_eq!((error.parent.as_str(), error.child), (ID, child.id));
}
