//! Fragments: the parts of the probe side that travel between hosts.

use std::{ops::Range, sync::Arc};

use arrow::array::{Array, ArrayRef, LargeBinaryArray, RecordBatch};

use super::{
    build::{HashConfig, look_up, user_batch},
    cluster::{ClusteredRows, cluster},
    wire::{FragmentFormat, Sizes},
};
use crate::{error::JoinError, key::KeyedBatch, matches::MatchBits, sink::MOST_UNCHECKED_ROWS};

/// The largest number of rows of the probe side that are clustered at a time.
const MOST_ROWS: usize = 1 << 31;
/// The smallest number of rows of a morsel, so that filling the cache is worthwhile.
const MORSEL_ROWS: u32 = 1 << 10;
/// The largest step from morsel to morsel. A morsel has fewer than three times as many rows, so
/// that a thread that finds no pairs soon looks at its token again.
const MOST_MORSEL_ROWS: u32 = MOST_UNCHECKED_ROWS / 3;
/// The number of morsels per thread, so that all threads have work until the end.
const MORSELS: usize = 8;

/// A part of the clustered probe side: some whole partitions, or a part of one. A fragment has its
/// rows, their keys in the form of the build side's tables, and which rows have found a match.
#[derive(Debug)]
pub struct Fragment {
    pub(super) format: Arc<FragmentFormat>,
    /// The user's columns, then the hidden ones.
    pub(super) columns: Vec<ArrayRef>,
    /// The columns that are sent as rows of bytes.
    pub(super) coded: Option<LargeBinaryArray>,
    pub(super) batch: RecordBatch,
    /// The first partition that has rows here. Rows with null keys are a partition after all
    /// others.
    pub(super) first: usize,
    /// The start of the rows of that and of each following partition, then the number of rows.
    pub(super) starts: Vec<u32>,
    pub(super) matched: MatchBits,
}

/// Rows of a fragment that one thread joins at a time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Morsel {
    pub(super) rows: Range<u32>,
}

impl Fragment {
    /// Clusters the rows of `batches`, which are then dropped, and cuts them into fragments of few
    /// partitions and at most `max_bytes` encoded bytes each. Without rows there are no fragments.
    /// O(rows), with the memory of [`BuildSide::prepare`](crate::BuildSide::prepare) without the
    /// tables.
    ///
    /// # Errors
    /// If the batches have other columns than the format, a column is too large for its 32-bit
    /// offsets, or a row does not fit in a fragment.
    pub fn prepare(
        format: &Arc<FragmentFormat>,
        batches: Vec<RecordBatch>,
        threads: usize,
        max_bytes: usize,
    ) -> Result<Vec<Self>, JoinError> {
        let mut fragments = Vec::new();
        let (mut parts, mut rows) = (Vec::new(), 0);
        for batch in batches {
            for start in (0..batch.num_rows()).step_by(MOST_ROWS) {
                let part = batch.slice(start, MOST_ROWS.min(batch.num_rows() - start));
                if rows + part.num_rows() > MOST_ROWS {
                    Self::cut(format, std::mem::take(&mut parts), threads, max_bytes, &mut fragments)?;
                    rows = 0;
                }
                rows += part.num_rows();
                parts.push(part);
            }
        }
        Self::cut(format, parts, threads, max_bytes, &mut fragments)?;
        Ok(fragments)
    }

    fn cut(
        format: &Arc<FragmentFormat>,
        batches: Vec<RecordBatch>,
        threads: usize,
        max_bytes: usize,
        fragments: &mut Vec<Self>,
    ) -> Result<(), JoinError> {
        let pieces = look_up(format.keys(), batches, threads)?;
        let rows: usize = pieces.iter().map(KeyedBatch::rows).sum();
        let clustered = cluster(format.keys(), &pieces, &HashConfig::new(format.partitions()).with_threads(threads))?;
        drop(pieces);
        Self::cut_rows(format, &clustered, rows, threads, max_bytes, fragments)
    }

    /// Cuts the rows of a batch into fragments in their order, for joins other than the hash join.
    ///
    /// # Errors
    /// If the batch has columns other than the format's, the format has a key, or a row does not
    /// fit in a fragment.
    pub fn in_order(
        format: &Arc<FragmentFormat>,
        batch: &RecordBatch,
        threads: usize,
        max_bytes: usize,
    ) -> Result<Vec<Self>, JoinError> {
        Self::in_order_beside(format, batch, None, threads, max_bytes)
    }

