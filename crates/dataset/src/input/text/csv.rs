//! Separated values.

use std::{
    collections::{HashMap, hash_map::Entry},
    str,
    sync::Arc,
};

use arrow::{
    array::{ArrayRef, AsArray, RecordBatch, RecordBatchOptions},
    compute::{CastOptions, cast_with_options},
    csv::{ReaderBuilder, reader::Decoder},
    datatypes::{DataType, Field, Schema, SchemaRef},
    error::ArrowError,
};

use super::{
    Body, Decode, MakeDecode, TextFile,
    dialect::Dialect,
    empties, infer_rows,
    table::{SampledFile, Types},
};
use crate::{
    error::{DatasetError, DatasetOption},
    exact::parse_column,
    input::{
        InputOptions,
        guess::{Guess, MixedColumn},
        paths::InputFile,
        unit::{Part, Source, Sources},
        values::ValueSyntax,
    },
};

/// CSV files, and what may surprise their reader.
pub(in crate::input) struct CsvFiles {
    pub(in crate::input) sources: Sources,
    /// The columns whose texts may be mistakes.
    pub(in crate::input) mixed: Vec<MixedColumn>,
    /// The files whose first line was found to be values.
    pub(in crate::input) without_header: Vec<String>,
}

/// Reads parts of each file, and infers the names and types of its columns. Each column gets one
/// type in all files.
pub(in crate::input) fn open(files: &[&InputFile], options: &InputOptions) -> Result<CsvFiles, DatasetError> {
    let rows = infer_rows(options, files.len());
    let sampled =
        files.iter().map(|file| SampledFile::read(file, &options.csv, rows)).collect::<Result<Vec<_>, _>>()?;
    // A file whose lines do not tell is like the others.
    let common = sampled.iter().find_map(SampledFile::has_header).unwrap_or(true);
    let (mut opened, mut without_header) = (vec![], vec![]);
    let (mut names, mut guesses) = (vec![], HashMap::new());
    for file in sampled {
        let has_header = options.csv.header.unwrap_or_else(|| file.has_header().unwrap_or(common));
        if options.csv.header.is_none() && !has_header {
            without_header.push(file.file.path.clone());
        }
        let (file, columns) = CsvFile::new(file, has_header, &options.csv.names)?;
        for (name, guess) in columns {
            match guesses.entry(name) {
                Entry::Vacant(entry) => {
                    names.push(entry.key().clone());
                    entry.insert(guess);
                }
                Entry::Occupied(mut entry) => entry.get_mut().merge(&guess),
            }
        }
        opened.push(file);
    }
    for file in &mut opened {
        let field = |field: &Arc<Field>| {
            let inferred = || Some(guesses.get(field.name())?.data_type()).filter(|of| *of != DataType::Null);
            let data_type = options.types.type_for(field.name()).or_else(inferred).unwrap_or(DataType::Utf8);
            Field::new(field.name(), data_type, true)
        };
        let is_inferred = |field: &Arc<Field>| options.types.type_for(field.name()).is_none();
        file.inferred = file.schema.fields().iter().map(is_inferred).collect();
        file.schema = Arc::new(Schema::new(file.schema.fields().iter().map(field).collect::<Vec<_>>()));
    }
    let inferred = names.iter().filter(|name| options.types.type_for(name).is_none());
    let mixed = inferred.filter_map(|name| guesses.get(name)?.mixed(name)).collect();
    let sources = opened.into_iter().map(|file| Box::new(file) as Box<dyn Source>).collect();
    Ok(CsvFiles { sources, mixed, without_header })
}

struct CsvFile {
    file: InputFile,
    dialect: Dialect,
    values: ValueSyntax,
    body: Body,
    schema: SchemaRef,
    /// Whether the type of each column is inferred.
    inferred: Vec<bool>,
    /// Whether each line ends with a delimiter that no column follows.
    ends_with_delimiter: bool,
}

impl Source for CsvFile {
    fn schema(&self) -> SchemaRef {
        Arc::clone(&self.schema)
    }

    fn parts(self: Box<Self>, schema: &SchemaRef, options: &InputOptions) -> Vec<Box<dyn Part>> {
        let Self { file, dialect, values, body, schema: columns, inferred, ends_with_delimiter } = *self;
        let behind = ends_with_delimiter.then(|| Arc::new(Field::new("", DataType::Utf8, true)));
        let inferred = inferred.into_iter().chain(behind.is_some().then_some(true)).collect();
        let columns = columns.fields().iter().cloned().chain(behind).collect::<Vec<_>>();
        let columns = Columns::new(dialect, values, Arc::new(Schema::new(columns)), inferred);
        TextFile::parts(&file, body, Box::new(columns), schema, options)
    }
}

