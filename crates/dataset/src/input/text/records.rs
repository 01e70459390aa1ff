//! Where records end.

use memchr::{memchr, memchr3};

/// How records are told apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Syntax {
    /// A record a line; lines of nothing but white space are none.
    Lines,
    /// Separated values: a line end within quotes is part of a field. A quote that does not begin its field is like any
    /// other byte. Empty lines are no records.
    Csv {
        /// Between fields.
        delimiter: u8,
        /// Around fields.
        quote: u8,
    },
}

/// Finds the ends of records, front to back; bytes may come in pieces. For CSV it follows the states of the `csv-core`
/// crate, which decodes later.
#[derive(Clone, Debug)]
pub(super) struct Scanner {
    syntax: Syntax,
    state: State,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// Between records.
    Between,
    /// At the first byte of a field.
    FieldStart,
    /// Within a field, not in quotes.
    Field,
    Quoted,
    /// Behind a quote within quotes: the field's end, or the first of two that stand for one.
    QuoteSeen,
}

impl Scanner {
    /// At the start of a record.
    pub(super) fn new(syntax: Syntax) -> Self {
        Self { syntax, state: State::Between }
    }

    /// Whether the bytes seen so far end within quotes.
    pub(super) fn is_quoted(&self) -> bool {
        self.state == State::Quoted
    }

    /// Goes on with `bytes` up to the end of the current record: returns the place behind its line end, or nothing if it does
    /// not end here, all bytes being used then.
    pub(super) fn end_of_record(&mut self, bytes: &[u8]) -> Option<usize> {
        let mut at = 0;
        if self.state == State::Between {
            at = bytes.iter().position(|byte| !self.is_blank(*byte))?;
            self.state = State::FieldStart;
        }
        let end = match self.syntax {
            Syntax::Lines => memchr(b'\n', &bytes[at..]).map(|end| at + end + 1),
            Syntax::Csv { delimiter, quote } => self.end_of_csv(bytes, at, delimiter, quote),
        };
        if end.is_some() {
            self.state = State::Between;
        }
        end
    }

    fn end_of_csv(&mut self, bytes: &[u8], mut at: usize, delimiter: u8, quote: u8) -> Option<usize> {
        while at < bytes.len() {
            match self.state {
                State::FieldStart if bytes[at] == quote => {
                    self.state = State::Quoted;
                    at += 1;
                }
                State::Between | State::FieldStart => self.state = State::Field,
                State::Field => {
                    at += memchr3(delimiter, b'\n', b'\r', &bytes[at..])? + 1;
                    if bytes[at - 1] != delimiter {
                        return Some(at);
                    }
                    self.state = State::FieldStart;
                }
                State::Quoted => {
                    at += memchr(quote, &bytes[at..])? + 1;
                    self.state = State::QuoteSeen;
                }
                State::QuoteSeen if bytes[at] == quote => {
                    self.state = State::Quoted;
                    at += 1;
                }
                State::QuoteSeen => self.state = State::Field,
            }
        }
        None
    }

    /// Whether a byte between records belongs to none.
    fn is_blank(&self, byte: u8) -> bool {
        matches!(byte, b'\n' | b'\r') || (self.syntax == Syntax::Lines && matches!(byte, b' ' | b'\t'))
    }
}
