use std::sync::Arc;

use rmcp::service::{QuitReason, ServerInitializeError};
use rmcp::transport::async_rw::AsyncRwTransport;
use rmcp::{RoleServer, ServiceExt};
use tokio::io::{AsyncRead, AsyncWrite};

use crate::Pond;
use crate::server::Server;

/// Bytes of one request. The longest question takes far less.
const LONGEST_LINE: usize = 1 << 20;

#[derive(Debug, thiserror::Error)]
pub enum StdioError {
    #[error("the client did not begin as the protocol wants it")]
    Handshake(#[source] Box<ServerInitializeError>),
    #[error("the server broke off")]
    Broken(#[source] tokio::task::JoinError),
}

/// Serves until stdin ends. Requests that are under way then are still answered. Stdout belongs to the protocol: logs go elsewhere.
pub async fn stdio(pond: Arc<dyn Pond>) -> Result<(), StdioError> {
    let (input, output) = rmcp::transport::io::stdio_pipes();
    lines(pond, input, output).await
}

pub(crate) async fn lines<R, W>(pond: Arc<dyn Pond>, input: R, output: W) -> Result<(), StdioError>
where
    R: AsyncRead + Send + Unpin + 'static,
    W: AsyncWrite + Send + Unpin + 'static,
{
    let transport = AsyncRwTransport::<RoleServer, R, W>::new(input, output).with_max_line_length(LONGEST_LINE);
    let running = match Server::new(pond).serve(transport).await {
        Ok(running) => running,
        // A client that leaves before it has said anything is no failure.
        Err(ServerInitializeError::ConnectionClosed(_)) => return Ok(()),
        Err(error) => return Err(StdioError::Handshake(Box::new(error))),
    };
    match running.waiting().await {
        Ok(QuitReason::JoinError(error)) | Err(error) => Err(StdioError::Broken(error)),
        Ok(_) => Ok(()),
    }
}
