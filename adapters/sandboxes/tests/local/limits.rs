//! A machine takes no more than it was given.

use std::time::Duration;

use commands::ports::{Execute, Exit, Limits, Machines, Recipe, Wanted};

use crate::scene::{Scene, execute, until, wanted, with_word, word};

async fn limited(scene: &Scene, limits: Limits) {
    let recipe = Recipe { limits, ..Recipe::default() };
    scene.local.create(&Wanted { recipe, ..wanted("a") }).await.unwrap();
}

#[tokio::test]
async fn a_fork_bomb_stays_within_its_machine() {
    let scene = Scene::open().await;
    limited(&scene, Limits { pids: Some(40), ..Limits::default() }).await;
    // A shell that waits and tries again when it is refused.
    let (one, other) = (word(44001), word(44002));
    let many = execute(&format!("bash -c 'for i in $(seq 100); do sleep {one} & done; sleep {one}'"));
    let local = scene.local.clone();
    let waiting = tokio::spawn(async move { local.execute("a", &many, &mut |_, _: &[u8]| {}).await });
    until("there are some", || with_word(&one).len() > 5).await;
    for _ in 0..20 {
        let count = with_word(&one).len();
        assert!(count <= 40, "{count}");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    waiting.abort();
    until("all of them have ended", || with_word(&one).is_empty()).await;

    let bomb = Execute { timeout: Duration::from_secs(2), ..execute(&format!("bash -c 'b() {{ b | b & }}; b; sleep {other}'")) };
    assert_ne!(scene.execute("a", &bomb).await.exit, Exit::Code(0));
    until("the bomb has ended", || with_word(&other).is_empty()).await;
    assert_eq!(scene.run("a", "echo on").await.stdout, "on\n");
}

#[tokio::test]
async fn a_memory_hog_ends_and_the_machine_goes_on() {
    let scene = Scene::open().await;
    limited(&scene, Limits { memory_mib: Some(128), ..Limits::default() }).await;
    let ran = scene.run("a", "head -c 600000000 /dev/zero | tail | wc -c").await;
    assert_ne!(ran.stdout, "600000000\n", "{}", scene.local.limits_kept_by());
    // Files in memory count too where a control group counts.
    if scene.local.limits_kept_by() != "rlimits" {
        assert_ne!(scene.run("a", "head -c 600000000 /dev/zero > /dev/shm/x").await.exit, Exit::Code(0));
    }
    assert_eq!(scene.run("a", "echo on").await.stdout, "on\n");
}

#[tokio::test]
async fn a_runtime_that_reserves_much_memory_works_within_little() {
    let scene = Scene::open().await;
    limited(&scene, Limits { memory_mib: Some(512), ..Limits::default() }).await;
    let ran = scene.run("a", "if command -v node >/dev/null; then node -e 'console.log(6 * 7)'; else echo 42; fi").await;
    assert_eq!(ran.stdout, "42\n", "{}", ran.stderr);
}

#[tokio::test]
async fn a_file_and_a_command_end_at_their_limits() {
    let scene = Scene::open().await;
    limited(&scene, Limits { disk_mib: Some(1), seconds: Some(1), ..Limits::default() }).await;
    assert_ne!(scene.run("a", "head -c 3000000 /dev/zero > big").await.exit, Exit::Code(0));
    assert_eq!(scene.run("a", "sleep 600").await.exit, Exit::TimedOut);
}
