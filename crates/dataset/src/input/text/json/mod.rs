//! JSON: one object per line, or all in an array.
//!
//! ```text
//! sample -> shape.rs: what the values show -> rules.rs: how each place is read
//! records -> cursor.rs, rules.rs: each value has its type -> Arrow's decoder
//! ```
//! Arrow's decoder alone would take texts for numbers, and leave out keys that it does not know.

mod cursor;
mod rules;
mod shape;

use std::{borrow::Cow, ops::Range as Bytes, sync::Arc};

use arrow::{
    array::RecordBatch,
    datatypes::{DataType, Field, Schema, SchemaRef},
    error::ArrowError,
    json::{ReaderBuilder, reader::Decoder},
};
use memchr::memmem;

use super::{
    Body, Decode, Head, MakeDecode, Range, TextFile, infer_rows, read_range,
    records::{Scanner, Syntax},
    sample::{json_head, records},
    windows,
};
use crate::{
    error::DatasetError,
    exact::{as_texts, parse},
    input::{
        InputOptions,
        paths::InputFile,
        unit::{Part, Source, Sources},
    },
};

use cursor::Cursor;
use rules::{Fields, Mistake, Rule};
use shape::Sample;

/// The most objects at the beginning of each file that columns are inferred from: each of them is
/// parsed.
const MOST_OBJECTS: usize = 16 << 10;

/// Reads parts of each file to infer the columns. Every file gets the columns of all files. A line
/// with other columns is a bad row.
pub(in crate::input) fn open(files: &[&InputFile], options: &InputOptions) -> Result<Sources, DatasetError> {
    let Some(first) = files.first() else { return Ok(vec![]) };
    let rows = infer_rows(options, files.len());
    let (mut bodies, mut sample) = (vec![], Sample::default());
    for file in files {
        let head = Head::read(file, json_head(files.len()))?;
        let syntax = if head.bytes.trim_ascii_start().starts_with(b"[") { Syntax::Array } else { Syntax::Lines };
        let mut seen = head.start;
        for record in head.records(syntax).take(rows.min(MOST_OBJECTS)) {
            sample.add(record, syntax);
            seen += record.len() as u64;
        }
        if syntax == Syntax::Lines {
            let windows = windows(file, rows, seen)?;
            windows.iter().flat_map(|window| records(window, syntax)).for_each(|line| sample.add(line, syntax));
        } else {
            check_closed(file)?;
        }
        bodies.push(Body { syntax, start: head.start, line: 1 });
    }
    let mut fields = sample.fields();
    if fields.rules.is_empty() {
        let reason = "none of its first records is a JSON object with fields; write one object a line, or one array \
            of objects, with NaN and Infinity in quotes";
        return Err(DatasetError::corrupt(&first.path, reason));
    }
    give_types(&mut fields, files, options)?;
    let (schema, fields) = (Arc::new(fields.schema()), Arc::new(fields));
    let file = |(file, body): (&&InputFile, Body)| {
        let (schema, fields) = (Arc::clone(&schema), Arc::clone(&fields));
        Box::new(JsonFile { file: (*file).clone(), body, schema, fields }) as Box<dyn Source>
    };
    Ok(files.iter().zip(bodies).map(file).collect())
}

/// Gives columns the types of the options. If all others are to be text, objects and lists keep
/// their types.
fn give_types(fields: &mut Fields, files: &[&InputFile], options: &InputOptions) -> Result<(), DatasetError> {
    if options.types.all_text {
        for (_, rule) in &mut fields.rules {
            if matches!(rule, Rule::Inferred(_)) {
                *rule = Rule::Given(DataType::Utf8);
            }
        }
    }
    let failed = std::cell::Cell::new(None);
    let is_there = |name: &str| {
        let found = files.iter().map(|file| holds_key(file, name)).find(|found| !matches!(found, Ok(false)));
        found.is_some_and(|found| {
            found.unwrap_or_else(|error| {
                failed.set(Some(error));
                false
            })
        })
    };
    for (column, given) in &options.types.columns {
        fields.give_type(column, given, &is_there);
    }
    failed.into_inner().map_or(Ok(()), Err)
}

