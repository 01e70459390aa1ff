//! Infers the columns of JSON records from a sample.

use std::{collections::HashMap, fmt, sync::Arc};

use arrow::{
    array::{ArrayRef, AsArray, RecordBatch},
    compute::concat_batches,
    datatypes::{DataType, Field, FieldRef, Schema, SchemaRef},
    error::ArrowError,
    json::reader::infer_json_schema,
};
use serde::de::{Deserialize, Deserializer, IgnoredAny, MapAccess, Visitor};

use super::{build, decode, objects};
use crate::{
    error::DatasetError,
    input::text::{exact::as_texts, records::Syntax},
};

/// The records that columns are inferred from, one per line.
#[derive(Default)]
pub(super) struct Sample {
    lines: Vec<u8>,
    /// The end of each line.
    ends: Vec<usize>,
    names: Names,
}

impl Sample {
    /// Adds `record`, with its line end, if it is an object.
    pub(super) fn add(&mut self, record: &[u8], syntax: Syntax) {
        let line = &*objects(syntax, record);
        if infer_json_schema(line, None).is_ok() {
            self.lines.extend_from_slice(line);
            if syntax == Syntax::Array {
                self.lines.push(b'\n');
            }
            self.ends.push(self.lines.len());
            self.names.add(line);
        }
    }

    /// Returns the columns, in the order in which they first appear. `path` is for the error.
    pub(super) fn schema(&self, path: &str) -> Result<SchemaRef, DatasetError> {
        let (schema, _) = infer_json_schema(&self.lines[..], None).map_err(|error| {
            DatasetError::corrupt(path, format!("cannot infer columns from its first lines: {error}"))
        })?;
        if schema.fields().is_empty() {
            let reason = "none of its first records is a JSON object with fields; write one object a line, or \
                one array of objects";
            return Err(DatasetError::corrupt(path, reason));
        }
        let mut fields: Vec<FieldRef> = schema.fields().iter().map(settled).collect();
        fields.sort_by_key(|field| (self.names.place(field.name()), field.name().clone()));
        Ok(self.with_large_integers(Schema::new(fields))?)
    }

    /// Returns `schema` with other types for floats whose numbers are all integers. They were
    /// inferred as floats because one of them is too large.
    fn with_large_integers(&self, schema: Schema) -> Result<SchemaRef, ArrowError> {
        let floats = |field: &FieldRef| has_floats(field.data_type()).then(|| Arc::clone(field));
        let floats = Schema::new(schema.fields().iter().filter_map(floats).collect::<Vec<_>>());
        if floats.fields().is_empty() {
            return Ok(Arc::new(schema));
        }
        let texts = as_texts(&floats, |data_type| *data_type == DataType::Float64);
        let mut batches = vec![];
        self.decode(&texts, 0, &self.ends, &mut batches)?;
        let batch = concat_batches(&texts, &batches)?;
        let field = |field: &FieldRef| match batch.column_by_name(field.name()) {
            Some(column) => fitting(field, column),
            None => Arc::clone(field),
        };
        Ok(Arc::new(Schema::new(schema.fields().iter().map(field).collect::<Vec<_>>())))
    }

    /// Decodes the lines that end at `ends`, the first of which begins at `start`, without bad
    /// rows.
    fn decode(
        &self,
        schema: &SchemaRef,
        start: usize,
        ends: &[usize],
        batches: &mut Vec<RecordBatch>,
    ) -> Result<(), ArrowError> {
        let Some(&end) = ends.last() else { return Ok(()) };
        match decode(&mut build(schema, ends.len(), false)?, &self.lines[start..end], ends.len()) {
            Ok(batch) => batches.push(batch),
            Err(_) if ends.len() == 1 => {}
            Err(_) => {
                let (left, right) = ends.split_at(ends.len() / 2);
                self.decode(schema, start, left, batches)?;
                self.decode(schema, left[left.len() - 1], right, batches)?;
            }
        }
        Ok(())
    }
}

/// Returns `field` with its fields sorted, since inference leaves their order to chance, and with
/// texts where there was no value.
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

fn has_floats(data_type: &DataType) -> bool {
    match data_type {
        DataType::Struct(fields) => fields.iter().any(|field| has_floats(field.data_type())),
        DataType::List(item) => has_floats(item.data_type()),
        other => *other == DataType::Float64,
    }
}

/// Returns `field` with the types that fit the numbers of `values`. These are texts where `field`
/// has floats.
fn fitting(field: &FieldRef, values: &ArrayRef) -> FieldRef {
    let data_type = match field.data_type() {
        DataType::Struct(fields) => {
            let fields = fields.iter().zip(values.as_struct().columns());
            DataType::Struct(fields.map(|(field, values)| fitting(field, values)).collect())
        }
        DataType::List(item) => DataType::List(fitting(item, values.as_list::<i32>().values())),
        DataType::Float64 => number(values.as_string::<i32>().iter().flatten()),
        other => other.clone(),
    };
    Arc::new(field.as_ref().clone().with_data_type(data_type))
}

/// Returns the type that keeps all of `numbers` as they are written, if they are integers. If no
/// other type does, that is text.
fn number<'a>(mut numbers: impl Iterator<Item = &'a str> + Clone) -> DataType {
    let is_integer =
        |number: &str| number.strip_prefix('-').unwrap_or(number).bytes().all(|byte| byte.is_ascii_digit());
    if numbers.clone().next().is_none() || !numbers.clone().all(is_integer) {
        DataType::Float64
    } else if numbers.clone().all(|number| number.parse::<i64>().is_ok()) {
        DataType::Int64
    } else if numbers.all(|number| number.parse::<u64>().is_ok()) {
        DataType::UInt64
    } else {
        DataType::Utf8
    }
}

/// Names, numbered in the order in which they were first seen.
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
