use std::time::Duration;

use bytes::Bytes;
use futures::future::join_all;
use futures::{StreamExt, TryStreamExt};
use object_store::aws::{AmazonS3, AmazonS3Builder};
use object_store::path::Path;
use object_store::{
    BackoffConfig, ClientOptions, Error, GetOptions, GetRange, ObjectStore, ObjectStoreExt, PutMode, PutOptions, PutPayload,
    RetryConfig, UpdateVersion, WriteMultipart,
};

use super::{Fate, Faults, S3Server};

fn builder(server: &S3Server) -> AmazonS3Builder {
    server.client().with_retry(quick_retry())
}

fn quick_retry() -> RetryConfig {
    let backoff = BackoffConfig {
        init_backoff: Duration::from_millis(1),
        max_backoff: Duration::from_millis(5),
        ..BackoffConfig::default()
    };
    RetryConfig { backoff, max_retries: 3, retry_timeout: Duration::from_secs(10) }
}

fn start() -> (S3Server, AmazonS3) {
    let server = S3Server::start(Faults::default()).unwrap();
    let store = builder(&server).build().unwrap();
    (server, store)
}

async fn create(store: &AmazonS3, key: &str, body: &'static str) -> Result<(), Error> {
    let options = PutOptions::from(PutMode::Create);
    store.put_opts(&Path::from(key), body.into(), options).await.map(drop)
}

async fn read(store: &AmazonS3, key: &str) -> Result<Bytes, Error> {
    store.get(&Path::from(key)).await?.bytes().await
}

#[tokio::test]
async fn sixteen_concurrent_creates_of_one_key_have_one_winner() {
    let (server, store) = start();
    for round in 0..50 {
        let key = Path::from(format!("race/{round}"));
        let tries = (0..16).map(|writer| {
            let (store, key) = (store.clone(), key.clone());
            let put = async move {
                let body = PutPayload::from(format!("writer {writer}"));
                store.put_opts(&key, body, PutMode::Create.into()).await
            };
            tokio::spawn(put)
        });
        let outcomes = join_all(tries).await.into_iter().map(Result::unwrap);
        let mut winners = Vec::new();
        for (writer, outcome) in outcomes.enumerate() {
            match outcome {
                Ok(_) => winners.push(writer),
                Err(error) => assert!(matches!(error, Error::AlreadyExists { .. }), "{error}"),
            }
        }
        assert_eq!(winners.len(), 1, "round {round}");
        let stored = store.get(&key).await.unwrap().bytes().await.unwrap();
        assert_eq!(stored, format!("writer {}", winners[0]));
    }
    assert_eq!(server.counts().puts, 50 * 16);
    assert_eq!(server.counts().gets, 50);
}

#[tokio::test]
async fn an_update_needs_the_version_it_names() {
    let (_server, store) = start();
    let key = Path::from("k");
    let first = store.put(&key, "1".into()).await.unwrap();
    let update = |version: UpdateVersion| PutOptions::from(PutMode::Update(version));
    store.put_opts(&key, "2".into(), update(first.clone().into())).await.unwrap();
    let stale = store.put_opts(&key, "3".into(), update(first.into())).await;
    assert!(matches!(stale, Err(Error::Precondition { .. })));
    assert_eq!(read(&store, "k").await.unwrap(), "2");
}

#[tokio::test]
async fn a_conflict_answers_409_and_stores_nothing() {
    let (server, store) = start();
    server.faults().script = [Fate::Conflict].into();
    assert!(matches!(create(&store, "k", "v").await, Err(Error::AlreadyExists { .. })));
    assert!(matches!(read(&store, "k").await, Err(Error::NotFound { .. })));
    create(&store, "k", "v").await.unwrap();
    assert_eq!((server.counts().puts, server.counts().conflicts), (2, 1));
}

#[tokio::test]
async fn an_unavailable_put_stores_nothing_and_the_client_tries_again() {
    let (server, store) = start();
    server.faults().script = [Fate::Unavailable].into();
    create(&store, "k", "v").await.unwrap();
    assert_eq!(server.counts().puts, 2);
}

#[tokio::test]
async fn a_lost_reply_turns_the_writers_own_object_against_it() {
    let (server, store) = start();
    server.faults().script = [Fate::LostReply].into();
    assert!(matches!(create(&store, "k", "mine").await, Err(Error::AlreadyExists { .. })));
    assert_eq!(read(&store, "k").await.unwrap(), "mine");
    assert_eq!(server.counts().puts, 2);
}

#[tokio::test]
async fn a_dropped_connection_leaves_the_object_stored_and_the_client_tries_again() {
    let (server, store) = start();
    server.faults().script = [Fate::Dropped].into();
    // object_store takes an answer that never came for a request that was never sent.
    let refused = create(&store, "k", "mine").await;
    assert!(matches!(refused, Err(Error::AlreadyExists { .. })));
    assert_eq!(read(&store, "k").await.unwrap(), "mine");
    assert_eq!((server.counts().puts, server.counts().dropped), (2, 1));
}

