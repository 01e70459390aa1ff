//! Columns whose values are in the names of folders: `year=2013/month=1/part.csv`.

use std::{
    collections::{HashMap, hash_map::Entry},
    path::{Path, PathBuf},
    sync::Arc,
};

use arrow::{
    array::{Array, ArrayRef, RecordBatch, RecordBatchOptions, StringArray, UInt32Array},
    compute::take,
    datatypes::{DataType, Field, FieldRef, Schema, SchemaRef},
    error::ArrowError,
};
use parquet::file::metadata::ParquetMetaData;

use super::{
    InputOptions,
    guess::widen,
    paths::InputFile,
    schema::project,
    unit::{Batches, DecodedBatch, Part, Source, Sources},
    values::ValueSyntax,
};
use crate::{
    error::{DatasetError, DatasetOption},
    exact::parse_column,
    folder_name::{NULL_FOLDER, decoded, value_of},
    folder_types::as_read,
};

/// A column that a folder name gives, and its value; `None` is null.
pub(super) type FolderValue = (String, Option<String>);

/// Returns the values in the names of `folders` that are `column=value`, from the outermost.
pub(super) fn values_of<'a>(folders: impl Iterator<Item = &'a str>) -> Vec<FolderValue> {
    let pairs = folders.filter_map(|folder| folder.split_once('=')).filter(|(column, _)| !column.is_empty());
    // No writer makes escapes that are not UTF-8, so they are kept unchanged.
    let text = |text: &str| decoded(text).unwrap_or_else(|| text.to_owned());
    pairs.map(|(column, value)| (text(column), (value != NULL_FOLDER).then(|| text(value)))).collect()
}

/// Iterates over the names of the folders between `root` and the file `path`.
pub(super) fn folders_below<'a>(root: &Path, path: &'a Path) -> impl Iterator<Item = &'a str> {
    let folder = path.strip_prefix(root).ok().and_then(Path::parent).unwrap_or(Path::new(""));
    folder.iter().filter_map(|name| name.to_str())
}

/// Adds the columns of its file's folders to each source. A column that the file has itself is not
/// added.
///
/// # Errors
/// If a value is not of the type that is given or recorded for its column.
pub(super) fn with_columns(
    files: &[InputFile],
    sources: Sources,
    options: &InputOptions,
) -> Result<Sources, DatasetError> {
    let mut types = HashMap::new();
    for (column, _) in files.iter().flat_map(|file| &file.folder_values) {
        if let Entry::Vacant(entry) = types.entry(column.as_str()) {
            entry.insert(column_type(files, column, options)?);
        }
    }
    let with_column = |(file, source): (&InputFile, Box<dyn Source>)| {
        if file.folder_values.is_empty() {
            return Ok(source);
        }
        let own = source.schema();
        let values = file.folder_values.iter().filter(|(column, _)| own.field_with_name(column).is_err());
        let constants = values.map(|(column, value)| {
            let array = types[column.as_str()].value(value.as_deref());
            let array = array.map_err(|reason| wrong(file, column, reason))?;
            Ok((Arc::new(Field::new(column, array.data_type().clone(), true)), array))
        });
        let constants = constants.collect::<Result<_, DatasetError>>()?;
        Ok(Box::new(InFolders { source, constants }) as Box<dyn Source>)
    };
    files.iter().zip(sources).map(with_column).collect()
}

fn wrong(file: &InputFile, column: &str, reason: String) -> DatasetError {
    DatasetError::Schema { path: file.path.clone(), column: column.to_owned(), reason }
}

/// The type of a column in folders' names, and where it comes from.
enum FolderType {
    Given(DataType),
    Recorded(DataType, PathBuf),
    Guessed(DataType),
}

impl FolderType {
    /// Returns a column with its one value.
    ///
    /// # Errors
    /// The reason, if the text is not a value of the type.
    fn value(&self, text: Option<&str>) -> Result<ArrayRef, String> {
        let is_not =
            |data_type: &DataType| format!("the folder's value '{}' is not a {data_type}", text.unwrap_or_default());
        match self {
            Self::Given(data_type) | Self::Guessed(data_type) => {
                // An empty text is null in a column of other values, as in CSV files.
                let text = text.filter(|text| !text.is_empty() || data_type.is_string());
                let texts: ArrayRef = Arc::new(StringArray::from(vec![text]));
                parse_column(&texts, data_type).map_err(|_| format!("{}; {}", is_not(data_type), another_type()))
            }
            Self::Recorded(data_type, path) => value_of(text, data_type).ok_or_else(|| {
                let path = path.display();
                format!("{}, as '{path}' says; {}", is_not(data_type), another_type())
            }),
        }
    }
}

fn another_type() -> String {
    format!("give the column another type ({})", DatasetOption::Types)
}

