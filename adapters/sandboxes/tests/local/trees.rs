//! A working tree is taken and given back as it was.

use std::io::Write;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use bytes::Bytes;
use commands::ports::{Exit, MachineError, Machines, Recipe, Wanted};
use tar::{Builder, EntryType, Header};

use crate::scene::{Scene, wanted};

const GROW: &str = "
mkdir -p src/deep empty locked && printf 'a\\n' > src/a && printf '\\000\\001' > src/deep/b && chmod 755 src/a
ln -s a src/inner; ln -s /etc/passwd src/outer; ln -s nowhere src/dangling; ln -s src/deep way
mkdir -p $(printf 'long%.0s' $(seq 20))/$(printf 'name%.0s' $(seq 20)) && touch $(printf 'long%.0s' $(seq 20))/$(printf 'name%.0s' $(seq 20))/x
touch 'with space' \"$(printf 'not\\377utf8')\" -- -dash; ln src/a hard
mkfifo pipe; head -c 300000 /dev/urandom > big; touch -d '2020-01-02 03:04:05' src/a empty
touch locked/in && chmod 500 locked";

#[tokio::test]
async fn a_tree_comes_back_value_for_value() {
    let scene = Scene::open().await;
    scene.machine("a").await;
    let ran = scene.run("a", GROW).await;
    assert_eq!(ran.exit, Exit::Code(0), "{}", ran.stderr);
    let taken = scene.local.snapshot("a").await.unwrap();
    assert!(taken == scene.local.snapshot("a").await.unwrap(), "the same tree gives the same bytes");
    // Times come back too, also those of symlinks.
    tokio::time::sleep(std::time::Duration::from_millis(1100)).await;

    let recipe = Recipe { repo: Some("https://git.example/x".to_owned()), ..Recipe::default() };
    scene.local.create(&Wanted { recipe, tree: Some(taken.clone()), ..wanted("b") }).await.unwrap();
    assert!(scene.local.snapshot("b").await.unwrap() == taken, "and comes back as it was");
    let list = "find . -mindepth 1 ! -name pipe -printf '%p %y %m %l %Ts\\n' | sort; sha256sum big src/a; echo x > locked/in && echo mine";
    let (there, here) = (scene.run("a", list).await, scene.run("b", list).await);
    assert_eq!(there.stdout, here.stdout);
    assert!(here.stdout.contains("mine"), "{}", here.stdout);
}

#[tokio::test]
async fn a_tree_that_comes_back_is_set_up_again_and_not_cloned() {
    let scene = Scene::open().await;
    let setup = "echo \"tool of $(cat version 2>/dev/null || echo none)\" | tee ~/tool";
    let recipe =
        |repo: Option<&str>| Recipe { setup: Some(setup.to_owned()), repo: repo.map(str::to_owned), ..Recipe::default() };
    scene.local.create(&Wanted { recipe: recipe(None), ..wanted("a") }).await.unwrap();
    scene.run("a", "echo 7 > version").await;
    let tree = Some(scene.local.snapshot("a").await.unwrap());
    let again = Wanted { recipe: recipe(Some("https://git.example/x")), tree: tree.clone(), ..wanted("b") };
    assert_eq!(scene.local.create(&again).await.unwrap().printed, "tool of 7\n");
    assert_eq!(scene.run("b", "cat ~/tool version").await.stdout, "tool of 7\n7\n", "what is beside the tree is there too");
    let failing = Recipe { setup: Some("exit 3".to_owned()), ..Recipe::default() };
    let failed = scene.local.create(&Wanted { recipe: failing, tree, ..wanted("c") }).await;
    assert!(matches!(failed, Err(MachineError::Setup(_))), "{failed:?}");
}

#[tokio::test]
async fn what_could_be_taken_can_be_given_back_and_nothing_larger() {
    let scene = Scene::with(|options| options.snapshot_bytes = 1 << 20).await;
    scene.machine("a").await;
    // With its header, and what an archive ends with.
    scene.run("a", "head -c $(((1 << 20) - 1536)) /dev/zero > all").await;
    let tree = scene.local.snapshot("a").await.unwrap();
    scene.local.create(&Wanted { tree: Some(tree), ..wanted("b") }).await.unwrap();
    scene.run("a", "touch more").await;
    assert!(matches!(scene.local.snapshot("a").await, Err(MachineError::Refused(_))), "headers count");
    let large = packed(&[("large", EntryType::Regular, &"x".repeat(1 << 20))]);
    assert!(large.len() < 1 << 12);
    let made = scene.local.create(&Wanted { tree: Some(large), ..wanted("c") }).await;
    assert!(matches!(made, Err(MachineError::Setup(_))), "{made:?}");
}

#[tokio::test]
async fn a_file_with_holes_is_not_restored() {
    let mut header = Header::new_gnu();
    header.as_old_mut().name[..6].copy_from_slice(b"sparse");
    header.set_entry_type(EntryType::GNUSparse);
    header.set_mode(0o644);
    header.set_size(0);
    let gnu = header.as_gnu_mut().unwrap();
    // Eight gibibytes, of which none is in the archive.
    gnu.realsize.copy_from_slice(b"100000000000");
    gnu.sparse[0].offset.copy_from_slice(b"100000000000");
    gnu.sparse[0].numbytes.copy_from_slice(b"000000000000");
    header.set_cksum();
    let mut archive = Builder::new(zstd::Encoder::new(Vec::new(), 1).unwrap());
    archive.append(&header, &b""[..]).unwrap();
    let tree = Some(archive.into_inner().unwrap().finish().unwrap().into());
    let scene = Scene::open().await;
    let made = scene.local.create(&Wanted { tree, ..wanted("a") }).await;
    assert!(matches!(&made, Err(MachineError::Setup(why)) if why.contains("nothing of a tree")), "{made:?}");
}

