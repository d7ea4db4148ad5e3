//! Values reach the processes in the machine and nothing else.

use std::fs;
use std::path::Path;

use commands::ports::{Execute, Launch, Machines, Recipe, Wanted};

use crate::scene::{Scene, execute, launch, secret, until, wanted, with_word, word};

const VALUE: &str = "planted-value-93c1";

#[tokio::test]
async fn a_value_is_in_no_command_line_and_no_environment_outside_and_on_no_disk() {
    let scene = Scene::open().await;
    scene.machine("a").await;
    let word = word(43001);
    let script = format!("test ${{#TOKEN}} = 18 && sleep {word}; true");
    let run = Launch { secrets: [secret("TOKEN", VALUE)].into(), ..launch("run_1", &script) };
    scene.local.launch("a", &run).await.unwrap();
    let local = scene.local.clone();
    let command = Execute { secrets: [secret("TOKEN", VALUE)].into(), ..execute(&script) };
    let waiting = tokio::spawn(async move { local.execute("a", &command, &mut |_, _: &[u8]| {}).await });
    until("both run", || with_word(&word).len() == 2).await;

    let mine = fs::read_link("/proc/self/ns/pid").unwrap();
    let (mut outside, mut inside) = (0, 0);
    for entry in
        fs::read_dir("/proc").unwrap().flatten().filter(|entry| entry.file_name().to_str().unwrap().parse::<u32>().is_ok())
    {
        let has = |file: &str| holds(&fs::read(entry.path().join(file)).unwrap_or_default());
        assert!(!has("cmdline"), "{entry:?}");
        match fs::read_link(entry.path().join("ns/pid")) {
            Ok(namespace) if namespace != mine => inside += usize::from(has("environ")),
            _ => {
                assert!(!has("environ"), "{entry:?}");
                outside += 1;
            }
        }
    }
    assert!(outside > 3 && inside >= 2, "{outside} outside, {inside} inside");
    waiting.abort();
    assert_clean(scene.directory.path());
    until("the command has ended", || with_word(&word).len() == 1).await;
}

fn holds(bytes: &[u8]) -> bool {
    bytes.windows(VALUE.len()).any(|window| window == VALUE.as_bytes())
}

fn assert_clean(directory: &Path) {
    for entry in fs::read_dir(directory).unwrap().flatten() {
        let kind = entry.file_type().unwrap();
        if kind.is_dir() {
            assert_clean(&entry.path());
        } else if kind.is_file() {
            assert!(!holds(&fs::read(entry.path()).unwrap()), "{entry:?}");
        }
    }
}

#[tokio::test]
async fn a_value_that_is_printed_is_replaced_by_its_name() {
    let scene = Scene::open().await;
    scene.machine("a").await;
    let command =
        Execute { secrets: [secret("TOKEN", VALUE)].into(), ..execute("echo x $TOKEN y; echo $TOKEN >&2; printf %s $TOKEN") };
    let ran = scene.execute("a", &command).await;
    assert_eq!(ran.stdout, "x [TOKEN] y\n[TOKEN]");
    assert_eq!(ran.stderr, "[TOKEN]\n");

    let setup = |script: &str| Recipe { setup: Some(script.to_owned()), ..Recipe::default() };
    let wanted = |id, script| Wanted { recipe: setup(script), secrets: [secret("TOKEN", VALUE)].into(), ..wanted(id) };
    let created = scene.local.create(&wanted("b", "echo a $TOKEN b")).await.unwrap();
    assert_eq!(created.printed, "a [TOKEN] b\n");
    let error = scene.local.create(&wanted("c", "echo $TOKEN; exit 3")).await.unwrap_err();
    assert_eq!(error.to_string(), "the machine could not be set up: the setup ended with code 3: [TOKEN]");
    assert_clean(scene.directory.path());
}

#[tokio::test]
async fn a_value_may_hold_anything_that_a_variable_may() {
    let scene = Scene::open().await;
    scene.machine("a").await;
    for value in ["", "two\nlines \"quoted\" 'too' $HOME `id`", "--unshare-all", &"x".repeat(60_000)] {
        let command = Execute { secrets: [secret("ODD", value)].into(), ..execute("printf %s \"$ODD\" | sha256sum") };
        let plain = Execute { secrets: [].into(), env: [("ODD".to_owned(), value.to_owned())].into(), ..command.clone() };
        assert_eq!(scene.execute("a", &command).await.stdout, scene.execute("a", &plain).await.stdout);
    }
    let command = Execute { secrets: [secret("NUL", "a\0b")].into(), ..execute("true") };
    assert!(scene.local.execute("a", &command, &mut |_, _: &[u8]| {}).await.is_err());
}
