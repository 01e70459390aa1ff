//! The syntax of separated values: delimiter, quotes, and the text for null.

use arrow::csv::reader::Format;
use regex::Regex;

use super::{records::Syntax, sample::Head};
use crate::{
    error::{DatasetError, DatasetOption},
    input::{CsvOptions, paths::InputFile},
};

/// The syntax of a file.
#[derive(Clone, Debug)]
pub(super) struct Dialect {
    pub(super) delimiter: u8,
    pub(super) quote: u8,
    pub(super) escape: Option<u8>,
    pub(super) comment: Option<u8>,
    pub(super) null: Regex,
}

impl Dialect {
    pub(super) fn new(options: &CsvOptions, file: &InputFile) -> Result<Self, DatasetError> {
        let delimiter = options.delimiter.unwrap_or(match file.extension().as_str() {
            "tsv" => b'\t',
            "tbl" => b'|',
            _ if options.decimal_comma => b';',
            _ => b',',
        });
        let quote = options.quote.byte();
        let special: Vec<u8> = [delimiter, quote].into_iter().chain(options.comment).collect();
        let is_twice = (1..special.len()).any(|place| special[..place].contains(&special[place]));
        if is_twice || special.iter().any(|byte| matches!(byte, b'\n' | b'\r')) {
            return Err(DatasetError::Config {
                option: DatasetOption::Delimiter,
                value: format!("'{}' with quote '{}'", delimiter.escape_ascii(), quote.escape_ascii()),
                remedy: "choose different characters for delimiter, quote and comment, and no line end".to_owned(),
            });
        }
        let nulls = options.nulls.iter().map(|null| regex::escape(null)).collect::<Vec<_>>().join("|");
        let null = Regex::new(&format!("^(?:{nulls})?$")).map_err(|error| DatasetError::Config {
            option: DatasetOption::Null,
            value: options.nulls.join(", "),
            remedy: format!("choose shorter texts: {error}"),
        })?;
        Ok(Self { delimiter, quote, escape: options.escape, comment: options.comment, null })
    }

    /// Switches to another delimiter if this one finds a single name in the first line. The other
    /// one must divide each of the first lines into the same number of fields.
    pub(super) fn sniff(&mut self, head: &Head) {
        let first = |dialect: &Self| head.records(dialect.syntax()).next().map(|record| dialect.fields(record).len());
        let columns = |dialect: &Self| {
            let mut counts =
                head.records(dialect.syntax()).take(SNIFFED_LINES).map(|record| dialect.fields(record).len());
            let first = counts.next()?;
            counts.all(|count| count == first).then_some(first)
        };
        if first(self) != Some(1) {
            return;
        }
        let others =
            [b';', b'\t', b'|', b','].into_iter().filter(|other| ![self.delimiter, self.quote].contains(other));
        let others = others.filter(|other| Some(*other) != self.comment);
        let others = others.map(|delimiter| Self { delimiter, ..self.clone() });
        let counted = others.filter_map(|dialect| Some((columns(&dialect).filter(|count| *count > 1)?, dialect)));
        if let Some((_, dialect)) = counted.max_by_key(|(count, _)| *count) {
            *self = dialect;
        }
    }

    pub(super) fn syntax(&self) -> Syntax {
        Syntax::Csv { delimiter: self.delimiter, quote: self.quote, escape: self.escape, comment: self.comment }
    }

    pub(super) fn format(&self) -> Format {
        let mut format = Format::default().with_delimiter(self.delimiter).with_quote(self.quote);
        if let Some(escape) = self.escape {
            format = format.with_escape(escape);
        }
        if let Some(comment) = self.comment {
            format = format.with_comment(comment);
        }
        format.with_null_regex(self.null.clone())
    }

    /// Returns the fields of one record.
    pub(super) fn fields(&self, record: &[u8]) -> Vec<Vec<u8>> {
        self.record(record).iter().map(<[u8]>::to_vec).collect()
    }

    fn record(&self, record: &[u8]) -> csv::ByteRecord {
        let mut fields = csv::ByteRecord::new();
        // Reading any number of fields from memory does not fail.
        let _ = self.reader(record).read_byte_record(&mut fields);
        fields
    }

    pub(super) fn reader<'a>(&self, records: &'a [u8]) -> csv::Reader<&'a [u8]> {
        let mut reader = csv::ReaderBuilder::new();
        reader.has_headers(false).flexible(true).delimiter(self.delimiter).quote(self.quote);
        reader.escape(self.escape).comment(self.comment).from_reader(records)
    }
}

/// The number of lines that a delimiter is inferred from.
const SNIFFED_LINES: usize = 100;
