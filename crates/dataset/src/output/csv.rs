//! Separated values, as all commands write them.

use std::io::{self, Write};

use arrow::{
    array::RecordBatch,
    datatypes::Schema,
    error::ArrowError,
    util::display::{ArrayFormatter, FormatOptions},
};

use super::offsets::with_whole_offsets;

/// A writer of separated values with a header. An empty text is written within quotes, and null as
/// nothing, so that they stay different. Only the null of a single column has quotes: readers skip
/// empty lines.
pub struct CsvWriter<W: Write> {
    sink: W,
    delimiter: u8,
    /// The bytes of a batch.
    bytes: Vec<u8>,
}

impl<W: Write> CsvWriter<W> {
    /// Begins a file with a header of the names in `schema`.
    ///
    /// # Errors
    /// If a column is nested: separated values cannot represent it. If the sink fails.
    pub fn new(sink: W, delimiter: u8, schema: &Schema) -> Result<Self, ArrowError> {
        if let Some(field) = schema.fields().iter().find(|field| field.data_type().is_nested()) {
            return Err(ArrowError::CsvError(format!(
                "cannot write column '{}' of type {} as separated values: use JSON, Parquet or Arrow, or select its \
                 parts",
                field.name(),
                field.data_type()
            )));
        }
        let mut writer = Self { sink, delimiter, bytes: Vec::new() };
        let names: Vec<&str> = schema.fields().iter().map(|field| field.name().as_str()).collect();
        writer.line(names.into_iter().map(Some));
        writer.flush_bytes()?;
        Ok(writer)
    }

    /// Writes a batch.
    ///
    /// # Errors
    /// If a value has no text, such as a date out of the calendar's range, or the sink fails. If the only
    /// column has an empty text, which would be read as null.
    pub fn write(&mut self, batch: &RecordBatch) -> Result<(), ArrowError> {
        let batch = &with_whole_offsets(batch)?;
        let options = FormatOptions::default().with_display_error(false);
        let columns = batch.columns().iter().map(|column| ArrayFormatter::try_new(column.as_ref(), &options));
        let columns: Vec<ArrayFormatter<'_>> = columns.collect::<Result<_, _>>()?;
        let nulls: Vec<_> = batch.columns().iter().map(|column| column.logical_nulls()).collect();
        let mut texts = vec![String::new(); columns.len()];
        for row in 0..batch.num_rows() {
            for (text, column) in texts.iter_mut().zip(&columns) {
                text.clear();
                column.value(row).write(text)?;
            }
            let is_null = |place: usize| nulls[place].as_ref().is_some_and(|nulls| nulls.is_null(row));
            if let [text] = &texts[..]
                && text.is_empty()
                && !is_null(0)
            {
                return Err(ArrowError::CsvError(format!(
                    "column '{}' has an empty text, which is null in a file of one column: write another column \
                     beside it, or use JSON, Parquet or Arrow",
                    batch.schema().field(0).name()
                )));
            }
            let fields = texts.iter().enumerate();
            self.line(fields.map(|(place, text)| (!is_null(place)).then_some(text.as_str())));
        }
        self.flush_bytes()?;
        Ok(())
    }

    /// Ends the file, and returns the sink.
    pub fn into_inner(self) -> W {
        self.sink
    }

    /// Returns the sink.
    pub fn sink(&self) -> &W {
        &self.sink
    }

    /// Adds a line to the bytes of the batch.
    fn line<'a>(&mut self, fields: impl ExactSizeIterator<Item = Option<&'a str>>) {
        let is_single = fields.len() == 1;
        for (place, field) in fields.enumerate() {
            if place > 0 {
                self.bytes.push(self.delimiter);
            }
            match field {
                None if is_single => self.bytes.extend_from_slice(b"\"\""),
                None => {}
                Some(text) if needs_quotes(text, self.delimiter) => {
                    self.bytes.push(b'"');
                    self.bytes.extend_from_slice(text.replace('"', "\"\"").as_bytes());
                    self.bytes.push(b'"');
                }
                Some(text) => self.bytes.extend_from_slice(text.as_bytes()),
            }
        }
        self.bytes.push(b'\n');
    }

    fn flush_bytes(&mut self) -> io::Result<()> {
        self.sink.write_all(&self.bytes)?;
        self.bytes.clear();
        Ok(())
    }
}

/// Returns whether a field would read as another text, or as null, without quotes.
fn needs_quotes(text: &str, delimiter: u8) -> bool {
    text.is_empty() || text.bytes().any(|byte| byte == delimiter || matches!(byte, b'"' | b'\n' | b'\r'))
}
