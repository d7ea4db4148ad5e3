use std::collections::HashMap;
use std::fs;
use std::path::Path;
use std::sync::Arc;

use embedders::{EmbedError, Options, Purpose, load};
use parking_lot::Mutex;
use tempfile::TempDir;
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio::net::{TcpListener, TcpStream};

use crate::tiny::{options, write_static};

/// Answers on the loopback: with files, with 404, or with half of what it promised.
#[derive(Default)]
struct Hub {
    files: HashMap<String, Vec<u8>>,
    cut: Mutex<Option<&'static str>>,
    asked: Mutex<Vec<String>>,
}

impl Hub {
    fn with_a_model(id: &str) -> Self {
        let directory = TempDir::new().unwrap();
        write_static(directory.path());
        let files = fs::read_dir(directory.path()).unwrap().map(|entry| {
            let path = entry.unwrap().path();
            let name = path.file_name().unwrap().to_str().unwrap();
            (format!("/{id}/resolve/main/{name}"), fs::read(&path).unwrap())
        });
        Self { files: files.collect(), ..Self::default() }
    }

    async fn serve(self) -> (Arc<Self>, String) {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = format!("http://{}", listener.local_addr().unwrap());
        let hub = Arc::new(self);
        let serving = hub.clone();
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                serving.answer(stream).await;
            }
        });
        (hub, address)
    }

    async fn answer(&self, mut stream: TcpStream) {
        let mut lines = BufReader::new(&mut stream).lines();
        let mut path = String::new();
        while let Ok(Some(line)) = lines.next_line().await {
            if let Some(rest) = line.strip_prefix("GET ") {
                path = rest.split(' ').next().unwrap().to_owned();
            }
            if line.is_empty() {
                break;
            }
        }
        self.asked.lock().push(path.clone());
        let Some(body) = self.files.get(&path) else {
            stream.write_all(b"HTTP/1.1 404 Not Found\r\nconnection: close\r\ncontent-length: 0\r\n\r\n").await.unwrap();
            return;
        };
        let sent = if self.cut.lock().is_some_and(|file| path.ends_with(file)) { body.len() / 2 } else { body.len() };
        let head = format!("HTTP/1.1 200 OK\r\nconnection: close\r\ncontent-length: {}\r\n\r\n", body.len());
        stream.write_all(head.as_bytes()).await.unwrap();
        stream.write_all(&body[..sent]).await.unwrap();
    }
}

fn from_hub(hub: &str, models: &Path) -> Options {
    Options { model: "owner/colours".into(), hub: hub.into(), models: models.into(), ..options(models) }
}

fn files(directory: &Path) -> Vec<String> {
    let mut names: Vec<_> =
        fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

#[tokio::test]
async fn a_model_is_fetched_once_and_is_the_same_as_from_its_directory() {
    let (hub, address) = Hub::with_a_model("owner/colours").serve().await;
    let models = TempDir::new().unwrap();
    let fetched = load(&from_hub(&address, models.path())).await.unwrap();
    assert_eq!(fetched.embed(&["red"], Purpose::Document).unwrap(), [Some(vec![1.0, 0.0, 0.0, 0.0])]);
    assert_eq!(std::mem::take(&mut *hub.asked.lock()).len(), 5);
    let directory = models.path().join("owner--colours");
    assert_eq!(files(&directory), ["config.json", "model.safetensors", "tokenizer.json"]);

    load(&from_hub(&address, models.path())).await.unwrap();
    assert!(hub.asked.lock().is_empty());
    assert_eq!(load(&options(&directory)).await.unwrap().model(), fetched.model());
}

#[tokio::test]
async fn a_model_that_the_hub_does_not_have_is_refused() {
    let (_hub, address) = Hub::default().serve().await;
    let models = TempDir::new().unwrap();
    let refusal = load(&from_hub(&address, models.path())).await.unwrap_err();
    assert!(matches!(refusal, EmbedError::Refused { status: 404, .. }));
    assert_eq!(refusal.to_string(), format!("the hub answered 404 to {address}/owner/colours/resolve/main/config.json"));
    assert!(files(models.path()).is_empty());
}

#[tokio::test]
async fn half_a_file_is_not_kept_and_the_next_time_it_is_fetched() {
    let (hub, address) = Hub::with_a_model("owner/colours").serve().await;
    let models = TempDir::new().unwrap();
    *hub.cut.lock() = Some("model.safetensors");
    let failure = load(&from_hub(&address, models.path())).await.unwrap_err();
    assert!(matches!(failure, EmbedError::Unreachable { .. }), "{failure}");
    assert_eq!(files(&models.path().join("owner--colours")), ["config.json", "tokenizer.json"]);
    *hub.cut.lock() = None;
    load(&from_hub(&address, models.path())).await.unwrap();
}

#[tokio::test]
async fn what_is_not_the_file_is_not_kept() {
    let mut hub = Hub::with_a_model("owner/colours");
    hub.files.insert("/owner/colours/resolve/main/config.json".into(), b"<html>sign in</html>".to_vec());
    let (_hub, address) = hub.serve().await;
    let models = TempDir::new().unwrap();
    let refusal = load(&from_hub(&address, models.path())).await.unwrap_err();
    assert!(matches!(refusal, EmbedError::Corrupt { .. }), "{refusal}");
    assert!(files(models.path()).is_empty());
}

#[tokio::test]
async fn without_a_network_a_directory_is_asked_for() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = format!("http://{}", listener.local_addr().unwrap());
    drop(listener);
    let models = TempDir::new().unwrap();
    let failure = load(&from_hub(&address, models.path())).await.unwrap_err();
    assert!(failure.to_string().ends_with("where there is no network, name the directory of a model instead"));
}

#[tokio::test]
async fn an_id_cannot_lead_out_of_the_directory_of_models() {
    let models = TempDir::new().unwrap();
    for model in ["../secret", "owner/..", "/owner/name", "owner/name/more", "name", "owner/na me", ""] {
        let options = Options { model: model.into(), ..from_hub("http://127.0.0.1:9", models.path()) };
        assert!(matches!(load(&options).await.unwrap_err(), EmbedError::NoSuchModel { .. }), "{model}");
    }
}
