//! The rows that a calibration repartitions.

use std::sync::Arc;

use annulus_datafusion::profile::{BATCH_ROWS, Layout, row_bytes};
use anyhow::Result;
use arrow::array::{ArrayRef, Float64Array, Int64Array, RecordBatch, StringArray, StringViewArray};
use rand::{Rng, SeedableRng, rngs::StdRng};

use crate::repartition::Input;

/// The seed of the rows.
const SEED: u64 = 1;
/// The most bytes of different rows: more than caches hold.
const MOST_BYTES: usize = 64 << 20;
/// The batches of an input partition in a run. With few, starting and ending would be what is
/// measured.
const INPUT_BATCHES: usize = 8;

/// Columns of rows: an integer key, and what follows it.
#[derive(Clone, Copy, Debug)]
pub struct Rows {
    pub layout: Layout,
    /// The number of columns of fixed width besides the key, and of strings.
    numbers: usize,
    strings: usize,
}

impl Rows {
    /// What is measured: a key alone, a few columns, many, and strings in both layouts.
    pub const ALL: [Self; 5] = [
        Self { layout: Layout::Fixed, numbers: 0, strings: 0 },
        Self { layout: Layout::Fixed, numbers: 5, strings: 0 },
        Self { layout: Layout::Fixed, numbers: 31, strings: 0 },
        Self { layout: Layout::Views, numbers: 3, strings: 2 },
        Self { layout: Layout::Variable, numbers: 3, strings: 2 },
    ];

    /// Generates the rows of a run with `inputs` partitions, about `most` at most. Those that go
    /// beyond what caches hold are repeated.
    pub fn generate(self, most: usize, inputs: usize) -> Result<Input> {
        let mut random = StdRng::seed_from_u64(SEED);
        let bytes = row_bytes(&self.batch(&mut random, 0)?.schema());
        let different = most.min(MOST_BYTES / bytes.max(1)).div_ceil(BATCH_ROWS).max(1);
        let wanted = (INPUT_BATCHES * inputs).min(most.div_ceil(BATCH_ROWS)).max(different);
        let batches = (0..different).map(|_| self.batch(&mut random, BATCH_ROWS)).collect::<Result<Vec<_>>>()?;
        Input::new(batches.into_iter().cycle().take(wanted).collect())
    }

    /// Generates a row for each of `inputs` partitions: next to nothing.
    pub fn generate_few(self, inputs: usize) -> Result<Input> {
        let mut random = StdRng::seed_from_u64(SEED);
        Input::new((0..inputs).map(|_| self.batch(&mut random, 1)).collect::<Result<_>>()?)
    }

    fn batch(self, random: &mut StdRng, rows: usize) -> Result<RecordBatch> {
        let key: ArrayRef = Arc::new((0..rows).map(|_| random.random::<i64>()).collect::<Int64Array>());
        let mut columns = vec![("key".to_owned(), key)];
        for index in 0..self.numbers {
            let numbers: ArrayRef = match index % 2 {
                0 => Arc::new((0..rows).map(|_| random.random::<i64>()).collect::<Int64Array>()),
                _ => Arc::new((0..rows).map(|_| random.random::<f64>()).collect::<Float64Array>()),
            };
            columns.push((format!("number{index}"), numbers));
        }
        for index in 0..self.strings {
            // Most are longer than what a view holds in itself, 12 bytes.
            let words = (0..rows).map(|_| {
                let width = random.random_range(4..28);
                Some(format!("{:0width$}", random.random_range(0..10_000)))
            });
            let strings: ArrayRef = match self.layout {
                Layout::Views => Arc::new(words.collect::<StringViewArray>()),
                _ => Arc::new(words.collect::<StringArray>()),
            };
            columns.push((format!("string{index}"), strings));
        }
        Ok(RecordBatch::try_from_iter(columns)?)
    }
}
