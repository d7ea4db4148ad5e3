//! Files are written and read from outside without leaving the machine.

use std::fs;
use std::os::unix::fs::symlink;

use bytes::Bytes;
use commands::ports::{Exit, MachineError, Machines};

use crate::scene::Scene;

#[tokio::test]
async fn a_file_is_written_for_the_machine_and_read_back() {
    let scene = Scene::open().await;
    scene.machine("a").await;
    let local = &scene.local;
    local.write("a", "/work/src/deep/a.txt", "tree".into()).await.unwrap();
    local.write("a", ".config/b.txt", "home".into()).await.unwrap();
    local.write("a", "/home/agent/run.sh", "#!/bin/sh\necho ran\n".into()).await.unwrap();
    let ran = scene.run("a", "cat src/deep/a.txt ~/.config/b.txt; ~/run.sh; echo more >> src/deep/a.txt; touch src/new").await;
    assert_eq!((ran.exit, &*ran.stdout), (Exit::Code(0), "treehomeran\n"), "{}", ran.stderr);
    assert_eq!(local.read("a", "/work/src/deep/a.txt").await.unwrap(), "treemore\n");
    assert_eq!(local.read("a", "~/.config/b.txt").await.unwrap(), "home");
    local.write("a", "/work/src/deep/a.txt", Bytes::new()).await.unwrap();
    assert_eq!(local.read("a", "/work/src/deep/a.txt").await.unwrap(), "");
    assert!(matches!(local.read("a", "/work/none").await, Err(MachineError::Gone(_))));
}

#[tokio::test]
async fn a_path_that_leads_out_is_refused() {
    let scene = Scene::open().await;
    scene.machine("a").await;
    let outside = scene.directory.path().join("outside");
    fs::create_dir(&outside).unwrap();
    fs::write(outside.join("secret"), "of the host").unwrap();
    let tree = scene.machines().join("a/work");
    symlink(&outside, tree.join("link")).unwrap();
    symlink(outside.join("secret"), tree.join("file")).unwrap();
    symlink("../meta.json", tree.join("near")).unwrap();
    scene.run("a", "mkfifo pipe; mkdir dir").await;
    let refused = [
        "/work/../meta.json",
        "../meta.json",
        "/work/dir/../../meta.json",
        "/etc/passwd",
        "/work",
        "",
        "/work/link/secret",
        "/work/link/new",
        "/worked/x",
    ];
    let only_read = ["/work/file", "/work/near", "/work/pipe", "/work/dir"];
    for path in refused.into_iter().chain(only_read) {
        let read = scene.local.read("a", path).await;
        assert!(matches!(read, Err(MachineError::Refused(_))), "{path}: {read:?}");
    }
    for path in refused {
        let written = scene.local.write("a", path, "x".into()).await;
        assert!(matches!(written, Err(MachineError::Refused(_))), "{path}: {written:?}");
    }
    // Written over, not through.
    scene.local.write("a", "/work/file", "mine".into()).await.unwrap();
    assert_eq!(fs::read_to_string(outside.join("secret")).unwrap(), "of the host");
    assert_eq!(scene.local.read("a", "/work/file").await.unwrap(), "mine");
    assert_eq!(fs::read_dir(&outside).unwrap().count(), 1);
}
