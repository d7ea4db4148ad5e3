//! A checksum of everything the index knows, which does not depend on how it is cut into segments: every word with every place where it is
//! said and how often, and every note of a session or thread.

use projector::Sums;
use tantivy::index::SegmentReader;
use tantivy::postings::Postings;
use tantivy::schema::{FieldType, IndexRecordOption, Value};
use tantivy::{DocSet, Searcher, TERMINATED, TantivyDocument};

use crate::error::IndexError;
use crate::schema::{Fields, Kind};
use crate::view::docs;

#[derive(Clone, Copy, Default)]
struct Sum {
    count: u64,
    digests: u128,
}

impl Sum {
    fn add(&mut self, what: &[&[u8]]) {
        let mut hasher = blake3::Hasher::new();
        for piece in what {
            hasher.update(&(piece.len() as u64).to_le_bytes()).update(piece);
        }
        let digest: [u8; 16] = *hasher.finalize().as_bytes().first_chunk().unwrap_or(&[0; 16]);
        self.count += 1;
        self.digests = self.digests.wrapping_add(u128::from_le_bytes(digest));
    }
}

pub(crate) fn of(searcher: &Searcher, fields: &Fields) -> Result<Sums, IndexError> {
    let (mut words, mut notes) = (Sum::default(), Sum::default());
    for segment in searcher.segment_readers() {
        add_words(&mut words, segment, fields)?;
        add_notes(&mut notes, segment, fields)?;
    }
    let told = |name: &str, sum: Sum| (name.to_owned(), format!("{} {:032x}", sum.count, sum.digests));
    Ok(Sums::from([told("words", words), told("notes", notes)]))
}

fn add_words(sum: &mut Sum, segment: &SegmentReader, fields: &Fields) -> Result<(), IndexError> {
    let streams = segment.fast_fields().u64("stream")?;
    let seqs = segment.fast_fields().u64("seq")?;
    let times = segment.fast_fields().i64("time")?;
    for (field, entry) in fields.schema.fields() {
        if !matches!(entry.field_type(), FieldType::Str(options) if options.get_indexing_options().is_some()) {
            continue;
        }
        let inverted = segment.inverted_index(field)?;
        let mut terms = inverted.terms().stream()?;
        while terms.advance() {
            let mut postings = inverted.read_postings_from_terminfo(terms.value(), IndexRecordOption::WithFreqs)?;
            while postings.doc() != TERMINATED {
                let doc = postings.doc();
                if !segment.is_deleted(doc) {
                    let place = [streams.first(doc).unwrap_or_default(), seqs.first(doc).map_or(0, |seq| seq + 1)];
                    let time = times.first(doc).unwrap_or_default();
                    let [stream, seq] = place.map(u64::to_le_bytes);
                    let often = postings.term_freq().to_le_bytes();
                    sum.add(&[entry.name().as_bytes(), terms.key(), &stream, &seq, &time.to_le_bytes(), &often]);
                }
                postings.advance();
            }
        }
    }
    Ok(())
}

fn add_notes(sum: &mut Sum, segment: &SegmentReader, fields: &Fields) -> Result<(), IndexError> {
    let inverted = segment.inverted_index(fields.scope)?;
    let store = segment.get_store_reader(4)?;
    let mut terms = inverted.terms().stream()?;
    while terms.advance() {
        let scope = String::from_utf8_lossy(terms.key()).into_owned();
        if ![Kind::Session, Kind::Thread].iter().any(|kind| scope.starts_with(kind.as_str())) {
            continue;
        }
        for doc in docs(segment, fields, &scope)? {
            let document: TantivyDocument = store.get(doc)?;
            let note = document.get_first(fields.stored).and_then(|value| value.as_str().map(str::to_owned)).unwrap_or_default();
            sum.add(&[scope.as_bytes(), note.as_bytes()]);
        }
    }
    Ok(())
}
