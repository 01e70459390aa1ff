//! A generator of tuples from a formula. They are cheap to make, and every byte of them can be
//! checked on the pages ([`check()`]).
//!
//! The key of tuple `i` is the upper 32 bits of `splitmix64(seed + i)`. Word `w` of its payload (32
//! bits, little-endian) is `i + w * 0x9E3779B9`, wrapping. If the size of a payload is not a
//! multiple of four bytes, it ends within a word.

mod check;
mod words;
mod zipf;

use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
    time::Duration,
};

use annulus_pages::{PagesError, page::PayloadSize, tuples::TupleBatch};
pub use check::{Checker, Placement, check};
use zipf::Zipf;

use crate::{
    clock::Clock,
    source::{TupleReader, TupleSource},
};

/// The distribution of keys.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Keys {
    /// Evenly over all 32-bit numbers.
    Uniform,
    /// By Zipf's law with this exponent over 2^20 keys. With exponent 0 all keys are equally
    /// frequent. The keys are well mixed, so a partition is as frequent as its keys.
    Zipf(f64),
}

/// The payloads of a generator's tuples.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Payload {
    /// All payloads have this number of bytes.
    Fixed(u32),
    /// Payloads have up to this number of bytes, evenly distributed.
    UpTo(u32),
    /// Payloads have this number of bytes on average, nearly normally distributed: the sum of four
    /// even numbers, scaled. The standard deviation is 0.29 of the mean, the largest is twice it.
    Near(u32),
}

impl Payload {
    /// Returns the largest size of a payload in bytes.
    fn most(self) -> u32 {
        match self {
            Self::Fixed(bytes) | Self::UpTo(bytes) => bytes,
            Self::Near(mean) => mean.saturating_mul(2),
        }
    }
}

/// A source of tuples, which are numbered from 0. Its readers take them in batches.
pub struct Generator {
    tuples: u64,
    seed: u64,
    payload: Payload,
    batch_tuples: usize,
    zipf: Option<Arc<Zipf>>,
    /// The next tuple that no reader has taken.
    next: AtomicU64,
    clock: Clock,
    generated_ns: AtomicU64,
}

impl Generator {
    /// Creates a generator of `tuples` tuples in batches of `batch_tuples`.
    ///
    /// # Errors
    /// If there are 2^32 tuples or more, batches are empty, their payloads could reach 4 GiB, or
    /// the exponent of Zipf's law is negative or not a number.
    pub fn new(tuples: u64, seed: u64, keys: Keys, payload: Payload, batch_tuples: usize) -> Result<Self, PagesError> {
        let refuse = |option, value, reason| Err(PagesError::Option { option, value, reason });
        if tuples > u64::from(u32::MAX) {
            return refuse("tuples", tuples as usize, "choose fewer than 4294967296");
        }
        let most = payload.most();
        if batch_tuples == 0 || batch_tuples.saturating_mul(most as usize) > u32::MAX as usize {
            return refuse(
                "batch_tuples",
                batch_tuples,
                "a batch has at least one tuple, and less than 4 GiB of payloads",
            );
        }
        let zipf = match keys {
            Keys::Uniform => None,
            Keys::Zipf(exponent) if exponent.is_finite() && exponent >= 0.0 => Some(Arc::new(Zipf::new(exponent))),
            Keys::Zipf(_) => return refuse("exponent", 0, "Zipf's exponent must be a number of at least 0"),
        };
        let (next, generated_ns) = (AtomicU64::new(0), AtomicU64::new(0));
        Ok(Self { tuples, seed, payload, batch_tuples, zipf, next, clock: Clock::Wall, generated_ns })
    }

    /// Sets the clock of [`generated`](Self::generated); by default it is that on the wall.
    #[must_use]
    pub fn with_clock(self, clock: Clock) -> Self {
        Self { clock, ..self }
    }

    /// Returns a generator of the same tuples, starting with the first one.
    pub fn again(&self) -> Self {
        let (next, generated_ns) = (AtomicU64::new(0), AtomicU64::new(0));
        Self { zipf: self.zipf.clone(), next, generated_ns, ..*self }
    }

    /// Returns the number of tuples.
    pub fn tuples(&self) -> u64 {
        self.tuples
    }

    /// Returns the payload size of pages for its tuples.
    pub fn payload(&self) -> PayloadSize {
        match self.payload {
            Payload::Fixed(bytes) => PayloadSize::Fixed(bytes),
            Payload::UpTo(_) | Payload::Near(_) => PayloadSize::Variable,
        }
    }

    /// Returns the time that filling batches took, summed over the readers.
    pub fn generated(&self) -> Duration {
        Duration::from_nanos(self.generated_ns.load(Relaxed))
    }

    /// Returns the largest size of a payload in bytes.
    fn most_payload(&self) -> usize {
        self.payload.most() as usize
    }

    /// Returns the key of a tuple.
    fn key(&self, number: u64) -> u32 {
        let uniform = (splitmix64(self.seed.wrapping_add(number)) >> 32) as u32;
        self.zipf.as_ref().map_or(uniform, |zipf| zipf.key(uniform))
    }

    /// Returns the bytes of a tuple's payload. They come from the lower 32 bits of the hash whose
    /// upper bits are the key: these bits, or the sum of their bytes, scaled.
    fn payload_bytes(&self, number: u64) -> usize {
        let bits = || splitmix64(self.seed.wrapping_add(number)) as u32;
        match self.payload {
            Payload::Fixed(bytes) => bytes as usize,
            Payload::UpTo(most) => ((u64::from(bits()) * (u64::from(most) + 1)) >> 32) as usize,
            Payload::Near(mean) => {
                let sum: u64 = bits().to_le_bytes().into_iter().map(u64::from).sum();
                (sum * 2 * u64::from(mean) / (4 * 255)) as usize
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
            Payload::UpTo(_) | Payload::Near(_) => {
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
    /// Readers take the next batch when they need one, so fast threads take more. All readers of a
    /// generator together return its tuples once.
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
        let start = self.generator.clock.thread();
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

/// Returns the first output of Vigna's SplitMix64 from this state.
#[inline(always)]
fn splitmix64(state: u64) -> u64 {
    let mut z = state.wrapping_add(0x9E37_79B9_7F4A_7C15);
    z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    z ^ (z >> 31)
}

#[cfg(test)]
mod tests;
