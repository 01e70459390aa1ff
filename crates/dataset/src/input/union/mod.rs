//! One schema for files whose columns differ, by name.
//!
//! ```text
//! schemas of the files -> unify -> schema of the dataset; wider.rs: the type of each column
//! parts of a file      -> parts -> the same with the dataset's columns; conform.rs: casts
//! ```

mod conform;
mod wider;

use std::{
    collections::{HashMap, HashSet},
    sync::Arc,
};

use arrow::{
    array::{RecordBatch, RecordBatchOptions, new_null_array},
    datatypes::{DataType, Field, FieldRef, Fields, Schema, SchemaRef},
    error::ArrowError,
};

use super::{
    InputOptions,
    schema::project,
    unit::{Batches, DecodedBatch, Part, Source},
};
use crate::error::{DatasetError, DatasetOption};

use conform::conform;
use wider::{wider_field, with_nulls};

/// The columns of a file.
pub(super) struct FileColumns {
    pub(super) path: String,
    pub(super) schema: SchemaRef,
    /// The columns that its folders name.
    pub(super) of_folders: Vec<String>,
}

/// A column that only some of a dataset's files have. It is null for the rows of the others.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct PartialColumn {
    /// The column's name.
    pub column: String,
    /// The number of files that do not have it.
    pub files_without: usize,
    /// The first of these files.
    pub example: String,
}

/// A column of all files, with the file that its type is from.
struct Column<'a> {
    field: FieldRef,
    path: &'a str,
    of_folders: bool,
    files: usize,
}

/// Returns the schema of all files: the columns of the first file in its order, then those that
/// others add, and last those of folders. With `by_name`, a column may be missing from files, and
/// has a type that holds the values of all files. A column is nullable if it is in any file.
///
/// # Errors
/// If a file has a column twice. If types differ and none holds the values of both or, without
/// `by_name`, if the columns differ. The layouts of text, and of bytes, count as the same type.
pub(super) fn unify(files: &[FileColumns], by_name: bool) -> Result<SchemaRef, DatasetError> {
    let Some(first) = files.first() else { return Ok(Arc::new(Schema::empty())) };
    let mut columns: Vec<Column<'_>> = vec![];
    let mut places: HashMap<&str, usize> = HashMap::new();
    for file in files {
        check_unique(file)?;
        for field in file.schema.fields() {
            let of_folders = file.of_folders.contains(field.name());
            let Some(&place) = places.get(field.name().as_str()) else {
                if !by_name && !std::ptr::eq(file, first) {
                    return Err(differs(file, field, format!("is not in '{}'; {}", first.path, same())));
                }
                places.insert(field.name(), columns.len());
                columns.push(Column { field: Arc::clone(field), path: &file.path, of_folders, files: 1 });
                continue;
            };
            let column = &mut columns[place];
            let united = wider_field(&column.field, field).filter(|_| by_name || is_same(&column.field, field));
            let united = united.ok_or_else(|| differs(file, field, other_type(column, field, by_name)))?;
            if united.data_type() != column.field.data_type() {
                column.path = &file.path;
            }
            (column.field, column.of_folders, column.files) =
                (united, column.of_folders && of_folders, column.files + 1);
        }
        if !by_name
            && let Some(missing) = columns.iter().find(|column| file.schema.index_of(column.field.name()).is_err())
        {
            return Err(differs(file, &missing.field, format!("is missing, but '{}' has it; {}", first.path, same())));
        }
    }
    // The columns of folders stand last.
    columns.sort_by_key(|column| column.of_folders);
    let field = |column: &Column<'_>| match column.files == files.len() {
        true => with_plain_floats(&column.field),
        false => with_plain_floats(&with_nulls(&column.field)),
    };
    let fields: Fields = columns.iter().map(field).collect();
    Ok(Arc::new(Schema::new_with_metadata(fields, first.schema.metadata().clone())))
}

/// Returns a column with floats in place of a dictionary of floats: DataFusion 55 and Arrow compare and hash
/// its values by their bits, so that 0.0 is not equal to -0.0.
fn with_plain_floats(field: &FieldRef) -> FieldRef {
    match field.data_type() {
        DataType::Dictionary(_, values) if values.is_floating() => {
            Arc::new(Field::clone(field).with_data_type(values.as_ref().clone()))
        }
        _ => Arc::clone(field),
    }
}

/// Returns why files that differ are refused.
fn same() -> String {
    format!("without {}, all files have the same columns and types", DatasetOption::UnionByName)
}

/// Returns whether two types have the same values, possibly in another layout.
fn is_same(left: &FieldRef, right: &FieldRef) -> bool {
    let (left, right) = (left.data_type(), right.data_type());
    let is_bytes = |of: &DataType| matches!(of, DataType::Binary | DataType::LargeBinary | DataType::BinaryView);
    left == right || left.is_string() && right.is_string() || is_bytes(left) && is_bytes(right)
}

