//! The sample of a CSV file: its first line, and the types of the values below it.

use std::str;

use arrow::datatypes::DataType;

use super::{
    Body,
    dialect::Dialect,
    lines_in,
    sample::{self, CSV_HEAD, Head, windows},
};
use crate::{
    error::{DatasetError, DatasetOption},
    input::{
        CsvOptions,
        guess::{Guess, widen},
        names::number_duplicates,
        paths::InputFile,
        values::ValueSyntax,
    },
};

/// A CSV file of which parts have been read.
pub(super) struct SampledFile {
    pub(super) file: InputFile,
    pub(super) dialect: Dialect,
    pub(super) values: ValueSyntax,
    /// The first record's fields.
    pub(super) first: Vec<Vec<u8>>,
    /// The types of the records after the first.
    pub(super) rest: Types,
    /// The position of the first record and its length.
    start: u64,
    line: u64,
    first_bytes: u64,
    first_lines: u64,
}

impl SampledFile {
    pub(super) fn read(file: &InputFile, options: &CsvOptions, rows: usize) -> Result<Self, DatasetError> {
        let (mut dialect, values) = (Dialect::new(options, file)?, ValueSyntax::new(options));
        let mut head = Head::read(file, CSV_HEAD)?;
        let no_record = || {
            let reason = "its first record does not end within 1 MiB; is it CSV, and is every quote closed?";
            DatasetError::corrupt(&file.path, reason)
        };
        head.skip_lines(options.skip_lines).ok_or_else(no_record)?;
        if options.delimiter.is_none() {
            dialect.sniff(&head);
        }
        let mut records = head.records(dialect.syntax());
        let record = records.next().ok_or_else(no_record)?;
        let sampled: usize = records.take(rows).map(<[u8]>::len).sum();
        let first = dialect.fields(record);
        let mut rest = Types::new(first.len());
        rest.add(&dialect, &values, &head.bytes[record.len()..record.len() + sampled]);
        let seen = head.start + (record.len() + sampled) as u64;
        windows(file, rows, seen)?.iter().for_each(|window| rest.add_window(&dialect, &values, window));
        let (start, line) = (head.start, head.line);
        let (first_bytes, first_lines) = (record.len() as u64, lines_in(record));
        Ok(Self { file: file.clone(), dialect, values, first, rest, start, line, first_bytes, first_lines })
    }

    /// Returns whether the first line names the columns; `None` if the lines do not tell. It does if
    /// a column of numbers, dates or the like has another text there.
    pub(super) fn has_header(&self) -> Option<bool> {
        let first = Types::of_record(&self.first, &self.dialect, &self.values);
        let typed = |types: &Types| types.columns.iter().map(Guess::data_type).collect::<Vec<_>>();
        let is_typed = |of: &DataType| !matches!(of, DataType::Null | DataType::Utf8);
        let (first, rest) = (typed(&first), typed(&self.rest));
        if self.rest.records == 0 {
            return first.iter().any(is_typed).then_some(false);
        }
        let pairs = first.iter().zip(&rest).filter(|(first, rest)| is_typed(rest) && **first != DataType::Null);
        let mut fit = pairs.map(|(first, rest)| widen(rest, first) == *rest).peekable();
        fit.peek()?;
        Some(!fit.all(|fits| fits))
    }

    /// Returns whether each line ends with a delimiter that no column follows.
    pub(super) fn ends_with_delimiter(&self, has_header: bool) -> bool {
        let may_end = self.file.extension() == "tbl" || has_header && self.first.last().is_some_and(Vec::is_empty);
        let is_empty = |guess: &Guess| guess.data_type() == DataType::Null;
        may_end
            && self.dialect.delimiter == b'|'
            && self.first.len() > 1
            && self.first.last().is_some_and(Vec::is_empty)
            && self.rest.columns.last().is_some_and(is_empty)
    }

