//! The key columns of a side, as numbers that are equal if the keys are. For some types the numbers
//! are hashes.
//!
//! ```text
//! one column of 4 or 8 bytes, exact in its bits      -> the column itself
//! one boolean, float, or column of 1 or 2 bytes      -> a hidden column of u32 or u64, exact
//! strings, or several columns without floats         -> a hidden column of u64 hashes; compared in place
//! anything else (Arrow's row format makes it bytes)  -> hidden columns: u64 hash of the bytes, and the bytes
//! ```
//! Where a build side is looked up by batches ([`Finder`](crate::Finder)), several columns and short
//! strings may be numbers of 64 bits that are exact (`pack`).
//!
//! Hidden columns follow the user's. They are clustered and sent with them, and never shown.

mod compare;
mod encode;
mod hash;
mod pack;

use std::sync::Arc;

use arrow::{
    array::{Array, ArrayRef, RecordBatch, UInt64Array},
    buffer::{NullBuffer, ScalarBuffer},
    datatypes::{DataType, Field, Schema, SchemaRef},
    error::ArrowError,
    row::{RowConverter, SortField},
};

pub(crate) use compare::{Data, Values};
pub(crate) use encode::{one_zero, with_wide_offsets};
pub(crate) use hash::{Key, hash_of};
pub(crate) use pack::PackedLayout;

use crate::{bits::bits, error::JoinError};

/// The key columns of one side.
#[derive(Debug)]
pub struct Keys {
    schema: SchemaRef,
    columns: Vec<usize>,
    nulls_equal: bool,
    kind: Kind,
    /// The user's columns, then the hidden ones.
    full: SchemaRef,
}

#[derive(Debug)]
enum Kind {
    /// No key at all.
    Nothing,
    /// The column itself.
    Plain,
    /// A hidden column of numbers that are equal where the keys are.
    Converted,
    /// A hidden column of hashes.
    Hashed,
    /// A hidden column of numbers that are equal where the keys are, in place of hashes.
    Packed(Arc<PackedLayout>),
    /// Hidden columns of hashes and bytes.
    Bytes(RowConverter),
}

/// A batch with its keys as numbers.
#[derive(Debug)]
pub(crate) struct KeyedBatch {
    /// The user's columns, then the hidden ones.
    pub(crate) columns: Vec<ArrayRef>,
    pub(crate) values: KeyValues,
    /// Null for rows with a null key.
    pub(crate) nulls: Option<NullBuffer>,
}

/// The keys of some rows as numbers.
#[derive(Clone, Debug)]
pub(crate) enum KeyValues {
    Narrow(ScalarBuffer<u32>),
    Wide(ScalarBuffer<u64>),
}

/// The number of rows whose keys are computed at a time, for keys that are costly to compute.
const PIECE_ROWS: usize = 1 << 16;

impl Keys {
    /// Returns the keys in the columns `columns` of a side that has `schema`. A row with a null key
    /// matches nothing; with `nulls_equal` it matches the rows whose keys are null in the same
    /// places. Keys compare as in DataFusion: -0.0 equals 0.0, and a NaN equals one with the same
    /// bits. Within lists, structs and other nested values all bits count.
    ///
    /// # Errors
    /// If `columns` is empty or names a column that does not exist, or a column's type cannot be
    /// compared.
    pub fn new(schema: &SchemaRef, columns: &[usize], nulls_equal: bool) -> Result<Self, JoinError> {
        if columns.is_empty() {
            let message = "a hash join needs a key: name at least one column of each side";
            return Err(ArrowError::InvalidArgumentError(message.into()).into());
        }
        let key_schema = schema.project(columns)?;
        let types: Vec<&DataType> = key_schema.fields().iter().map(|field| field.data_type()).collect();
        let (kind, hidden) = match types[..] {
            [single] if is_plain(single) => (Kind::Plain, vec![]),
            [single] if encode::is_convertible(single) => (Kind::Converted, vec![encode::converted_type(single)]),
            _ if types.iter().all(|data_type| Values::has(data_type)) => (Kind::Hashed, vec![DataType::UInt64]),
            _ => (Kind::Bytes(converter(&types)?), vec![DataType::UInt64, DataType::LargeBinary]),
        };
        let full = with_hidden(schema, hidden);
        Ok(Self { schema: Arc::clone(schema), columns: columns.to_vec(), nulls_equal, kind, full })
    }

    /// Returns keys without a column, for joins that do not find their pairs by hash.
    pub fn none(schema: &SchemaRef) -> Self {
        Self::none_beside(schema, [])
    }

