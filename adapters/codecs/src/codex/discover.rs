use std::io;
use std::path::{Path, PathBuf};

use crate::source::Bundle;

const KEPT: [&str; 2] = ["sessions", "archived_sessions"];

/// The rollouts of a home, or of any directory that is none, or the one file.
pub(super) fn bundles(root: &Path) -> io::Result<Vec<Bundle>> {
    let bundle = |root: &Path, file: PathBuf| Bundle { root: root.to_owned(), files: vec![file] };
    if root.is_file() {
        let name = root.file_name().map(PathBuf::from).unwrap_or_default();
        return Ok(vec![bundle(root.parent().unwrap_or(Path::new("")), name)]);
    }
    let mut files = Vec::new();
    let kept: Vec<_> = KEPT.iter().map(PathBuf::from).filter(|below| root.join(below).is_dir()).collect();
    let from = if kept.is_empty() { vec![PathBuf::new()] } else { kept };
    from.into_iter().try_for_each(|below| walk(root, below, &mut files))?;
    files.sort();
    // While the client packs a file, it stands there twice.
    files.dedup_by(|packed, plain| packed.extension().is_some_and(|it| it == "zst") && packed.with_extension("") == *plain);
    Ok(files.into_iter().map(|file| bundle(root, file)).collect())
}

fn walk(root: &Path, below: PathBuf, files: &mut Vec<PathBuf>) -> io::Result<()> {
    for entry in std::fs::read_dir(root.join(&below))? {
        let entry = entry?;
        let file = below.join(entry.file_name());
        if entry.file_type()?.is_dir() {
            walk(root, file, files)?;
        } else if file.to_string_lossy().trim_end_matches(".zst").ends_with(".jsonl") {
            files.push(file);
        }
    }
    Ok(())
}
