//! Separated values.

use std::{collections::HashMap, path::Path, str, sync::Arc};

use arrow::{
    array::RecordBatch,
    csv::{ReaderBuilder, reader::Decoder, reader::Format},
    datatypes::{DataType, Field, Schema, SchemaRef},
    error::ArrowError,
};
use regex::Regex;

use super::{
    Body, Decode, Head, MakeDecode, TextFile,
    exact::{as_texts, parse},
    infer_rows, lines_in,
    records::Syntax,
};
use crate::{
    error::DatasetError,
    input::{
        CsvOptions, InputOptions,
        paths::InputFile,
        unit::{Part, Source},
    },
};

/// Reads the beginning of each file: its columns' names, and their types as far as they can be told there. Each column gets one
/// type in all files.
pub(in crate::input) fn open(
    files: &[&InputFile],
    options: &InputOptions,
) -> Result<Vec<Box<dyn Source>>, DatasetError> {
    let rows = infer_rows(options, files.len());
    let mut files: Vec<_> =
        files.iter().map(|file| CsvFile::open(file, &options.csv, rows)).collect::<Result<_, _>>()?;
    let mut types: HashMap<String, DataType> = HashMap::new();
    for field in files.iter().flat_map(|file| file.schema.fields()) {
        let known = types.entry(field.name().clone()).or_insert(DataType::Null);
        *known = widen(known, field.data_type());
    }
    for file in &mut files {
        let field = |field: &Arc<Field>| {
            let data_type = types.get(field.name()).filter(|data_type| **data_type != DataType::Null);
            Field::new(field.name(), data_type.cloned().unwrap_or(DataType::Utf8), true)
        };
        file.schema = Arc::new(Schema::new(file.schema.fields().iter().map(field).collect::<Vec<_>>()));
    }
    Ok(files.into_iter().map(|file| Box::new(file) as Box<dyn Source>).collect())
}

struct CsvFile {
    file: InputFile,
    dialect: Dialect,
    body: Body,
    schema: SchemaRef,
}

/// How a file is written.
#[derive(Clone, Debug)]
struct Dialect {
    delimiter: u8,
    quote: u8,
    null: Regex,
}

impl Source for CsvFile {
    fn schema(&self) -> SchemaRef {
        Arc::clone(&self.schema)
    }

    fn parts(self: Box<Self>, schema: &SchemaRef, options: &InputOptions) -> Vec<Box<dyn Part>> {
        let Self { file, dialect, body, schema: columns } = *self;
        // Dates and times are decoded as texts: their decoders cut off what a type does not hold.
        let texts = as_texts(&columns, |of| matches!(of, DataType::Date32 | DataType::Timestamp(..)));
        TextFile::parts(&file, body, Box::new(Columns { dialect, columns, texts }), schema, options)
    }
}

impl CsvFile {
    fn open(file: &InputFile, options: &CsvOptions, rows: usize) -> Result<Self, DatasetError> {
        let dialect = Dialect::new(options, &file.path)?;
        let syntax = Syntax::Csv { delimiter: dialect.delimiter, quote: dialect.quote };
        let head = Head::read(file)?;
        let mut records = head.records(syntax);
        let first = records.next().ok_or_else(|| {
            DatasetError::corrupt(
                &file.path,
                "its first record does not end within 1 MiB; is it CSV, and is every quote closed?",
            )
        })?;
        let fields = dialect.fields(first);
        let (names, skipped) = if options.header {
            let name = |field: &Vec<u8>| String::from_utf8_lossy(field).into_owned();
            (fields.iter().map(name).collect::<Vec<_>>(), first)
        } else {
            records = head.records(syntax);
            ((1..=fields.len()).map(|column| format!("column_{column}")).collect(), &first[..0])
        };

        let whole = records.take(rows).filter(|record| dialect.fields(record).len() == names.len());
        let sample: Vec<u8> = whole.flatten().copied().collect();
        let schema = dialect.infer(&sample, &names).map_err(|error| DatasetError::corrupt(&file.path, error))?;
        let body = Body { syntax, start: head.mark + skipped.len() as u64, line: 1 + lines_in(skipped) };
        Ok(Self { file: file.clone(), dialect, body, schema })
    }
}

impl Dialect {
    fn new(options: &CsvOptions, path: &str) -> Result<Self, DatasetError> {
        let extension = Path::new(path).extension().and_then(|extension| extension.to_str()).unwrap_or_default();
        let delimiter = options.delimiter.unwrap_or(match extension.to_ascii_lowercase().as_str() {
            "tsv" => b'\t',
            "tbl" => b'|',
            _ => b',',
        });
        let quote = options.quote;
        if delimiter == quote || [delimiter, quote].iter().any(|byte| matches!(byte, b'\n' | b'\r')) {
            return Err(DatasetError::Config {
                option: "--delimiter",
                value: format!("'{}' with quote '{}'", delimiter.escape_ascii(), quote.escape_ascii()),
                remedy: "choose two different characters, none of them a line end".to_owned(),
            });
        }
        let null = options.null.as_ref().map_or("^$".to_owned(), |null| format!("^(?:{})?$", regex::escape(null)));
        let null = Regex::new(&null).map_err(|error| DatasetError::Config {
            option: "--null",
            value: options.null.clone().unwrap_or_default(),
            remedy: format!("choose a shorter text: {error}"),
        })?;
        Ok(Self { delimiter, quote, null })
    }

