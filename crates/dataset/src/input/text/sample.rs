//! The parts of a text file that its columns are inferred from: its beginning, and windows of the
//! rest.

use std::{io::Read, iter};

use super::{
    borders::Range,
    read_range,
    records::{Scanner, Syntax},
};
use crate::{
    error::DatasetError,
    input::{InputOptions, paths::InputFile},
};

/// The bytes at the beginning of each file of separated values that are read.
pub(super) const CSV_HEAD: u64 = 1 << 20;
/// The same of a JSON file. A key that is not there is a mistake later, and an array has no windows.
const JSON_HEAD: u64 = 16 << 20;
/// The most windows of the rest that are read.
const MOST_WINDOWS: usize = 16;
/// There is one window for this many lines of the head.
const WINDOW_ROWS: usize = 4096;
/// The size of a window.
const WINDOW_BYTES: u64 = 64 << 10;
/// If there are more files than this, less of each is read.
const FULL_INFER_FILES: usize = 16;

/// Returns the number of lines that types are inferred from in each of `files` files. It is lower
/// if there are many files.
pub(super) fn infer_rows(options: &InputOptions, files: usize) -> usize {
    (options.infer_rows * FULL_INFER_FILES / files.max(FULL_INFER_FILES)).max(1)
}

/// Returns the bytes at the beginning of each of `files` JSON files that are read. They are fewer if
/// there are many files.
pub(super) fn json_head(files: usize) -> u64 {
    JSON_HEAD * FULL_INFER_FILES as u64 / files.max(FULL_INFER_FILES) as u64
}

/// The beginning of a file.
pub(super) struct Head {
    pub(super) bytes: Vec<u8>,
    /// The number of bytes before them: a byte order mark, and lines that are not read.
    pub(super) start: u64,
    /// The line with which they begin, from 1.
    pub(super) line: u64,
}

impl Head {
    /// Reads at most the first `most` bytes.
    pub(super) fn read(file: &InputFile, most: u64) -> Result<Self, DatasetError> {
        let mut bytes = vec![];
        if file.is_stream() {
            let reader = file.open_text().map_err(DatasetError::io("open", &file.path))?;
            let read = reader.take(most).read_to_end(&mut bytes);
            read.map_err(|error| DatasetError::corrupt(&file.path, error))?;
        } else {
            bytes = read_range(file, &Range { start: 0, end: file.bytes.min(most), line: 1 })?;
        }
        let is_whole = if file.is_stream() { (bytes.len() as u64) < most } else { file.bytes <= most };
        if is_whole {
            bytes.push(b'\n');
        }
        let mark = if bytes.starts_with(b"\xef\xbb\xbf") { 3 } else { 0 };
        bytes.drain(..mark);
        Ok(Self { bytes, start: mark as u64, line: 1 })
    }

    /// Leaves out lines at the beginning. Returns `None` if there are fewer.
    pub(super) fn skip_lines(&mut self, lines: usize) -> Option<()> {
        let Some(last) = lines.checked_sub(1) else { return Some(()) };
        let end = memchr::memchr_iter(b'\n', &self.bytes).nth(last)? + 1;
        self.bytes.drain(..end);
        self.start += end as u64;
        self.line += lines as u64;
        Some(())
    }

    /// Returns the whole records in the head, with their line ends.
    pub(super) fn records(&self, syntax: Syntax) -> impl Iterator<Item = &[u8]> {
        records(&self.bytes, syntax)
    }
}

/// Returns the whole records of `bytes`, with their line ends.
pub(super) fn records(bytes: &[u8], syntax: Syntax) -> impl Iterator<Item = &[u8]> {
    let (mut scanner, mut rest) = (Scanner::new(syntax), bytes);
    iter::from_fn(move || {
        let (record, others) = rest.split_at(scanner.end_of_record(rest)?);
        rest = others;
        Some(record)
    })
}

/// Returns windows of the bytes after the first `seen` ones, spread evenly up to the end. `rows` is
/// the number of lines that may be read. Each window begins after a line end, which may be one
/// within quotes. A compressed file, or one that is not UTF-8, has none: nothing of it can be skipped.
pub(super) fn windows(file: &InputFile, rows: usize, seen: u64) -> Result<Vec<Vec<u8>>, DatasetError> {
    let count = (rows / WINDOW_ROWS).min(MOST_WINDOWS) as u64;
    if file.is_stream() || file.bytes <= seen {
        return Ok(vec![]);
    }
    let window = |number: u64| {
        let end_of = |windows: u64| seen + ((file.bytes - seen) as u128 * windows as u128 / count as u128) as u64;
        let end = end_of(number + 1);
        let start = end.saturating_sub(WINDOW_BYTES).max(end_of(number).saturating_sub(1));
        let mut bytes = read_range(file, &Range { start, end, line: 1 })?;
        let first = memchr::memchr(b'\n', &bytes).map_or(bytes.len(), |end| end + 1);
        bytes.drain(..first);
        if end == file.bytes {
            bytes.push(b'\n');
        }
        Ok(bytes)
    };
    (0..count).map(window).collect()
}
