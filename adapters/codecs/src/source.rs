//! Source files: which belong together, and their records.

use std::fs::Metadata;
use std::io::{self, BufRead, BufReader, Read};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

use crate::fault::{Location, What};
use crate::seam::{Record, VALUE_MAX};
use crate::value::{Reader, Value};

/// More than any client writes on one line; what is longer is skipped without being held.
pub const LINE_MAX: u64 = 64 << 20;
/// What is kept for the next line.
const BUFFER: usize = 1 << 20;

/// The files of one session and of those that hang on it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Bundle {
    pub root: PathBuf,
    /// Relative to the root; the session's own file first.
    pub files: Vec<PathBuf>,
}

impl Bundle {
    /// A file by itself.
    #[must_use]
    pub fn lone(file: &Path) -> Self {
        let root = file.parent().unwrap_or(Path::new("")).to_owned();
        Self { root, files: file.file_name().map(PathBuf::from).into_iter().collect() }
    }

    #[must_use]
    pub fn main(&self) -> &Path {
        self.files.first().map_or(Path::new(""), PathBuf::as_path)
    }
}

/// The files below a directory that are wanted, in the order of their names. A directory that cannot be read stands for what is in it:
/// whoever reads that is told why.
pub fn walk(root: &Path, below: &Path, wanted: fn(&Path) -> bool) -> io::Result<Vec<PathBuf>> {
    let mut files = Vec::new();
    for entry in std::fs::read_dir(root.join(below))? {
        let entry = entry?;
        let file = below.join(entry.file_name());
        if entry.file_type()?.is_dir() {
            files.extend(walk(root, &file, wanted).unwrap_or_else(|_| vec![file]));
        } else if wanted(&file) {
            files.push(file);
        }
    }
    files.sort();
    Ok(files)
}

/// The name a file goes by in faults and in stored places.
#[must_use]
pub fn name(file: &Path) -> Arc<str> {
    file.to_string_lossy().replace('\\', "/").into()
}

/// What is known of a file. Nothing else is read: a pipe or a device need not end.
pub fn metadata(path: &Path) -> io::Result<Metadata> {
    let found = std::fs::metadata(path)?;
    if found.is_dir() {
        std::fs::read_dir(path)?;
    }
    if found.is_file() { Ok(found) } else { Err(io::Error::new(io::ErrorKind::InvalidInput, "not a regular file")) }
}

/// Opens a file; `.zst` is unpacked on the way.
pub fn open(root: &Path, file: &Path) -> io::Result<Box<dyn BufRead>> {
    metadata(&root.join(file))?;
    let opened = std::fs::File::open(root.join(file))?;
    if file.extension().is_some_and(|it| it == "zst") {
        return Ok(Box::new(BufReader::new(zstd::Decoder::new(opened)?)));
    }
    Ok(Box::new(BufReader::with_capacity(256 << 10, opened)))
}

/// All that a file holds, within the bound of a line.
pub fn bytes(root: &Path, file: &Path) -> Result<Vec<u8>, What> {
    let unreadable = |error: io::Error| What::Unreadable(error.to_string());
    let path = root.join(file);
    let bytes = metadata(&path).map_err(unreadable)?.len();
    if bytes > LINE_MAX {
        return Err(What::LineTooLong { bytes });
    }
    std::fs::read(&path).map_err(unreadable)
}

/// A file that is one record: `json` if it is and is called so, else `text`, or `base64` where no text column holds it.
pub fn whole(root: &Path, file: &Path) -> Result<Record, (Location, What)> {
    let at = Location { file: name(file), line: None };
    let encoded = |bytes: &[u8]| Value::object([("base64", Value::from(STANDARD.encode(bytes)))]);
    let value = match String::from_utf8(bytes(root, file).map_err(|what| (at.clone(), what))?) {
        Ok(text) if text.len() > VALUE_MAX => encoded(text.as_bytes()),
        Ok(text) => match file.extension().filter(|it| *it == "json").and_then(|_| Reader::only(&text).ok()) {
            Some(json) => Value::object([("json", json)]),
            None => Value::object([("text", Value::from(text))]),
        },
        Err(error) => encoded(error.as_bytes()),
    };
    Ok(Record::new(value, at.file, 1, 0))
}

/// The records of a file of JSON values, most often one a line. What is not one is a fault, and reading goes on with the next line.
pub struct Records {
    from: Option<Box<dyn BufRead>>,
    file: Arc<str>,
    line: u64,
    n: u64,
    buffer: Vec<u8>,
    ready: std::collections::VecDeque<Result<Record, (Location, What)>>,
}

impl Records {
    pub fn open(root: &Path, file: &Path) -> Self {
        let file_name = name(file);
        let mut records =
            Self { from: None, file: file_name, line: 0, n: 0, buffer: Vec::new(), ready: std::collections::VecDeque::new() };
        match open(root, file) {
            Ok(from) => records.from = Some(from),
            Err(error) => records.fail(What::Unreadable(error.to_string())),
        }
        records
    }

    fn fail(&mut self, what: What) {
        let line = (self.line > 0).then_some(self.line);
        self.ready.push_back(Err((Location { file: self.file.clone(), line }, what)));
    }

    fn read_line(&mut self) {
        let Some(from) = self.from.as_mut() else { return };
        self.buffer.clear();
        self.buffer.shrink_to(BUFFER);
        self.line += 1;
        match from.by_ref().take(LINE_MAX).read_until(b'\n', &mut self.buffer) {
            Ok(0) => self.from = None,
            Ok(_) if self.buffer.len() as u64 == LINE_MAX && !self.buffer.ends_with(b"\n") => self.skip_line(),
            Ok(_) => self.split(),
            Err(error) => {
                self.from = None;
                self.fail(What::Unreadable(error.to_string()));
            }
        }
    }

    fn skip_line(&mut self) {
        let mut bytes = LINE_MAX;
        self.buffer = Vec::new();
        while let Some(from) = self.from.as_mut() {
            let (read, done) = match from.fill_buf() {
                Ok(held) => match memchr::memchr(b'\n', held) {
                    Some(end) => (end + 1, true),
                    None => (held.len(), held.is_empty()),
                },
                Err(_) => (0, true),
            };
            from.consume(read);
            bytes += read as u64;
            if done {
                break;
            }
        }
        self.fail(What::LineTooLong { bytes });
    }

    fn split(&mut self) {
        let buffer = std::mem::take(&mut self.buffer);
        match std::str::from_utf8(&buffer) {
            Ok(text) => {
                let mut reader = Reader::new(text.strip_prefix('\u{feff}').unwrap_or(text));
                loop {
                    match reader.read() {
                        Ok(Some(value)) => {
                            let record = Record::new(value, self.file.clone(), self.line, self.n);
                            self.n += 1;
                            self.ready.push_back(Ok(record));
                        }
                        Ok(None) => break,
                        Err(malformed) => {
                            self.fail(What::Malformed(malformed));
                            break;
                        }
                    }
                }
            }
            Err(_) => self.fail(What::NotUtf8),
        }
        self.buffer = buffer;
    }
}

impl Iterator for Records {
    type Item = Result<Record, (Location, What)>;

    fn next(&mut self) -> Option<Self::Item> {
        while self.ready.is_empty() && self.from.is_some() {
            self.read_line();
        }
        self.ready.pop_front()
    }
}

impl std::fmt::Debug for Records {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Records").field("file", &self.file).field("line", &self.line).finish_non_exhaustive()
    }
}