/// Returns whether a key stands anywhere in a file.
fn holds_key(file: &InputFile, name: &str) -> Result<bool, DatasetError> {
    let key = serde_json::to_string(name).unwrap_or_default();
    let failed = |error| DatasetError::io("read", &file.path)(error);
    let mut reader = file.open_text().map_err(failed)?;
    let (finder, mut bytes) = (memmem::Finder::new(key.as_bytes()), Vec::with_capacity(2 * SEARCH_BYTES));
    loop {
        let read = std::io::Read::take(&mut reader, SEARCH_BYTES as u64);
        if std::io::Read::read_to_end(&mut { read }, &mut bytes).map_err(failed)? == 0 {
            return Ok(false);
        }
        if finder.find(&bytes).is_some() {
            return Ok(true);
        }
        bytes.drain(..bytes.len().saturating_sub(key.len()));
    }
}

/// The bytes that are searched at a time.
const SEARCH_BYTES: usize = 1 << 20;

/// Checks that an array ends with a bracket; otherwise the file is cut short. The end of a
/// compressed file is checked by its decoder.
fn check_closed(file: &InputFile) -> Result<(), DatasetError> {
    if file.is_stream() {
        return Ok(());
    }
    let start = file.bytes.saturating_sub(END_BYTES);
    let end = read_range(file, &Range { start, end: file.bytes, line: 1 })?;
    if end.trim_ascii_end().ends_with(b"]") {
        return Ok(());
    }
    Err(DatasetError::corrupt(&file.path, "its JSON array does not end with ']'; is the file cut short?"))
}

/// The bytes at the end of a file in which its last bracket is looked for.
const END_BYTES: u64 = 4 << 10;

/// Returns the records of `bytes`, with spaces in place of what stands between them in an array,
/// and of line ends within them.
fn spaced(bytes: &[u8]) -> Vec<u8> {
    let without_end = |byte: &u8| if matches!(byte, b'\n' | b'\r') { b' ' } else { *byte };
    let mut spaced: Vec<u8> = bytes.iter().map(without_end).collect();
    let (mut scanner, mut at) = (Scanner::new(Syntax::Array), 0);
    while at < bytes.len() {
        let blanks = scanner.blanks(&bytes[at..]);
        spaced[at..at + blanks].fill(b' ');
        at += blanks;
        at += scanner.end_of_record(&bytes[at..]).unwrap_or(bytes.len() - at);
    }
    spaced
}

/// Returns whether values of a type are decoded as text first, because the decoder of the type
/// would truncate them.
fn is_rounded(data_type: &DataType) -> bool {
    data_type.is_integer() || data_type.is_temporal() || data_type.is_decimal()
}

struct JsonFile {
    file: InputFile,
    body: Body,
    schema: SchemaRef,
    fields: Arc<Fields>,
}

impl Source for JsonFile {
    fn schema(&self) -> SchemaRef {
        Arc::clone(&self.schema)
    }

    fn parts(self: Box<Self>, schema: &SchemaRef, options: &InputOptions) -> Vec<Box<dyn Part>> {
        let objects = ObjectFormat { fields: self.fields, syntax: self.body.syntax };
        TextFile::parts(&self.file, self.body, Box::new(objects), schema, options)
    }
}

/// Makes decoders for objects.
struct ObjectFormat {
    /// All fields of the objects.
    fields: Arc<Fields>,
    syntax: Syntax,
}

impl MakeDecode for ObjectFormat {
    fn decoder(&self, schema: SchemaRef, rows: usize) -> Result<Box<dyn Decode>, DatasetError> {
        let fields = self.fields.project(&schema);
        // If only some columns are read, the others are not a mistake.
        let are_all = fields.rules.len() == self.fields.rules.len();
        let texts = as_texts(&fields.schema(), is_rounded);
        let decoder = build(&texts, rows)?;
        Ok(Box::new(JsonDecode { schema, fields, are_all, texts, syntax: self.syntax, rows, decoder }))
    }
}

fn build(schema: &SchemaRef, rows: usize) -> Result<Decoder, ArrowError> {
    // In a column with numbers and texts, numbers are read as text.
    ReaderBuilder::new(Arc::clone(schema)).with_batch_size(rows).with_coerce_primitive(true).build_decoder()
}

struct JsonDecode {
    schema: SchemaRef,
    /// The fields that are read.
    fields: Fields,
    are_all: bool,
    /// The columns as they are decoded, before they are parsed.
    texts: SchemaRef,
    syntax: Syntax,
    rows: usize,
    decoder: Decoder,
}

