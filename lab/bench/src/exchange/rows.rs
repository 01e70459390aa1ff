//! The rows that are exchanged, and the checksums by which they are checked.

use std::sync::Arc;

use annulus_exchange::{ExchangeError, transport::Parcel};
use annulus_rows::partition::{Modulo, RowIndex};
use anyhow::{Result, anyhow};
use rand::{Rng, RngCore, SeedableRng, rngs::StdRng};
use rand_distr::{Distribution, Normal, Zipf};

use super::args::{ExchangeArgs, Keys, Sizes};

/// The number of keys of Zipf's law.
const KEYS: f64 = 1_048_576.0;

/// A number of rows, and the sum of their checksums, in any order.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    pub rows: u64,
    pub checksum: u64,
}

impl Tally {
    /// Adds a row.
    #[inline]
    pub fn add(&mut self, row: &[u8]) {
        self.rows += 1;
        self.checksum = self.checksum.wrapping_add(checksum(row));
    }

    /// Adds rows whose checksums were computed elsewhere.
    #[inline]
    pub fn add_checksum(&mut self, checksum: u64) {
        self.rows += 1;
        self.checksum = self.checksum.wrapping_add(checksum);
    }

    /// Adds `other`, `times` times.
    pub fn merge(&mut self, other: Self, times: u64) {
        self.rows += other.rows * times;
        self.checksum = self.checksum.wrapping_add(other.checksum.wrapping_mul(times));
    }
}

/// Adds a word to a row's checksum. Cheap, so that the exchange is what takes time.
#[inline]
pub fn mix(sum: u64, word: u64) -> u64 {
    (sum ^ word).wrapping_mul(0x9E37_79B9_7F4A_7C15)
}

#[inline]
fn checksum(row: &[u8]) -> u64 {
    let (words, rest) = row.as_chunks::<8>();
    let sum = words.iter().fold(0, |sum, word| mix(sum, u64::from_le_bytes(*word)));
    if rest.is_empty() {
        return sum;
    }
    let mut last = [0; 8];
    last[..rest.len()].copy_from_slice(rest);
    mix(sum, u64::from_le_bytes(last))
}

/// A batch to make copies of.
pub struct Template {
    pub bytes: Vec<u8>,
    /// Where each row ends. All rows have the same size if there are none.
    pub ends: Option<Arc<[u32]>>,
    pub row_bytes: usize,
    pub hashes: Vec<u64>,
}

impl Template {
    /// Creates a batch of random rows. The same seed gives the same rows.
    pub fn new(args: &ExchangeArgs, row_bytes: u32, seed: u64) -> Result<Self> {
        let mut random = StdRng::seed_from_u64(seed);
        let rows = args.rows as usize;
        let sizes = match args.sizes {
            Sizes::Uniform => vec![row_bytes; rows],
            Sizes::Normal => {
                let mean = f64::from(row_bytes);
                let normal = Normal::new(mean, mean / 4.0).map_err(|error| anyhow!("--row-bytes: {error}"))?;
                let size = |value: f64| value.round().clamp(1.0, 2.0 * mean) as u32;
                (0..rows).map(|_| size(normal.sample(&mut random))).collect()
            }
        };
        let ends: Arc<[u32]> = sizes
            .iter()
            .scan(0, |end, size| {
                *end += size;
                Some(*end)
            })
            .collect();
        let mut bytes = vec![0; ends.last().copied().unwrap_or(0) as usize];
        random.fill_bytes(&mut bytes);
        let hashes = match args.keys {
            Keys::Uniform => (0..rows).map(|_| random.random()).collect(),
            Keys::Zipf => {
                let zipf = Zipf::new(KEYS, args.exponent).map_err(|error| anyhow!("--exponent: {error}"))?;
                (0..rows).map(|_| (zipf.sample(&mut random) as u64).wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 16).collect()
            }
        };
        let ends = (args.sizes == Sizes::Normal).then_some(ends);
        Ok(Self { bytes, ends, row_bytes: row_bytes as usize, hashes })
    }

    /// Returns the tally of each consumer.
    pub fn tallies(&self, modulo: &Modulo) -> Result<Vec<Tally>> {
        let batch = self.batch(modulo)?;
        Ok((0..modulo.consumers()).map(|consumer| batch.tally(consumer)).collect())
    }

    /// Returns a copy in new memory, indexed by consumer.
    pub fn batch(&self, modulo: &Modulo) -> Result<Batch, ExchangeError> {
        let mut index = RowIndex::new();
        index.fill_from_hashes(&self.hashes, modulo)?;
        let (bytes, ends) = (self.bytes.clone(), self.ends.clone());
        Ok(Batch(Arc::new(IndexedRows { bytes, ends, row_bytes: self.row_bytes, index })))
    }
}

struct IndexedRows {
    bytes: Vec<u8>,
    ends: Option<Arc<[u32]>>,
    row_bytes: usize,
    index: RowIndex,
}

/// Rows, and the consumer of each.
#[derive(Clone)]
pub struct Batch(Arc<IndexedRows>);

impl Parcel for Batch {
    fn concerns(&self, consumer: usize) -> bool {
        !self.0.index.range(consumer).is_empty()
    }
}

impl Batch {
    /// Reads every byte of a consumer's rows.
    pub fn tally(&self, consumer: usize) -> Tally {
        let IndexedRows { bytes, ends, row_bytes, index } = &*self.0;
        let mut tally = Tally::default();
        let rows = index.rows_of(consumer);
        match ends {
            None => rows.as_slice().iter().for_each(|row| {
                let start = *row as usize * row_bytes;
                tally.add(&bytes[start..start + row_bytes]);
            }),
            Some(ends) => rows.as_slice().iter().for_each(|row| {
                let row = *row as usize;
                let start = if row == 0 { 0 } else { ends[row - 1] };
                tally.add(&bytes[start as usize..ends[row] as usize]);
            }),
        }
        tally
    }
}