    fn format(&self) -> Format {
        Format::default().with_delimiter(self.delimiter).with_quote(self.quote).with_null_regex(self.null.clone())
    }

    /// The fields of one record.
    fn fields(&self, record: &[u8]) -> Vec<Vec<u8>> {
        let mut reader = csv::ReaderBuilder::new()
            .has_headers(false)
            .flexible(true)
            .delimiter(self.delimiter)
            .quote(self.quote)
            .from_reader(record);
        let mut fields = csv::ByteRecord::new();
        // Reading from memory, of any number of fields, does not fail.
        let _ = reader.read_byte_record(&mut fields);
        fields.iter().map(<[u8]>::to_vec).collect()
    }

    /// Types by records that have as many fields as there are names; null where there is no value.
    fn infer(&self, records: &[u8], names: &[String]) -> Result<SchemaRef, ArrowError> {
        let text = String::from_utf8_lossy(records);
        let (inferred, _) = self.format().infer_schema(text.as_bytes(), None)?;
        let data_type =
            |column: usize| inferred.fields().get(column).map_or(DataType::Null, |field| field.data_type().clone());
        let fields = names.iter().enumerate().map(|(column, name)| Field::new(name, data_type(column), true));
        Ok(Arc::new(Schema::new(fields.collect::<Vec<_>>())))
    }
}

/// The type that has the values of both.
fn widen(left: &DataType, right: &DataType) -> DataType {
    match (left, right) {
        (left, right) if left == right => left.clone(),
        (DataType::Null, other) | (other, DataType::Null) => other.clone(),
        (DataType::Int64, DataType::Float64) | (DataType::Float64, DataType::Int64) => DataType::Float64,
        (DataType::Timestamp(left, None), DataType::Timestamp(right, None)) => {
            DataType::Timestamp(*left.max(right), None)
        }
        _ => DataType::Utf8,
    }
}

/// A file's columns.
#[derive(Clone)]
struct Columns {
    dialect: Dialect,
    columns: SchemaRef,
    /// The columns as they are decoded, before they are parsed.
    texts: SchemaRef,
}

impl MakeDecode for Columns {
    fn decoder(&self, schema: SchemaRef, rows: usize) -> Result<Box<dyn Decode>, DatasetError> {
        let places = schema.fields().iter().map(|field| self.columns.index_of(field.name()));
        let places = places.collect::<Result<Vec<_>, _>>()?;
        let decoder = self.build(places.clone(), rows);
        Ok(Box::new(CsvDecode { columns: self.clone(), schema, places, rows, decoder }))
    }
}

impl Columns {
    fn build(&self, places: Vec<usize>, rows: usize) -> Decoder {
        ReaderBuilder::new(Arc::clone(&self.texts))
            .with_format(self.dialect.format())
            .with_batch_size(rows)
            .with_projection(places)
            .build_decoder()
    }
}

struct CsvDecode {
    columns: Columns,
    schema: SchemaRef,
    /// For each column of `schema` its place in the file.
    places: Vec<usize>,
    rows: usize,
    decoder: Decoder,
}

impl Decode for CsvDecode {
    fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    fn decode(&mut self, bytes: &[u8], records: usize) -> Result<RecordBatch, ArrowError> {
        match decode(&mut self.decoder, bytes, records) {
            Ok(batch) => parse(&batch, &self.schema),
            Err(error) => {
                self.decoder = self.columns.build(self.places.clone(), self.rows);
                Err(error)
            }
        }
    }

    fn diagnose(&self, record: &[u8]) -> (Option<String>, String) {
        let fields = self.columns.dialect.fields(record);
        let columns = self.columns.columns.fields();
        if fields.len() != columns.len() {
            return (None, format!("it has {} fields, the file has {} columns", fields.len(), columns.len()));
        }
        let texts: Vec<_> = fields.iter().map(|field| str::from_utf8(field)).collect();
        if let Some(place) = texts.iter().position(|text| text.is_err()) {
            return (Some(columns[place].name().clone()), "it is not UTF-8".to_owned());
        }
        for &place in &self.places {
            let column = &columns[place];
            let alone = Arc::new(Schema::new(vec![Arc::clone(column)]));
            let batch = decode(&mut self.columns.build(vec![place], 1), record, 1);
            if batch.and_then(|batch| parse(&batch, &alone)).is_err() {
                let shown: String = texts[place].unwrap_or_default().chars().take(100).collect();
                let reason = format!("'{shown}' is no value of its type, {}", column.data_type());
                return (Some(column.name().clone()), reason);
            }
        }
        (None, "it cannot be decoded".to_owned())
    }
}

fn decode(decoder: &mut Decoder, bytes: &[u8], records: usize) -> Result<RecordBatch, ArrowError> {
    let used = decoder.decode(bytes)?;
    let batch = decoder.flush()?;
    // A full batch ends before the second byte of its last line end.
    let rest = bytes[used..].iter().any(|byte| !matches!(byte, b'\n' | b'\r'));
    match batch {
        Some(batch) if batch.num_rows() == records && !rest => Ok(batch),
        _ => Err(ArrowError::CsvError(format!("{records} records do not give as many rows"))),
    }
}
