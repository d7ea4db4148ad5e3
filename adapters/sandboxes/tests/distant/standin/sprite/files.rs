//! Files of a sprite.

use std::fs::{self, Permissions};
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::PathBuf;

use axum::body::Body;
use axum::extract::Request;
use axum::http::StatusCode;
use axum::response::Response;
use serde_json::json;

use super::{No, asked, bytes, unknown};
use crate::standin::guest::Guest;
use crate::standin::server;
use crate::standin::shape::{Field, Kind, may, need};

const LARGEST_WRITE: usize = 16 << 20;
const READ: &[Field] = &[need("path", Kind::Text), need("workingDir", Kind::Text)];
/// The document says `mkdir`, and the vendor's SDK says `mkdirParents`.
const WRITE: &[Field] = &[
    need("path", Kind::Text),
    need("workingDir", Kind::Text),
    may("mode", Kind::Text),
    may("mkdir", Kind::Bool),
    may("mkdirParents", Kind::Bool),
];
const LIST: &[Field] =
    &[need("path", Kind::Text), need("workingDir", Kind::Text), may("recursive", Kind::Bool), may("pattern", Kind::Text)];

pub async fn route(guest: &Guest, verb: &str, request: Request) -> Result<Response, No> {
    match (request.method().as_str(), verb) {
        ("GET", "read") => {
            let path = find(guest, &asked(&request, READ, &[])?)?;
            let contents = fs::read(&path).map_err(|_| missing(&path))?;
            Ok(Response::new(Body::from(contents)))
        }
        ("PUT", "write") => write(guest, request).await,
        ("GET", "list") => {
            let path = find(guest, &asked(&request, LIST, &[])?)?;
            let about = fs::metadata(&path).map_err(|_| missing(&path))?;
            let names: Vec<PathBuf> = match about.is_dir() {
                true => fs::read_dir(&path).unwrap().flatten().map(|entry| entry.path()).collect(),
                false => vec![path.clone()],
            };
            let entries: Vec<_> = names.iter().map(entry).collect();
            Ok(server::json(StatusCode::OK, &json!({ "path": path, "count": entries.len(), "entries": entries })))
        }
        _ => Err(unknown(&request)),
    }
}

async fn write(guest: &Guest, request: Request) -> Result<Response, No> {
    let pairs = asked(&request, WRITE, &[])?;
    let kind = request.headers().get("content-type").and_then(|kind| kind.to_str().ok()).unwrap_or_default();
    if kind != "application/octet-stream" {
        return Err(No::Violation(format!("a file as {kind:?}")));
    }
    let value = |name: &str| pairs.iter().find(|(key, _)| key == name).map(|(_, value)| value.clone());
    let mode = u32::from_str_radix(&value("mode").unwrap_or_else(|| "0644".to_owned()), 8);
    let mode = mode.map_err(|_| No::Violation("a mode is octal".to_owned()))?;
    let path = find(guest, &pairs)?;
    let contents = bytes(request).await?;
    if contents.len() > LARGEST_WRITE {
        return Err(No::Said(StatusCode::PAYLOAD_TOO_LARGE, "file contents exceed 16 MiB".to_owned()));
    }
    if value("mkdir").or(value("mkdirParents")).as_deref() == Some("true") {
        fs::create_dir_all(path.parent().unwrap()).unwrap();
    }
    let file = fs::OpenOptions::new().write(true).create(true).truncate(true).mode(mode).open(&path);
    let mut file = file.map_err(|error| {
        let runs = error.kind() == std::io::ErrorKind::ExecutableFileBusy;
        if runs { No::File(StatusCode::CONFLICT, "ETXTBSY", path.display().to_string()) } else { missing(&path) }
    })?;
    std::io::Write::write_all(&mut file, &contents).unwrap();
    fs::set_permissions(&path, Permissions::from_mode(mode)).unwrap();
    Ok(server::json(StatusCode::OK, &json!({ "path": path, "size": contents.len(), "mode": format!("{mode:04o}") })))
}

fn find(guest: &Guest, pairs: &[(String, String)]) -> Result<PathBuf, No> {
    let value = |name: &str| pairs.iter().find(|(key, _)| key == name).map(|(_, value)| value.clone()).unwrap();
    let path = PathBuf::from(value("workingDir")).join(value("path"));
    let inside = guest.path(path.to_str().unwrap());
    inside.ok_or_else(|| No::File(StatusCode::FORBIDDEN, "EACCES", value("path")))
}

fn missing(path: &std::path::Path) -> No {
    No::File(StatusCode::NOT_FOUND, "ENOENT", path.display().to_string())
}

fn entry(path: &PathBuf) -> serde_json::Value {
    let about = fs::metadata(path).unwrap();
    json!({
        "name": path.file_name().unwrap().to_str(), "path": path, "type": if about.is_dir() { "directory" } else { "file" },
        "size": about.len(), "mode": format!("{:04o}", about.permissions().mode() & 0o7777), "isDir": about.is_dir(),
        "modTime": "2026-01-01T00:00:00Z"
    })
}
