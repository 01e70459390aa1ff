//! A plain copy of the same bytes: the lower bound of every exchange's time.

use std::{
    hint::black_box,
    sync::atomic::{AtomicUsize, Ordering},
    thread,
    time::{Duration, Instant},
};

use arrow::{array::RecordBatch, buffer::Buffer};

/// Copies batches on several threads into buffers that are allocated once.
pub struct Memcpy {
    batches: Vec<Vec<Buffer>>,
    /// One buffer for each thread, as long as the largest batch.
    destinations: Vec<Vec<u8>>,
}

impl Memcpy {
    /// Prepares copies of the columns of `batches`. Their buffers must hold only their rows.
    pub fn new(batches: &[RecordBatch], threads: usize) -> Self {
        let buffers = |batch: &RecordBatch| -> Vec<Buffer> {
            batch.columns().iter().flat_map(|column| column.to_data().buffers().to_vec()).collect()
        };
        let batches: Vec<_> = batches.iter().map(buffers).collect();
        let largest = batches.iter().map(|batch| batch.iter().map(Buffer::len).sum()).max().unwrap_or(0);
        Self { batches, destinations: vec![vec![0; largest]; threads] }
    }

    /// Copies all batches once and returns the time, including the start of the threads.
    pub fn run(&mut self) -> Duration {
        let next = AtomicUsize::new(0);
        let start = Instant::now();
        thread::scope(|scope| {
            for destination in &mut self.destinations {
                scope.spawn(|| {
                    while let Some(batch) = self.batches.get(next.fetch_add(1, Ordering::Relaxed)) {
                        copy(batch, destination);
                    }
                });
            }
        });
        start.elapsed()
    }
}

fn copy(batch: &[Buffer], destination: &mut [u8]) {
    let mut rest = &mut *destination;
    for buffer in batch {
        let (target, after) = rest.split_at_mut(buffer.len());
        target.copy_from_slice(buffer);
        rest = after;
    }
    black_box(destination);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_buffer_is_copied_behind_the_last() {
        let mut destination = [0; 6];
        copy(&[Buffer::from(&[1u8, 2]), Buffer::from(&[3u8])], &mut destination);
        assert_eq!(destination, [1, 2, 3, 0, 0, 0]);
    }
}
