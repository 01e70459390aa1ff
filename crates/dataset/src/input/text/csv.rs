//! Separated values.

use std::{collections::HashMap, str, sync::Arc};

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
    sample, windows,
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

/// Reads parts of each file: its columns' names, and their types as far as they can be told there. Each column gets one type in all
/// files.
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
        windows(file, rows)?.iter().for_each(|window| types.add_window(&dialect, window));
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

impl Dialect {
    fn new(options: &CsvOptions, file: &InputFile) -> Result<Self, DatasetError> {
        let delimiter = options.delimiter.unwrap_or(match file.extension().as_str() {
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

    /// Takes another delimiter, if this one finds a single name in the first line, and the other divides every line into equally many.
    fn sniff(&mut self, head: &Head) {
        let first = |dialect: &Self| head.records(dialect.syntax()).next().map(|record| dialect.fields(record).len());
        let columns = |dialect: &Self| {
            let mut counts =
                head.records(dialect.syntax()).take(SNIFFED_LINES).map(|record| dialect.fields(record).len());
            let first = counts.next()?;
            counts.all(|count| count == first).then_some(first)
        };
        if first(self) != Some(1) {
            return;
        }
        let others = [b';', b'\t', b'|'].into_iter().filter(|other| *other != self.quote);
        let others = others.map(|delimiter| Self { delimiter, ..self.clone() });
        let counted = others.filter_map(|dialect| Some((columns(&dialect).filter(|count| *count > 1)?, dialect)));
        if let Some((_, dialect)) = counted.max_by_key(|(count, _)| *count) {
            *self = dialect;
        }
    }

    fn syntax(&self) -> Syntax {
        Syntax::Csv { delimiter: self.delimiter, quote: self.quote }
    }

    fn format(&self) -> Format {
        Format::default().with_delimiter(self.delimiter).with_quote(self.quote).with_null_regex(self.null.clone())
    }

    /// The fields of one record.
    fn fields(&self, record: &[u8]) -> Vec<Vec<u8>> {
        self.record(record).iter().map(<[u8]>::to_vec).collect()
    }

    fn record(&self, record: &[u8]) -> csv::ByteRecord {
        let mut fields = csv::ByteRecord::new();
        // Reading from memory, of any number of fields, does not fail.
        let _ = self.reader(record).read_byte_record(&mut fields);
        fields
    }

    fn reader<'a>(&self, records: &'a [u8]) -> csv::Reader<&'a [u8]> {
        let mut reader = csv::ReaderBuilder::new();
        reader.has_headers(false).flexible(true).delimiter(self.delimiter).quote(self.quote);
        reader.from_reader(records)
    }
}

/// Lines that a delimiter is told by.
const SNIFFED_LINES: usize = 100;

/// The types of columns by the records that have been seen; null where there was no value.
struct Types(Vec<DataType>);

impl Types {
    fn new(columns: usize) -> Self {
        Self(vec![DataType::Null; columns])
    }

    /// Takes the records that have as many fields as there are columns; others are bad rows. Returns whether all have.
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

    /// Takes what is in `window`, which may begin within quotes: from the first of its lines behind which all records have as many
    /// fields as there are columns.
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
