//! Hashes the keys of rows.

use std::{
    hash::Hasher,
    panic::{AssertUnwindSafe, catch_unwind},
    sync::{Arc, OnceLock},
};

use arrow::{
    array::{ArrayRef, Int32Array, Int64Array, RecordBatch, StringArray, new_empty_array},
    compute::{can_cast_types, cast},
    datatypes::{DataType, Field, Schema, TimeUnit},
    error::ArrowError,
};
use datafusion_common::hash_utils::{RandomState, create_hashes};
use twox_hash::XxHash64;

use crate::{
    column_types::{view_of, with_type},
    error::{DatasetError, DatasetOption},
};

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
    /// The type that each key column is hashed as.
    types: Arc<[DataType]>,
    state: RandomState,
}

impl KeyHasher {
    /// Returns a hasher for the columns `keys` of `schema`.
    ///
    /// # Errors
    /// If `keys` is empty, a column does not exist, or its type cannot be hashed.
    pub fn new(schema: &Schema, keys: &[String]) -> Result<Self, DatasetError> {
        Self::with_types(schema, keys, DataType::clone)
    }

    /// Returns a hasher for which equal values have equal hashes whatever their encoding. It hashes
    /// texts and bytes as views, values of dictionaries and runs as plain ones, and seconds as
    /// milliseconds. DataFusion reads texts from Parquet as views by default
    /// (`datafusion.execution.parquet.schema_force_view_types`), and hashes them like this.
    ///
    /// # Errors
    /// As [`new`](Self::new).
    pub fn of_values(schema: &Schema, keys: &[String]) -> Result<Self, DatasetError> {
        Self::with_types(schema, keys, value_type)
    }

    /// Returns a hasher that hashes a column as the type that `hashed` returns for its own.
    pub(super) fn with_types(
        schema: &Schema,
        keys: &[String],
        hashed: impl Fn(&DataType) -> DataType,
    ) -> Result<Self, DatasetError> {
        let columns = key_columns(schema, keys)?;
        let mut types = Vec::with_capacity(columns.len());
        for &column in &columns {
            let field = schema.field(column);
            let own = field.data_type();
            let hashed = Some(hashed(own)).filter(|hashed| can_cast_types(own, hashed)).unwrap_or_else(|| own.clone());
            if !is_hashable(&hashed) {
                return Err(DatasetError::Key {
                    column: field.name().clone(),
                    reason: format!("values of type {own} cannot be hashed; choose another column"),
                });
            }
            types.push(hashed);
        }
        Ok(Self { columns, types: types.into(), state: RandomState::with_seed(SEED) })
    }

    /// Returns the type that each key column is hashed as.
    pub(crate) fn types(&self) -> &[DataType] {
        &self.types
    }

    /// Returns whether texts or bytes are hashed as views.
    pub(super) fn has_views(&self) -> bool {
        self.types.iter().any(|hashed| matches!(hashed, DataType::Utf8View | DataType::BinaryView))
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
        self.hash_keys(keys_of(batch, &self.columns)?, batch.num_rows(), hashes)
    }

    /// Replaces `hashes` with the hash of each of `rows` rows, whose key columns are `keys`. These may be dictionaries
    /// of the columns' types.
    pub(crate) fn hash_keys(
        &self,
        mut keys: Vec<ArrayRef>,
        rows: usize,
        hashes: &mut Vec<u64>,
    ) -> Result<(), DatasetError> {
        hashes.clear();
        hashes.resize(rows, 0);
        for (number, (key, hashed)) in keys.iter_mut().zip(self.types.iter()).enumerate() {
            // A cast of a dictionary to views would take nulls among its values for empty ones.
            if let DataType::Dictionary(_, values) = key.data_type()
                && key.data_type() != hashed
            {
                // The hash of a dictionary's row is that of its value, unless another key comes before.
                if number == 0 && **values == *hashed {
                    continue;
                }
                *key = cast(key, values)?;
            }
            if key.data_type() != hashed {
                *key = cast(key, hashed)?;
            }
        }
        create_hashes(&keys, &self.state, hashes).map_err(|error| ArrowError::ExternalError(Box::new(error)))?;
        Ok(())
    }
}

/// The name of the hash that datasets were placed by when their manifests did not name it yet.
pub(super) const FIRST_HASH: &str = "5eda443c3066e3a3";

/// Returns a name for the hash that this build computes: a digest of the hashes of some values of
/// each kind of type, alone and after another key. Another version of DataFusion may hash
/// differently.
pub(super) fn hash_name() -> &'static str {
    static NAME: OnceLock<String> = OnceLock::new();
    NAME.get_or_init(|| format!("{:016x}", probe_digest().unwrap_or_default()))
}

/// Returns the digest of the hashes of known values.
fn probe_digest() -> datafusion_common::Result<u64> {
    let state = RandomState::with_seed(SEED);
    let mut digest = XxHash64::with_seed(0);
    let first: ArrayRef = Arc::new(Int64Array::from(vec![Some(1), None, Some(-3)]));
    for probe in probes()? {
        let mut hashes = [0; PROBE_ROWS];
        create_hashes([&probe], &state, &mut hashes)?;
        let mut later = [0; PROBE_ROWS];
        create_hashes([&first, &probe], &state, &mut later)?;
        hashes.iter().chain(&later).for_each(|hash| digest.write(&hash.to_le_bytes()));
    }
    Ok(digest.finish())
}

