//! Walks over JSON without decoding it.

use std::borrow::Cow;

use memchr::memchr2;

/// A position in JSON values. It trusts nothing: any bytes give values or [`SyntaxError`].
pub(super) struct Cursor<'a> {
    bytes: &'a [u8],
    pub(super) at: usize,
}

/// Bytes that are not JSON.
#[derive(Debug)]
pub(super) struct SyntaxError;

/// The kind of a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Null,
    Bool,
    Number,
    Text,
    List,
    Object,
}

impl<'a> Cursor<'a> {
    pub(super) fn new(bytes: &'a [u8]) -> Self {
        Self { bytes, at: 0 }
    }

    /// Returns the kind of the next value; `None` at the end.
    pub(super) fn kind(&mut self) -> Result<Option<Kind>, SyntaxError> {
        Ok(Some(match self.peek() {
            None => return Ok(None),
            Some(b'{') => Kind::Object,
            Some(b'[') => Kind::List,
            Some(b'"') => Kind::Text,
            Some(b'-' | b'0'..=b'9') => Kind::Number,
            Some(b't' | b'f') => Kind::Bool,
            Some(b'n') => Kind::Null,
            Some(_) => return Err(SyntaxError),
        }))
    }

    /// Passes over the next value and returns its bytes.
    pub(super) fn skip(&mut self) -> Result<&'a [u8], SyntaxError> {
        let kind = self.kind()?.ok_or(SyntaxError)?;
        let start = self.at;
        match kind {
            Kind::Text => self.skip_text()?,
            Kind::Object | Kind::List => {
                let mut depth = 0_usize;
                loop {
                    match *self.bytes.get(self.at).ok_or(SyntaxError)? {
                        b'"' => {
                            self.skip_text()?;
                            continue;
                        }
                        b'{' | b'[' => depth += 1,
                        b'}' | b']' => depth -= 1,
                        _ => {}
                    }
                    self.at += 1;
                    if depth == 0 {
                        break;
                    }
                }
            }
            Kind::Null | Kind::Bool | Kind::Number => {
                let is_end = |byte: &u8| byte.is_ascii_whitespace() || matches!(byte, b',' | b'}' | b']' | b':');
                let rest = &self.bytes[start..];
                self.at += rest.iter().position(is_end).unwrap_or(rest.len());
            }
        }
        Ok(&self.bytes[start..self.at])
    }

    /// Returns the next text.
    pub(super) fn text(&mut self) -> Result<Cow<'a, str>, SyntaxError> {
        let raw = self.skip()?;
        let inner = raw.strip_prefix(b"\"").and_then(|raw| raw.strip_suffix(b"\"")).ok_or(SyntaxError)?;
        if memchr::memchr(b'\\', inner).is_none() {
            return std::str::from_utf8(inner).map(Cow::Borrowed).map_err(|_| SyntaxError);
        }
        serde_json::from_slice::<String>(raw).map(Cow::Owned).map_err(|_| SyntaxError)
    }

    /// Enters the object or list that is next.
    pub(super) fn enter(&mut self) {
        self.at += 1;
    }

    /// Returns the next key of the object that was entered, whose value is next then. `is_first` is
    /// true before the first one. Returns `None` behind the object.
    pub(super) fn next_key(&mut self, is_first: &mut bool) -> Result<Option<Cow<'a, str>>, SyntaxError> {
        if !self.has_next(b'}', is_first)? {
            return Ok(None);
        }
        if self.peek() != Some(b'"') {
            return Err(SyntaxError);
        }
        let key = self.text()?;
        if self.peek() != Some(b':') {
            return Err(SyntaxError);
        }
        self.at += 1;
        Ok(Some(key))
    }

    /// Returns whether the list that was entered has another item, which is next then.
    pub(super) fn next_item(&mut self, is_first: &mut bool) -> Result<bool, SyntaxError> {
        self.has_next(b']', is_first)
    }

    fn has_next(&mut self, end: u8, is_first: &mut bool) -> Result<bool, SyntaxError> {
        let found = self.peek().ok_or(SyntaxError)?;
        if found == end {
            self.at += 1;
            return Ok(false);
        }
        if !std::mem::take(is_first) {
            if found != b',' {
                return Err(SyntaxError);
            }
            self.at += 1;
        }
        Ok(true)
    }

    fn skip_text(&mut self) -> Result<(), SyntaxError> {
        self.at += 1;
        loop {
            let rest = self.bytes.get(self.at..).ok_or(SyntaxError)?;
            let end = memchr2(b'"', b'\\', rest).ok_or(SyntaxError)?;
            self.at += end + 1;
            if rest[end] == b'"' {
                return Ok(());
            }
            self.at += 1;
        }
    }

    /// Passes over blanks and returns the byte behind them.
    fn peek(&mut self) -> Option<u8> {
        while self.bytes.get(self.at)?.is_ascii_whitespace() {
            self.at += 1;
        }
        Some(self.bytes[self.at])
    }
}
