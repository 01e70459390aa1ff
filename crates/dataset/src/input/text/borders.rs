//! Finds the borders of a text file's units.

use std::{
    fs::File,
    io::{Read, Seek, SeekFrom},
};

use parking_lot::Mutex;

use super::{Body, lines_in, records::Scanner};
use crate::{error::DatasetError, input::paths::InputFile};

/// The bytes that are read at a time.
const CHUNK_BYTES: usize = 256 << 10;
/// A longer record is taken for an unclosed quote, since a record is held in memory.
pub(super) const MAX_RECORD_BYTES: u64 = 64 << 20;

/// Cuts a file into units of whole records: unit `i` begins with the first record that begins at or
/// after byte `i * unit_bytes` of the body.
///
/// Whether a line end is a record's end depends on all quotes before it. So one pass over the file
/// finds the borders in order, up to those that are asked for. It is far quicker than decoding, and
/// leaves the bytes in the operating system's cache for the decoder.
#[derive(Debug)]
pub(super) struct Borders {
    path: String,
    place: String,
    body: Body,
    size: u64,
    unit_bytes: u64,
    pass: Mutex<Pass>,
}

/// The state of the pass.
#[derive(Debug)]
struct Pass {
    found: Vec<Border>,
    file: Option<File>,
    scanner: Scanner,
    /// The next byte to scan, and its line.
    at: u64,
    line: u64,
    /// The beginning of the current record, or of one before it.
    record: Border,
}

#[derive(Clone, Copy, Debug)]
struct Border {
    offset: u64,
    line: u64,
}

/// The bytes of a unit, and their first line.
#[derive(Clone, Copy, Debug)]
pub(super) struct Range {
    pub(super) start: u64,
    pub(super) end: u64,
    pub(super) line: u64,
}

impl Borders {
    pub(super) fn new(file: &InputFile, body: Body, unit_bytes: usize) -> Self {
        let first = Border { offset: body.start, line: body.line };
        let scanner = Scanner::new(body.syntax);
        let pass = Pass { found: vec![first], file: None, scanner, at: body.start, line: body.line, record: first };
        let unit_bytes = unit_bytes.max(1) as u64;
        Self {
            path: file.path.clone(),
            place: file.place.clone(),
            body,
            size: file.bytes,
            unit_bytes,
            pass: Mutex::new(pass),
        }
    }

    /// Returns the number of units.
    pub(super) fn units(&self) -> usize {
        self.body_bytes().div_ceil(self.unit_bytes) as usize
    }

    /// Returns the approximate size of a unit in bytes: the distance of its borders if records were
    /// short.
    pub(super) fn bytes(&self, unit: usize) -> u64 {
        self.unit_bytes.min(self.body_bytes().saturating_sub(unit as u64 * self.unit_bytes))
    }

    /// Returns the range of a unit.
    pub(super) fn range(&self, unit: usize) -> Result<Range, DatasetError> {
        let pass = &mut *self.pass.lock();
        let Border { offset: start, line } = self.border(pass, unit)?;
        let end = if unit + 1 >= self.units() { self.size } else { self.border(pass, unit + 1)?.offset };
        if end - start > self.unit_bytes + MAX_RECORD_BYTES {
            return Err(self.too_long(line));
        }
        Ok(Range { start, end, line })
    }

    fn body_bytes(&self) -> u64 {
        self.size.saturating_sub(self.body.start)
    }

    fn border(&self, pass: &mut Pass, unit: usize) -> Result<Border, DatasetError> {
        while pass.found.len() <= unit {
            let border = self.next_border(pass)?;
            pass.found.push(border);
        }
        Ok(pass.found[unit])
    }

    /// Returns the first record that begins at or after the next multiple of the unit's size, or
    /// the end of the file.
    fn next_border(&self, pass: &mut Pass) -> Result<Border, DatasetError> {
        let wanted = self.body.start + pass.found.len() as u64 * self.unit_bytes;
        if pass.record.offset >= wanted {
            return Ok(pass.record);
        }
        let mut chunk = vec![0; CHUNK_BYTES.min(self.unit_bytes as usize)];
        loop {
            let bytes = self.fill(pass, &mut chunk)?;
            if bytes.is_empty() {
                pass.record = Border { offset: self.size, line: pass.line };
                pass.file = None;
                return Ok(pass.record);
            }
            let mut used = 0;
            while let Some(end) = pass.scanner.end_of_record(&bytes[used..]) {
                used += end;
                pass.record.offset = pass.at + used as u64;
                if pass.record.offset >= wanted {
                    pass.at = pass.record.offset;
                    pass.line += lines_in(&bytes[..used]);
                    pass.record.line = pass.line;
                    return Ok(pass.record);
                }
            }
            pass.record.line = pass.line + lines_in(&bytes[..used]);
            pass.line += lines_in(bytes);
            pass.at += bytes.len() as u64;
            if pass.at - pass.record.offset > MAX_RECORD_BYTES {
                return Err(self.too_long(pass.record.line));
            }
        }
    }

    /// Returns the next bytes of the file; none at its end.
    fn fill<'a>(&self, pass: &mut Pass, chunk: &'a mut [u8]) -> Result<&'a [u8], DatasetError> {
        let wanted = (chunk.len() as u64).min(self.size - pass.at) as usize;
        let chunk = &mut chunk[..wanted];
        let at = SeekFrom::Start(pass.at);
        let file = match &mut pass.file {
            Some(file) => file,
            None => pass.file.insert(File::open(&self.place).map_err(DatasetError::io("open", &self.path))?),
        };
        file.seek(at).and_then(|_| file.read_exact(chunk)).map_err(DatasetError::io("read", &self.path))?;
        Ok(chunk)
    }

    fn too_long(&self, line: u64) -> DatasetError {
        let limit = MAX_RECORD_BYTES >> 20;
        DatasetError::corrupt(
            &self.path,
            format!("the record that begins on line {line} is longer than {limit} MiB; is a quote not closed?"),
        )
    }
}
