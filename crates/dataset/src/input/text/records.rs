//! Finds the ends of records.

use memchr::{memchr, memchr2, memchr3};

/// The separator of records.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Syntax {
    /// A record per line. Lines of only white space are not records.
    Lines,
    /// The values of one JSON array. Its brackets and the commas between the values are not part of
    /// a record.
    Array,
    /// Separated values: a line end within quotes is part of a field. A quote that does not begin
    /// its field is like any other byte. Empty lines are not records.
    Csv {
        /// The byte between fields.
        delimiter: u8,
        /// The byte around fields.
        quote: u8,
        /// The byte before one that stands for itself, within quotes.
        escape: Option<u8>,
        /// The first byte of lines that are not records.
        comment: Option<u8>,
    },
}

/// Finds the ends of records, front to back. Bytes may come in pieces. For CSV, it follows the
/// states of the `csv-core` crate, which decodes the records later.
#[derive(Clone, Debug)]
pub(super) struct Scanner {
    syntax: Syntax,
    state: State,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// Between records.
    Between,
    /// Within a line that is not a record.
    Comment,
    /// At the first byte of a field.
    FieldStart,
    /// Within a field, not in quotes.
    Field,
    Quoted,
    /// After an escape within quotes.
    QuotedEscape,
    /// After a quote within quotes: the field's end, or the first of two that stand for one.
    QuoteSeen,
    /// Within a value of an array, with the number of open brackets of its own.
    Value(u32),
    /// Within a text in a value, or after a backslash in it.
    Text(u32),
    Escape(u32),
}

impl Scanner {
    /// Returns a scanner at the start of a record.
    pub(super) fn new(syntax: Syntax) -> Self {
        Self { syntax, state: State::Between }
    }

    /// Returns whether the bytes scanned end within quotes, or within a value of an array.
    pub(super) fn is_open(&self) -> bool {
        matches!(self.state, State::Quoted | State::QuotedEscape | State::Value(_) | State::Text(_) | State::Escape(_))
    }

    /// Returns the number of bytes at the beginning of `bytes` that are not part of a record.
    /// `bytes` must begin between records.
    pub(super) fn blanks(&self, bytes: &[u8]) -> usize {
        let mut at = 0;
        loop {
            at += bytes[at..].iter().position(|byte| !self.is_blank(*byte)).unwrap_or(bytes.len() - at);
            match bytes.get(at) {
                Some(first) if self.is_comment(*first) => {
                    at += memchr(b'\n', &bytes[at..]).unwrap_or(bytes.len() - at);
                }
                _ => return at,
            }
        }
    }

    /// Continues with `bytes` up to the end of the current record. Returns the position after its
    /// line end. Returns `None` if the record does not end in `bytes`, which are then all used.
    pub(super) fn end_of_record(&mut self, bytes: &[u8]) -> Option<usize> {
        let mut at = 0;
        while matches!(self.state, State::Between | State::Comment) {
            if self.state == State::Comment {
                at += memchr(b'\n', &bytes[at..])?;
                self.state = State::Between;
            }
            at += bytes[at..].iter().position(|byte| !self.is_blank(*byte))?;
            self.state = if self.is_comment(bytes[at]) { State::Comment } else { State::FieldStart };
        }
        let end = match self.syntax {
            Syntax::Lines => memchr(b'\n', &bytes[at..]).map(|end| at + end + 1),
            Syntax::Array => self.end_of_value(bytes, at),
            Syntax::Csv { delimiter, quote, escape, .. } => self.end_of_csv(bytes, at, [delimiter, quote], escape),
        };
        if end.is_some() {
            self.state = State::Between;
        }
        end
    }

    fn end_of_csv(
        &mut self,
        bytes: &[u8],
        mut at: usize,
        [delimiter, quote]: [u8; 2],
        escape: Option<u8>,
    ) -> Option<usize> {
        while at < bytes.len() {
            match self.state {
                State::FieldStart if bytes[at] == quote => {
                    self.state = State::Quoted;
                    at += 1;
                }
                State::Between | State::Comment | State::FieldStart => self.state = State::Field,
                State::Field => {
                    at += memchr3(delimiter, b'\n', b'\r', &bytes[at..])? + 1;
                    if bytes[at - 1] != delimiter {
                        return Some(at);
                    }
                    self.state = State::FieldStart;
                }
                State::Quoted => {
                    at += memchr2(quote, escape.unwrap_or(quote), &bytes[at..])? + 1;
                    self.state = if bytes[at - 1] == quote { State::QuoteSeen } else { State::QuotedEscape };
                }
                State::QuotedEscape => {
                    at += 1;
                    self.state = State::Quoted;
                }
                State::QuoteSeen if bytes[at] == quote => {
                    self.state = State::Quoted;
                    at += 1;
                }
                State::QuoteSeen => self.state = State::Field,
                State::Value(_) | State::Text(_) | State::Escape(_) => return None,
            }
        }
        None
    }

    /// Returns the end of an object. A value that is not an object ends with the comma or bracket
    /// after it.
    fn end_of_value(&mut self, bytes: &[u8], mut at: usize) -> Option<usize> {
        while at < bytes.len() {
            match self.state {
                State::Value(depth) => {
                    at += 1;
                    self.state = match (bytes[at - 1], depth) {
                        (b'}' | b']', 0 | 1) | (b',', 0) => return Some(at),
                        (b'}' | b']', _) => State::Value(depth - 1),
                        (b'{' | b'[', _) => State::Value(depth + 1),
                        (b'"', _) => State::Text(depth),
                        _ => self.state,
                    };
                }
                State::Text(depth) => {
                    at += memchr2(b'"', b'\\', &bytes[at..])? + 1;
                    self.state = if bytes[at - 1] == b'"' { State::Value(depth) } else { State::Escape(depth) };
                }
                State::Escape(depth) => {
                    at += 1;
                    self.state = State::Text(depth);
                }
                _ => self.state = State::Value(0),
            }
        }
        None
    }

    /// Returns whether a record that begins with this byte is none.
    fn is_comment(&self, first: u8) -> bool {
        matches!(self.syntax, Syntax::Csv { comment: Some(comment), .. } if comment == first)
    }

    /// Returns whether a byte between records is not part of a record.
    fn is_blank(&self, byte: u8) -> bool {
        match self.syntax {
            Syntax::Lines => matches!(byte, b'\n' | b'\r' | b' ' | b'\t'),
            Syntax::Array => matches!(byte, b'\n' | b'\r' | b' ' | b'\t' | b'[' | b',' | b']'),
            Syntax::Csv { .. } => matches!(byte, b'\n' | b'\r'),
        }
    }
}
