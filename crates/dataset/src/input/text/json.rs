//! JSON, an object a line.

use std::{collections::HashMap, fmt, sync::Arc};

use arrow::{
    array::RecordBatch,
    datatypes::{DataType, Field, FieldRef, Schema, SchemaRef},
    error::ArrowError,
    json::{
        ReaderBuilder,
        reader::{Decoder, infer_json_schema},
    },
};
use serde::de::{Deserialize, Deserializer, IgnoredAny, MapAccess, Visitor};

use super::{Body, Decode, Head, MakeDecode, TextFile, infer_rows, records::Syntax};
use crate::{
    error::DatasetError,
    input::{
        InputOptions,
        paths::InputFile,
        unit::{Part, Source},
    },
};

/// Reads the beginning of each file to infer the columns; every file gets those of all. A line that has others is a bad row.
pub(in crate::input) fn open(
    files: &[&InputFile],
    options: &InputOptions,
) -> Result<Vec<Box<dyn Source>>, DatasetError> {
    let Some(first) = files.first() else { return Ok(vec![]) };
    let rows = infer_rows(options, files.len());
    let (mut marks, mut sample, mut names) = (vec![], vec![], Names::default());
    for file in files {
        let head = Head::read(file)?;
        if head.bytes.trim_ascii_start().starts_with(b"[") {
            let reason = "it holds a JSON array; write one object a line, as by: jq -c '.[]'";
            return Err(DatasetError::corrupt(&file.path, reason));
        }
        let good = |line: &&[u8]| infer_json_schema(*line, None).is_ok();
        for line in head.records(Syntax::Lines).take(rows).filter(good) {
            sample.extend_from_slice(line);
            names.add(line);
        }
        marks.push(head.mark);
    }
    let schema = infer(&sample, &names, &first.path)?;
    let file = |(file, mark): (&&InputFile, u64)| {
        let body = Body { syntax: Syntax::Lines, start: mark, line: 1 };
        Box::new(JsonFile { file: (*file).clone(), body, schema: Arc::clone(&schema) }) as Box<dyn Source>
    };
    Ok(files.iter().zip(marks).map(file).collect())
}

fn infer(sample: &[u8], names: &Names, path: &str) -> Result<SchemaRef, DatasetError> {
    let (schema, _) = infer_json_schema(sample, None)
        .map_err(|error| DatasetError::corrupt(path, format!("columns cannot be told by the first lines: {error}")))?;
    if schema.fields().is_empty() {
        let reason = "none of the first lines is a JSON object with fields; write one object a line";
        return Err(DatasetError::corrupt(path, reason));
    }
    let mut fields: Vec<FieldRef> = schema.fields().iter().map(settled).collect();
    fields.sort_by_key(|field| (names.place(field.name()), field.name().clone()));
    Ok(Arc::new(Schema::new(fields)))
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

/// `field` with its fields in order, which inference leaves to chance, and with texts where there was no value.
fn settled(field: &FieldRef) -> FieldRef {
    let data_type = match field.data_type() {
        DataType::Null => DataType::Utf8,
        DataType::Struct(fields) => {
            let mut fields: Vec<FieldRef> = fields.iter().map(settled).collect();
            fields.sort_by(|left, right| left.name().cmp(right.name()));
            DataType::Struct(fields.into())
        }
        DataType::List(item) => DataType::List(settled(item)),
        other => other.clone(),
    };
    Arc::new(Field::new(field.name(), data_type, true))
}

/// Names in the order in which they were first seen.
#[derive(Default)]
struct Names(HashMap<String, usize>);

impl Names {
    fn add(&mut self, line: &[u8]) {
        if let Ok(Keys(keys)) = serde_json::from_slice(line) {
            for key in keys {
                let place = self.0.len();
                self.0.entry(key).or_insert(place);
            }
        }
    }

    fn place(&self, name: &str) -> usize {
        self.0.get(name).copied().unwrap_or(usize::MAX)
    }
}

/// The keys of an object, in order.
struct Keys(Vec<String>);

impl<'de> Deserialize<'de> for Keys {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Object;
        impl<'de> Visitor<'de> for Object {
            type Value = Keys;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Keys, A::Error> {
                let mut keys = vec![];
                while let Some((key, IgnoredAny)) = map.next_entry()? {
                    keys.push(key);
                }
                Ok(Keys(keys))
            }
        }
        deserializer.deserialize_map(Object)
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
        let decoder = build(&schema, rows, strict)?;
        Ok(Box::new(JsonDecode { schema, rows, strict, decoder }))
    }
}

fn build(schema: &SchemaRef, rows: usize, strict: bool) -> Result<Decoder, ArrowError> {
    // Numbers are taken for text in a column that has both.
    let builder = ReaderBuilder::new(Arc::clone(schema)).with_batch_size(rows).with_coerce_primitive(true);
    builder.with_strict_mode(strict).build_decoder()
}

struct JsonDecode {
    schema: SchemaRef,
    rows: usize,
    strict: bool,
    decoder: Decoder,
}

impl Decode for JsonDecode {
    fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    fn decode(&mut self, bytes: &[u8], records: usize) -> Result<RecordBatch, ArrowError> {
        let batch = decode(&mut self.decoder, bytes, records);
        if batch.is_err() {
            self.decoder = build(&self.schema, self.rows, self.strict)?;
        }
        batch
    }

    fn diagnose(&self, record: &[u8]) -> (Option<String>, String) {
        let try_it = |schema: &SchemaRef, strict| {
            build(schema, 1, strict).and_then(|mut decoder| decode(&mut decoder, record, 1)).err()
        };
        let text = |error: ArrowError| error.to_string().trim_start_matches("Json error: ").to_owned();
        if let Some(error) = try_it(&Arc::new(Schema::empty()), false) {
            return (None, text(error));
        }
        for field in self.schema.fields() {
            let alone = Arc::new(Schema::new(vec![Arc::clone(field)]));
            if let Some(error) = try_it(&alone, false) {
                return (Some(field.name().clone()), text(error));
            }
        }
        (None, try_it(&self.schema, self.strict).map_or_else(|| "it cannot be decoded".to_owned(), text))
    }
}

fn decode(decoder: &mut Decoder, bytes: &[u8], records: usize) -> Result<RecordBatch, ArrowError> {
    let used = decoder.decode(bytes)?;
    if decoder.has_partial_record() || !bytes[used..].trim_ascii().is_empty() || decoder.len() != records {
        return Err(ArrowError::JsonError("it is not one JSON object a line".to_owned()));
    }
    decoder.flush()?.ok_or_else(|| ArrowError::JsonError("there is no object".to_owned()))
}
