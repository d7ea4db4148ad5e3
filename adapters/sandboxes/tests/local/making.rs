//! Machines are made, found, told apart and taken away.

use std::fs;
use std::path::Path;
use std::process::Command;

use commands::ports::{Exit, MachineError, Machines, Recipe, Relay, Verdict, Wanted};
use sandboxes::local::{Local, OpenError};

use crate::scene::{Scene, launch, options, until, wanted, with_word, word};

fn setup(id: &str, script: &str) -> Wanted {
    Wanted { recipe: Recipe { setup: Some(script.to_owned()), ..Recipe::default() }, ..wanted(id) }
}

#[tokio::test]
async fn asked_for_twice_a_machine_is_made_once() {
    let scene = Scene::open().await;
    let attempts = (0..4).map(|_| {
        let local = scene.local.clone();
        tokio::spawn(async move { local.create(&setup("a", "echo once | tee -a log")).await.unwrap() })
    });
    for attempt in attempts.collect::<Vec<_>>() {
        let created = attempt.await.unwrap();
        assert_eq!((created.provider_ref.ends_with(".a"), &*created.printed), (true, "once\n"));
    }
    assert_eq!(scene.run("a", "cat log").await.stdout, "once\n");
    assert_eq!(scene.local.probe("a").await, Verdict::Live);
    let listed = scene.local.list().await.unwrap();
    assert_eq!(listed.len(), 1);
    assert_eq!(listed[0].sandbox.as_ref().unwrap().as_str(), "a");
    assert_eq!(listed[0].thread.as_ref().unwrap().as_str(), "thread_1");
    assert!(listed[0].state.starts_with("idle, limits by "), "{}", listed[0].state);
}

#[tokio::test]
async fn a_setup_that_fails_leaves_nothing_behind() {
    let scene = Scene::open().await;
    let word = word(45001);
    let script = format!("echo trying; setsid sleep {word} & false; echo never");
    let error = scene.local.create(&setup("a", &script)).await.unwrap_err();
    assert_eq!(error, MachineError::Setup("the setup ended with code 1: trying".to_owned()));
    until("no process is left", || with_word(&word).is_empty()).await;
    let left: Vec<_> = fs::read_dir(scene.machines()).unwrap().flatten().map(|entry| entry.file_name()).collect();
    assert!(!left.contains(&"a".into()), "{left:?}");
    let users = fs::read_dir(scene.machines().join(".users")).map_or(0, Iterator::count);
    assert_eq!(users, 0);
    assert!(matches!(scene.local.probe("a").await, Verdict::Dead { .. }));
    assert_eq!(scene.local.create(&setup("a", "echo better")).await.unwrap().printed, "better\n");
}

fn repository(at: &Path) {
    let git = |arguments: &[&str]| {
        let mut git = Command::new("git");
        git.args(["-c", "user.name=x", "-c", "user.email=x@example"]).args(arguments).current_dir(at);
        assert!(git.output().unwrap().status.success(), "{arguments:?}");
    };
    fs::create_dir_all(at).unwrap();
    git(&["init", "--initial-branch=main"]);
    fs::write(at.join("hello"), "main\n").unwrap();
    git(&["add", "."]);
    git(&["commit", "-m", "first"]);
    git(&["checkout", "-b", "other"]);
    fs::write(at.join("hello"), "other\n").unwrap();
    git(&["commit", "-am", "second"]);
    git(&["checkout", "main"]);
}

#[tokio::test]
async fn a_repository_of_the_host_is_cloned_if_it_may_be() {
    let scene = Scene::with(|options| {
        let open = options.directory.with_file_name("open");
        repository(&open.join("one"));
        repository(&options.directory.with_file_name("closed"));
        options.repositories = vec![open];
    })
    .await;
    let path = |name: &str| scene.directory.path().join(name).to_str().unwrap().to_owned();
    let recipe = |repo: &str, branch: Option<&str>| Recipe {
        repo: Some(repo.to_owned()),
        branch: branch.map(str::to_owned),
        setup: Some("cat hello".to_owned()),
        ..Recipe::default()
    };
    let clone = async |id, repo: &str, branch| scene.local.create(&Wanted { recipe: recipe(repo, branch), ..wanted(id) }).await;
    let created = clone("a", &path("open/one"), None).await.unwrap();
    assert!(created.printed.ends_with("main\n"), "{}", created.printed);
    let created = clone("b", &format!("file://{}", path("open/one")), Some("other")).await.unwrap();
    assert!(created.printed.ends_with("other\n"), "{}", created.printed);
    let ran = scene
        .run("b", "git fetch && git status --short && git -c user.name=a -c user.email=a@example commit --allow-empty -qm x")
        .await;
    assert_eq!(ran.exit, Exit::Code(0), "{}", ran.stderr);
    for repo in [path("closed"), path("open/../closed"), "/etc".to_owned(), "file:///nowhere".to_owned()] {
        let refused = clone("c", &repo, None).await.unwrap_err();
        assert!(matches!(&refused, MachineError::Refused(why) if why.contains("--repositories")), "{repo}: {refused}");
    }
    let error = clone("c", &path("open/one"), Some("none")).await.unwrap_err();
    assert!(matches!(&error, MachineError::Setup(why) if why.starts_with("the clone ended with code 128")), "{error}");
}

