//! Files of a sandbox.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;

use axum::body::Body;
use axum::extract::Request;
use axum::http::StatusCode;
use axum::response::Response;
use serde_json::json;

use super::{No, asked, body, bytes, not_found, shapes, unknown};
use crate::standin::guest::Guest;
use crate::standin::server;

const BOUNDARY: &str = "stand-in-boundary";

pub async fn route(guest: &Guest, rest: &[&str], request: Request) -> Result<Response, No> {
    let method = request.method().clone();
    match (method.as_str(), rest) {
        ("POST", ["bulk-upload"]) => upload(guest, request).await,
        ("GET", ["download"]) => {
            let pairs = asked(&request, shapes::PATH)?;
            let contents = fs::read(inside(guest, &pairs[0].1)?).map_err(|_| not_found("file"))?;
            Ok(Response::builder().header("content-type", "application/octet-stream").body(Body::from(contents)).unwrap())
        }
        ("POST", ["bulk-download"]) => {
            asked(&request, &[])?;
            let wanted = body(request, shapes::PATHS).await?;
            download(guest, wanted["paths"].as_array().unwrap().iter().map(|path| path.as_str().unwrap()))
        }
        ("POST", ["permissions"]) => {
            let pairs = asked(&request, shapes::PERMISSIONS)?;
            let value = |name: &str| pairs.iter().find(|(key, _)| key == name).map(|(_, value)| value.as_str());
            let path = inside(guest, value("path").unwrap())?;
            if let Some(mode) = value("mode") {
                let mode = u32::from_str_radix(mode, 8).map_err(|_| No::Violation("a mode is octal".to_owned()))?;
                fs::set_permissions(path, Permissions::from_mode(mode)).map_err(|_| not_found("file"))?;
            }
            Ok(server::empty(StatusCode::OK))
        }
        _ => Err(unknown(&request)),
    }
}

fn inside(guest: &Guest, path: &str) -> Result<PathBuf, No> {
    guest.path(path).ok_or_else(|| No::Said(StatusCode::FORBIDDEN, "outside of the sandbox".to_owned()))
}

async fn upload(guest: &Guest, request: Request) -> Result<Response, No> {
    asked(&request, &[])?;
    let wrong = |why: &str| No::Violation(why.to_owned());
    let kind = request.headers().get("content-type").and_then(|kind| kind.to_str().ok()).unwrap_or_default().to_owned();
    let boundary =
        kind.strip_prefix("multipart/form-data; boundary=").ok_or_else(|| wrong("no form"))?.trim_matches('"').to_owned();
    let form = parts(&bytes(request).await?, &boundary).ok_or_else(|| wrong("a form that cannot be read"))?;
    let mut names: Vec<&str> = form.iter().map(|(name, _)| name.as_str()).collect();
    names.sort_unstable();
    let mut expected: Vec<String> = Vec::new();
    for at in 0..form.len() / 2 {
        expected.extend([format!("files[{at}].file"), format!("files[{at}].path")]);
    }
    expected.sort_unstable();
    if form.is_empty() || names != expected {
        return Err(wrong("the form has other fields than files[N].path and files[N].file"));
    }
    let field = |name: String| form.iter().find(|(key, _)| *key == name).map(|(_, value)| value.clone()).unwrap();
    let mut files = Vec::new();
    for at in 0..form.len() / 2 {
        let path = String::from_utf8(field(format!("files[{at}].path"))).map_err(|_| wrong("a path is a text"))?;
        let target = inside(guest, &path)?;
        fs::create_dir_all(target.parent().unwrap()).unwrap();
        // As what runs cannot be written over.
        let written = fs::write(&target, field(format!("files[{at}].file")));
        written.map_err(|error| No::Said(StatusCode::INTERNAL_SERVER_ERROR, error.to_string()))?;
        files.push(json!({ "name": target.file_name().unwrap().to_str(), "path": path, "type": "file" }));
    }
    Ok(server::json(StatusCode::OK, &json!({ "files": files })))
}

fn parts(form: &[u8], boundary: &str) -> Option<Vec<(String, Vec<u8>)>> {
    let mark = format!("--{boundary}").into_bytes();
    let starts: Vec<usize> = (0..form.len().saturating_sub(mark.len() - 1)).filter(|at| form[*at..].starts_with(&mark)).collect();
    let mut parts = Vec::new();
    for pair in starts.windows(2) {
        let part = form[pair[0] + mark.len()..pair[1]].strip_prefix(b"\r\n")?.strip_suffix(b"\r\n")?;
        let head = (0..part.len()).find(|at| part[*at..].starts_with(b"\r\n\r\n"))?;
        let headers = String::from_utf8(part[..head].to_vec()).ok()?;
        let name = headers.split("name=\"").nth(1)?.split('"').next()?.to_owned();
        parts.push((name, part[head + 4..].to_vec()));
    }
    form[*starts.last()?..].starts_with(format!("--{boundary}--").as_bytes()).then_some(parts)
}

fn download<'a>(guest: &Guest, paths: impl Iterator<Item = &'a str>) -> Result<Response, No> {
    let mut form = Vec::new();
    for path in paths {
        let (name, kind, contents) = match fs::read(inside(guest, path)?) {
            Ok(contents) => ("file", "application/octet-stream", contents),
            Err(_) => {
                ("error", "application/json", json!({ "message": "file not found", "statusCode": 404 }).to_string().into_bytes())
            }
        };
        let head = format!(
            "--{BOUNDARY}\r\nContent-Disposition: form-data; name=\"{name}\"; filename=\"{path}\"\r\nContent-Type: {kind}\r\n\r\n"
        );
        form.extend_from_slice(head.as_bytes());
        form.extend_from_slice(&contents);
        form.extend_from_slice(b"\r\n");
    }
    form.extend_from_slice(format!("--{BOUNDARY}--\r\n").as_bytes());
    let kind = format!("multipart/form-data; boundary={BOUNDARY}");
    Ok(Response::builder().header("content-type", kind).body(Body::from(form)).unwrap())
}