/// The number of values of each probe.
const PROBE_ROWS: usize = 3;

/// Returns values whose hashes distinguish one hash function from another: null, and a short and a
/// long value of every kind of type that DataFusion hashes in its own way.
fn probes() -> Result<Vec<ArrayRef>, ArrowError> {
    use DataType::*;
    let texts: ArrayRef = Arc::new(StringArray::from(vec![Some("7"), None, Some("20000000000000000000000000007")]));
    let numbers: ArrayRef = Arc::new(Int32Array::from(vec![Some(7), None, Some(100)]));
    let of_numbers = [Boolean, Int8, Int16, Int32, Int64, UInt8, UInt32, UInt64, Float32, Float64, Decimal128(20, 2)];
    let of_numbers = of_numbers.into_iter().chain([Date32, Time32(TimeUnit::Second)]);
    let of_texts = [Utf8, LargeUtf8, Utf8View, Binary, LargeBinary, BinaryView];
    let of_texts = of_texts.into_iter().chain([Dictionary(Box::new(Int32), Box::new(Utf8))]);
    let numbers = of_numbers.map(|data_type| cast(&numbers, &data_type));
    let texts = of_texts.map(|data_type| cast(&texts, &data_type));
    numbers.chain(texts).collect()
}

/// Returns the type that all encodings of a type's values have in common. DataFusion hashes values
/// by their type: an integer of another width is another type of value.
pub(crate) fn value_type(own: &DataType) -> DataType {
    match own {
        DataType::Dictionary(_, values) => value_type(values),
        DataType::RunEndEncoded(_, values) => value_type(values.data_type()),
        // Parquet has no type for seconds.
        DataType::Timestamp(TimeUnit::Second, zone) => DataType::Timestamp(TimeUnit::Millisecond, zone.clone()),
        own if own.is_nested() => {
            with_type(&Arc::new(Field::new("", own.clone(), true)), &inner_value_type).data_type().clone()
        }
        own => view_of(own).unwrap_or_else(|| own.clone()),
    }
}

/// Returns the type for values within other values, if it is another one. DataFusion does not read
/// those texts as views.
fn inner_value_type(own: &DataType) -> Option<DataType> {
    let plain = |values: &DataType| inner_value_type(values).unwrap_or_else(|| values.clone());
    match own {
        DataType::Dictionary(_, values) => Some(plain(values)),
        DataType::RunEndEncoded(_, values) => Some(plain(values.data_type())),
        DataType::LargeUtf8 | DataType::Utf8View => Some(DataType::Utf8),
        DataType::LargeBinary | DataType::BinaryView => Some(DataType::Binary),
        DataType::Timestamp(TimeUnit::Second, _) => Some(value_type(own)),
        _ => None,
    }
}

/// Returns the positions of the columns `keys`.
pub(crate) fn key_columns(schema: &Schema, keys: &[String]) -> Result<Vec<usize>, DatasetError> {
    if keys.is_empty() {
        return Err(DatasetError::Config {
            option: DatasetOption::By,
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

#[cfg(test)]
mod tests {
    use super::*;

    /// Keys may be read as codes. A run that resumes one by an older version places them as values.
    #[test]
    fn a_dictionary_is_hashed_as_its_values() {
        let first: ArrayRef = Arc::new(Int64Array::from(vec![Some(1), None, Some(-3)]));
        for probe in probes().unwrap() {
            let hashed = probe.data_type().clone();
            let Ok(coded) = cast(&probe, &DataType::Dictionary(DataType::UInt16.into(), hashed.clone().into())) else {
                continue;
            };
            let fields = [DataType::Int64, hashed].map(|data_type| Field::new(data_type.to_string(), data_type, true));
            let schema = Schema::new(
                fields.into_iter().enumerate().map(|(n, f)| f.with_name(n.to_string())).collect::<Vec<_>>(),
            );
            for keys in [&["1"][..], &["0", "1"]] {
                let keys: Vec<String> = keys.iter().map(|&key| key.to_owned()).collect();
                let hasher = KeyHasher::with_types(&schema, &keys, DataType::clone).unwrap();
                let columns = |second: &ArrayRef| match keys.len() {
                    1 => vec![Arc::clone(second)],
                    _ => vec![Arc::clone(&first), Arc::clone(second)],
                };
                let (mut plain, mut of_codes) = (Vec::new(), Vec::new());
                hasher.hash_keys(columns(&probe), PROBE_ROWS, &mut plain).unwrap();
                hasher.hash_keys(columns(&coded), PROBE_ROWS, &mut of_codes).unwrap();
                assert_eq!(plain, of_codes, "{}", probe.data_type());
            }
        }
    }

    /// If this fails, DataFusion hashes differently than before. Datasets written until then are no
    /// longer read as partitioned, and cannot be appended to. Compare with the new name here, and
    /// leave `FIRST_HASH` as it is.
    #[test]
    fn the_hash_is_the_first_one() {
        assert_eq!(hash_name(), FIRST_HASH);
        assert!(probes().unwrap().iter().all(|probe| probe.len() == PROBE_ROWS && probe.logical_null_count() == 1));
    }
}
