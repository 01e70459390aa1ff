//! The hash of a row's key.

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
/// which is `SeededRandomState::with_seed(0)`. By value, because that crate is the whole engine.
const SEED: u64 = 0;

/// Hashes the key columns of batches, bit for bit as DataFusion's `RepartitionExec` does for
/// columns of the same types.
///
/// Types matter: the same text hashes differently in a `Utf8` and in a `Utf8View` column.
#[derive(Clone, Debug)]
pub struct KeyHasher {
    columns: Vec<usize>,
    /// For each of them, the type to hash it as, where that is another one.
    cast: Vec<Option<DataType>>,
    state: RandomState,
}

impl KeyHasher {
    /// For the columns `keys` of `schema`.
    ///
    /// # Errors
    /// If there is none, one does not exist, or its type cannot be hashed.
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

    /// With texts and bytes hashed as views. DataFusion reads them from Parquet as views unless
    /// told otherwise (`datafusion.execution.parquet.schema_force_view_types`), so this is how
    /// it hashes what it reads from there.
    pub fn as_views(mut self, schema: &Schema) -> Self {
        let view = |&column: &usize| match schema.field(column).data_type() {
            DataType::Utf8 | DataType::LargeUtf8 => Some(DataType::Utf8View),
            DataType::Binary | DataType::LargeBinary => Some(DataType::BinaryView),
            _ => None,
        };
        self.cast = self.columns.iter().map(view).collect();
        self
    }

    /// Whether some are hashed as another type than they have.
    pub(super) fn casts(&self) -> bool {
        self.cast.iter().any(Option::is_some)
    }

    /// The same for batches that have nothing but the key columns, in their order.
    pub(crate) fn of_keys_alone(&self) -> Self {
        Self { columns: (0..self.columns.len()).collect(), ..self.clone() }
    }

    /// The key columns' places in the schema.
    pub fn columns(&self) -> &[usize] {
        &self.columns
    }

    /// Writes the hash of each row's key to `hashes`, in place of what was there.
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

/// The places of the columns `keys`.
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

/// The columns at `columns` of a batch.
pub(super) fn keys_of(batch: &RecordBatch, columns: &[usize]) -> Result<Vec<ArrayRef>, DatasetError> {
    let key = |&column: &usize| {
        batch.columns().get(column).cloned().ok_or_else(|| {
            let (has, wanted) = (batch.num_columns(), column + 1);
            ArrowError::SchemaError(format!("a batch has {has} columns, its keys need {wanted}")).into()
        })
    };
    columns.iter().map(key).collect()
}

/// Asks the hash function itself; it refuses a type by an error, or by a panic where a type is
/// nested.
fn is_hashable(data_type: &DataType) -> bool {
    let try_it = || create_hashes([&new_empty_array(data_type)], &RandomState::with_seed(SEED), &mut []).is_ok();
    catch_unwind(AssertUnwindSafe(try_it)).unwrap_or(false)
}