#[tokio::test]
async fn a_clone_without_a_way_to_its_host_says_what_the_recipe_lacks() {
    let scene = Scene::open().await;
    let clone = async |repo: &str, egress: &[&str]| {
        let egress = egress.iter().copied().map(str::to_owned).collect();
        let recipe = Recipe { repo: Some(repo.to_owned()), egress, ..Recipe::default() };
        scene.local.create(&Wanted { recipe, ..wanted("a") }).await.unwrap_err()
    };
    let error = clone("https://git.example/x", &["other.example:443", "git.example:22"]).await;
    let told = "the clone ended with code 128, and git.example:443 is not in the environment's `egress`: ";
    assert!(matches!(&error, MachineError::Setup(why) if why.starts_with(told)), "{error}");
    let error = clone("http://127.0.0.1:9/x", &["127.0.0.1:9"]).await;
    assert!(matches!(&error, MachineError::Setup(why) if why.starts_with("the clone ended with code 128: ")), "{error}");
}

#[tokio::test]
async fn two_machines_cannot_see_each_other() {
    let scene = Scene::open().await;
    scene.machine("a").await;
    scene.machine("b").await;
    scene.run("a", "echo mine > only-a; echo mine > ~/only-a; echo mine > /tmp/only-a").await;
    let machines = scene.machines();
    let ran = scene.run("b", &format!("ls -A . ~ /tmp /run {0} {0}/a/work", machines.display())).await;
    assert!(!ran.stdout.contains("only-a"), "{}", ran.stdout);
    assert_eq!(ran.stderr.matches("No such file").count(), 2, "{}", ran.stderr);
    let user = |id: &str| {
        serde_json::from_slice::<serde_json::Value>(&fs::read(machines.join(id).join("meta.json")).unwrap()).unwrap()["user"]
            .clone()
    };
    if nix::unistd::getuid().is_root() {
        assert_ne!(user("a"), user("b"));
        assert!(user("a").as_u64().unwrap() >= 20_000, "nobody else's");
    }
    let word = word(45002);
    scene.local.launch("a", &launch("run_1", &format!("sleep {word}"))).await.unwrap();
    // The brackets keep the look from finding itself.
    let seen = format!("grep -l '[4]{}' /proc/[0-9]*/cmdline | wc -l", &word[1..]);
    assert_eq!(scene.run("b", &seen).await.stdout, "0\n");
}

#[tokio::test]
async fn a_machine_that_is_destroyed_is_dead_and_stays_so() {
    let scene = Scene::open().await;
    scene.machine("a").await;
    let word = word(45003);
    let script = format!("trap '' TERM; setsid sleep {word} & sleep {word}; true");
    scene.local.launch("a", &launch("run_1", &script)).await.unwrap();
    scene.run("a", "mkdir -p x/y && touch x/y/z && chmod 000 x/y x").await;
    scene.local.destroy("a").await.unwrap();
    assert!(with_word(&word).is_empty());
    assert!(!scene.machines().join("a").exists());
    scene.local.destroy("a").await.unwrap();
    scene.local.destroy("../../etc").await.unwrap();
    assert!(matches!(scene.local.probe("a").await, Verdict::Dead { .. }));
    assert!(matches!(scene.local.process("a", "run_1").await, Err(MachineError::Gone(_))));
    assert!(matches!(scene.local.wake("a").await, Err(MachineError::Gone(_))));
}

