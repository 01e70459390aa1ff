//! Opening a dataset.

use std::{
    io::{self, Read},
    path::Path,
    sync::Arc,
    time::SystemTime,
};

use arrow::{
    array::ArrayRef,
    datatypes::{FieldRef, SchemaRef},
};
use parquet::file::metadata::ParquetMetaData;

use super::{
    ColumnType, Format, InputOptions, MixedColumn, PartialColumn, Unit, avro, fingerprint, folders, ipc,
    pages::PageFile,
    parquet::ParquetFile,
    paths::{self, InputFile, InputFiles},
    schema,
    text::{self, CsvFiles},
    union,
    union::FileColumns,
    unit::Source,
};
use crate::{
    error::{DatasetError, DatasetOption, OutputError},
    layout::{KeyLayout, NoLayout},
    manifest::Manifest,
};

/// Files that are read as one table.
///
/// ```no_run
/// use annulus_dataset::{Dataset, InputOptions};
///
/// let dataset = Dataset::open(&["logs/*.csv.gz".to_owned()], &InputOptions::default())?;
/// for unit in &dataset.units {
///     for decoded in unit.read()? {
///         println!("{} rows", decoded?.batch.num_rows());
///     }
/// }
/// # Ok::<(), annulus_dataset::DatasetError>(())
/// ```
#[derive(Debug)]
pub struct Dataset {
    /// The columns of every batch.
    pub schema: SchemaRef,
    /// The parts that are read independently. All units together have each row once.
    pub units: Vec<Unit>,
    /// The files, in the order of their units; none for standard input.
    pub files: Vec<DataFile>,
    /// The bytes of all files; 0 for standard input.
    pub total_bytes: u64,
    /// The partitioning of the files by key, or the reason why it is not known.
    pub layout: Result<KeyLayout, NoLayout>,
    /// Hints from the files on how to write their columns.
    pub hints: ColumnHints,
    /// The columns of CSV files that are text because of a few values.
    pub mixed: Vec<MixedColumn>,
    /// The columns that only some files have.
    pub partial: Vec<PartialColumn>,
    /// The CSV files whose first line was found to be values.
    pub without_header: Vec<String>,
    /// The identity of the opened files: each file's absolute path, size and time of change, and the
    /// options that decide about its rows and units. Equal fingerprints give equal units and
    /// rows. `None` for standard input, which cannot be read again.
    pub fingerprint: Option<String>,
    /// A hash of the fingerprint without the files' real paths and times of change, which differ
    /// from machine to machine.
    pub outline: Option<u64>,
    /// The arguments that opened it; `None` for a stream.
    pub origin: Option<Origin>,
}

/// The arguments that opened a dataset, for another process to open it with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Origin {
    /// The inputs, as they were given.
    pub inputs: Vec<String>,
    /// The options.
    pub options: InputOptions,
}

/// A file of a dataset, for engines that read its format themselves.
#[derive(Clone, Debug)]
pub struct DataFile {
    /// The path.
    pub path: String,
    /// The format.
    pub format: Format,
    /// The length in bytes.
    pub bytes: u64,
    /// The time of its last change, if the file system records it. It was asked for before anything
    /// was read.
    pub modified: Option<SystemTime>,
    /// The metadata of a Parquet file, with its page index if
    /// [`page_index`](InputOptions::page_index) is set.
    pub metadata: Option<Arc<ParquetMetaData>>,
    /// Whether timestamps of 96 bits are read as [`InputOptions::int96`] says; `None` if there are
    /// none. They are not if the file has an Arrow schema.
    pub coerces_int96: Option<bool>,
    /// The file's own columns and those of its folders. The dataset's may have wider types, and more
    /// columns.
    pub schema: SchemaRef,
    /// The columns that its folders name, with the one value of each.
    pub constants: Vec<(FieldRef, ArrayRef)>,
}

/// Hints from files on how to write their columns.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ColumnHints {
    dictionary: Vec<bool>,
}

impl ColumnHints {
    /// Returns whether the column was dictionary encoded throughout, so that a dictionary pays;
    /// `None` if the format does not say.
    pub fn dictionary(&self, column: usize) -> Option<bool> {
        self.dictionary.get(column).copied()
    }

    /// Returns the hints for the columns of `schema`, if all files have them.
    fn from_sources(schema: &SchemaRef, sources: &[Box<dyn Source>]) -> Self {
        let mut dictionary = vec![true; schema.fields().len()];
        for source in sources {
            let (columns, Some(told)) = (source.schema(), source.dictionary_columns()) else { return Self::default() };
            for (column, field) in schema.fields().iter().enumerate() {
                dictionary[column] &= columns.index_of(field.name()).is_ok_and(|place| told[place]);
            }
        }
        Self { dictionary }
    }
}