#[tokio::test]
async fn a_put_lands_after_its_client_gave_up() {
    let server = S3Server::start(Faults { put_latency: Duration::from_millis(300), ..Faults::default() }).unwrap();
    let impatient = ClientOptions::new().with_allow_http(true).with_timeout(Duration::from_millis(50));
    let store = builder(&server).with_client_options(impatient).build().unwrap();
    create(&store, "k", "late").await.unwrap_err();
    assert!(matches!(read(&store, "k").await, Err(Error::NotFound { .. })));
    tokio::time::sleep(Duration::from_millis(500)).await;
    assert_eq!(read(&store, "k").await.unwrap(), "late");
}

#[tokio::test]
async fn a_range_gives_its_bytes_and_the_size_of_the_whole() {
    let (_server, store) = start();
    let key = Path::from("k");
    store.put(&key, "0123456789".into()).await.unwrap();
    assert_eq!(store.get_range(&key, 2..5).await.unwrap(), "234");
    for (range, expected) in [(GetRange::Suffix(3), "789"), (GetRange::Offset(8), "89"), (GetRange::Bounded(7..99), "789")] {
        let options = GetOptions { range: Some(range), ..GetOptions::default() };
        let got = store.get_opts(&key, options).await.unwrap();
        assert_eq!(got.meta.size, 10);
        assert_eq!(got.bytes().await.unwrap(), expected);
    }
    assert!(store.get_range(&key, 10..12).await.is_err());
    assert_eq!(store.head(&key).await.unwrap().size, 10);
}

#[tokio::test]
async fn a_list_is_sorted_paged_and_stops_at_the_delimiter() {
    let (server, store) = start();
    let numbers = futures::stream::iter((0..1_100).rev());
    let puts = numbers.map(|n| {
        let (store, key) = (&store, Path::from(format!("many/{n:04}")));
        async move { store.put(&key, PutPayload::new()).await }
    });
    puts.buffer_unordered(8).try_collect::<Vec<_>>().await.unwrap();
    create(&store, "many/deep/er", "").await.unwrap();
    create(&store, "other", "").await.unwrap();

    let names =
        |list: Vec<object_store::ObjectMeta>| -> Vec<String> { list.into_iter().map(|meta| meta.location.to_string()).collect() };
    let prefix = Path::from("many");
    let all = names(store.list(Some(&prefix)).try_collect().await.unwrap());
    assert_eq!(all.len(), 1_101);
    assert!(all.is_sorted());
    assert_eq!(server.counts().lists, 2);

    let offset = Path::from("many/1097");
    let rest = names(store.list_with_offset(Some(&prefix), &offset).try_collect().await.unwrap());
    assert_eq!(rest, ["many/1098", "many/1099", "many/deep/er"]);

    let top = store.list_with_delimiter(None).await.unwrap();
    assert_eq!(top.common_prefixes, [Path::from("many")]);
    assert_eq!(names(top.objects), ["other"]);
}

#[tokio::test]
async fn deleted_objects_are_gone_one_by_one_and_in_bulk() {
    let (_server, store) = start();
    for key in ["a", "b", "c"] {
        create(&store, key, "x").await.unwrap();
    }
    store.delete(&Path::from("a")).await.unwrap();
    let locations = futures::stream::iter(["b", "c"].map(|key| Ok(Path::from(key)))).boxed();
    store.delete_stream(locations).try_collect::<Vec<_>>().await.unwrap();
    assert!(store.list(None).next().await.is_none());
    create(&store, "a", "again").await.unwrap();
}

#[tokio::test]
async fn a_multipart_upload_appears_whole_when_completed() {
    let (_server, store) = start();
    let key = Path::from("big");
    let body = Bytes::from(vec![7_u8; 11 * 1024 * 1024]);
    let mut writer = WriteMultipart::new(store.put_multipart(&key).await.unwrap());
    writer.put(body.clone());
    assert!(matches!(read(&store, "big").await, Err(Error::NotFound { .. })));
    writer.finish().await.unwrap();
    assert_eq!(read(&store, "big").await.unwrap(), body);
}

#[tokio::test]
async fn another_secret_or_another_bucket_is_refused() {
    let (server, _) = start();
    let forged = builder(&server).with_secret_access_key("guess").build().unwrap();
    assert!(matches!(create(&forged, "k", "v").await, Err(Error::PermissionDenied { .. })));
    let elsewhere = builder(&server).with_bucket_name("elsewhere").build().unwrap();
    assert!(matches!(create(&elsewhere, "k", "v").await, Err(Error::NotFound { .. })));
    let anybody = builder(&server).with_access_key_id("anybody").build().unwrap();
    create(&anybody, "k", "v").await.unwrap();
}
