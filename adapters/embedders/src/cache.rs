//! Vectors that were computed once: they are derived, but costly, and outlive what is built from them.
//!
//! One file for each model, `<model>.v1`, of records of one size: 16 bytes of the text's digest, the numbers as
//! 16-bit floats, 8 bytes of checksum. The checksum is over the name of the model too, so a record says by itself
//! whether it belongs here. Records are only ever added, under a lock on the file, at a multiple of their size.

use std::collections::HashMap;
use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use half::f16;
use parking_lot::Mutex;

const KEY: usize = 16;
const CHECKSUM: usize = 8;
const READ_TOGETHER: usize = 1024;

type Key = [u8; KEY];

#[derive(Debug, thiserror::Error)]
pub enum CacheError {
    #[error("{path} cannot be read or written", path = .path.display())]
    Inaccessible {
        path: PathBuf,
        #[source]
        source: io::Error,
    },
    #[error("a vector of {found} numbers among those of {expected}")]
    Dimensions { expected: usize, found: usize },
}

#[derive(Debug)]
pub struct VectorCache {
    path: PathBuf,
    file: File,
    dimensions: usize,
    seal: blake3::Hasher,
    index: Mutex<Index>,
}

#[derive(Debug, Default)]
struct Index {
    places: HashMap<Key, u64>,
    /// Records that were looked at.
    seen: u64,
    damaged: usize,
}

impl VectorCache {
    /// Reads nothing yet.
    pub fn open(directory: &Path, model: &str, dimensions: usize) -> Result<Self, CacheError> {
        let safe = |char: char| if char.is_ascii_alphanumeric() || "._-".contains(char) { char } else { '_' };
        let path = directory.join(format!("{}.v1", model.chars().map(safe).collect::<String>()));
        let open = || {
            std::fs::create_dir_all(directory)?;
            OpenOptions::new().read(true).write(true).create(true).truncate(false).open(&path)
        };
        let file = open().map_err(|source| CacheError::Inaccessible { path: path.clone(), source })?;
        let mut seal = blake3::Hasher::new();
        seal.update(&(dimensions as u64).to_le_bytes()).update(&(model.len() as u64).to_le_bytes()).update(model.as_bytes());
        Ok(Self { path, file, dimensions, seal, index: Mutex::default() })
    }

    pub fn get(&self, text: &str) -> Result<Option<Vec<f16>>, CacheError> {
        let key = key(text);
        let mut index = self.index.lock();
        if !index.places.contains_key(&key) {
            self.catch_up(&mut index).map_err(|source| self.inaccessible(source))?;
        }
        let Some(place) = index.places.get(&key).copied() else { return Ok(None) };
        let mut record = vec![0; self.size()];
        match self.file.read_exact_at(&mut record, place * self.size() as u64) {
            Err(error) if error.kind() != io::ErrorKind::UnexpectedEof => Err(self.inaccessible(error)),
            Ok(()) if self.is_sound(&record) && record.starts_with(&key) => Ok(Some(self.numbers(&record))),
            Ok(()) | Err(_) => {
                // Gone or damaged since it was indexed. It is computed again and added again.
                index.places.remove(&key);
                index.damaged += 1;
                tracing::warn!(path = %self.path.display(), place, "a damaged vector is passed over");
                Ok(None)
            }
        }
    }

    /// Whoever adds what is there already adds nothing.
    pub fn put(&self, vectors: &[(&str, &[f16])]) -> Result<(), CacheError> {
        if let Some((_, vector)) = vectors.iter().find(|(_, vector)| vector.len() != self.dimensions) {
            return Err(CacheError::Dimensions { expected: self.dimensions, found: vector.len() });
        }
        self.append(vectors).map_err(|source| self.inaccessible(source))
    }

    /// Records that were not looked at yet. Who asks for what was not seen reads them all.
    pub fn unread(&self) -> Result<u64, CacheError> {
        let there = self.file.metadata().map_err(|source| self.inaccessible(source))?.len() / self.size() as u64;
        Ok(there.saturating_sub(self.index.lock().seen))
    }

    pub fn len(&self) -> Result<usize, CacheError> {
        let mut index = self.index.lock();
        self.catch_up(&mut index).map_err(|source| self.inaccessible(source))?;
        Ok(index.places.len())
    }

