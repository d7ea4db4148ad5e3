//! A way to Postgres that breaks at a chosen request.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use sqlx::postgres::PgConnectOptions;
use tempfile::TempDir;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{UnixListener, UnixStream};
use tokio::sync::watch;
use tokio::task::JoinHandle;

const SOCKET: &str = ".s.PGSQL.5432";
/// Larger than any request of these tests, so that one read is one request.
const REQUEST_MAX: usize = 1 << 20;
const PATIENCE: Duration = Duration::from_secs(5);

/// Everything that goes through it is a process of its own: at the cut all its connections end.
pub struct Wire {
    directory: TempDir,
    cut: Arc<Cut>,
    listening: JoinHandle<()>,
}

struct Cut {
    left: AtomicI64,
    dead: watch::Sender<bool>,
}

impl Drop for Wire {
    fn drop(&mut self) {
        self.listening.abort();
        self.cut.dead.send_replace(true);
    }
}

impl Wire {
    /// Carries `requests` and one more, whose answer nobody hears. To whoever comes later that is a death anywhere between this
    /// request and the next.
    pub fn cut_after(requests: u64, to: &PgConnectOptions) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let listener = UnixListener::bind(directory.path().join(SOCKET)).unwrap();
        let there = to.get_socket().unwrap().join(SOCKET);
        let cut = Arc::new(Cut { left: AtomicI64::new(requests as i64), dead: watch::Sender::new(false) });
        let carried = cut.clone();
        let listening = tokio::spawn(async move {
            while let Ok((near, _)) = listener.accept().await {
                let Ok(far) = UnixStream::connect(&there).await else { continue };
                tokio::spawn(carry(carried.clone(), near, far));
            }
        });
        Self { directory, cut, listening }
    }

    pub fn options(&self, to: &PgConnectOptions) -> PgConnectOptions {
        to.clone().socket(self.directory.path())
    }

    pub async fn death(&self) {
        let _ = self.cut.dead.subscribe().wait_for(|dead| *dead).await;
    }
}

async fn carry(cut: Arc<Cut>, near: UnixStream, far: UnixStream) {
    let (mut asks, mut hears) = near.into_split();
    let (mut answers, mut does) = far.into_split();
    let mut dead = cut.dead.subscribe();
    let there = async {
        let mut request = vec![0; REQUEST_MAX];
        while let Ok(length @ 1..) = asks.read(&mut request).await {
            let left = cut.left.fetch_sub(1, Ordering::Relaxed);
            let last = left == 0;
            if left < 0 {
                return std::future::pending().await;
            }
            if does.write_all(&request[..length]).await.is_err() || last {
                return last;
            }
        }
        false
    };
    let back = async {
        let mut answer = vec![0; 64 << 10];
        while let Ok(length @ 1..) = answers.read(&mut answer).await {
            let cut = cut.left.load(Ordering::Relaxed) < 0;
            if cut || hears.write_all(&answer[..length]).await.is_err() {
                return;
            }
        }
    };
    tokio::pin!(there, back);
    let broke = tokio::select! {
        broke = &mut there => broke,
        () = &mut back => false,
        _ = dead.wait_for(|dead| *dead) => return,
    };
    if broke {
        let _ = tokio::time::timeout(PATIENCE, back).await;
        cut.dead.send_replace(true);
    } else if cut.left.load(Ordering::Relaxed) < 0 {
        let _ = dead.wait_for(|dead| *dead).await;
    }
}