#[tokio::test]
async fn what_cannot_be_read_is_not_dead() {
    let scene = Scene::open().await;
    scene.machine("a").await;
    let meta = scene.machines().join("a/meta.json");
    let text = fs::read(&meta).unwrap();
    fs::write(&meta, "{").unwrap();
    assert!(matches!(scene.local.probe("a").await, Verdict::Unknown { .. }));
    fs::write(&meta, text).unwrap();
    assert_eq!(scene.local.probe("a").await, Verdict::Live);
    let aside = scene.directory.path().join("aside");
    fs::rename(scene.machines(), &aside).unwrap();
    assert!(matches!(scene.local.probe("a").await, Verdict::Unknown { .. }));
    assert!(scene.local.destroy("a").await.is_err());
    fs::rename(&aside, scene.machines()).unwrap();
    assert_eq!(scene.local.probe("a").await, Verdict::Live);
}

#[tokio::test]
async fn what_a_server_did_not_finish_is_removed_by_the_next() {
    let scene = Scene::open().await;
    scene.machine("a").await;
    fs::create_dir_all(scene.machines().join("half/work")).unwrap();
    let directory = scene.directory.path().join("again");
    fs::create_dir(&directory).unwrap();
    fs::create_dir_all(directory.join("machines/half/work")).unwrap();
    let local = Local::open(options(&directory)).await.unwrap();
    assert!(!directory.join("machines/half").exists());
    assert!(local.list().await.unwrap().is_empty());
    assert!(matches!(scene.local.probe("half").await, Verdict::Dead { .. }));
}

#[tokio::test]
async fn what_is_left_of_a_machine_whose_making_was_given_up_is_removed_by_who_lists() {
    let scene = Scene::open().await;
    let (local, word) = (scene.local.clone(), word(45004));
    let half = setup("a", &format!("touch begun; setsid sleep {word} & sleep {word}"));
    let half = Wanted { relays: vec![Relay { port: 8080, to: "127.0.0.1:9".to_owned() }], ..half };
    let making = tokio::spawn(async move { local.create(&half).await });
    let root = scene.machines().join("a");
    until("it is being made", || root.join("work/begun").exists()).await;
    assert!(scene.local.list().await.unwrap().is_empty() && root.join("run/0.sock").exists(), "who makes it goes on");
    making.abort();
    assert!(making.await.unwrap_err().is_cancelled() && root.exists());
    assert!(scene.local.list().await.unwrap().is_empty() && !root.exists());
    let users = fs::read_dir(scene.machines().join(".users")).map_or(0, Iterator::count);
    assert_eq!((users, with_word(&word)), (0, vec![]));
}

#[tokio::test]
async fn what_is_missing_on_the_host_is_named() {
    let scene = Scene::with(|options| options.bubblewrap = "/nowhere/bwrap".into()).await;
    let error = scene.local.create(&wanted("a")).await.unwrap_err();
    assert!(matches!(&error, MachineError::Refused(why) if why.starts_with("bubblewrap is not installed")), "{error}");
    let scene = Scene::open().await;
    let recipe = Recipe { image: Some("debian:12".to_owned()), ..Recipe::default() };
    let error = scene.local.create(&Wanted { recipe, ..wanted("a") }).await.unwrap_err();
    assert!(matches!(&error, MachineError::Refused(why) if why.contains("leave `image` out")), "{error}");
    if nix::unistd::getuid().is_root() {
        let closed = crate::scene::directory();
        fs::set_permissions(closed.path(), std::os::unix::fs::PermissionsExt::from_mode(0o700)).unwrap();
        assert!(matches!(Local::open(options(closed.path())).await, Err(OpenError::Closed(_))));
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn twenty_machines_work_at_once() {
    let scene = Scene::open().await;
    let work = (0..20).map(|n| {
        let local = scene.local.clone();
        tokio::spawn(async move {
            let id = format!("m{n}");
            local.create(&setup(&id, &format!("echo {n} > number"))).await.unwrap();
            local.launch(&id, &launch("run", &format!("sleep 0.3; exit {n}"))).await.unwrap();
            let mut printed = Vec::new();
            let mut sink = |_, bytes: &[u8]| printed.extend_from_slice(bytes);
            let exit = local.execute(&id, &crate::scene::execute("cat number"), &mut sink).await.unwrap();
            assert_eq!((exit, String::from_utf8(printed).unwrap()), (Exit::Code(0), format!("{n}\n")));
            assert_eq!(crate::scene::ended(&local, &id, "run").await, Exit::Code(n));
        })
    });
    for worked in work.collect::<Vec<_>>() {
        worked.await.unwrap();
    }
    assert_eq!(scene.local.list().await.unwrap().len(), 20);
}