    pub fn is_empty(&self) -> Result<bool, CacheError> {
        Ok(self.len()? == 0)
    }

    /// Records that were passed over since this was opened.
    pub fn damaged(&self) -> usize {
        self.index.lock().damaged
    }

    fn append(&self, vectors: &[(&str, &[f16])]) -> io::Result<()> {
        let mut index = self.index.lock();
        let _locked = Locked::exclusively(&self.file)?;
        self.read_on(&mut index)?;
        let mut records = Vec::new();
        let mut added = HashMap::new();
        for (text, vector) in vectors {
            let key = key(text);
            if !index.places.contains_key(&key) && !added.contains_key(&key) {
                added.insert(key, index.seen + added.len() as u64);
                self.write(key, vector, &mut records);
            }
        }
        let end = index.seen * self.size() as u64;
        // Half a record is left where a process was killed while it wrote.
        self.file.set_len(end)?;
        self.file.write_all_at(&records, end)?;
        index.seen += added.len() as u64;
        index.places.extend(added);
        Ok(())
    }

    fn catch_up(&self, index: &mut Index) -> io::Result<()> {
        if self.file.metadata()?.len() / self.size() as u64 == index.seen {
            return Ok(());
        }
        let _locked = Locked::shared(&self.file)?;
        self.read_on(index)
    }

    /// Takes in what was added since, by whomever.
    fn read_on(&self, index: &mut Index) -> io::Result<()> {
        let size = self.size();
        let whole = self.file.metadata()?.len() / size as u64;
        if whole < index.seen {
            *index = Index { damaged: index.damaged, ..Index::default() };
        }
        let damaged_before = index.damaged;
        let mut records = Vec::new();
        while index.seen < whole {
            let count = (whole - index.seen).min(READ_TOGETHER as u64) as usize;
            records.resize(count * size, 0);
            self.file.read_exact_at(&mut records, index.seen * size as u64)?;
            for record in records.chunks_exact(size) {
                match record.first_chunk() {
                    Some(key) if self.is_sound(record) => _ = index.places.insert(*key, index.seen),
                    Some(_) | None => index.damaged += 1,
                }
                index.seen += 1;
            }
        }
        if index.damaged > damaged_before {
            let damaged = index.damaged - damaged_before;
            tracing::warn!(path = %self.path.display(), damaged, "damaged vectors are passed over");
        }
        Ok(())
    }

    fn write(&self, key: Key, vector: &[f16], records: &mut Vec<u8>) {
        let start = records.len();
        records.extend_from_slice(&key);
        records.extend(vector.iter().flat_map(|number| number.to_le_bytes()));
        let checksum = self.checksum(&records[start..]);
        records.extend_from_slice(&checksum);
    }

    fn numbers(&self, record: &[u8]) -> Vec<f16> {
        record[KEY..record.len() - CHECKSUM].as_chunks().0.iter().map(|bytes| f16::from_le_bytes(*bytes)).collect()
    }

    fn is_sound(&self, record: &[u8]) -> bool {
        let (body, checksum) = record.split_at(record.len() - CHECKSUM);
        self.checksum(body) == checksum
    }

    fn checksum(&self, body: &[u8]) -> [u8; CHECKSUM] {
        *self.seal.clone().update(body).finalize().as_bytes().first_chunk().expect("a digest is longer")
    }

    fn size(&self) -> usize {
        KEY + self.dimensions * size_of::<f16>() + CHECKSUM
    }

    fn inaccessible(&self, source: io::Error) -> CacheError {
        CacheError::Inaccessible { path: self.path.clone(), source }
    }
}

fn key(text: &str) -> Key {
    *blake3::hash(text.as_bytes()).as_bytes().first_chunk().expect("a digest is longer")
}

struct Locked<'a>(&'a File);

impl<'a> Locked<'a> {
    fn exclusively(file: &'a File) -> io::Result<Self> {
        file.lock()?;
        Ok(Self(file))
    }

    fn shared(file: &'a File) -> io::Result<Self> {
        file.lock_shared()?;
        Ok(Self(file))
    }
}

impl Drop for Locked<'_> {
    fn drop(&mut self) {
        // Closing the file would do it too.
        _ = self.0.unlock();
    }
}
