//! `arbe restore` and `arbe resume`.

use std::io::Write;
use std::path::{Component, Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context, bail};
use codecs::artifact::{Artifact, Body, Restored};
use codecs::registry::Codec;
use codecs::restore::Place;
use serde_json::json;

use super::{Library, codec};
use crate::args::{Restore, Resume};
use crate::config::Config;
use crate::output::{self, Refused};

pub(super) async fn restore(args: Restore, config: &Config, json: bool) -> anyhow::Result<ExitCode> {
    let codec = codec(&args.to)?;
    let mut restored = make(&args.session, args.alone, args.house.as_deref(), codec, config).await?;
    let written = write(&mut restored, &args.dir)?;
    tell(codec, &restored, &written, None, json)
}

pub(super) async fn resume(args: Resume, config: &Config, json: bool) -> anyhow::Result<ExitCode> {
    let codec = codec(&args.with)?;
    let home = args.home.or_else(std::env::home_dir).context("there is no home directory; name one with --home")?;
    let root = home.join(codec.homes.first().context("the client keeps no sessions in a home directory")?);
    let mut restored = make(&args.session, args.alone, args.house.as_deref(), codec, config).await?;
    let elsewhere = restored.artifacts.iter().chain(&restored.bases).find(|artifact| !codec.may_write(&artifact.path));
    if let Some(artifact) = elsewhere {
        let (path, client) = (output::clean(&artifact.path), codec.origin);
        let why = format!("the session says it stood in {path}, where {client} keeps no sessions; see `arbe restore --dir`");
        return Err(Refused(why).into());
    }
    let written = write(&mut restored, &root)?;
    let command = codec.serialize.resume_command(&restored, &root);
    tell(codec, &restored, &written, Some(&command), json)
}

async fn make(session: &str, alone: bool, house: Option<&str>, codec: &Codec, config: &Config) -> anyhow::Result<Restored> {
    let library = Library::open(config, house).await?;
    let lineage = library.lineage(session, alone).await;
    let left = if alone { library.hanging(session).await } else { Ok(0) };
    library.close().await;
    let directory = std::env::current_dir().context("the working directory")?;
    let place = Place { directory: directory.to_string_lossy().into_owned() };
    let mut restored = codecs::restore::restore(codec, &lineage?, &place).map_err(|error| Refused(error.to_string()))?;
    (0..left?).for_each(|_| restored.report.drop("session that hangs on it"));
    Ok(restored)
}

/// Nothing is written unless everything can be: no file is ever overwritten. Rows go into a database that is there, beside its own.
fn write(restored: &mut Restored, dir: &Path) -> anyhow::Result<Vec<PathBuf>> {
    let there = |path: &Path| Refused(format!("{} is there already and is not overwritten", path.display()));
    let (mut files, mut unfit) = (Vec::new(), Vec::new());
    for (artifact, is_base) in restored.artifacts.iter().map(|it| (it, false)).chain(restored.bases.iter().map(|it| (it, true))) {
        let relative = Path::new(&artifact.path);
        if relative.components().any(|it| !matches!(it, Component::Normal(_))) {
            bail!("a restored file would be outside of {}: {}", dir.display(), artifact.path);
        }
        let path = dir.join(relative);
        match path.exists() && !matches!(artifact.body, Body::Rows(_)) {
            true if is_base && goes_on(&path, artifact)? => continue,
            true => return Err(there(&path).into()),
            false => files.push((artifact, path)),
        }
    }
    for (artifact, path) in &files {
        let context = || path.display().to_string();
        path.parent().map_or(Ok(()), std::fs::create_dir_all).with_context(context)?;
        match &artifact.body {
            Body::Rows(rows) => {
                let written = codecs::opencode::write_rows(path, rows).with_context(context)?;
                if written.inserted == 0 && written.present > 0 {
                    return Err(there(&path.join(&restored.session_id)).into());
                }
                unfit.extend(written.unfit);
            }
            Body::Lines(_) | Body::Json(_) | Body::Text(_) | Body::Bytes(_) => {
                let mut file = std::fs::OpenOptions::new().write(true).create_new(true).open(path).with_context(context)?;
                file.write_all(&artifact.body.to_bytes().unwrap_or_default()).with_context(context)?;
                file.sync_all().with_context(context)?;
            }
        }
    }
    if files.is_empty() {
        return Err(Refused(format!("session {} holds nothing that could be written", restored.session_id)).into());
    }
    let paths = files.into_iter().map(|(_, path)| path).collect();
    unfit.iter().for_each(|column| restored.report.drop(format!("row with {column}")));
    Ok(paths)
}

/// The file is what would be written, or more or less of it.
fn goes_on(path: &Path, artifact: &Artifact) -> anyhow::Result<bool> {
    let there = std::fs::read(path).with_context(|| path.display().to_string())?;
    let ours = artifact.body.to_bytes().unwrap_or_default();
    let both = there.len().min(ours.len());
    Ok(there[..both] == ours[..both])
}

fn tell(codec: &Codec, restored: &Restored, written: &[PathBuf], command: Option<&str>, json: bool) -> anyhow::Result<ExitCode> {
    if json {
        output::print_json(&json!({
            "client": codec.origin, "session": restored.session_id, "native": restored.native, "files": written,
            "dropped": restored.report.dropped, "command": command,
        }))?;
        return Ok(ExitCode::SUCCESS);
    }
    for path in written {
        output::print(format!("{}\n", path.display()))?;
    }
    for (kind, count) in &restored.report.dropped {
        output::note(format!("not expressed in {}: {count} × {kind}", codec.origin));
    }
    command.map_or(Ok(()), |command| output::print(format!("continue with: {command}\n")))?;
    Ok(ExitCode::SUCCESS)
}