    /// Returns the names of the columns, which may be given.
    ///
    /// # Errors
    /// If they are not UTF-8, or not as many as columns.
    pub(super) fn names(&self, has_header: bool, given: &[String]) -> Result<Vec<String>, DatasetError> {
        let columns = self.first.len() - usize::from(self.ends_with_delimiter(has_header));
        if !given.is_empty() && given.len() != columns {
            return Err(DatasetError::corrupt(
                &self.file.path,
                format!(
                    "it has {columns} columns, and names are given for {}; give one for each ({})",
                    given.len(),
                    DatasetOption::Names
                ),
            ));
        }
        if !given.is_empty() {
            return Ok(number_duplicates(given.iter().cloned()));
        }
        if !has_header {
            return Ok((1..=self.first.len()).map(|column| format!("column_{column}")).collect());
        }
        let name = |field: &Vec<u8>| str::from_utf8(field).map(str::to_owned);
        let names = self.first.iter().map(name).collect::<Result<Vec<_>, _>>();
        let names = names.map_err(|_| {
            let reason = format!("its header is not UTF-8; name the file's encoding ({})", DatasetOption::Encoding);
            DatasetError::corrupt(&self.file.path, reason)
        })?;
        Ok(number_duplicates(names))
    }

    /// Returns the position of the rows.
    pub(super) fn body(&self, has_header: bool) -> Body {
        let (bytes, lines) = if has_header { (self.first_bytes, self.first_lines) } else { (0, 0) };
        Body { syntax: self.dialect.syntax(), start: self.start + bytes, line: self.line + lines }
    }
}

/// The types of columns by the records that have been seen.
pub(super) struct Types {
    pub(super) columns: Vec<Guess>,
    /// The number of records.
    records: usize,
}

impl Types {
    fn new(columns: usize) -> Self {
        Self { columns: vec![Guess::new(); columns], records: 0 }
    }

    /// Returns the types of a single record.
    pub(super) fn of_record(fields: &[Vec<u8>], dialect: &Dialect, values: &ValueSyntax) -> Self {
        let mut types = Self::new(fields.len());
        types.add_record(dialect, values, fields.iter().map(Vec::as_slice));
        types
    }

    pub(super) fn merge(&mut self, other: &Self) {
        self.columns.iter_mut().zip(&other.columns).for_each(|(known, found)| known.merge(found));
        self.records += other.records;
    }

    /// Takes the records that have as many fields as there are columns; others are bad rows.
    /// Returns whether all have.
    fn add(&mut self, dialect: &Dialect, values: &ValueSyntax, records: &[u8]) -> bool {
        let (mut reader, mut fields, mut all) = (dialect.reader(records), csv::ByteRecord::new(), true);
        while reader.read_byte_record(&mut fields).unwrap_or(false) {
            if fields.len() == self.columns.len() {
                self.add_record(dialect, values, fields.iter());
            } else {
                all = false;
            }
        }
        all
    }

    fn add_record<'a>(&mut self, dialect: &Dialect, values: &ValueSyntax, fields: impl Iterator<Item = &'a [u8]>) {
        for (known, field) in self.columns.iter_mut().zip(fields) {
            let text = String::from_utf8_lossy(field);
            if !known.is_certain() && !dialect.null.is_match(&text) {
                known.add(&text, values);
            }
        }
        self.records += 1;
    }

    /// Takes what is in `window`, which may begin within quotes: from the first of its lines behind
    /// which all records have as many fields as there are columns.
    fn add_window(&mut self, dialect: &Dialect, values: &ValueSyntax, window: &[u8]) {
        let starts = memchr::memchr_iter(b'\n', window).map(|end| end + 1);
        for start in [0].into_iter().chain(starts).take(STARTS) {
            let whole: usize = sample::records(&window[start..], dialect.syntax()).map(<[u8]>::len).sum();
            let mut types = Self::new(self.columns.len());
            if types.add(dialect, values, &window[start..start + whole]) {
                self.merge(&types);
                return;
            }
        }
    }
}

/// Lines of a window with which its records may begin.
const STARTS: usize = 8;
