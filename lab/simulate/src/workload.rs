//! What is exchanged.

use serde::Serialize;

/// Bytes of a cache line.
pub const LINE: f64 = 64.0;
/// Bytes of a page of memory.
pub const PAGE: f64 = 4096.0;

/// The distribution of the sizes of rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum RowSizes {
    /// All rows have the mean size.
    Uniform,
    /// Normally distributed: the standard deviation is a quarter of the mean.
    Normal,
}

/// A batch and the row it is made of.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Workload {
    /// Rows of a batch.
    pub rows: usize,
    /// The mean size of a row, in bytes.
    pub row_bytes: usize,
    /// The distribution of the sizes of rows.
    pub sizes: RowSizes,
}

impl Workload {
    /// Returns the bytes of a batch's rows.
    pub fn batch_bytes(&self) -> f64 {
        (self.rows * self.row_bytes) as f64
    }

    /// Returns the bytes of a batch with its index: an offset and a number of four bytes for each
    /// row, as in the paper's artifact.
    pub fn indexed_bytes(&self) -> f64 {
        self.batch_bytes() + 8.0 * self.rows as f64
    }

    /// Returns the lines that a core waits for when it reads one row of a batch. Rows of one size
    /// do not cross lines until they are larger. Of a long row, only the first line is waited
    /// for, and the second where it was cut.
    pub fn lines_of_row(&self) -> f64 {
        match self.sizes {
            RowSizes::Uniform => 1.0,
            RowSizes::Normal => 1.0 + ((self.row_bytes as f64 - 1.0) / LINE).clamp(0.0, 1.0),
        }
    }
}