    /// Like [`in_order`](Self::in_order), with the values of the format's hidden column, if it has
    /// one.
    pub(crate) fn in_order_beside(
        format: &Arc<FragmentFormat>,
        batch: &RecordBatch,
        hidden: Option<ArrayRef>,
        threads: usize,
        max_bytes: usize,
    ) -> Result<Vec<Self>, JoinError> {
        format.keys().check_columns(batch)?;
        if format.keys().types().len() > 0 {
            return Err(JoinError::Fragment { what: "its format has a key, so its rows must be clustered" });
        }
        let rows = batch.num_rows();
        let number = u32::try_from(rows).map_err(|_| JoinError::TooManyRows { rows })?;
        let columns: Vec<ArrayRef> = batch.columns().iter().cloned().chain(hidden).collect();
        if columns.len() != format.keys().full().fields().len() {
            return Err(JoinError::Fragment { what: "its format has other columns" });
        }
        let clustered = ClusteredRows { columns, starts: vec![0, number] };
        let mut fragments = Vec::new();
        Self::cut_rows(format, &clustered, rows, threads, max_bytes, &mut fragments)?;
        Ok(fragments)
    }

    fn cut_rows(
        format: &Arc<FragmentFormat>,
        ClusteredRows { columns, starts }: &ClusteredRows,
        rows: usize,
        threads: usize,
        max_bytes: usize,
        fragments: &mut Vec<Self>,
    ) -> Result<(), JoinError> {
        let coded = format.code(columns, rows, threads)?;
        let sizes = Sizes::new(format, columns, coded.as_ref());
        let mut start = 0;
        while start < rows {
            let fits = |end: &usize| sizes.bytes(start..*end, groups(starts, start..*end).len()) <= max_bytes;
            let end = last_that(start + 1..rows + 1, fits)
                .ok_or_else(|| JoinError::RowTooLarge { bytes: sizes.bytes(start..start + 1, 1), max_bytes })?;
            fragments.push(Self::slice(format, columns, coded.as_ref(), starts, start..end)?);
            start = end;
        }
        Ok(())
    }

    /// Returns the rows `rows` of a clustered side.
    fn slice(
        format: &Arc<FragmentFormat>,
        columns: &[ArrayRef],
        coded: Option<&LargeBinaryArray>,
        starts: &[u32],
        rows: Range<usize>,
    ) -> Result<Self, JoinError> {
        let groups = groups(starts, rows.clone());
        let columns: Vec<ArrayRef> = columns.iter().map(|column| column.slice(rows.start, rows.len())).collect();
        let within = |&start: &u32| (start as usize).clamp(rows.start, rows.end) - rows.start;
        Ok(Self {
            batch: user_batch(format.keys(), columns.clone(), rows.len())?,
            columns,
            coded: coded.map(|coded| coded.slice(rows.start, rows.len())),
            first: groups.start,
            starts: starts[groups.start..=groups.end].iter().map(|start| within(start) as u32).collect(),
            matched: MatchBits::new(rows.len()),
            format: Arc::clone(format),
        })
    }

    /// Returns the rows. Pairs refer to them by their index in this batch.
    pub fn batch(&self) -> &RecordBatch {
        &self.batch
    }

    /// Returns the hidden column of a fragment that is not clustered, if it has one.
    pub(crate) fn hidden(&self) -> Option<&ArrayRef> {
        self.columns.get(self.format.keys().schema().fields().len())
    }

    /// Returns the format of all fragments of its side.
    pub fn format(&self) -> &Arc<FragmentFormat> {
        &self.format
    }

    /// Returns which rows have found a match on this host or an earlier one. The caller sets the
    /// bits: probing does not.
    pub fn matched(&self) -> &MatchBits {
        &self.matched
    }

    /// Splits the rows into morsels, which `threads` threads may join in any order. Each thread
    /// gets several if there are enough rows. A morsel has whole partitions, or a part of a
    /// large one.
    pub fn morsels(&self, threads: usize) -> Vec<Morsel> {
        let rows = self.batch.num_rows() as u32;
        let step = (rows.div_ceil((threads.max(1) * MORSELS) as u32)).clamp(MORSEL_ROWS, MOST_MORSEL_ROWS);
        let mut morsels = Vec::new();
        let mut start = 0;
        for &end in &self.starts[1..] {
            while end - start >= 2 * step {
                morsels.push(Morsel { rows: start..start + step });
                start += step;
            }
            if end - start >= step || (end == rows && end > start) {
                morsels.push(Morsel { rows: start..end });
                start = end;
            }
        }
        morsels
    }
}

/// Returns the partitions that have these rows, at least one.
fn groups(starts: &[u32], rows: Range<usize>) -> Range<usize> {
    let of = |row: usize| starts.partition_point(|&start| start as usize <= row) - 1;
    of(rows.start)..of(rows.end - 1) + 1
}

/// Returns the last number that satisfies `condition`, which all numbers before it satisfy too.
fn last_that(numbers: Range<usize>, condition: impl Fn(&usize) -> bool) -> Option<usize> {
    let (mut low, mut high) = (numbers.start, numbers.end);
    while low < high {
        let middle = low.midpoint(high);
        if condition(&middle) { low = middle + 1 } else { high = middle }
    }
    (low > numbers.start).then(|| low - 1)
}
