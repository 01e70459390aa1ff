//! The nearest rows among rows of the right side that arrive in parts, as around a ring.
//!
//! ```text
//! rows arrive -> they wait until they make a block -> all parts of the left side search it
//!             -> of the block, the rows in the lists are kept, until nearer ones replace them
//! ```

use std::{fmt, sync::Arc};

use annulus_join::{CancelToken, JoinError, NearestPairs, NearestRows, NearestSearch};
use annulus_rows::rows_bytes;
use arrow::{
    array::{RecordBatch, UInt32Array},
    compute::{concat_batches, take_record_batch},
    datatypes::SchemaRef,
};
use datafusion::error::Result;
use parking_lot::Mutex;

use super::{
    blocks::{Block, row_number, ties},
    method::Method,
    scores::Lists,
};
use crate::{error::into_join, join::morsels::whole};

/// The bytes that a block has, if the left side has as many: its index finds the nearest of all its rows at once.
const BLOCK_BYTES: usize = 64 << 20;
/// The bytes of a block beside a small left side.
const MIN_BLOCK_BYTES: usize = 16 << 20;
/// The parts of the left side for each thread.
const PARTS: usize = 4;
/// The kept rows from which on those that are in no list any more are dropped, beside twice those that are.
const MOST_UNLISTED: usize = 1 << 16;

/// The search of a join with the nearest rows.
#[derive(Debug)]
pub(in crate::join) struct ArrivingSearch {
    pub(super) method: Arc<Method>,
    pub(super) k: usize,
    /// The columns of the right side.
    pub(super) schema: SchemaRef,
}

/// The left side, and what has arrived of the right side.
struct LeftSide {
    search: ArrivingSearch,
    left: RecordBatch,
    parts: Vec<Part>,
    threads: usize,
    block_bytes: usize,
    right: Mutex<Right>,
}

/// Some rows of the left side.
struct Part {
    first: u32,
    rows: RecordBatch,
    lists: Mutex<Lists>,
}

/// The rows of the right side. They are numbered as they arrive.
#[derive(Default)]
struct Right {
    /// The rows that wait, and their bytes.
    waiting: Vec<RecordBatch>,
    bytes: usize,
    /// The number of rows in blocks.
    rows: usize,
    /// The block that is searched.
    block: Option<Arc<Block>>,
    /// The rows that are in lists, of earlier blocks.
    kept: Vec<KeptRows>,
    /// The next part whose pairs are to be returned.
    next_part: usize,
}

/// Rows of the right side with their numbers, in ascending order.
struct KeptRows {
    numbers: Vec<u32>,
    rows: RecordBatch,
}

impl NearestSearch for ArrivingSearch {
    fn of_rows(&self, build: RecordBatch, threads: usize) -> Result<Box<dyn NearestRows>, JoinError> {
        let step = build.num_rows().div_ceil(threads.max(1) * PARTS).max(1);
        let parts = (0..build.num_rows()).step_by(step).map(|first| {
            let rows = build.slice(first, step.min(build.num_rows() - first));
            let lists = Mutex::new(self.method.lists(rows.num_rows(), self.k)?);
            Ok(Part { first: first as u32, rows, lists })
        });
        let parts = parts.collect::<Result<_>>().map_err(into_join)?;
        let block_bytes = rows_bytes(&build).clamp(MIN_BLOCK_BYTES, BLOCK_BYTES);
        let search = Self { method: Arc::clone(&self.method), k: self.k, schema: Arc::clone(&self.schema) };
        Ok(Box::new(LeftSide { search, left: build, parts, threads, block_bytes, right: Mutex::default() }))
    }
}

impl NearestRows for LeftSide {
    fn build(&self) -> &RecordBatch {
        &self.left
    }

    fn memory_bytes(&self) -> usize {
        let lists: usize = self.parts.iter().map(|part| part.lists.lock().memory_bytes()).sum();
        let right = self.right.lock();
        let kept: usize = right.kept.iter().map(|kept| rows_bytes(&kept.rows)).sum();
        rows_bytes(&self.left) + lists + kept + right.bytes
    }

    fn add(&self, probe: &RecordBatch) -> Result<usize, JoinError> {
        let mut right = self.right.lock();
        right.bytes += rows_bytes(probe);
        right.waiting.push(probe.clone());
        if right.bytes < self.block_bytes { Ok(0) } else { self.next_block(&mut right).map_err(into_join) }
    }

