#![doc = include_str!("../README.md")]
#![forbid(unsafe_code)]
#![warn(missing_docs)]

mod batches;
mod columns;
mod derive;
mod hit;
mod random;
mod text;

pub use batches::Batches;

use random::Random;
use std::{ops::Range, sync::Arc};

use arrow::{
    datatypes::{Field, Schema, SchemaRef},
    error::ArrowError,
    record_batch::RecordBatch,
};

/// The version of the generator: tables of another version have other values.
pub const VERSION: u32 = 1;

/// The most rows of a batch. Their text fits into Arrow's 32-bit offsets.
pub const BATCH_ROWS_MAX: u64 = 1 << 20;

/// A generated table: a number of rows and a seed. Its batches can be generated in any order, by
/// any number of threads, and nothing is kept.
///
/// ```
/// use annulus_hits::Hits;
///
/// let hits = Hits::new(1_000, 42);
/// let batch = hits.batch(0..100)?;
/// assert_eq!((batch.num_rows(), batch.num_columns()), (100, 105));
/// assert_eq!(hits.batch(10..20)?, batch.slice(10, 10));
/// # Ok::<_, arrow::error::ArrowError>(())
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Hits {
    rows: u64,
    random: Random,
    rates: Rates,
}

/// The probabilities of what the queries look for. Each is the real table's, or higher in a small
/// table, where the queries would find nothing.
#[derive(Clone, Copy, Debug)]
struct Rates {
    /// The site that queries 37 to 43 read.
    site: f64,
    /// The visitor that query 20 looks up.
    visitor: f64,
    /// Addresses that contain `google`.
    google_url: f64,
    /// Titles that contain `Google`.
    google_title: f64,
}

impl Hits {
    /// Returns the table of `rows` rows for `seed`.
    pub fn new(rows: u64, seed: u64) -> Self {
        // The probability that gives about `least` rows of the table, but no more than a fifth.
        let enough = |least: f64| (least / rows.max(1) as f64).min(0.2);
        let rates = Rates {
            site: enough(8_000.0).max(0.0074),
            visitor: enough(12.0),
            google_url: enough(200.0).max(0.00016),
            google_title: enough(200.0).max(0.0004),
        };
        Self { rows, random: Random::new(seed), rates }
    }

    /// Returns the number of rows of the table.
    pub fn rows(&self) -> u64 {
        self.rows
    }

    /// Generates the rows whose numbers, from 0, are in `rows`. Rows beyond the table are left out.
    /// Takes about 2 µs a row.
    ///
    /// # Errors
    /// If the range has more than [`BATCH_ROWS_MAX`] rows.
    pub fn batch(&self, rows: Range<u64>) -> Result<RecordBatch, ArrowError> {
        batches::batch(self, rows)
    }

    /// Returns an iterator over batches of `batch_rows` rows, at least 1, that together have the
    /// rows in `rows`.
    pub fn batches(&self, rows: Range<u64>, batch_rows: u64) -> Batches {
        Batches::new(*self, rows, batch_rows)
    }
}

/// Returns the 105 columns, with the types of ClickBench's `hits.parquet`; none is nullable.
/// `EventDate` is in days since 1970, and the times are in seconds since 1970.
pub fn schema() -> SchemaRef {
    let field = |column: &columns::Column| Field::new(column.name, column.fill.data_type(), false);
    Arc::new(Schema::new(columns::COLUMNS.iter().map(field).collect::<Vec<_>>()))
}
