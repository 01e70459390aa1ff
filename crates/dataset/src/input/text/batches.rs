//! Turns lines into batches, and sets bad rows aside.

use std::{ops::Range, sync::Arc};

use arrow::{array::RecordBatch, compute::concat_batches};

use super::{
    Decode, TextFile, lines_in,
    records::{Scanner, Syntax},
};
use crate::{
    error::DatasetError,
    input::{BadRow, BadRows, DecodedBatch},
};

/// The batches of a unit whose bytes are in memory.
pub(super) struct LineBatches {
    file: Arc<TextFile>,
    decoder: Box<dyn Decode>,
    bytes: Vec<u8>,
    /// The position of the next byte, and its line.
    at: usize,
    line: u64,
}

/// The results of decoding some records.
#[derive(Default)]
struct Outcome {
    good: Vec<RecordBatch>,
    bad: Vec<BadRow>,
}

impl LineBatches {
    /// Returns the batches of `bytes`, which end with a line end, and begin with line `line`.
    pub(super) fn new(file: Arc<TextFile>, decoder: Box<dyn Decode>, line: u64, bytes: Vec<u8>) -> Self {
        Self { file, decoder, bytes, at: 0, line }
    }

    /// Returns the ends of the next records, at most a batch of them.
    fn next_records(&self) -> Vec<usize> {
        let mut scanner = Scanner::new(self.file.syntax);
        let mut ends = vec![];
        let mut at = self.at;
        while ends.len() < self.file.batch_rows {
            match scanner.end_of_record(&self.bytes[at..]) {
                Some(end) => at += end,
                // A quote or bracket is not closed before the end of the file, so everything after
                // it is one record.
                None if scanner.is_open() => at = self.bytes.len(),
                None => break,
            }
            ends.push(at);
            if at == self.bytes.len() {
                break;
            }
        }
        ends
    }

    /// Decodes records that end at `ends`, the first of which begins at `start`. If they do not all
    /// decode, the halves are tried. Each bad record costs at most O(records * log(records)).
    fn decode(&mut self, start: usize, ends: &[usize], outcome: &mut Outcome) -> Result<(), DatasetError> {
        let Some(&end) = ends.last() else { return Ok(()) };
        if let Ok(batch) = self.decoder.decode(&self.bytes[start..end], ends.len()) {
            outcome.good.push(batch);
            return Ok(());
        }
        if ends.len() == 1 {
            return self.set_aside(start..end, outcome);
        }
        let (left, right) = ends.split_at(ends.len() / 2);
        self.decode(start, left, outcome)?;
        self.decode(left[left.len() - 1], right, outcome)
    }

    fn set_aside(&self, record: Range<usize>, outcome: &mut Outcome) -> Result<(), DatasetError> {
        // Skips empty lines before the record, but not the beginning of its own line.
        let bytes = &self.bytes[record.clone()];
        let first = bytes.iter().position(|byte| !byte.is_ascii_whitespace()).unwrap_or(0);
        let blank = match self.file.syntax {
            Syntax::Array | Syntax::Csv { comment: Some(_), .. } => Scanner::new(self.file.syntax).blanks(bytes),
            _ => bytes[..first].iter().rposition(|byte| matches!(byte, b'\n' | b'\r')).map_or(0, |end| end + 1),
        };
        let line = self.line + lines_in(&self.bytes[self.at..record.start + blank]);
        let bytes = &bytes[blank..];
        let (column, reason) = self.diagnose(bytes);
        if self.file.on_bad_row == BadRows::Fail {
            return Err(DatasetError::BadRow { file: self.file.file.path.clone(), line, column, reason });
        }
        let text = bytes.strip_suffix(b"\n").unwrap_or(bytes);
        let text = text.strip_suffix(b"\r").unwrap_or(text);
        let reason = column.map_or(reason.clone(), |column| format!("column '{column}': {reason}"));
        let text = String::from_utf8_lossy(text).into_owned();
        outcome.bad.push(BadRow { file: self.file.file.path.clone(), line, text, reason });
        Ok(())
    }

    fn diagnose(&self, record: &[u8]) -> (Option<String>, String) {
        if let Syntax::Csv { .. } = self.file.syntax {
            let mut scanner = Scanner::new(self.file.syntax);
            if scanner.end_of_record(record).is_none() && scanner.is_open() {
                return (None, "a quote is not closed before the end of the file".to_owned());
            }
        }
        self.decoder.diagnose(record)
    }
}

impl Iterator for LineBatches {
    type Item = Result<DecodedBatch, DatasetError>;

    fn next(&mut self) -> Option<Self::Item> {
        let ends = self.next_records();
        let &end = ends.last()?;
        let mut outcome = Outcome::default();
        let Outcome { good, bad } = match self.decode(self.at, &ends, &mut outcome) {
            Ok(()) => outcome,
            Err(error) => return Some(Err(error)),
        };
        let batch = match &good[..] {
            [batch] => Ok(batch.clone()),
            batches => concat_batches(self.decoder.schema(), batches),
        };
        self.line += lines_in(&self.bytes[self.at..end]);
        let input_bytes = (end - self.at) as u64;
        self.at = end;
        Some(batch.map(|batch| DecodedBatch { batch, input_bytes, bad }).map_err(DatasetError::from))
    }
}
