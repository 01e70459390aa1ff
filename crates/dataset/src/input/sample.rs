//! Samples a dataset's rows.

use std::sync::Arc;

use arrow::{
    array::{RecordBatch, UInt32Array},
    compute::{concat_batches, take_record_batch},
};

use super::Dataset;
use crate::error::{DatasetError, DatasetOption};

const MIN_UNITS: usize = 64;
const MAX_UNITS: usize = 512;
const ROWS_PER_UNIT: usize = 64;

impl Dataset {
    /// Returns a random sample of about `rows` rows, or all rows if there are fewer, with the
    /// columns at `columns` in that order. The sample is taken from up to 512 units, evenly
    /// spread over the dataset. The same dataset gives the same sample. Bad rows are left out
    /// unless they are errors.
    ///
    /// # Errors
    /// If the dataset can be read only once, or a unit cannot be read.
    pub fn sample(&self, columns: &[usize], rows: usize) -> Result<RecordBatch, DatasetError> {
        if self.fingerprint.is_none() {
            return Err(DatasetError::Config {
                option: DatasetOption::Inputs,
                value: "standard input, which can be read only once".to_owned(),
                remedy: format!(
                    "a sample is needed first: give split points ({}), or put the input into a file",
                    DatasetOption::Ranges
                ),
            });
        }
        let mut sampler = Sampler { rows, threshold: u64::MAX, pieces: vec![], kept: 0 };
        let chosen = (rows / ROWS_PER_UNIT).clamp(MIN_UNITS, MAX_UNITS).min(self.units.len());
        for place in 0..chosen {
            let unit = &self.units[place * self.units.len() / chosen];
            let mut number = (unit.index() as u64) << 40;
            for decoded in unit.read_columns(columns)? {
                let batch = decoded?.batch;
                sampler.add(&batch, number)?;
                number += batch.num_rows() as u64;
            }
        }
        let schema = Arc::new(self.schema.project(columns)?);
        Ok(concat_batches(&schema, sampler.pieces.iter().map(|(batch, _)| batch))?)
    }
}

/// Keeps the rows whose random number is below a threshold, which is halved whenever there are too
/// many rows.
struct Sampler {
    rows: usize,
    threshold: u64,
    pieces: Vec<(RecordBatch, Vec<u64>)>,
    kept: usize,
}

impl Sampler {
    /// Adds a batch whose first row has the number `first` in the dataset.
    fn add(&mut self, batch: &RecordBatch, first: u64) -> Result<(), DatasetError> {
        let numbers = (0..batch.num_rows() as u64).map(|row| random(first + row)).collect();
        self.push(batch, numbers)?;
        while self.kept > 2 * self.rows.max(1) {
            self.threshold /= 2;
            self.kept = 0;
            for (batch, numbers) in std::mem::take(&mut self.pieces) {
                self.push(&batch, numbers)?;
            }
        }
        Ok(())
    }

    fn push(&mut self, batch: &RecordBatch, mut numbers: Vec<u64>) -> Result<(), DatasetError> {
        let below = |(row, number): (u32, &u64)| (*number <= self.threshold).then_some(row);
        let rows: UInt32Array = (0..).zip(&numbers).filter_map(below).collect::<Vec<u32>>().into();
        if !rows.is_empty() {
            numbers.retain(|number| *number <= self.threshold);
            self.kept += numbers.len();
            self.pieces.push((take_record_batch(batch, &rows)?, numbers));
        }
        Ok(())
    }
}

/// SplitMix64 (Steele, Lea and Flood, *Fast Splittable Pseudorandom Number Generators*, OOPSLA
/// 2014).
pub(crate) fn random(number: u64) -> u64 {
    let mut bits = number.wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    bits = (bits ^ (bits >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    bits = (bits ^ (bits >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    bits ^ (bits >> 31)
}
