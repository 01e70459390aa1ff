//! JSON, an object a line.

mod infer;

use std::sync::Arc;

use arrow::{
    array::RecordBatch,
    datatypes::{DataType, Schema, SchemaRef},
    error::ArrowError,
    json::{ReaderBuilder, reader::Decoder},
};

use super::{
    Body, Decode, Head, MakeDecode, TextFile,
    exact::{as_texts, parse},
    infer_rows,
    records::Syntax,
};
use crate::{
    error::DatasetError,
    input::{
        InputOptions,
        paths::InputFile,
        unit::{Part, Source},
    },
};

use infer::Sample;

/// Reads the beginning of each file to infer the columns; every file gets those of all. A line that has others is a bad row.
pub(in crate::input) fn open(
    files: &[&InputFile],
    options: &InputOptions,
) -> Result<Vec<Box<dyn Source>>, DatasetError> {
    let Some(first) = files.first() else { return Ok(vec![]) };
    let rows = infer_rows(options, files.len());
    let (mut marks, mut sample) = (vec![], Sample::default());
    for file in files {
        let head = Head::read(file)?;
        if head.bytes.trim_ascii_start().starts_with(b"[") {
            let reason = "it holds a JSON array; write one object a line, as by: jq -c '.[]'";
            return Err(DatasetError::corrupt(&file.path, reason));
        }
        head.records(Syntax::Lines).take(rows).for_each(|line| sample.add(line));
        marks.push(head.mark);
    }
    let schema = sample.schema(&first.path)?;
    let file = |(file, mark): (&&InputFile, u64)| {
        let body = Body { syntax: Syntax::Lines, start: mark, line: 1 };
        Box::new(JsonFile { file: (*file).clone(), body, schema: Arc::clone(&schema) }) as Box<dyn Source>
    };
    Ok(files.iter().zip(marks).map(file).collect())
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
        let objects = Objects { columns: schema.fields().len() };
        TextFile::parts(&self.file, self.body, Box::new(objects), schema, options)
    }
}

/// Objects of a dataset with so many columns.
struct Objects {
    columns: usize,
}

impl MakeDecode for Objects {
    fn decoder(&self, schema: SchemaRef, rows: usize) -> Result<Box<dyn Decode>, DatasetError> {
        // Where some of the columns are asked for, the others are no mistake.
        let strict = schema.fields().len() == self.columns;
        // Integers are decoded as texts: a decoder of integers cuts off fractions.
        let texts = as_texts(&schema, DataType::is_integer);
        let decoder = build(&texts, rows, strict)?;
        Ok(Box::new(JsonDecode { schema, texts, rows, strict, decoder }))
    }
}

fn build(schema: &SchemaRef, rows: usize, strict: bool) -> Result<Decoder, ArrowError> {
    // Numbers are taken for text in a column that has both.
    let builder = ReaderBuilder::new(Arc::clone(schema)).with_batch_size(rows).with_coerce_primitive(true);
    builder.with_strict_mode(strict).build_decoder()
}

struct JsonDecode {
    schema: SchemaRef,
    /// The columns as they are decoded, before they are parsed.
    texts: SchemaRef,
    rows: usize,
    strict: bool,
    decoder: Decoder,
}

impl Decode for JsonDecode {
    fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    fn decode(&mut self, bytes: &[u8], records: usize) -> Result<RecordBatch, ArrowError> {
        match decode(&mut self.decoder, bytes, records) {
            Ok(batch) => parse(&batch, &self.schema),
            Err(error) => {
                self.decoder = build(&self.texts, self.rows, self.strict)?;
                Err(error)
            }
        }
    }

    fn diagnose(&self, record: &[u8]) -> (Option<String>, String) {
        let try_it = |schema: &SchemaRef, strict| {
            let one =
                |schema: &SchemaRef| build(schema, 1, strict).and_then(|mut decoder| decode(&mut decoder, record, 1));
            // A decoder of its type says best what a value is, unless it takes it.
            let parsed = || one(&as_texts(schema, DataType::is_integer)).and_then(|batch| parse(&batch, schema));
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

/// What an error says, without its kind.
fn text(error: ArrowError) -> String {
    match error {
        ArrowError::JsonError(text) | ArrowError::CastError(text) => text,
        other => other.to_string(),
    }
}

fn decode(decoder: &mut Decoder, bytes: &[u8], records: usize) -> Result<RecordBatch, ArrowError> {
    let used = decoder.decode(bytes)?;
    if decoder.has_partial_record() || !bytes[used..].trim_ascii().is_empty() || decoder.len() != records {
        return Err(ArrowError::JsonError("it is not one JSON object a line".to_owned()));
    }
    decoder.flush()?.ok_or_else(|| ArrowError::JsonError("there is no object".to_owned()))
}
