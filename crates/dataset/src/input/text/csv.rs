//! Separated values.

use std::{
    collections::{HashMap, hash_map::Entry},
    str,
    sync::Arc,
};

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
        types::{Guess, MixedColumn},
        unit::{Part, Source, Sources},
    },
};

/// Reads parts of each file, and infers the names and types of its columns. Each column gets one
/// type in all files. Also returns the columns whose texts may be mistakes.
pub(in crate::input) fn open(
    files: &[&InputFile],
    options: &InputOptions,
) -> Result<(Sources, Vec<MixedColumn>), DatasetError> {
    let rows = infer_rows(options, files.len());
    let mut opened = Vec::with_capacity(files.len());
    let (mut names, mut guesses) = (vec![], HashMap::new());
    for file in files {
        let (file, columns) = CsvFile::open(file, &options.csv, rows)?;
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
            let data_type = options.types.of(field.name()).or_else(inferred).unwrap_or(DataType::Utf8);
            Field::new(field.name(), data_type, true)
        };
        file.schema = Arc::new(Schema::new(file.schema.fields().iter().map(field).collect::<Vec<_>>()));
    }
    let inferred = names.iter().filter(|name| options.types.of(name).is_none());
    let mixed = inferred.filter_map(|name| guesses.get(name)?.mixed(name)).collect();
    Ok((opened.into_iter().map(|file| Box::new(file) as Box<dyn Source>).collect(), mixed))
}

struct CsvFile {
    file: InputFile,
    dialect: Dialect,
    body: Body,
    schema: SchemaRef,
    /// Whether each line ends with a delimiter that no column follows.
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
    /// Returns the file, and its columns with what their values show. Their types in its schema are
    /// to be set.
    fn open(file: &InputFile, options: &CsvOptions, rows: usize) -> Result<(Self, Vec<(String, Guess)>), DatasetError> {
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
        let ends_with_delimiter = may_end
            && dialect.delimiter == b'|'
            && names.len() > 1
            && types.0.last().is_some_and(|guess| guess.data_type() == DataType::Null);
        if ends_with_delimiter {
            names.pop();
        }
        let fields = names.iter().map(|name| Field::new(name, DataType::Null, true));
        let schema = Arc::new(Schema::new(fields.collect::<Vec<_>>()));
        let body = Body { syntax, start: head.mark + skipped.len() as u64, line: 1 + lines_in(skipped) };
        let columns = names.into_iter().zip(types.0).collect();
        Ok((Self { file: file.clone(), dialect, body, schema, ends_with_delimiter }, columns))
    }
}

/// The types of columns by the records that have been seen.
struct Types(Vec<Guess>);

impl Types {
    fn new(columns: usize) -> Self {
        Self(vec![Guess::new(); columns])
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
                if !known.is_certain() && !dialect.null.is_match(&text) {
                    known.add(&text);
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
                self.0.iter_mut().zip(&types.0).for_each(|(known, found)| known.merge(found));
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
