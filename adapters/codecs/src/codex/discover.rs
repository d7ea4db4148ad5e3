use std::io;
use std::path::{Path, PathBuf};

use crate::source::{Bundle, walk};

const KEPT: [&str; 2] = ["sessions", "archived_sessions"];

/// The rollouts of a home, or of any directory that is none, or the one file.
pub(super) fn bundles(root: &Path) -> io::Result<Vec<Bundle>> {
    if root.is_file() {
        return Ok(vec![Bundle::lone(root)]);
    }
    let kept: Vec<_> = KEPT.iter().map(PathBuf::from).filter(|below| root.join(below).is_dir()).collect();
    let from = if kept.is_empty() { vec![PathBuf::new()] } else { kept };
    let is_rollout = |file: &Path| file.to_string_lossy().trim_end_matches(".zst").ends_with(".jsonl");
    let found: Vec<_> = from.iter().map(|below| walk(root, below, is_rollout)).collect::<io::Result<_>>()?;
    let mut files = found.concat();
    files.sort();
    // While the client packs a file, it stands there twice.
    files.dedup_by(|packed, plain| packed.extension().is_some_and(|it| it == "zst") && packed.with_extension("") == *plain);
    Ok(files.into_iter().map(|file| Bundle { root: root.to_owned(), files: vec![file] }).collect())
}