/// Returns the type of a column in the folders of all files: the type that is given, or that a
/// dataset records, or integer or date if that keeps all values as they are written, otherwise text.
///
/// # Errors
/// If datasets record different types.
fn column_type(files: &[InputFile], column: &str, options: &InputOptions) -> Result<FolderType, DatasetError> {
    if let Some(given) = options.types.type_for(column) {
        return Ok(FolderType::Given(given));
    }
    let having = || files.iter().filter(|file| file.folder_values.iter().any(|(name, _)| name == column));
    let mut recorded = having().filter_map(|file| {
        let recorded = file.recorded.as_ref()?;
        Some((file, recorded, recorded.type_of(column)?))
    });
    if let Some((_, record, first)) = recorded.next() {
        if let Some((file, other, differs)) = recorded.find(|(.., data_type)| as_read(data_type) != as_read(first)) {
            let (path, other) = (record.path.display(), other.path.display());
            let reason = format!(
                "is {differs} by '{other}', but {first} by '{path}'; give it one type ({}), or read them apart",
                DatasetOption::Types
            );
            return Err(wrong(file, column, reason));
        }
        return Ok(FolderType::Recorded(first.clone(), record.path.clone()));
    }
    let values = files.iter().flat_map(|file| &file.folder_values).filter(|(name, _)| name == column);
    let inferred = values.filter_map(|(_, value)| value.as_deref()).map(exact_type);
    Ok(FolderType::Guessed(match inferred.fold(DataType::Null, |left, right| widen(&left, &right)) {
        kept @ (DataType::Int64 | DataType::Date32) => kept,
        _ => DataType::Utf8,
    }))
}

/// Returns the type that gives `text` when its value is written: `-0`, `007` and `` are texts.
fn exact_type(text: &str) -> DataType {
    let inferred = ValueSyntax::default().infer(text);
    let is_exact = matches!(inferred, DataType::Int64 | DataType::Date32) && value_of(Some(text), &inferred).is_some();
    if is_exact { inferred } else { DataType::Utf8 }
}

/// A file with additional columns that have one value each.
struct InFolders {
    source: Box<dyn Source>,
    constants: Vec<(FieldRef, ArrayRef)>,
}

impl Source for InFolders {
    fn schema(&self) -> SchemaRef {
        let own = self.source.schema();
        let fields = own.fields().iter().chain(self.constants.iter().map(|(field, _)| field)).cloned();
        Arc::new(Schema::new_with_metadata(fields.collect::<Vec<_>>(), own.metadata().clone()))
    }

    fn dictionary_columns(&self) -> Option<Vec<bool>> {
        let mut told = self.source.dictionary_columns()?;
        told.resize(told.len() + self.constants.len(), true);
        Some(told)
    }

    fn constants(&self) -> Vec<(FieldRef, ArrayRef)> {
        self.constants.clone()
    }

    fn parquet_metadata(&self) -> Option<Arc<ParquetMetaData>> {
        self.source.parquet_metadata()
    }

    fn coerces_int96(&self) -> Option<bool> {
        self.source.coerces_int96()
    }

    fn parts(self: Box<Self>, schema: &SchemaRef, options: &InputOptions) -> Vec<Box<dyn Part>> {
        let Self { source, constants } = *self;
        let place = |field: &FieldRef| constants.iter().position(|(constant, _)| constant.name() == field.name());
        let places: Vec<Option<usize>> = schema.fields().iter().map(place).collect();
        let own: Vec<_> = schema.fields().iter().zip(&places).filter(|(_, place)| place.is_none()).collect();
        let own = Schema::new_with_metadata(
            own.into_iter().map(|(field, _)| Arc::clone(field)).collect::<Vec<_>>(),
            schema.metadata().clone(),
        );
        let constants: Arc<[ArrayRef]> = constants.into_iter().map(|(_, value)| value).collect();
        let places: Arc<[Option<usize>]> = places.into();
        let parts = source.parts(&Arc::new(own), options).into_iter();
        let part = |part| {
            Box::new(InFolder {
                part,
                schema: Arc::clone(schema),
                places: Arc::clone(&places),
                constants: Arc::clone(&constants),
            }) as Box<dyn Part>
        };
        parts.map(part).collect()
    }
}

/// A part of a file, to whose batches the folders' columns are added.
struct InFolder {
    part: Box<dyn Part>,
    /// The columns of the dataset.
    schema: SchemaRef,
    /// For each column of `schema` its index in `constants`; `None` if it is the file's own.
    places: Arc<[Option<usize>]>,
    constants: Arc<[ArrayRef]>,
}

impl Part for InFolder {
    fn path(&self) -> &str {
        self.part.path()
    }

    fn bytes(&self) -> u64 {
        self.part.bytes()
    }

    fn rows(&self) -> Option<u64> {
        self.part.rows()
    }

    fn read(&self, columns: Option<&[usize]>) -> Result<Batches, DatasetError> {
        let schema = project(&self.schema, columns)?;
        let all: Vec<usize> = (0..self.places.len()).collect();
        let columns = columns.unwrap_or(&all).to_vec();
        let own_place = |column: &usize| self.places[..*column].iter().filter(|place| place.is_none()).count();
        let own: Vec<usize> = columns.iter().filter(|column| self.places[**column].is_none()).map(own_place).collect();
        let (places, constants) = (Arc::clone(&self.places), Arc::clone(&self.constants));
        Ok(Box::new(self.part.read(Some(&own))?.map(move |decoded| {
            let DecodedBatch { batch, input_bytes, bad } = decoded?;
            let mut found = batch.columns().iter().cloned();
            let repeat = UInt32Array::from(vec![0; batch.num_rows()]);
            let column = |column: &usize| match places[*column] {
                Some(place) => take(&constants[place], &repeat, None),
                None => {
                    found.next().ok_or_else(|| ArrowError::SchemaError("a column of the file is missing".to_owned()))
                }
            };
            let arrays = columns.iter().map(column).collect::<Result<Vec<_>, _>>()?;
            let rows = RecordBatchOptions::new().with_row_count(Some(batch.num_rows()));
            let batch = RecordBatch::try_new_with_options(Arc::clone(&schema), arrays, &rows)?;
            Ok(DecodedBatch { batch, input_bytes, bad })
        })))
    }
}