impl CsvFile {
    /// Returns the file, and its columns with what their values show. Their types in its schema are
    /// to be set.
    fn new(
        sampled: SampledFile,
        has_header: bool,
        given: &[String],
    ) -> Result<(Self, Vec<(String, Guess)>), DatasetError> {
        let ends_with_delimiter = sampled.ends_with_delimiter(has_header);
        let mut names = sampled.names(has_header, given)?;
        names.truncate(sampled.first.len() - usize::from(ends_with_delimiter));
        let body = sampled.body(has_header);
        let SampledFile { file, dialect, values, first, rest, .. } = sampled;
        let mut types = rest;
        if !has_header {
            types.merge(&Types::of_record(&first, &dialect, &values));
        }
        let fields = names.iter().map(|name| Field::new(name, DataType::Null, true));
        let schema = Arc::new(Schema::new(fields.collect::<Vec<_>>()));
        let columns = names.into_iter().zip(types.columns).collect();
        Ok((Self { file, dialect, values, body, schema, inferred: vec![], ends_with_delimiter }, columns))
    }
}

/// A file's columns.
#[derive(Clone)]
struct Columns {
    dialect: Dialect,
    values: ValueSyntax,
    columns: SchemaRef,
    /// Whether the type of each column is inferred.
    inferred: Arc<[bool]>,
    /// Whether `""` is an empty text in each column. Elsewhere it is null, as in a file of one column, whose
    /// empty lines do not count as rows.
    with_empty: Arc<[bool]>,
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
    fn new(dialect: Dialect, values: ValueSyntax, columns: SchemaRef, inferred: Arc<[bool]>) -> Self {
        // The decoders of Arrow read numbers with leading zeros, and cut off what a type of times or decimals does
        // not hold. Some types have none.
        let is_exact = |of: &DataType| of.is_integer() || of.is_floating() && !values.has_decimal_comma();
        let text = |(field, inferred): (&Arc<Field>, &bool)| match field.data_type() {
            of if !inferred && (is_exact(of) || *of == DataType::Boolean) => Arc::clone(field),
            _ => Arc::new(Field::new(field.name(), DataType::Utf8, true)),
        };
        let texts = Schema::new(columns.fields().iter().zip(&*inferred).map(text).collect::<Vec<_>>());
        let is_alone = columns.fields().len() == 1;
        let with_empty = columns.fields().iter().map(|field| !is_alone && field.data_type().is_string()).collect();
        Self { dialect, values, columns, inferred, with_empty, texts: Arc::new(texts) }
    }

    /// Returns `batch`, which has the columns at `places` as they were decoded, with those of `schema`.
    fn parse(&self, batch: &RecordBatch, places: &[usize], schema: &SchemaRef) -> Result<RecordBatch, ArrowError> {
        let column = |(place, (column, field)): (&usize, (&ArrayRef, &Arc<Field>))| {
            let of_file = self.columns.field(*place).data_type();
            let parsed = match column.as_string_opt::<i32>() {
                Some(texts) if self.inferred[*place] => self.values.parse_inferred(texts, of_file)?,
                Some(texts) => match self.values.usual(texts, of_file)? {
                    Some(texts) => parse_column(&(Arc::new(texts) as ArrayRef), of_file)?,
                    None => parse_column(column, of_file)?,
                },
                None => Arc::clone(column),
            };
            match parsed.data_type() == field.data_type() {
                true => Ok(parsed),
                false => {
                    cast_with_options(&parsed, field.data_type(), &CastOptions { safe: false, ..Default::default() })
                }
            }
        };
        let columns = places.iter().zip(batch.columns().iter().zip(schema.fields()));
        let columns = columns.map(column).collect::<Result<_, _>>()?;
        let rows = RecordBatchOptions::new().with_row_count(Some(batch.num_rows()));
        RecordBatch::try_new_with_options(Arc::clone(schema), columns, &rows)
    }

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
        let Columns { dialect, with_empty, .. } = &self.columns;
        let decoded = match empties::fill(bytes, dialect, with_empty) {
            Some((bytes, filler)) => {
                decode(&mut self.decoder, &bytes, records).and_then(|batch| empties::empty(&batch, &filler))
            }
            None => decode(&mut self.decoder, bytes, records),
        };
        match decoded {
            Ok(batch) => self.columns.parse(&batch, &self.places, &self.schema),
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
            // Another type would not help: the column is part of the reason, which offers none.
            let (column, option) = (columns[place].name(), DatasetOption::Encoding);
            return (None, format!("column '{column}' is not UTF-8; name the file's encoding ({option})"));
        }
        for &place in &self.places {
            let column = &columns[place];
            let alone = Arc::new(Schema::new(vec![Arc::clone(column)]));
            let batch = decode(&mut self.columns.build(vec![place], 1), record, 1);
            if batch.and_then(|batch| self.columns.parse(&batch, &[place], &alone)).is_err() {
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
