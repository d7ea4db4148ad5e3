//! No value and no key is in anything that is printed.

use std::io::Write;
use std::sync::{Arc, Mutex};

use commands::ports::Vault;
use object_store::ObjectStoreExt;
use tracing_subscriber::filter::LevelFilter;
use vault::{KeySource, ObjectVault, Options};
use zeroize::Zeroizing;

use crate::shelf::{at, bytes, house, memory, names, place, plain, secret};

#[derive(Clone, Default)]
struct Lines(Arc<Mutex<Vec<u8>>>);

impl Write for Lines {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().unwrap().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

const VALUE: &str = "sk-planted-value";

#[tokio::test]
async fn no_value_and_no_key_is_in_anything_that_is_printed() {
    let lines = Lines::default();
    let written = lines.clone();
    let logger =
        tracing_subscriber::fmt().with_ansi(false).with_max_level(LevelFilter::TRACE).with_writer(move || written.clone());
    let _guard =
        tracing::subscriber::set_default(logger.with_span_events(tracing_subscriber::fmt::format::FmtSpan::FULL).finish());

    let key = "5a".repeat(32);
    let options = Options { keys: vec![KeySource::Text(Zeroizing::new(key.clone()))] };
    let mut printed = format!("{options:?}");
    let objects = memory();
    let vault = ObjectVault::open(objects.clone(), options).await.unwrap();
    let (home, token, value) = (house("home"), secret("s1"), plain(VALUE));
    vault.keep(&home, &token, at(1), &value).await.unwrap();
    let shown = vault.reveal(&home, &token, at(1)).await.unwrap();
    printed += &format!("{vault:?} {value:?} {shown:?}");

    let taken = vault.keep(&home, &token, at(1), &plain("sk-planted-value-2")).await.unwrap_err();
    let large = vault.keep(&home, &token, at(2), &plain(&VALUE.repeat(10_000))).await.unwrap_err();
    let other = vault.reveal(&home, &secret("s2"), at(1)).await.unwrap_err();
    let mut object = bytes(&objects, &place("home", 1)).await;
    assert!(!String::from_utf8_lossy(&object).contains("planted"));
    *object.last_mut().unwrap() ^= 1;
    objects.put(&place("home", 1), object.into()).await.unwrap();
    let broken = vault.reveal(&home, &token, at(1)).await.unwrap_err();
    let rotated = vault.rotate(|_, _| {}).await.unwrap();
    printed += &format!("{rotated:?}");
    for error in [taken, large, other, broken] {
        printed += &format!("{error} {error:?} ");
    }
    vault.forget(&home, at(1)).await.unwrap();
    printed += &names(&objects).await.join(" ");
    printed += &String::from_utf8(lines.0.lock().unwrap().clone()).unwrap();
    assert!(printed.contains("keep") && printed.contains("secret=s1"), "the lines were caught: {printed}");
    for planted in ["planted", key.as_str(), "5a5a5a5a"] {
        assert!(!printed.contains(planted), "{planted}: {printed}");
    }
    assert!(!printed.contains(&format!("{:?}", VALUE.as_bytes())[1..20]), "{printed}");
}