fn differs(file: &FileColumns, field: &FieldRef, reason: String) -> DatasetError {
    DatasetError::Schema { path: file.path.clone(), column: field.name().clone(), reason }
}

fn other_type(column: &Column<'_>, field: &FieldRef, by_name: bool) -> String {
    let (found, other, path) = (field.data_type(), column.field.data_type(), column.path);
    let remedy = match by_name {
        true => format!(
            "no type holds both without loss, so {} cannot unite them; name files of one type, or give the column of \
             text files a type ({})",
            DatasetOption::UnionByName,
            DatasetOption::Types
        ),
        false => same(),
    };
    format!("has type {found}, but {other} in '{path}'; {remedy}")
}

/// Returns an error if the file has a column twice.
fn check_unique(file: &FileColumns) -> Result<(), DatasetError> {
    let mut names = HashSet::new();
    match file.schema.fields().iter().find(|field| !names.insert(field.name())) {
        Some(field) => Err(differs(file, field, "appears twice; columns are distinguished by name".to_owned())),
        None => Ok(()),
    }
}

/// Returns the columns of `schema` that some files do not have.
pub(super) fn partial(schema: &Schema, files: &[FileColumns]) -> Vec<PartialColumn> {
    let partial = |field: &FieldRef| {
        let mut without = files.iter().filter(|file| file.schema.index_of(field.name()).is_err());
        let example = without.next()?.path.clone();
        Some(PartialColumn { column: field.name().clone(), files_without: 1 + without.count(), example })
    };
    schema.fields().iter().filter_map(partial).collect()
}

/// Returns the parts of a file, whose batches have the columns of `schema`, the dataset's.
pub(super) fn parts(source: Box<dyn Source>, schema: &SchemaRef, options: &InputOptions) -> Vec<Box<dyn Part>> {
    let found = source.schema();
    let own = |field: &FieldRef| found.field_with_name(field.name()).ok();
    let fits = |field: &FieldRef| own(field).is_some_and(|own| own.data_type() == field.data_type());
    if schema.fields().iter().all(fits) {
        return source.parts(schema, options);
    }
    let fields: Fields = schema.fields().iter().filter_map(own).cloned().collect();
    let places = schema.fields().iter().map(|field| fields.find(field.name()).map(|(place, _)| place));
    let places: Arc<[Option<usize>]> = places.collect();
    let own = Arc::new(Schema::new_with_metadata(fields, schema.metadata().clone()));
    let part = |part: Box<dyn Part>| {
        Box::new(WiderPart { part, schema: Arc::clone(schema), places: Arc::clone(&places) }) as Box<dyn Part>
    };
    source.parts(&own, options).into_iter().map(part).collect()
}

/// A part of a file that lacks columns of the dataset, or has narrower types.
struct WiderPart {
    part: Box<dyn Part>,
    /// The columns of the dataset.
    schema: SchemaRef,
    /// For each column of `schema` its place among the file's; `None` if the file lacks it.
    places: Arc<[Option<usize>]>,
}

impl Part for WiderPart {
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
        let places: Vec<Option<usize>> = columns.unwrap_or(&all).iter().map(|&column| self.places[column]).collect();
        let own: Vec<usize> = places.iter().flatten().copied().collect();
        let path = self.part.path().to_owned();
        Ok(Box::new(self.part.read(Some(&own))?.map(move |decoded| {
            let DecodedBatch { batch, input_bytes, bad } = decoded?;
            Ok(DecodedBatch { batch: widen(&batch, &schema, &places, &path)?, input_bytes, bad })
        })))
    }
}

/// Returns `batch` of the file at `path` with the columns of `schema`, which are null where the file
/// has no place for them.
fn widen(
    batch: &RecordBatch,
    schema: &SchemaRef,
    places: &[Option<usize>],
    path: &str,
) -> Result<RecordBatch, DatasetError> {
    let mut found = batch.columns().iter();
    let column = |(field, place): (&FieldRef, &Option<usize>)| {
        let Some(column) = place.and_then(|_| found.next()) else {
            return Ok(new_null_array(field.data_type(), batch.num_rows()));
        };
        conform(column, field.data_type()).map_err(|error| DatasetError::Schema {
            path: path.to_owned(),
            column: field.name().clone(),
            reason: format!(
                "has a value that the type which unites it with other files does not hold ({}); read the file as a \
                 table of its own, or cast the column there",
                text(error)
            ),
        })
    };
    let columns = schema.fields().iter().zip(places).map(column).collect::<Result<_, _>>()?;
    let rows = RecordBatchOptions::new().with_row_count(Some(batch.num_rows()));
    Ok(RecordBatch::try_new_with_options(Arc::clone(schema), columns, &rows)?)
}

/// Returns the text of an error without its kind.
fn text(error: ArrowError) -> String {
    match error {
        ArrowError::CastError(text) | ArrowError::ArithmeticOverflow(text) => text,
        other => other.to_string(),
    }
}