    /// Returns keys without a column, of rows with hidden columns of these types.
    pub(crate) fn none_beside(schema: &SchemaRef, hidden: impl IntoIterator<Item = DataType>) -> Self {
        let full = with_hidden(schema, hidden);
        Self { schema: Arc::clone(schema), columns: Vec::new(), nulls_equal: false, kind: Kind::Nothing, full }
    }

    /// Returns the keys with the numbers of a [`PackedLayout`] in place of hashes, if those of the batches, a
    /// build side, allow it. O(rows).
    pub(crate) fn packed(self, batches: &[RecordBatch], threads: usize) -> Self {
        if !matches!(self.kind, Kind::Hashed) || self.nulls_equal {
            return self;
        }
        match PackedLayout::new(batches, &self.columns, threads) {
            Some(layout) => Self { kind: Kind::Packed(Arc::new(layout)), ..self },
            None => self,
        }
    }

    /// Returns how the keys are packed, if they are.
    pub(crate) fn layout(&self) -> Option<&Arc<PackedLayout>> {
        if let Kind::Packed(layout) = &self.kind { Some(layout) } else { None }
    }

    /// Returns the schema of the side.
    pub fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    /// Returns whether null keys match null keys.
    pub fn nulls_equal(&self) -> bool {
        self.nulls_equal
    }

    /// Iterates over the types of the key columns.
    pub fn types(&self) -> impl ExactSizeIterator<Item = &DataType> {
        self.columns.iter().map(|&column| self.schema.field(column).data_type())
    }

    /// Checks that these keys, of the build side, can be compared with `probe`, of the probe side.
    ///
    /// # Errors
    /// [`JoinError::KeyCount`] or [`JoinError::KeyTypes`] if they cannot; [`JoinError::Fragment`]
    /// if they differ about nulls.
    pub fn check(&self, probe: &Self) -> Result<(), JoinError> {
        if self.columns.len() != probe.columns.len() {
            return Err(JoinError::KeyCount { build: self.columns.len(), probe: probe.columns.len() });
        }
        if let Some((index, (build, probe))) =
            self.types().zip(probe.types()).enumerate().find(|(_, (a, b))| !a.equals_datatype(b))
        {
            return Err(JoinError::KeyTypes { index, build: build.clone(), probe: probe.clone() });
        }
        if self.nulls_equal != probe.nulls_equal {
            return Err(JoinError::Fragment { what: "only one of the sides treats null keys as equal" });
        }
        Ok(())
    }

    /// Returns the user's columns, then the hidden ones.
    pub(crate) fn full(&self) -> &SchemaRef {
        &self.full
    }

    /// Returns whether keys are costly to compute, so that threads should compute those of a few
    /// rows at a time.
    pub(crate) fn is_costly(&self) -> bool {
        !matches!(self.kind, Kind::Plain)
    }

    /// Returns whether keys are equal if and only if their numbers are.
    pub(crate) fn are_numbers(&self) -> bool {
        matches!(self.kind, Kind::Plain | Kind::Converted | Kind::Packed(_))
    }

    /// Returns whether all rows that are null in [`KeyedBatch::nulls`] match each other.
    pub(crate) fn null_rows_match(&self) -> bool {
        self.nulls_equal && !self.has_null_values()
    }

    /// Returns whether nulls are values of their columns as others are.
    fn has_null_values(&self) -> bool {
        self.nulls_equal && matches!(self.kind, Kind::Hashed | Kind::Bytes(_))
    }

    /// Returns what must be equal beside the numbers, as these may stand for different keys, from
    /// columns that have been extended.
    pub(crate) fn compared(&self, columns: &[ArrayRef]) -> Vec<Values> {
        match self.kind {
            Kind::Hashed => {
                self.columns.iter().map(|&column| Values::from_column(&columns[column], self.nulls_equal)).collect()
            }
            Kind::Bytes(_) => columns.last().map(|bytes| Values::from_column(bytes, false)).into_iter().collect(),
            _ => Vec::new(),
        }
    }

    /// Returns the numbers, from columns that have been extended.
    pub(crate) fn values(&self, columns: &[ArrayRef]) -> KeyValues {
        KeyValues::from_column(&columns[self.key_column()])
    }

    /// Returns the index of the column with the numbers.
    pub(crate) fn key_column(&self) -> usize {
        if matches!(self.kind, Kind::Plain) { self.columns[0] } else { self.schema.fields().len() }
    }

