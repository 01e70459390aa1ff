//! The table of keys that are all numbers from the least to the greatest, with the rows in their order: a
//! look-up reads no memory.

use arrow::{
    array::{Array, ArrayData, ArrayRef, UInt32Array, make_array},
    compute::take,
    datatypes::ArrowNativeType,
};

use super::{
    build::{HashConfig, KeyTables},
    dense::{DenseTable, UniqueTable},
    memory::{Block, Plain},
};
use crate::{
    error::JoinError,
    fetch::{gathered, values_of},
    key::Key,
    parallel,
};

/// The most values that are moved to bring rows into the order of their keys. That costs about as much as
/// a look-up in memory for each value, and saves one for each row of the other side, whose number is not
/// known here.
const MOST_VALUES: usize = 4 << 20;
/// The number of values that a thread moves at a time.
const CHUNK: usize = 1 << 14;

/// The table.
#[derive(Debug)]
pub(super) struct OrderedTable {
    /// The least key, that of the first row.
    first: u64,
    rows: u32,
}

impl OrderedTable {
    /// Returns the least key, and the number of keys.
    pub(super) fn members(&self) -> (u64, usize) {
        (self.first, self.rows as usize)
    }
}

impl UniqueTable for OrderedTable {
    #[inline(always)]
    fn row_after(&self, key: impl Key) -> u32 {
        let row = key.wide().wrapping_sub(self.first);
        if row < u64::from(self.rows) { row as u32 + 1 } else { 0 }
    }

    fn misses_caches(&self) -> bool {
        false
    }

    #[inline(always)]
    fn prefetch(&self, _key: impl Key) {}
}

/// Returns the table, and the rows in the order of their keys, if all numbers are keys and the rows are in
/// this order or few. Else returns what it was given. O(values).
pub(super) fn in_key_order(
    table: DenseTable,
    columns: Vec<ArrayRef>,
    config: &HashConfig,
) -> Result<(KeyTables, Vec<ArrayRef>), JoinError> {
    let rows = columns.first().map_or(0, |column| column.len());
    let (first, places) = table.places();
    if places.len() != rows || places.contains(&0) {
        return Ok((KeyTables::Dense(table), columns));
    }
    let ordered = KeyTables::Ordered(OrderedTable { first, rows: rows as u32 });
    if places.iter().zip(1..).all(|(&row, next)| row == next) {
        return Ok((ordered, columns));
    }
    if rows.saturating_mul(columns.len()) > MOST_VALUES {
        return Ok((KeyTables::Dense(table), columns));
    }
    let order = UInt32Array::from_iter_values(places.iter().map(|&row| row - 1));
    let moved = columns.iter().map(|column| moved(column, &order, config)).collect::<Result<_, _>>()?;
    Ok((ordered, moved))
}

/// Returns a column in another order.
fn moved(column: &ArrayRef, order: &UInt32Array, config: &HashConfig) -> Result<ArrayRef, JoinError> {
    let width = column.data_type().primitive_width().filter(|_| column.null_count() == 0);
    let found = match width {
        Some(4) => in_block::<u32>(&column.to_data(), order, config)?,
        Some(8) => in_block::<u64>(&column.to_data(), order, config)?,
        _ => None,
    };
    Ok(match found {
        Some(column) => column,
        None => take(column, order, None)?,
    })
}

/// Returns a column of values as wide as `T` in another order, on huge pages if it is large.
fn in_block<T: ArrowNativeType + Plain>(
    data: &ArrayData,
    order: &UInt32Array,
    config: &HashConfig,
) -> Result<Option<ArrayRef>, JoinError> {
    let Some(values) = values_of::<T>(data) else { return Ok(None) };
    let mut moved = Block::<T>::new(order.len(), config.keeps_memory)?;
    let parts = moved.as_mut_slice().chunks_mut(CHUNK).zip(order.values().chunks(CHUNK)).collect();
    parallel::map(config.threads, parts, |(to, order): (&mut [T], &[u32])| {
        to.copy_from_slice(&gathered(&values, order));
    });
    let data = ArrayData::builder(data.data_type().clone()).len(order.len()).add_buffer(moved.into_buffer());
    Ok(Some(make_array(data.build()?)))
}
