//! Hashes the keys of rows.

use std::panic::{AssertUnwindSafe, catch_unwind};

use arrow::{
    array::{ArrayRef, RecordBatch, new_empty_array},
    compute::cast,
    datatypes::{DataType, Schema},
    error::ArrowError,
};
use datafusion_common::hash_utils::{RandomState, create_hashes};

use crate::error::DatasetError;

/// The state of DataFusion's `REPARTITION_RANDOM_STATE` (`datafusion_physical_plan::repartition`),
/// which is `SeededRandomState::with_seed(0)`. The seed is copied because that crate is the whole
/// engine.
const SEED: u64 = 0;

/// Hashes the key columns of batches, bit for bit as DataFusion's `RepartitionExec` does for
/// columns of the same types.
///
/// Types matter: the same text hashes differently in a `Utf8` and in a `Utf8View` column.
#[derive(Clone, Debug)]
pub struct KeyHasher {
    columns: Vec<usize>,
    /// For each key column, the type to hash it as, if that is not its own.
    cast: Vec<Option<DataType>>,
    state: RandomState,
}

impl KeyHasher {
    /// Returns a hasher for the columns `keys` of `schema`.
    ///
    /// # Errors
    /// If `keys` is empty, a column does not exist, or its type cannot be hashed.
    pub fn new(schema: &Schema, keys: &[String]) -> Result<Self, DatasetError> {
        let columns = key_columns(schema, keys)?;
        for &column in &columns {
            let field = schema.field(column);
            if !is_hashable(field.data_type()) {
                return Err(DatasetError::Key {
                    column: field.name().clone(),
                    reason: format!("values of type {} cannot be hashed; choose another column", field.data_type()),
                });
            }
        }
        Ok(Self { cast: vec![None; columns.len()], columns, state: RandomState::with_seed(SEED) })
    }

    /// Returns a hasher that hashes texts and bytes as views. By default, DataFusion reads them
    /// from Parquet as views (`datafusion.execution.parquet.schema_force_view_types`), and hashes
    /// them like this.
    pub fn as_views(mut self, schema: &Schema) -> Self {
        let view = |&column: &usize| match schema.field(column).data_type() {
            DataType::Utf8 | DataType::LargeUtf8 => Some(DataType::Utf8View),
            DataType::Binary | DataType::LargeBinary => Some(DataType::BinaryView),
            _ => None,
        };
        self.cast = self.columns.iter().map(view).collect();
        self
    }

    /// Returns whether a column is hashed as another type than its own.
    pub(super) fn casts(&self) -> bool {
        self.cast.iter().any(Option::is_some)
    }

    /// Returns the same hasher for batches that have only the key columns, in their order.
    pub(crate) fn of_keys_alone(&self) -> Self {
        Self { columns: (0..self.columns.len()).collect(), ..self.clone() }
    }

    /// Returns the positions of the key columns in the schema.
    pub fn columns(&self) -> &[usize] {
        &self.columns
    }

    /// Replaces `hashes` with the hash of each row's key.
    ///
    /// # Errors
    /// If the batch does not have the schema that this was made for.
    pub fn hash(&self, batch: &RecordBatch, hashes: &mut Vec<u64>) -> Result<(), DatasetError> {
        hashes.clear();
        hashes.resize(batch.num_rows(), 0);
        let mut keys = keys_of(batch, &self.columns)?;
        for (key, data_type) in keys.iter_mut().zip(&self.cast) {
            if let Some(data_type) = data_type {
                *key = cast(key, data_type)?;
            }
        }
        create_hashes(&keys, &self.state, hashes).map_err(|error| ArrowError::ExternalError(Box::new(error)))?;
        Ok(())
    }
}

/// Returns the positions of the columns `keys`.
pub(super) fn key_columns(schema: &Schema, keys: &[String]) -> Result<Vec<usize>, DatasetError> {
    if keys.is_empty() {
        return Err(DatasetError::Config {
            option: "by",
            value: "empty".to_owned(),
            remedy: "name at least one key column".to_owned(),
        });
    }
    let place = |key: &String| {
        schema.index_of(key).map_err(|_| {
            let names: Vec<_> = schema.fields().iter().map(|field| field.name().as_str()).collect();
            let reason = format!("there is no such column; choose among {}", names.join(", "));
            DatasetError::Key { column: key.clone(), reason }
        })
    };
    keys.iter().map(place).collect()
}

/// Returns the columns of a batch at the positions `columns`.
pub(super) fn keys_of(batch: &RecordBatch, columns: &[usize]) -> Result<Vec<ArrayRef>, DatasetError> {
    let key = |&column: &usize| {
        batch.columns().get(column).cloned().ok_or_else(|| {
            let (has, wanted) = (batch.num_columns(), column + 1);
            ArrowError::SchemaError(format!("a batch has {has} columns, its keys need {wanted}")).into()
        })
    };
    columns.iter().map(key).collect()
}

/// Returns whether DataFusion can hash a type, by trying its hash function. That refuses a type
/// with an error, or with a panic if the type is nested.
fn is_hashable(data_type: &DataType) -> bool {
    let try_it = || create_hashes([&new_empty_array(data_type)], &RandomState::with_seed(SEED), &mut []).is_ok();
    catch_unwind(AssertUnwindSafe(try_it)).unwrap_or(false)
}
