//! What no shuffle can exceed: the machine's write throughput, and that of a plain copy.

use std::thread;

use annulus_baselines::clock::{Clock, Stopwatch};
use annulus_pages::{
    memory::{PageMemory, Pool},
    page::Block,
};
use anyhow::{Context, Result};

use super::stream;

/// The most memory that a thread writes repeatedly. It is larger than the thread's share of the
/// caches.
const MOST_BLOCK_BYTES: u64 = 64 << 20;
const ALIGNMENT: u64 = 4 << 10;
/// The size of the input that a copy reads again and again, like batches of tuples.
const SOURCE_BYTES: usize = 256 << 10;

/// Warm memory to write to, on huge pages if the system grants them. It is freed on drop.
pub struct Limit {
    blocks: Vec<Block>,
    clock: Clock,
}

/// The way in which a copy stores.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stores {
    /// Through the cache.
    Cached,
    /// Past the cache.
    PastCache,
}

/// Returns the seconds since the start: of the processor's time, those of a thread on average.
pub(super) fn seconds(clock: Clock, start: &Stopwatch, threads: usize) -> f64 {
    let all = start.elapsed().as_secs_f64();
    if clock == Clock::Processor { all / threads as f64 } else { all }
}

impl Limit {
    /// Allocates memory for up to `threads` threads that write up to `bytes` each.
    ///
    /// # Errors
    /// If the system refuses the memory, up to 64 MiB a thread.
    pub fn new(threads: usize, bytes: u64, clock: Clock) -> Result<Self> {
        let block = bytes.clamp(ALIGNMENT, MOST_BLOCK_BYTES) / ALIGNMENT * ALIGNMENT;
        let pool = Pool::new(block as usize, block as usize * threads).context("cannot reserve memory to write to")?;
        pool.warm(threads);
        let blocks = (0..threads).map(|_| pool.take()).collect::<Result<_, _>>()?;
        let mut limit = Self { blocks, clock };
        limit.pass(threads, 1, stream::write);
        Ok(limit)
    }

    /// Returns the bytes per second that `threads` threads write together. Each writes about
    /// `bytes`, and at least its memory once.
    pub fn bytes_per_second(&mut self, threads: usize, bytes: u64) -> f64 {
        self.measure(threads, bytes, stream::write)
    }

    /// Returns the bytes per second that `threads` threads write together if they copy `read` of
    /// every `written` bytes from an input, as a shuffle without partitions would. The input is in
    /// the second-level cache, like batches that were just made. Each thread writes about `bytes`.
    pub fn copied_bytes_per_second(
        &mut self,
        threads: usize,
        bytes: u64,
        (read, written): (u64, u64),
        stores: Stores,
    ) -> f64 {
        let source = vec![1; SOURCE_BYTES];
        let batch = (SOURCE_BYTES as u64 * written / read.max(1)) as usize / stream::LINE * stream::LINE;
        self.measure(threads, bytes, |block| {
            for to in block.chunks_mut(batch.max(stream::LINE)) {
                let copied = (to.len() as u64 * read / written) as usize;
                let (copies, others) = to.split_at_mut(copied.min(SOURCE_BYTES) / stream::LINE * stream::LINE);
                match stores {
                    Stores::PastCache => {
                        stream::copy(&source[..copies.len()], copies);
                        stream::write(others);
                    }
                    Stores::Cached => {
                        copies.copy_from_slice(&source[..copies.len()]);
                        others.fill(1);
                    }
                }
            }
        })
    }

    /// Returns the bytes per second of a function that writes a block.
    fn measure(&mut self, threads: usize, bytes: u64, write: impl Fn(&mut [u8]) + Sync) -> f64 {
        let threads = threads.min(self.blocks.len());
        let once: u64 = self.blocks[..threads].iter().map(|block| block.len() as u64).sum();
        let passes = (bytes * threads as u64 / once.max(1)).max(1);
        (once * passes) as f64 / self.pass(threads, passes, write)
    }

    /// Returns the seconds of a number of passes.
    fn pass(&mut self, threads: usize, passes: u64, write: impl Fn(&mut [u8]) + Sync) -> f64 {
        let (start, write) = (self.clock.process(), &write);
        thread::scope(|scope| {
            for block in &mut self.blocks[..threads] {
                scope.spawn(move || (0..passes).for_each(|_| write(block.as_mut_slice())));
            }
        });
        seconds(self.clock, &start, threads)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_byte_is_written() {
        let mut limit = Limit::new(2, 64 << 10, Clock::Processor).unwrap();
        assert!(limit.bytes_per_second(2, 256 << 10) > 0.0 && limit.bytes_per_second(1, 0) > 0.0);
        for block in &limit.blocks {
            let ones = block.as_slice().chunks(4).filter(|word| *word == [1, 0, 0, 0] || *word == [1; 4]).count();
            assert_eq!(ones, 16 << 10);
        }
    }

    #[test]
    fn a_copy_writes_every_byte() {
        let mut limit = Limit::new(2, 1 << 20, Clock::Processor).unwrap();
        for (stores, shares) in
            [(Stores::Cached, (4, 12)), (Stores::PastCache, (100, 108)), (Stores::PastCache, (1, 1))]
        {
            limit.blocks.iter_mut().for_each(|block| block.as_mut_slice().fill(7));
            assert!(limit.copied_bytes_per_second(2, 64 << 10, shares, stores) > 0.0);
            for block in &limit.blocks {
                assert!(!block.as_slice().contains(&7), "{stores:?}");
            }
        }
    }
}
