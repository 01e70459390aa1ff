//! JSON: one object per line, or all in an array.

mod infer;

use std::{borrow::Cow, sync::Arc};

use arrow::{
    array::RecordBatch,
    datatypes::{DataType, Field, FieldRef, Schema, SchemaRef},
    error::ArrowError,
    json::{ReaderBuilder, reader::Decoder},
};

use super::{
    Body, Decode, Head, MakeDecode, Range, TextFile,
    exact::{as_texts, parse},
    infer_rows, read_range,
    records::{Scanner, Syntax},
    sample::records,
    windows,
};
use crate::{
    error::DatasetError,
    input::{
        InputOptions,
        paths::InputFile,
        unit::{Part, Source, Sources},
    },
};

use infer::Sample;

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
        let head = Head::read(file)?;
        let syntax = if head.bytes.trim_ascii_start().starts_with(b"[") { Syntax::Array } else { Syntax::Lines };
        let mut seen = head.mark;
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
        bodies.push(Body { syntax, start: head.mark, line: 1 });
    }
    let schema = given(sample.schema(&first.path)?.as_ref(), options);
    let file = |(file, body): (&&InputFile, Body)| {
        Box::new(JsonFile { file: (*file).clone(), body, schema: Arc::clone(&schema) }) as Box<dyn Source>
    };
    Ok(files.iter().zip(bodies).map(file).collect())
}

/// Returns the columns, with the types that the options give. Objects and lists keep their types.
fn given(schema: &Schema, options: &InputOptions) -> SchemaRef {
    let field = |field: &FieldRef| match options.types.of(field.name()) {
        Some(given) if !field.data_type().is_nested() => Arc::new(Field::new(field.name(), given, true)),
        _ => Arc::clone(field),
    };
    Arc::new(Schema::new(schema.fields().iter().map(field).collect::<Vec<_>>()))
}

/// Checks that an array ends with a bracket; otherwise the file is cut short. The end of a
/// compressed file is checked by its decoder.
fn check_closed(file: &InputFile) -> Result<(), DatasetError> {
    if file.compression.is_some() {
        return Ok(());
    }
    let start = file.bytes.saturating_sub(END_BYTES);
    let end = read_range(&file.path, &Range { start, end: file.bytes, line: 1 })?;
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
}

impl Source for JsonFile {
    fn schema(&self) -> SchemaRef {
        Arc::clone(&self.schema)
    }

    fn parts(self: Box<Self>, schema: &SchemaRef, options: &InputOptions) -> Vec<Box<dyn Part>> {
        let objects = Objects { columns: schema.fields().len(), syntax: self.body.syntax };
        TextFile::parts(&self.file, self.body, Box::new(objects), schema, options)
    }
}

/// Makes decoders for objects of a dataset with `columns` columns.
struct Objects {
    columns: usize,
    syntax: Syntax,
}

impl MakeDecode for Objects {
    fn decoder(&self, schema: SchemaRef, rows: usize) -> Result<Box<dyn Decode>, DatasetError> {
        // If only some columns are read, the others are not a mistake.
        let strict = schema.fields().len() == self.columns;
        let texts = as_texts(&schema, is_rounded);
        let decoder = build(&texts, rows, strict)?;
        Ok(Box::new(JsonDecode { schema, texts, syntax: self.syntax, rows, strict, decoder }))
    }
}

fn build(schema: &SchemaRef, rows: usize, strict: bool) -> Result<Decoder, ArrowError> {
    // In a column with numbers and texts, numbers are read as text.
    let builder = ReaderBuilder::new(Arc::clone(schema)).with_batch_size(rows).with_coerce_primitive(true);
    builder.with_strict_mode(strict).build_decoder()
}

struct JsonDecode {
    schema: SchemaRef,
    /// The columns as they are decoded, before they are parsed.
    texts: SchemaRef,
    syntax: Syntax,
    rows: usize,
    strict: bool,
    decoder: Decoder,
}

impl Decode for JsonDecode {
    fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    fn decode(&mut self, bytes: &[u8], records: usize) -> Result<RecordBatch, ArrowError> {
        match decode(&mut self.decoder, &objects(self.syntax, bytes), records) {
            Ok(batch) => parse(&batch, &self.schema),
            Err(error) => {
                self.decoder = build(&self.texts, self.rows, self.strict)?;
                Err(error)
            }
        }
    }

    fn diagnose(&self, record: &[u8]) -> (Option<String>, String) {
        let record = &*objects(self.syntax, record);
        let try_it = |schema: &SchemaRef, strict| {
            let one =
                |schema: &SchemaRef| build(schema, 1, strict).and_then(|mut decoder| decode(&mut decoder, record, 1));
            // A decoder of the value's own type gives the best reason, unless it accepts the value.
            let parsed = || one(&as_texts(schema, is_rounded)).and_then(|batch| parse(&batch, schema));
            one(schema).and_then(|_| parsed()).err().map(text)
        };
        if let Some(reason) = try_it(&Arc::new(Schema::empty()), false) {
            return (None, reason);
        }
        for field in self.schema.fields() {
            let alone = Arc::new(Schema::new(vec![Arc::clone(field)]));
            if let Some(reason) = try_it(&alone, false) {
                return (Some(field.name().clone()), reason);
            }
        }
        (None, try_it(&self.schema, self.strict).unwrap_or_else(|| "it cannot be decoded".to_owned()))
    }
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