impl Dataset {
    /// Finds the files and reads as much of each as its schema needs.
    ///
    /// An input is a file, a folder (all files of known formats below it; names that begin with `.`
    /// or `_` are passed over, and the manifest and the bad rows of a dataset that was written
    /// there, whose files must be those of the manifest), a glob, or, alone, `-` for an Arrow
    /// IPC stream on standard input. CSV and JSON files without a byte are passed over. Folders
    /// below an input, or behind a glob's first wildcard, that are named `column=value` are
    /// columns, after those of the files.
    ///
    /// The files' columns are united by name. A column that a file lacks is null for its rows, and
    /// types are widened without loss.
    ///
    /// # Errors
    /// If an input names no file, a file cannot be read, or no type holds the values of a column in
    /// all files. Without [`InputOptions::union_by_name`], if the files do not have the same columns.
    pub fn open(inputs: &[String], options: &InputOptions) -> Result<Self, DatasetError> {
        Self::open_like(inputs, options, None, |_| Ok(()))
    }

    /// Opens a dataset as [`open`](Self::open) does, after `check` has allowed each file. With `like`,
    /// the columns of another dataset come first, and are null where the files lack them.
    ///
    /// # Errors
    /// As `open`, or the first error of `check`.
    pub fn open_like<E: From<DatasetError>>(
        inputs: &[String],
        options: &InputOptions,
        like: Option<SchemaRef>,
        check: impl Fn(&Path) -> Result<(), E>,
    ) -> Result<Self, E> {
        if inputs.iter().any(|input| input == "-") {
            return match (inputs, options.format) {
                ([_], None | Some(Format::Ipc)) => Ok(Self::from_stream("standard input", Box::new(io::stdin()))?),
                _ => Err(DatasetError::Config {
                    option: DatasetOption::Inputs,
                    value: inputs.join(" "),
                    remedy: "standard input (-) stands alone, and is an Arrow IPC stream".to_owned(),
                })?,
            };
        }
        let found = paths::files(inputs, options)?;
        found.files.iter().try_for_each(|file| check(Path::new(&file.place)))?;
        Ok(Self::of_files(inputs, found, options, like)?)
    }

    fn of_files(
        inputs: &[String],
        found: InputFiles,
        options: &InputOptions,
        like: Option<SchemaRef>,
    ) -> Result<Self, DatasetError> {
        let InputFiles { mut files, manifest } = found;
        files.retain(|file| file.bytes > 0 || !file.format.is_text());
        if files.is_empty() {
            return Err(DatasetError::NoInput { input: inputs.join(" "), remedy: "all files are empty" });
        }
        let typed = manifest.as_ref().map(|manifest| with_written_types(options, manifest));
        let CsvFiles { sources, mixed, without_header } = sources(&files, typed.as_ref().unwrap_or(options))?;
        let columns = files.iter().zip(&sources).map(|(file, source)| FileColumns {
            path: file.path.clone(),
            schema: source.schema(),
            of_folders: source.constants().iter().map(|(field, _)| field.name().clone()).collect(),
        });
        let like = like.map(|schema| FileColumns { path: "the table".to_owned(), schema, of_folders: Vec::new() });
        let columns: Vec<_> = like.into_iter().chain(columns).collect();
        let schema = union::unify(&columns, options.union_by_name)?;
        let partial = union::partial(&schema, &columns);
        schema::check_given(&schema, &options.types)?;
        let hints = ColumnHints::from_sources(&schema, &sources);
        let shown = files.iter().zip(&sources).map(|(file, source)| DataFile {
            path: file.place.clone(),
            format: file.format,
            bytes: file.bytes,
            modified: file.modified,
            metadata: source.parquet_metadata(),
            coerces_int96: source.coerces_int96(),
            schema: source.schema(),
            constants: source.constants(),
        });
        let shown: Vec<_> = shown.collect();
        // Messages call copies by other names than the layout.
        let layout = manifest.filter(|_| options.copies.is_empty()).ok_or(NoLayout::NoManifest);
        let paths = || shown.iter().map(|file| Path::new(&file.path));
        let layout =
            layout.and_then(|manifest| KeyLayout::from_manifest(Path::new(&inputs[0]), &manifest, &schema, paths()));
        let is_parquet = || shown.iter().all(|file| file.format == Format::Parquet);
        let schema = match &layout {
            Ok(layout) if options.hashed_keys => layout.as_hashed(&schema, is_parquet()),
            _ => schema,
        };
        let parts = sources.into_iter().flat_map(|source| union::parts(source, &schema, options));
        let units = parts.enumerate().map(|(index, part)| Unit::new(index, part)).collect();
        let (fingerprint, outline) = fingerprint::compute(options, &files);
        let total_bytes = files.iter().map(|file| file.bytes).sum();
        let (fingerprint, outline) = (Some(fingerprint), Some(outline));
        let has_copies = files.iter().any(|file| file.path != file.place);
        let origin = (!has_copies).then(|| Origin { inputs: inputs.to_vec(), options: options.clone() });
        Ok(Self {
            schema,
            units,
            files: shown,
            total_bytes,
            layout,
            hints,
            mixed,
            partial,
            without_header,
            fingerprint,
            outline,
            origin,
        })
    }

