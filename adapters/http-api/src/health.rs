//! Whether the process lives, and whether it can serve. Both are asked without a credential, so neither tells what is in the log.

use std::borrow::Cow;
use std::time::Duration;

use axum::body::Body;
use axum::http::{HeaderValue, Response, StatusCode, header};
use queries::{Projection, ProjectionState};

use crate::api::Plane;
use crate::app::App;

/// A probe that waits longer is given up by whoever asks.
const PATIENCE: Duration = Duration::from_secs(2);

/// A part of the server: what it says of itself, or why it cannot serve.
type Part = (Cow<'static, str>, Result<String, String>);

/// The projection without which nothing is answered.
const ROWS: &str = "rows";

pub(crate) fn live() -> Response<Body> {
    answer(StatusCode::OK, "ok\n".to_owned())
}

/// For other servers of the log: whether it can be written here.
pub(crate) fn log(app: &App) -> Response<Body> {
    match log_part(app) {
        Ok(_) => live(),
        Err(why) => answer(StatusCode::SERVICE_UNAVAILABLE, why + "\n"),
    }
}

/// A line for each part.
pub(crate) async fn ready(app: &App) -> Response<Body> {
    let mut parts: Vec<Part> = vec![("log".into(), log_part(app))];
    match app.plane.get() {
        None => parts.push(("platform".into(), Err("the database is being opened".to_owned()))),
        Some(None) => {}
        Some(Some(plane)) => {
            parts.push(("commands".into(), commands_part(app, plane).await));
            parts.push((ROWS.into(), rows_part(app, plane).await));
            let others = plane.queries.projections(&app.log).await.into_iter().filter(|it| it.name != ROWS);
            parts.extend(others.map(|it| (it.name.clone().into(), Ok(told(&it)))));
        }
    }
    let ready = parts.iter().all(|(_, part)| part.is_ok());
    let line = |(name, part): Part| match part {
        Ok(text) => format!("{name}: {text}\n"),
        Err(why) => format!("{name}: not ready: {why}\n"),
    };
    let code = if ready { StatusCode::OK } else { StatusCode::SERVICE_UNAVAILABLE };
    answer(code, parts.into_iter().map(line).collect())
}

fn log_part(app: &App) -> Result<String, String> {
    app.log.failed().borrow().clone().map_or_else(|| Ok("ok".to_owned()), Err)
}

async fn commands_part(app: &App, plane: &Plane) -> Result<String, String> {
    let caught_up = tokio::time::timeout(PATIENCE, plane.commands.caught_up()).await;
    if plane.commands.stopped().is_some() {
        return Err(format!("stopped at position {} by what cannot be applied; see the server's log", plane.commands.position()));
    }
    match caught_up {
        Ok(_) if plane.is_folded() => Ok("ok".to_owned()),
        Ok(_) | Err(_) => Err(format!("at position {} of {}", plane.commands.position(), app.log.position())),
    }
}

/// A copy that is not fed any more still serves, so that one event does not take every server away.
async fn rows_part(app: &App, plane: &Plane) -> Result<String, String> {
    match tokio::time::timeout(PATIENCE, plane.queries.serving()).await {
        Ok(Ok(true)) => {}
        Ok(Ok(false)) => return Err("the first copy is being built".to_owned()),
        Ok(Err(_)) | Err(_) => return Err("the database does not answer".to_owned()),
    }
    let Some(rows) = plane.queries.projections(&app.log).await.into_iter().next() else { return Ok("ok".to_owned()) };
    let (position, head) = (rows.position, rows.head);
    match rows.state {
        ProjectionState::Stopped => Ok(format!("ok, but stopped at position {position}; see `arbe projections`")),
        ProjectionState::Damaged => Err("tables are gone; see `arbe projections`".to_owned()),
        ProjectionState::Rebuilding => Ok("ok, and a new copy is being built".to_owned()),
        ProjectionState::Starting | ProjectionState::Active | ProjectionState::Passive | ProjectionState::Waiting => {
            if position >= plane.since { Ok("ok".to_owned()) } else { Err(format!("at position {position} of {head}")) }
        }
    }
}

/// Requests wait for rows and never for other projections, so these are told of and keep nobody away.
fn told(projection: &Projection) -> String {
    let (position, head) = (projection.position, projection.head);
    match projection.state {
        ProjectionState::Stopped => format!("stopped at position {position}; see `arbe projections`"),
        ProjectionState::Damaged => "tables are gone; see `arbe projections`".to_owned(),
        ProjectionState::Rebuilding => "a new copy is being built".to_owned(),
        ProjectionState::Waiting => format!("waiting at position {position} of {head}; see `arbe projections`"),
        ProjectionState::Starting | ProjectionState::Active | ProjectionState::Passive => {
            if position >= head {
                "ok".to_owned()
            } else {
                format!("ok, at position {position} of {head}")
            }
        }
    }
}

fn answer(code: StatusCode, text: String) -> Response<Body> {
    let mut response = Response::new(Body::from(text));
    *response.status_mut() = code;
    response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static("text/plain; charset=utf-8"));
    response.headers_mut().insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    response
}
