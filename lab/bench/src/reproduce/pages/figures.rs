//! The paper's figures, and the measurements that they need.

use crate::pages::{Cell, Line, TupleSizes};

/// A figure of two charts.
#[derive(Clone, Copy, Debug)]
pub(super) struct Figure {
    pub(super) number: &'static str,
    pub(super) tuple_bytes: u32,
    pub(super) partitions: [usize; 2],
}

/// The figures of section 4.2.2: throughput by number of threads.
pub(super) const FIGURES: [Figure; 5] = [
    Figure { number: "4.1", tuple_bytes: 16, partitions: [2, 4] },
    Figure { number: "4.2", tuple_bytes: 16, partitions: [8, 16] },
    Figure { number: "4.3", tuple_bytes: 4, partitions: [32, 1024] },
    Figure { number: "4.4", tuple_bytes: 16, partitions: [32, 1024] },
    Figure { number: "4.5", tuple_bytes: 100, partitions: [32, 1024] },
];
/// Figure 4.6 (paper, "Memory Consumption").
pub(super) const MEMORY: Figure = Figure { number: "4.6", tuple_bytes: 16, partitions: [32, 32] };
/// Figure 4.7 (paper, section 4.3), for each tuple size.
pub(super) const FLINK_PARTITIONS: usize = 1024;
pub(super) const FLINK_TUPLE_BYTES: [u32; 3] = [4, 16, 100];

/// The tuple sizes and the numbers of partitions that are measured beyond the paper, with tuples of
/// any size and as a stream.
const BEYOND_TUPLE_BYTES: [u32; 2] = [16, 100];
const BEYOND_PARTITIONS: [usize; 2] = [32, 1024];
/// The distributions of sizes. The paper has tuples of one size alone.
pub(super) const SIZES: [TupleSizes; 2] = [TupleSizes::Uniform, TupleSizes::Normal];

/// Returns the cells with tuples of any size, and those of streams.
pub(super) fn beyond(threads: usize, tuples: impl Fn(u32) -> u64) -> Vec<Cell> {
    let cell = |tuple_bytes, partitions| Cell { tuple_bytes, partitions, threads, tuples: tuples(tuple_bytes) };
    BEYOND_TUPLE_BYTES.iter().flat_map(|&bytes| BEYOND_PARTITIONS.map(|partitions| cell(bytes, partitions))).collect()
}

/// Returns the cells of figure 4.6.
pub(super) fn memory(threads: &[usize], tuples: impl Fn(u32) -> u64) -> Vec<Cell> {
    let Figure { tuple_bytes, partitions: [partitions, _], .. } = MEMORY;
    let tuples = tuples(tuple_bytes);
    threads.iter().map(|&threads| Cell { tuple_bytes, partitions, threads, tuples }).collect()
}

/// Returns the cells of the figures of throughput. Those of Flink are among them.
pub(super) fn cells(threads: &[usize], tuples: impl Fn(u32) -> u64) -> Vec<Cell> {
    let mut cells = Vec::new();
    for Figure { tuple_bytes, partitions, .. } in FIGURES {
        let tuples = tuples(tuple_bytes);
        for partitions in partitions {
            cells.extend(threads.iter().map(|&threads| Cell { tuple_bytes, partitions, threads, tuples }));
        }
    }
    cells
}

/// Returns the lines of a chart.
pub(super) fn lines_of(lines: &[Line], tuple_bytes: u32, partitions: usize) -> impl Iterator<Item = &Line> {
    lines.iter().filter(move |line| (line.cell.tuple_bytes, line.cell.partitions) == (tuple_bytes, partitions))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cells_of_flink_are_among_the_others() {
        let cells = cells(&[1, 2], u64::from);
        assert_eq!(cells.len(), 20);
        let has = |bytes, partitions, threads| {
            cells.contains(&Cell { tuple_bytes: bytes, partitions, threads, tuples: bytes.into() })
        };
        assert!(FLINK_TUPLE_BYTES.into_iter().all(|bytes| has(bytes, FLINK_PARTITIONS, 2)));
    }
}