impl JsonDecode {
    /// Checks objects, and returns the ranges of their values that are to be read as text.
    fn check(&self, objects: &[u8]) -> Result<Vec<Bytes<usize>>, Mistake> {
        let (mut cursor, mut quoted) = (Cursor::new(objects), vec![]);
        while cursor.kind()?.is_some() {
            self.fields.check(&mut cursor, self.are_all, &mut quoted)?;
        }
        Ok(quoted)
    }
}

impl Decode for JsonDecode {
    fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    fn decode(&mut self, bytes: &[u8], records: usize) -> Result<RecordBatch, ArrowError> {
        let objects = objects(self.syntax, bytes);
        let quoted = self.check(&objects).map_err(|mistake| ArrowError::JsonError(mistake.into_parts().1))?;
        let objects = if quoted.is_empty() { objects } else { Cow::Owned(as_json_texts(&objects, &quoted)?) };
        match decode(&mut self.decoder, &objects, records) {
            Ok(batch) => parse(&batch, &self.schema),
            Err(error) => {
                self.decoder = build(&self.texts, self.rows)?;
                Err(error)
            }
        }
    }

    fn diagnose(&self, record: &[u8]) -> (Option<String>, String) {
        let record = &*objects(self.syntax, record);
        let record = match self.check(record).map(|quoted| as_json_texts(record, &quoted)) {
            Err(mistake) => return mistake.into_parts(),
            Ok(Err(error)) => return (None, text(error)),
            Ok(Ok(record)) => record,
        };
        let try_it = |schema: &SchemaRef| {
            let one = |schema: &SchemaRef| build(schema, 1).and_then(|mut decoder| decode(&mut decoder, &record, 1));
            // A decoder of the value's own type gives the best reason, unless it accepts the value.
            let parsed = || one(&as_texts(schema, is_rounded)).and_then(|batch| parse(&batch, schema));
            one(schema).and_then(|_| parsed()).err().map(text)
        };
        if let Some(reason) = try_it(&Arc::new(Schema::empty())) {
            return (None, reason);
        }
        for field in self.fields.schema().fields() {
            let alone = Arc::new(Schema::new(vec![Arc::new(Field::clone(field))]));
            if let Some(reason) = try_it(&alone) {
                return (Some(field.name().clone()), reason);
            }
        }
        (None, "it cannot be decoded".to_owned())
    }
}

/// Returns `bytes` with texts in place of the values at `quoted`, which are in their order.
fn as_json_texts(bytes: &[u8], quoted: &[Bytes<usize>]) -> Result<Vec<u8>, ArrowError> {
    let (mut with_texts, mut at) = (Vec::with_capacity(2 * bytes.len()), 0);
    for value in quoted {
        with_texts.extend_from_slice(&bytes[at..value.start]);
        let text = str::from_utf8(&bytes[value.clone()]);
        let text = text.map_err(|_| ArrowError::JsonError("it is not UTF-8".to_owned()))?;
        let quoted = serde_json::to_string(text).map_err(|error| ArrowError::JsonError(error.to_string()))?;
        with_texts.extend_from_slice(quoted.as_bytes());
        at = value.end;
    }
    with_texts.extend_from_slice(&bytes[at..]);
    Ok(with_texts)
}

/// Returns `bytes` in the form that the decoder takes.
fn objects(syntax: Syntax, bytes: &[u8]) -> Cow<'_, [u8]> {
    if syntax == Syntax::Array { Cow::Owned(spaced(bytes)) } else { Cow::Borrowed(bytes) }
}

/// Returns the text of an error without its kind.
fn text(error: ArrowError) -> String {
    match error {
        ArrowError::JsonError(text) | ArrowError::CastError(text) => text,
        other => other.to_string(),
    }
}

fn decode(decoder: &mut Decoder, bytes: &[u8], records: usize) -> Result<RecordBatch, ArrowError> {
    let used = decoder.decode(bytes)?;
    if decoder.has_partial_record() || !bytes[used..].trim_ascii().is_empty() || decoder.len() != records {
        return Err(ArrowError::JsonError("it is not a JSON object".to_owned()));
    }
    decoder.flush()?.ok_or_else(|| ArrowError::JsonError("there is no object".to_owned()))
}
