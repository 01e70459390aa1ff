//! Text files in other encodings than UTF-8.

use std::io::{self, ErrorKind, Read};

use encoding_rs::{Decoder, DecoderResult, Encoding, UTF_8, UTF_16BE, UTF_16LE};

use super::{InputOptions, paths::InputFile};
use crate::error::{DatasetError, DatasetOption};

/// Returns the encoding of a text file, unless it is UTF-8: the one of the options, or UTF-16 if the
/// file begins with its byte order mark.
pub(super) fn find(file: &InputFile, options: &InputOptions) -> Result<Option<&'static Encoding>, DatasetError> {
    if !file.format.is_text() {
        return Ok(None);
    }
    let encoding = match &options.encoding {
        Some(name) => Encoding::for_label(name.as_bytes()).ok_or_else(|| DatasetError::Config {
            option: DatasetOption::Encoding,
            value: format!("'{name}'"),
            remedy: "give a name such as utf-8, latin1, windows-1252, utf-16le or shift_jis".to_owned(),
        })?,
        None => {
            let mut first = [0; 2];
            let mut opened = file.open_text().map_err(DatasetError::io("open", &file.path))?;
            // A shorter file has no mark. If it cannot be read, reading its head says so.
            let _ = opened.read_exact(&mut first);
            match first {
                [0xff, 0xfe] => UTF_16LE,
                [0xfe, 0xff] => UTF_16BE,
                _ => UTF_8,
            }
        }
    };
    Ok((encoding != UTF_8).then_some(encoding))
}

/// The bytes that are decoded at a time.
const INPUT_BYTES: usize = 64 << 10;

/// Reads text in an encoding as UTF-8, without a byte order mark. Bytes that are invalid in
/// the encoding are an error.
pub(super) struct Utf8Reader<R> {
    reader: R,
    encoding: &'static Encoding,
    decoder: Decoder,
    input: Vec<u8>,
    /// The part of the input that has not been decoded.
    start: usize,
    end: usize,
    is_last: bool,
    output: Vec<u8>,
    /// The part of the output that has been read.
    read: usize,
}

impl<R: Read> Utf8Reader<R> {
    pub(super) fn new(reader: R, encoding: &'static Encoding) -> Self {
        let decoder = encoding.new_decoder_with_bom_removal();
        let (input, output) = (vec![0; INPUT_BYTES], vec![]);
        Self { reader, encoding, decoder, input, start: 0, end: 0, is_last: false, output, read: 0 }
    }

    /// Decodes more, unless the text has ended.
    fn fill(&mut self) -> io::Result<()> {
        self.output.clear();
        self.read = 0;
        while self.output.is_empty() && !(self.is_last && self.start == self.end) {
            if self.start == self.end {
                (self.start, self.end) = (0, self.reader.read(&mut self.input)?);
                self.is_last = self.end == 0;
            }
            self.output.resize(4 * INPUT_BYTES, 0);
            let input = &self.input[self.start..self.end];
            let decoded = self.decoder.decode_to_utf8_without_replacement(input, &mut self.output, self.is_last);
            let (result, used, written) = decoded;
            self.output.truncate(written);
            self.start += used;
            if let DecoderResult::Malformed(..) = result {
                let (name, option) = (self.encoding.name(), DatasetOption::Encoding);
                let reason = format!("it has bytes that are not {name}; name its encoding ({option})");
                return Err(io::Error::new(ErrorKind::InvalidData, reason));
            }
            if self.is_last {
                break;
            }
        }
        Ok(())
    }
}

impl<R: Read> Read for Utf8Reader<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if self.read == self.output.len() {
            self.fill()?;
        }
        let bytes = buffer.len().min(self.output.len() - self.read);
        buffer[..bytes].copy_from_slice(&self.output[self.read..self.read + bytes]);
        self.read += bytes;
        Ok(bytes)
    }
}