    fn complete(&self) -> Result<usize, JoinError> {
        self.next_block(&mut self.right.lock()).map_err(into_join)
    }

    fn search(&self, part: usize, cancel: &CancelToken) -> Result<(), JoinError> {
        let Some(block) = self.right.lock().block.clone() else { return Ok(()) };
        let Part { rows, lists, .. } = &self.parts[part];
        self.search.method.offer(rows, &block, &mut lists.lock(), cancel).map_err(into_join)
    }

    fn next_pairs(&self) -> Result<Option<NearestPairs>, JoinError> {
        let mut right = self.right.lock();
        self.keep_listed(&mut right).map_err(into_join)?;
        let Some(Part { first, rows, lists }) = self.parts.get(right.next_part) else { return Ok(None) };
        right.next_part += 1;
        let (mut lists, mut numbers, mut build_rows) = (lists.lock(), Vec::new(), Vec::new());
        for left in 0..rows.num_rows() {
            lists.append_sorted(left, &mut numbers);
            build_rows.resize(numbers.len(), first + left as u32);
        }
        let numbers: Vec<u32> = numbers.into_iter().flatten().collect();
        let KeptRows { numbers: listed, rows: probe } =
            right.listed(&self.search.schema, sorted(numbers.clone())).map_err(into_join)?;
        let place = |number: &u32| listed.partition_point(|other| other < number) as u32;
        Ok(Some(NearestPairs { probe, build_rows, probe_rows: numbers.iter().map(place).collect() }))
    }
}

impl LeftSide {
    /// Makes a block of the rows that wait, and returns the number of parts to search.
    fn next_block(&self, right: &mut Right) -> Result<usize> {
        self.keep_listed(right)?;
        if right.waiting.is_empty() {
            return Ok(0);
        }
        let rows = concat_batches(&self.search.schema, &std::mem::take(&mut right.waiting))?;
        let (first, ties) = (row_number(right.rows)?, ties(&rows).into());
        right.rows += rows.num_rows();
        right.bytes = 0;
        row_number(right.rows)?;
        right.block = Some(Arc::new(Block::new(&self.search.method, rows, ties, first, self.threads)?));
        Ok(self.parts.len())
    }

    /// Keeps the rows of the block that are in lists, and drops the others. KeptRows rows that have left the lists are
    /// dropped now and then.
    fn keep_listed(&self, right: &mut Right) -> Result<()> {
        let Some(block) = right.block.take() else { return Ok(()) };
        let numbers = self.listed_from(block.first);
        if !numbers.is_empty() {
            let places: UInt32Array = numbers.iter().map(|number| number - block.first).collect::<Vec<_>>().into();
            right.kept.push(KeptRows { rows: take_record_batch(&block.rows, &places)?, numbers });
        }
        let kept: usize = right.kept.iter().map(|kept| kept.numbers.len()).sum();
        let most = 2 * self.left.num_rows().saturating_mul(self.search.k) + MOST_UNLISTED;
        if kept > most {
            right.kept = vec![right.listed(&self.search.schema, self.listed_from(0))?];
        }
        Ok(())
    }

    /// Returns the numbers of the rows in lists, ascending, from a number on.
    fn listed_from(&self, first: u32) -> Vec<u32> {
        let mut numbers = Vec::new();
        for part in &self.parts {
            part.lists.lock().append_rows(first, &mut numbers);
        }
        sorted(numbers)
    }
}

impl Right {
    /// Returns the kept rows that have these numbers, which ascend.
    fn listed(&self, schema: &SchemaRef, numbers: Vec<u32>) -> Result<KeptRows> {
        let mut parts = Vec::new();
        for kept in &self.kept {
            let (Some(first), Some(last)) = (kept.numbers.first(), kept.numbers.last()) else { continue };
            let start = numbers.partition_point(|number| number < first);
            let end = numbers.partition_point(|number| number <= last);
            let place = |number: &u32| kept.numbers.partition_point(|other| other < number) as u32;
            let places: UInt32Array = numbers[start..end].iter().map(place).collect::<Vec<_>>().into();
            parts.push(take_record_batch(&kept.rows, &places)?);
        }
        Ok(KeptRows { rows: whole(schema, parts)?, numbers })
    }
}

impl fmt::Debug for LeftSide {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LeftSide").field("search", &self.search).finish_non_exhaustive()
    }
}

/// Returns different numbers in ascending order.
fn sorted(mut numbers: Vec<u32>) -> Vec<u32> {
    numbers.sort_unstable();
    numbers.dedup();
    numbers
}
