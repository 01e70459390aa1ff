//! Text that is compressed as a whole or is not UTF-8, which is read front to back.

use std::{
    io::{self, Read},
    mem,
    sync::Arc,
};

use arrow::datatypes::SchemaRef;

use super::{Body, TextFile, batches::LineBatches, borders::MAX_RECORD_BYTES, lines_in, records::Scanner};
use crate::{
    error::DatasetError,
    input::{
        schema::project,
        unit::{Batches, DecodedBatch, Part},
    },
};

/// A whole file.
pub(super) struct Stream {
    file: Arc<TextFile>,
    body: Body,
    /// The bytes of text that are read at a time.
    piece_bytes: u64,
}

impl Stream {
    pub(super) fn new(file: Arc<TextFile>, body: Body, piece_bytes: usize) -> Self {
        Self { file, body, piece_bytes: piece_bytes.max(1) as u64 }
    }
}

impl Part for Stream {
    fn path(&self) -> &str {
        &self.file.file.path
    }

    fn bytes(&self) -> u64 {
        self.file.file.bytes
    }

    fn read(&self, columns: Option<&[usize]>) -> Result<Batches, DatasetError> {
        let path = &self.file.file.path;
        let mut reader = self.file.file.open_text().map_err(DatasetError::io("open", path))?;
        let skipped = io::copy(&mut (&mut reader).take(self.body.start), &mut io::sink());
        skipped.map_err(|error| DatasetError::corrupt(path, error))?;
        Ok(Box::new(Pieces {
            schema: project(&self.file.schema, columns)?,
            file: Arc::clone(&self.file),
            reader,
            piece_bytes: self.piece_bytes,
            scanner: Scanner::new(self.body.syntax),
            begun: vec![],
            line: self.body.line,
            batches: None,
            input_bytes: self.file.file.bytes,
        }))
    }
}

/// The batches of a stream, which is read piece by piece.
struct Pieces {
    file: Arc<TextFile>,
    schema: SchemaRef,
    reader: Box<dyn Read + Send>,
    piece_bytes: u64,
    /// The scanner's position is after `begun`.
    scanner: Scanner,
    /// A record whose end has not been read, and its line.
    begun: Vec<u8>,
    line: u64,
    batches: Option<LineBatches>,
    /// The bytes of the file that have not been reported.
    input_bytes: u64,
}

impl Pieces {
    /// Returns the next whole records, and their first line.
    fn next_piece(&mut self) -> Result<Option<(u64, Vec<u8>)>, DatasetError> {
        let path = &self.file.file.path;
        let mut bytes = mem::take(&mut self.begun);
        loop {
            let mut at = bytes.len();
            let read = (&mut self.reader).take(self.piece_bytes).read_to_end(&mut bytes);
            if read.map_err(|error| DatasetError::corrupt(path, error))? == 0 {
                if bytes.last().is_some_and(|last| *last != b'\n') {
                    bytes.push(b'\n');
                }
                return Ok((!bytes.is_empty()).then_some((self.line, bytes)));
            }
            let mut ended = None;
            while let Some(end) = self.scanner.end_of_record(&bytes[at..]) {
                at += end;
                ended = Some(at);
            }
            if let Some(end) = ended {
                self.begun = bytes.split_off(end);
                let line = self.line;
                self.line += lines_in(&bytes);
                return Ok(Some((line, bytes)));
            }
            if bytes.len() as u64 > MAX_RECORD_BYTES {
                let reason =
                    format!("the record that begins on line {} is too long; is a quote not closed?", self.line);
                return Err(DatasetError::corrupt(path, reason));
            }
        }
    }

    fn next_batch(&mut self) -> Result<Option<DecodedBatch>, DatasetError> {
        loop {
            if let Some(decoded) = self.batches.as_mut().and_then(Iterator::next) {
                // How much of the file has been decompressed is not known.
                let input_bytes = mem::take(&mut self.input_bytes);
                return Ok(Some(DecodedBatch { input_bytes, ..decoded? }));
            }
            let Some((line, bytes)) = self.next_piece()? else { return Ok(None) };
            let decoder = self.file.format.decoder(Arc::clone(&self.schema), self.file.batch_rows)?;
            self.batches = Some(LineBatches::new(Arc::clone(&self.file), decoder, line, bytes));
        }
    }
}

impl Iterator for Pieces {
    type Item = Result<DecodedBatch, DatasetError>;

    fn next(&mut self) -> Option<Self::Item> {
        self.next_batch().transpose()
    }
}