    /// Checks that a batch belongs to this side.
    ///
    /// # Errors
    /// If it does not have the side's columns.
    pub(crate) fn check_columns(&self, batch: &RecordBatch) -> Result<(), JoinError> {
        let types = |schema: &Schema| schema.fields().iter().map(|field| field.data_type().clone()).collect::<Vec<_>>();
        if !Arc::ptr_eq(&self.schema, batch.schema_ref()) && types(&self.schema) != types(batch.schema_ref()) {
            let message = format!("a batch has columns {}, and its side {}", batch.schema_ref(), self.schema);
            return Err(ArrowError::SchemaError(message).into());
        }
        Ok(())
    }

    /// Cuts a batch into pieces of which keys are computed at a time: the bytes of those of a whole
    /// build side may be more than Arrow's arrays hold.
    pub(crate) fn pieces(batch: &RecordBatch) -> impl Iterator<Item = RecordBatch> {
        let starts = (0..batch.num_rows()).step_by(PIECE_ROWS);
        starts.map(|start| batch.slice(start, PIECE_ROWS.min(batch.num_rows() - start)))
    }

    /// Computes the keys of a batch.
    ///
    /// # Errors
    /// If the batch does not have the side's columns, or a kernel fails.
    pub(crate) fn extend(&self, batch: &RecordBatch) -> Result<KeyedBatch, JoinError> {
        self.extend_packed(self.layout(), batch)
    }

    /// Computes the keys of a batch, as numbers of this layout of the build side, if any.
    ///
    /// # Errors
    /// As for [`extend`](Self::extend).
    pub(crate) fn extend_packed(
        &self,
        layout: Option<&Arc<PackedLayout>>,
        batch: &RecordBatch,
    ) -> Result<KeyedBatch, JoinError> {
        self.check_columns(batch)?;
        if let Kind::Nothing = self.kind {
            return Err(JoinError::Fragment { what: "it has no key to cluster by" });
        }
        let keys: Vec<ArrayRef> = self.columns.iter().map(|&column| Arc::clone(batch.column(column))).collect();
        let mut columns = batch.columns().to_vec();
        let nulls = if self.has_null_values() {
            None
        } else {
            keys.iter().fold(None, |nulls, key| NullBuffer::union(nulls.as_ref(), key.logical_nulls().as_ref()))
        };
        let mut nulls = nulls.filter(|nulls| nulls.null_count() > 0);
        match (&self.kind, layout) {
            (Kind::Nothing | Kind::Plain, _) => {}
            (Kind::Converted, _) => columns.push(encode::converted(&keys[0])),
            (Kind::Hashed | Kind::Packed(_), Some(layout)) => {
                let numbers;
                (numbers, nulls) = layout.pack(&keys, nulls);
                columns.push(Arc::new(UInt64Array::from(numbers)));
            }
            (Kind::Hashed | Kind::Packed(_), None) => {
                let hashes = compare::hashes(&keys, batch.num_rows(), self.nulls_equal);
                columns.push(Arc::new(UInt64Array::from(hashes)));
            }
            (Kind::Bytes(converter), _) => columns.extend(encode::hashes_and_bytes(converter, &keys)?),
        }
        Ok(KeyedBatch { values: self.values(&columns), nulls, columns })
    }
}

impl KeyedBatch {
    pub(crate) fn rows(&self) -> usize {
        self.values.len()
    }
}

impl KeyValues {
    /// Returns the bits of a column of 4 or 8 bytes per value.
    fn from_column(column: &ArrayRef) -> Self {
        match column.data_type().primitive_width() {
            Some(4) => Self::Narrow(bits(column)),
            _ => Self::Wide(bits(column)),
        }
    }

    pub(crate) fn len(&self) -> usize {
        match self {
            Self::Narrow(values) => values.len(),
            Self::Wide(values) => values.len(),
        }
    }
}

/// Returns the columns of a schema, then hidden ones of these types.
fn with_hidden(schema: &SchemaRef, hidden: impl IntoIterator<Item = DataType>) -> SchemaRef {
    let hidden = hidden.into_iter().map(|data_type| Arc::new(Field::new("", data_type, false)));
    Arc::new(Schema::new(schema.fields().iter().cloned().chain(hidden).collect::<Vec<_>>()))
}

/// Returns whether keys of this type are equal if and only if their 4 or 8 bytes are.
fn is_plain(data_type: &DataType) -> bool {
    !data_type.is_floating() && matches!(data_type.primitive_width(), Some(4 | 8))
}

fn converter(types: &[&DataType]) -> Result<RowConverter, JoinError> {
    let field = |data_type: &DataType| SortField::new(data_type.clone());
    if let Some(index) = types.iter().position(|data_type| !RowConverter::supports_fields(&[field(data_type)])) {
        return Err(JoinError::KeyUnsupported { index, data_type: types[index].clone() });
    }
    Ok(RowConverter::new(types.iter().map(|data_type| field(data_type)).collect())?)
}