    /// Returns the dataset of an Arrow IPC stream, which can be read once. Errors call it `name`.
    ///
    /// # Errors
    /// If it cannot be read, or does not begin with a schema.
    pub fn from_stream(name: &str, reader: Box<dyn Read + Send>) -> Result<Self, DatasetError> {
        let stream = ipc::Once::open(name, reader)?;
        let columns =
            FileColumns { path: name.to_owned(), schema: Arc::clone(stream.schema()), of_folders: Vec::new() };
        let schema = union::unify(&[columns], true)?;
        let units = vec![Unit::new(0, Box::new(stream))];
        let (files, hints, layout) = (vec![], ColumnHints::default(), Err(NoLayout::NoManifest));
        let (mixed, partial) = (vec![], vec![]);
        let (fingerprint, outline, origin) = (None, None, None);
        let without_header = vec![];
        Ok(Self {
            schema,
            units,
            files,
            total_bytes: 0,
            layout,
            hints,
            mixed,
            partial,
            without_header,
            fingerprint,
            outline,
            origin,
        })
    }

    /// Returns an error if a file of the dataset lies in a folder that is to be written to.
    ///
    /// # Errors
    /// [`OutputError::HoldsInput`]: the run would replace the file, or read what it wrote.
    pub fn refuse_inputs_in(&self, dir: &Path) -> Result<(), OutputError> {
        // A folder that is not there holds nothing.
        let Ok(real_dir) = dir.canonicalize() else { return Ok(()) };
        let lies_within = |path: &&str| Path::new(path).canonicalize().is_ok_and(|path| path.starts_with(&real_dir));
        let mut paths: Vec<&str> = self.units.iter().map(Unit::path).collect();
        paths.dedup();
        match paths.into_iter().find(lies_within) {
            Some(input) => Err(OutputError::HoldsInput { path: dir.to_owned(), input: input.to_owned() }),
            None => Ok(()),
        }
    }
}

/// Returns `options` with the types that a dataset's columns had when they were written. Text files
/// of the dataset do not have them. CSV files have a header, and no lists or objects.
fn with_written_types(options: &InputOptions, manifest: &Manifest) -> InputOptions {
    let mut typed = options.clone();
    typed.csv.header = options.csv.header.or(Some(true));
    for column in manifest.columns.iter().filter(|column| options.types.type_for(&column.name).is_none()) {
        if let Some(written) = ColumnType::written(&column.data_type) {
            typed.types.columns.push((column.name.clone(), written));
        }
    }
    typed
}

/// Opens the files, in their order. CSV and JSON files are opened together, because their columns
/// are inferred from all.
fn sources(files: &[InputFile], options: &InputOptions) -> Result<CsvFiles, DatasetError> {
    let of = |format| files.iter().filter(|file| file.format == format).collect::<Vec<_>>();
    let CsvFiles { sources: csv, mixed, without_header } = text::open_csv(&of(Format::Csv), options)?;
    let mut csv = csv.into_iter();
    let mut json = text::open_json(&of(Format::Json), options)?.into_iter();
    let mut sources = vec![];
    for file in files {
        match file.format {
            Format::Parquet => sources.push(Box::new(ParquetFile::open(file, options)?) as Box<dyn Source>),
            Format::Ipc => sources.push(ipc::open(file)?),
            Format::Pages => sources.push(Box::new(PageFile::open(file)?)),
            Format::Avro => sources.push(avro::open(file)?),
            Format::Csv => sources.extend(csv.next()),
            Format::Json => sources.extend(json.next()),
        }
    }
    Ok(CsvFiles { sources: folders::with_columns(files, sources, options)?, mixed, without_header })
}