#[tokio::test]
async fn a_tree_that_is_too_large_is_not_taken() {
    let scene = Scene::with(|options| options.snapshot_bytes = 1 << 20).await;
    scene.machine("a").await;
    scene.run("a", "head -c 2000000 /dev/zero > big").await;
    assert!(matches!(scene.local.snapshot("a").await, Err(MachineError::Refused(_))));
}

#[tokio::test]
async fn a_tree_that_cannot_be_read_now_may_be_taken_later() {
    let scene = Scene::open().await;
    scene.machine("a").await;
    scene.run("a", "echo x > file").await;
    let (tree, away) = (scene.machines().join("a/work"), scene.machines().join("a/away"));
    std::fs::rename(&tree, &away).unwrap();
    let taken = scene.local.snapshot("a").await;
    assert!(matches!(taken, Err(MachineError::Unavailable(_))), "{taken:?}");
    std::fs::rename(&away, &tree).unwrap();
    scene.local.snapshot("a").await.unwrap();
}

#[tokio::test]
async fn a_tree_is_taken_while_it_is_worked_on() {
    let scene = Scene::open().await;
    scene.machine("a").await;
    let (place, done) = (scene.machines().join("a/work/moving"), Arc::new(AtomicBool::new(false)));
    let aside = scene.machines().join("a/aside");
    let over = done.clone();
    let worker = std::thread::spawn(move || {
        while !over.load(Ordering::Relaxed) {
            std::fs::create_dir_all(place.join("deep")).unwrap();
            std::fs::write(place.join("deep/file"), "x".repeat(10_000)).unwrap();
            std::fs::remove_dir_all(&place).unwrap();
            std::fs::write(&place, "a file").unwrap();
            std::fs::remove_file(&place).unwrap();
            std::os::unix::fs::symlink("nowhere", &place).unwrap();
            std::fs::write(&aside, "a file").unwrap();
            std::fs::rename(&aside, &place).unwrap();
            std::fs::remove_file(&place).unwrap();
        }
    });
    let mut taken = Vec::new();
    for _ in 0..500 {
        taken.push(scene.local.snapshot("a").await);
    }
    done.store(true, Ordering::Relaxed);
    worker.join().unwrap();
    taken.into_iter().for_each(|taken| drop(taken.unwrap()));
}

fn packed(entries: &[(&str, EntryType, &str)]) -> Bytes {
    let mut archive = Builder::new(zstd::Encoder::new(Vec::new(), 1).unwrap());
    for (path, kind, text) in entries {
        let mut header = Header::new_gnu();
        // As a hostile archive has it: unchecked.
        header.as_old_mut().name[..path.len()].copy_from_slice(path.as_bytes());
        header.set_entry_type(*kind);
        header.set_mode(0o644);
        let contents = if *kind == EntryType::Regular { text.as_bytes() } else { b"" };
        if *kind != EntryType::Regular {
            header.as_old_mut().linkname[..text.len()].copy_from_slice(text.as_bytes());
        }
        header.set_size(contents.len() as u64);
        header.set_cksum();
        archive.append(&header, contents).unwrap();
    }
    archive.into_inner().unwrap().finish().unwrap().into()
}

#[tokio::test]
async fn a_hostile_archive_writes_nothing_outside_and_leaves_no_machine() {
    let scene = Scene::open().await;
    let target = scene.directory.path().join("target");
    std::fs::create_dir(&target).unwrap();
    let target = target.to_str().unwrap();
    let absolute = format!("{target}/x");
    let hostile: [&[_]; 6] = [
        &[("../escaped", EntryType::Regular, "x")],
        &[("a/../../escaped", EntryType::Regular, "x")],
        &[(&absolute, EntryType::Regular, "x")],
        &[("link", EntryType::Symlink, target), ("link/x", EntryType::Regular, "x")],
        &[("hard", EntryType::Link, "../meta.json")],
        &[("device", EntryType::Char, "")],
    ];
    for entries in hostile {
        let made = scene.local.create(&Wanted { tree: Some(packed(entries)), ..wanted("a") }).await;
        assert!(matches!(made, Err(MachineError::Setup(_))), "{entries:?}: {made:?}");
        assert!(scene.local.list().await.unwrap().is_empty());
    }
    let garbage = Wanted { tree: Some(Bytes::from_static(b"garbage")), ..wanted("a") };
    assert!(matches!(scene.local.create(&garbage).await, Err(MachineError::Setup(_))));
    assert_eq!(std::fs::read_dir(target).unwrap().count(), 0);
    assert!(!scene.machines().join("escaped").exists() && !scene.machines().join("a").exists());
}

#[tokio::test]
async fn an_archive_of_gnu_tar_is_restored_too() {
    let scene = Scene::open().await;
    scene.machine("a").await;
    scene.run("a", "mkdir d && echo x > d/x && ln d/x y && ln -s d way && tar -cf ~/t.tar .").await;
    let tar = scene.local.read("a", "t.tar").await.unwrap();
    let mut encoder = zstd::Encoder::new(Vec::new(), 1).unwrap();
    encoder.write_all(&tar).unwrap();
    let tree = Some(encoder.finish().unwrap().into());
    scene.local.create(&Wanted { tree, ..wanted("b") }).await.unwrap();
    assert_eq!(scene.run("b", "cat d/x y way/x; stat -c %h y").await.stdout, "x\nx\nx\n2\n");
}
