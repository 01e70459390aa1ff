//! Separated values.

use std::{collections::HashMap, str, sync::Arc};

use arrow::{
    array::RecordBatch,
    csv::{ReaderBuilder, reader::Decoder},
    datatypes::{DataType, Field, Schema, SchemaRef},
    error::ArrowError,
};

use super::{
    Body, Decode, Head, MakeDecode, TextFile,
    dialect::Dialect,
    exact::{as_texts, parse},
    infer_rows, lines_in, sample, windows,
};
use crate::{
    error::DatasetError,
    input::{
        CsvOptions, InputOptions,
        paths::InputFile,
        types::{infer, widen},
        unit::{Part, Source},
    },
};

/// Reads parts of each file: its columns' names, and their types as far as they can be told there.
/// Each column gets one type in all files.
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
            let inferred = || types.get(field.name()).filter(|data_type| **data_type != DataType::Null).cloned();
            let data_type = options.types.of(field.name()).or_else(inferred).unwrap_or(DataType::Utf8);
            Field::new(field.name(), data_type, true)
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
    /// Whether each line ends with a delimiter, behind which there is no column.
    ends_with_delimiter: bool,
}

impl Source for CsvFile {
    fn schema(&self) -> SchemaRef {
        Arc::clone(&self.schema)
    }

    fn parts(self: Box<Self>, schema: &SchemaRef, options: &InputOptions) -> Vec<Box<dyn Part>> {
        let Self { file, dialect, body, schema: columns, ends_with_delimiter } = *self;
        let behind = ends_with_delimiter.then(|| Arc::new(Field::new("", DataType::Utf8, true)));
        let columns = columns.fields().iter().cloned().chain(behind).collect::<Vec<_>>();
        let columns = Arc::new(Schema::new(columns));
        // The decoders of times and decimals cut off what a type does not hold, and some types have none.
        let texts = as_texts(&columns, |of| !(of.is_integer() || of.is_floating() || *of == DataType::Boolean));
        TextFile::parts(&file, body, Box::new(Columns { dialect, columns, texts }), schema, options)
    }
}

impl CsvFile {
    fn open(file: &InputFile, options: &CsvOptions, rows: usize) -> Result<Self, DatasetError> {
        let mut dialect = Dialect::new(options, file)?;
        let head = Head::read(file)?;
        let no_record = || {
            let reason = "its first record does not end within 1 MiB; is it CSV, and is every quote closed?";
            DatasetError::corrupt(&file.path, reason)
        };
        if options.delimiter.is_none() {
            dialect.sniff(&head);
        }
        let syntax = dialect.syntax();
        let mut records = head.records(syntax);
        let first = records.next().ok_or_else(no_record)?;
        let fields = dialect.fields(first);
        let (mut names, skipped) = if options.header {
            let name = |field: &Vec<u8>| String::from_utf8_lossy(field).into_owned();
            (fields.iter().map(name).collect::<Vec<_>>(), first)
        } else {
            records = head.records(syntax);
            ((1..=fields.len()).map(|column| format!("column_{column}")).collect(), &first[..0])
        };

        let sampled: usize = records.take(rows).map(<[u8]>::len).sum();
        let before = if options.header { first.len() } else { 0 };
        let mut types = Types::new(names.len());
        types.add(&dialect, &head.bytes[before..before + sampled]);
        let seen = head.mark + (before + sampled) as u64;
        windows(file, rows, seen)?.iter().for_each(|window| types.add_window(&dialect, window));
        let may_end = file.extension() == "tbl" || options.header && fields.last().is_some_and(Vec::is_empty);
        let ends_with_delimiter =
            may_end && dialect.delimiter == b'|' && names.len() > 1 && types.0.last() == Some(&DataType::Null);
        if ends_with_delimiter {
            names.pop();
        }
        let fields = names.iter().zip(types.0).map(|(name, of)| Field::new(name, of, true));
        let schema = Arc::new(Schema::new(fields.collect::<Vec<_>>()));
        let body = Body { syntax, start: head.mark + skipped.len() as u64, line: 1 + lines_in(skipped) };
        Ok(Self { file: file.clone(), dialect, body, schema, ends_with_delimiter })
    }
}

/// The types of columns by the records that have been seen; null where there was no value.
struct Types(Vec<DataType>);

impl Types {
    fn new(columns: usize) -> Self {
        Self(vec![DataType::Null; columns])
    }

    /// Takes the records that have as many fields as there are columns; others are bad rows.
    /// Returns whether all have.
    fn add(&mut self, dialect: &Dialect, records: &[u8]) -> bool {
        let (mut reader, mut fields, mut all) = (dialect.reader(records), csv::ByteRecord::new(), true);
        while reader.read_byte_record(&mut fields).unwrap_or(false) {
            if fields.len() != self.0.len() {
                all = false;
                continue;
            }
            for (known, field) in self.0.iter_mut().zip(&fields) {
                let text = String::from_utf8_lossy(field);
                if *known != DataType::Utf8 && !dialect.null.is_match(&text) {
                    *known = widen(known, &infer(&text));
                }
            }
        }
        all
    }

    /// Takes what is in `window`, which may begin within quotes: from the first of its lines behind
    /// which all records have as many fields as there are columns.
    fn add_window(&mut self, dialect: &Dialect, window: &[u8]) {
        let starts = memchr::memchr_iter(b'\n', window).map(|end| end + 1);
        for start in [0].into_iter().chain(starts).take(STARTS) {
            let whole: usize = sample::records(&window[start..], dialect.syntax()).map(<[u8]>::len).sum();
            let mut types = Self::new(self.0.len());
            if types.add(dialect, &window[start..start + whole]) {
                for (known, found) in self.0.iter_mut().zip(&types.0) {
                    *known = widen(known, found);
                }
                return;
            }
        }
    }
}

/// Lines of a window with which its records may begin.
const STARTS: usize = 8;

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
    /// For each column of `schema`, its position in the file.
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
                let reason = format!("'{shown}' is not a value of type {}", column.data_type());
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
        _ => Err(ArrowError::CsvError(format!("{records} records do not give {records} rows"))),
    }
}
