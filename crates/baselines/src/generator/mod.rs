//! Tuples from a formula: cheap to make, and every byte of them can be checked on the pages
//! ([`check()`]).
//!
//! Tuple `i` has the upper 32 bits of `splitmix64(seed + i)` as its key. Word `w` of its payload
//! (32 bits, little-endian) is `i + w * 0x9E3779B9`, wrapping; a payload that is no multiple of
//! four bytes ends within a word.

mod check;
mod words;
mod zipf;

use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
    time::{Duration, Instant},
};

use annulus_pages::{
    error::PagesError,
    page::PayloadSize,
    tuples::{TupleBatch, TupleReader, TupleSource},
};
pub use check::{Placement, check};
use zipf::Zipf;

/// How keys are distributed.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Keys {
    /// Evenly over all 32-bit numbers.
    Uniform,
    /// By Zipf's law with this exponent over 2^20 keys; 0 is even. The keys are well mixed: a
    /// partition is as frequent as the keys that fall into it.
    Zipf(f64),
}

/// The payloads of a generator's tuples.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Payload {
    /// All of so many bytes.
    Fixed(u32),
    /// Of up to so many bytes, evenly distributed.
    UpTo(u32),
}

/// A source of tuples numbered from 0, which its readers take in batches.
pub struct Generator {
    tuples: u64,
    seed: u64,
    payload: Payload,
    batch_tuples: usize,
    zipf: Option<Arc<Zipf>>,
    /// The next tuple that no reader has taken.
    next: AtomicU64,
    generated_ns: AtomicU64,
}

impl Generator {
    /// `tuples` tuples in batches of `batch_tuples`.
    ///
    /// # Errors
    /// If there are 2^32 tuples or more, batches are empty or their payloads could reach 4 GiB, or
    /// a Zipf exponent is negative or no number.
    pub fn new(tuples: u64, seed: u64, keys: Keys, payload: Payload, batch_tuples: usize) -> Result<Self, PagesError> {
        let refuse = |option, value, reason| Err(PagesError::Option { option, value, reason });
        if tuples > u64::from(u32::MAX) {
            return refuse("tuples", tuples as usize, "their numbers must fit into 32 bits");
        }
        let (Payload::Fixed(most) | Payload::UpTo(most)) = payload;
        if batch_tuples == 0 || batch_tuples.saturating_mul(most as usize) > u32::MAX as usize {
            return refuse(
                "batch_tuples",
                batch_tuples,
                "a batch has at least one tuple and less than 4 GiB of payload",
            );
        }
        let zipf = match keys {
            Keys::Uniform => None,
            Keys::Zipf(exponent) if exponent.is_finite() && exponent >= 0.0 => Some(Arc::new(Zipf::new(exponent))),
            Keys::Zipf(_) => return refuse("exponent", 0, "Zipf's exponent must be a number from 0 on"),
        };
        let (next, generated_ns) = (AtomicU64::new(0), AtomicU64::new(0));
        Ok(Self { tuples, seed, payload, batch_tuples, zipf, next, generated_ns })
    }

    /// The same tuples from the first on, whatever readers have taken of these.
    pub fn again(&self) -> Self {
        let (next, generated_ns) = (AtomicU64::new(0), AtomicU64::new(0));
        Self { zipf: self.zipf.clone(), next, generated_ns, ..*self }
    }

    /// Number of tuples.
    pub fn tuples(&self) -> u64 {
        self.tuples
    }

    /// The payload of the pages that its tuples go to.
    pub fn payload(&self) -> PayloadSize {
        match self.payload {
            Payload::Fixed(bytes) => PayloadSize::Fixed(bytes),
            Payload::UpTo(_) => PayloadSize::Variable,
        }
    }

    /// The time that filling batches took, summed over the readers.
    pub fn generated(&self) -> Duration {
        Duration::from_nanos(self.generated_ns.load(Relaxed))
    }

    /// The most bytes that a payload can have.
    fn most_payload(&self) -> usize {
        let (Payload::Fixed(bytes) | Payload::UpTo(bytes)) = self.payload;
        bytes as usize
    }

    /// Key of a tuple.
    fn key(&self, number: u64) -> u32 {
        let uniform = (splitmix64(self.seed.wrapping_add(number)) >> 32) as u32;
        self.zipf.as_ref().map_or(uniform, |zipf| zipf.key(uniform))
    }

    /// Bytes of a tuple's payload: the lower 32 bits of what its key is made of, scaled.
    fn payload_bytes(&self, number: u64) -> usize {
        match self.payload {
            Payload::Fixed(bytes) => bytes as usize,
            Payload::UpTo(most) => {
                let uniform = splitmix64(self.seed.wrapping_add(number)) & u64::from(u32::MAX);
                ((uniform * (u64::from(most) + 1)) >> 32) as usize
            }
        }
    }

    /// Fills a batch with `count` tuples from `first` on.
    fn fill(&self, first: u64, count: usize, batch: &mut TupleBatch) {
        batch.keys.resize(count, 0);
        words::keys(self.seed.wrapping_add(first), &mut batch.keys);
        if let Some(zipf) = &self.zipf {
            batch.keys.iter_mut().for_each(|key| *key = zipf.key(*key));
        }
        match self.payload {
            Payload::Fixed(size) => {
                batch.bytes.resize(count * size as usize, 0);
                words::payloads(first as u32, size as usize, &mut batch.bytes);
            }
            Payload::UpTo(_) => {
                batch.bytes.clear();
                batch.offsets.clear();
                batch.offsets.push(0);
                for number in first..first + count as u64 {
                    let begin = batch.bytes.len();
                    batch.bytes.resize(begin + self.payload_bytes(number), 0);
                    words::payload(number as u32, &mut batch.bytes[begin..]);
                    batch.offsets.push(batch.bytes.len() as u32);
                }
            }
        }
    }
}

impl TupleSource for Generator {
    /// Readers take batches by turns, so threads that are fast take more. All readers of a
    /// generator together give its tuples once.
    fn reader(&self, _: usize, _: usize) -> Box<dyn TupleReader + '_> {
        Box::new(Reader { generator: self, time: Duration::ZERO })
    }
}

struct Reader<'a> {
    generator: &'a Generator,
    time: Duration,
}

impl TupleReader for Reader<'_> {
    fn fill(&mut self, batch: &mut TupleBatch) -> bool {
        let start = Instant::now();
        let Generator { tuples, batch_tuples, next, .. } = self.generator;
        let first = next.fetch_add(*batch_tuples as u64, Relaxed);
        let count = tuples.saturating_sub(first).min(*batch_tuples as u64);
        if count > 0 {
            self.generator.fill(first, count as usize, batch);
        }
        self.time += start.elapsed();
        count > 0
    }
}

impl Drop for Reader<'_> {
    fn drop(&mut self) {
        self.generator.generated_ns.fetch_add(self.time.as_nanos() as u64, Relaxed);
    }
}

/// The first output of Vigna's SplitMix64 from the state given.
#[inline(always)]
fn splitmix64(state: u64) -> u64 {
    let mut z = state.wrapping_add(0x9E37_79B9_7F4A_7C15);
    z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    z ^ (z >> 31)
}

#[cfg(test)]
mod tests;
