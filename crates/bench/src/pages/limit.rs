//! How fast this machine writes memory: what no shuffle can exceed.

use std::{
    thread,
    time::{Duration, Instant},
};

use annulus_pages::{
    memory::{PageMemory, Pool},
    page::Block,
};
use anyhow::{Context, Result};

use super::stream;

/// Memory of a thread that is written again and again; larger than its share of the caches.
const MOST_BLOCK_BYTES: u64 = 128 << 20;
const ALIGNMENT: u64 = 4 << 10;

/// Streams to warm memory on huge pages, as the system gives them. The memory is held as long as this lives.
pub struct Limit {
    blocks: Vec<Block>,
    passes: u64,
}

impl Limit {
    /// For up to `threads` threads that write `bytes` each.
    ///
    /// # Errors
    /// If the system refuses the memory, up to 128 MiB a thread.
    pub fn new(threads: usize, bytes: u64) -> Result<Self> {
        let block = bytes.clamp(ALIGNMENT, MOST_BLOCK_BYTES) / ALIGNMENT * ALIGNMENT;
        let pool = Pool::new(block as usize, block as usize * threads).context("cannot reserve memory to write to")?;
        pool.warm(threads);
        let blocks = (0..threads).map(|_| pool.take()).collect::<Result<_, _>>()?;
        let mut limit = Self { blocks, passes: (bytes / block).max(1) };
        limit.pass(threads, 1);
        Ok(limit)
    }

    /// Bytes a second that `threads` threads write together.
    pub fn bytes_per_second(&mut self, threads: usize) -> f64 {
        let threads = threads.min(self.blocks.len());
        let bytes = self.blocks.iter().take(threads).map(|block| block.len() as u64).sum::<u64>() * self.passes;
        bytes as f64 / self.pass(threads, self.passes).as_secs_f64()
    }

    fn pass(&mut self, threads: usize, passes: u64) -> Duration {
        let start = Instant::now();
        thread::scope(|scope| {
            for block in &mut self.blocks[..threads] {
                scope.spawn(move || (0..passes).for_each(|_| stream::write(block.as_mut_slice())));
            }
        });
        start.elapsed()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_byte_is_written() {
        let mut limit = Limit::new(2, 64 << 10).unwrap();
        assert!(limit.bytes_per_second(2) > 0.0 && limit.bytes_per_second(1) > 0.0);
        for block in &limit.blocks {
            let ones = block.as_slice().chunks(4).filter(|word| *word == [1, 0, 0, 0] || *word == [1; 4]).count();
            assert_eq!(ones, 16 << 10);
        }
    }
}
