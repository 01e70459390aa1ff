//! The right side of an as-of join: the times of each group in ascending order, and their rows.

use std::{cmp::Ordering, mem::take, sync::OnceLock};

use arrow::{
    array::{ArrayRef, DynComparator, RecordBatch, make_comparator},
    compute::SortOptions,
};
use rayon::slice::ParallelSliceMut;

use super::{
    AsOfKeys, EncodedKeys,
    groups::{Groups, NONE},
};
use crate::{
    error::JoinError,
    key::one_zero,
    merge::{keys::Column, words::Word},
    parallel,
};

/// The number of rows whose keys are computed at a time.
const PIECE_ROWS: usize = 1 << 16;

/// The right side of an as-of join. Any number of threads may probe it.
///
/// ```
/// use std::sync::Arc;
///
/// use annulus_join::{AsOfComparison, AsOfIndex, AsOfKeys, AsOfProbe};
/// use arrow::array::{ArrayRef, Float64Array, Int64Array, RecordBatch, StringArray, UInt32Array};
///
/// let symbols: ArrayRef = Arc::new(StringArray::from(vec!["A", "B", "A"]));
/// let times: ArrayRef = Arc::new(Int64Array::from(vec![1, 2, 3]));
/// let prices: ArrayRef = Arc::new(Float64Array::from(vec![0.1, 0.2, 0.3]));
/// let quotes = RecordBatch::try_from_iter([("price", prices)])?;
///
/// let keys = AsOfKeys::try_new(&[symbols.data_type().clone()], times.data_type())?;
/// let index = AsOfIndex::prepare(keys, &[symbols, times], &quotes, 1)?;
/// let mut probe = AsOfProbe::new(&index, AsOfComparison::AtOrAfter);
/// let symbols: ArrayRef = Arc::new(StringArray::from(vec!["A", "A", "B", "C"]));
/// let times: ArrayRef = Arc::new(Int64Array::from(vec![2, 9, 1, 9]));
/// assert_eq!(probe.find(&index, &[symbols, times])?, UInt32Array::from(vec![Some(0), Some(2), None, None]));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct AsOfIndex {
    pub(super) keys: AsOfKeys,
    pub(super) groups: Groups,
    pub(super) times: Times,
}

#[derive(Debug)]
pub(super) enum Times {
    Narrow(GroupedTimes<u64>),
    Wide(GroupedTimes<u128>),
}

/// The times of each group, and their rows.
#[derive(Debug, Default)]
pub(super) struct GroupedTimes<W> {
    /// The start of each group, and the end of the last one.
    pub(super) starts: Vec<u32>,
    pub(super) times: Vec<W>,
    pub(super) rows: Vec<u32>,
}

/// A word of a time, as it is in the encoded keys.
pub(super) trait TimeWord: Word {
    fn words(keys: &EncodedKeys) -> &[Self];
}

impl TimeWord for u64 {
    fn words(keys: &EncodedKeys) -> &[Self] {
        if let Column::Words(words) = &keys.times { words } else { &[] }
    }
}

impl TimeWord for u128 {
    fn words(keys: &EncodedKeys) -> &[Self] {
        if let Column::Wide(words) = &keys.times { words } else { &[] }
    }
}

impl AsOfIndex {
    /// Prepares the rows of the right side, whose equal keys and time are in the columns of `columns`.
    /// Rows in which one of them is null have no partner. Of rows with equal keys and equal times, the
    /// one counts that is greatest by the columns of `rows`, from left to right, with nulls least. O(rows)
    /// if the times of each group ascend, else O(rows * log(rows)). Takes 12 bytes a row and 8 more for
    /// each group and its key, and up to 20 more a row while it runs.
    ///
    /// # Errors
    /// [`JoinError::TooManyRows`] from 2^32 - 1 rows on; [`JoinError::Arrow`] if the columns have other
    /// types than `keys` or other lengths.
    pub fn prepare(
        keys: AsOfKeys,
        columns: &[ArrayRef],
        rows: &RecordBatch,
        threads: usize,
    ) -> Result<Self, JoinError> {
        if rows.num_rows() >= NONE as usize {
            return Err(JoinError::TooManyRows { rows: rows.num_rows() });
        }
        let batch = keys.batch(columns)?;
        let ties = Ties { rows, comparators: OnceLock::new() };
        let (groups, times) = if keys.is_wide {
            let (groups, times) = grouped::<u128>(&keys, &batch, &ties, threads)?;
            (groups, Times::Wide(times))
        } else {
            let (groups, times) = grouped::<u64>(&keys, &batch, &ties, threads)?;
            (groups, Times::Narrow(times))
        };
        Ok(Self { keys, groups, times })
    }

    /// Returns the number of different equal keys.
    pub fn groups(&self) -> usize {
        self.groups.len()
    }

    /// Returns the memory that the index takes beside the rows, in bytes.
    pub fn memory_bytes(&self) -> usize {
        let times = match &self.times {
            Times::Narrow(times) => times.memory_bytes(),
            Times::Wide(times) => times.memory_bytes(),
        };
        self.groups.memory_bytes() + times
    }
}

impl<W: TimeWord> GroupedTimes<W> {
    fn memory_bytes(&self) -> usize {
        size_of_val(&self.starts[..]) + size_of_val(&self.times[..]) + size_of_val(&self.rows[..])
    }

    /// Returns the times and rows of these groups, which are clustered by a counting sort.
    fn cluster(groups: usize, of_rows: &[u32], times: &[W], first_row: u32) -> Self {
        let mut starts = vec![0; groups + 1];
        of_rows.iter().filter(|&&group| group != NONE).for_each(|&group| starts[group as usize + 1] += 1);
        (0..groups).for_each(|group| starts[group + 1] += starts[group]);
        let valid = starts[groups] as usize;
        let mut clustered = Self { starts: Vec::new(), times: vec![W::default(); valid], rows: vec![0; valid] };
        let mut places = starts.clone();
        for (row, (&group, &time)) in (first_row..).zip(of_rows.iter().zip(times)) {
            if group != NONE {
                let place = &mut places[group as usize];
                clustered.times[*place as usize] = time;
                clustered.rows[*place as usize] = row;
                *place += 1;
            }
        }
        clustered.starts = starts;
        clustered
    }

    /// Returns the rows of all runs by the groups of `maps`, which has each run's groups as those of the
    /// result.
    fn merge(groups: usize, runs: Vec<Self>, maps: &[Vec<u32>]) -> Self {
        let mut starts = vec![0; groups + 1];
        for (run, map) in runs.iter().zip(maps) {
            let counts = run.starts.windows(2).map(|bounds| bounds[1] - bounds[0]);
            map.iter().zip(counts).for_each(|(&group, count)| starts[group as usize + 1] += count);
        }
        (0..groups).for_each(|group| starts[group + 1] += starts[group]);
        let rows = starts[groups] as usize;
        let mut merged = Self { starts: Vec::new(), times: vec![W::default(); rows], rows: vec![0; rows] };
        let mut places = starts.clone();
        for (run, map) in runs.into_iter().zip(maps) {
            for (bounds, &group) in run.starts.windows(2).zip(map) {
                let (from, place) = (bounds[0] as usize..bounds[1] as usize, &mut places[group as usize]);
                let to = *place as usize..*place as usize + from.len();
                *place += from.len() as u32;
                merged.times[to.clone()].copy_from_slice(&run.times[from.clone()]);
                merged.rows[to].copy_from_slice(&run.rows[from]);
            }
        }
        merged.starts = starts;
        merged
    }

    /// Sorts each group by time, and settles which row counts where several have equal times.
    fn sort(&mut self, ties: &Ties<'_>, threads: usize) {
        let share = parallel::part(self.rows.len(), threads).max(1);
        let (mut times, mut rows) = (self.times.as_mut_slice(), self.rows.as_mut_slice());
        let (mut tasks, mut first) = (Vec::new(), 0);
        for group in 1..self.starts.len() {
            let len = (self.starts[group] - self.starts[first]) as usize;
            if len >= share || group + 1 == self.starts.len() {
                let (group_times, rest) = take(&mut times).split_at_mut(len);
                times = rest;
                let (group_rows, rest) = take(&mut rows).split_at_mut(len);
                rows = rest;
                tasks.push((&self.starts[first..=group], group_times, group_rows));
                first = group;
            }
        }
        parallel::map(threads, tasks, |(starts, times, rows)| {
            for bounds in starts.windows(2) {
                let group = (bounds[0] - starts[0]) as usize..(bounds[1] - starts[0]) as usize;
                let (times, rows) = (&mut times[group.clone()], &mut rows[group]);
                sort_group(times, rows);
                ties.settle(times, rows);
            }
        });
    }
}

/// Groups the rows of a batch of keys, and sorts the groups by time.
fn grouped<W: TimeWord>(
    keys: &AsOfKeys,
    batch: &RecordBatch,
    ties: &Ties<'_>,
    threads: usize,
) -> Result<(Groups, GroupedTimes<W>), JoinError> {
    let share = parallel::part(batch.num_rows(), threads).max(1);
    let starts: Vec<usize> = (0..batch.num_rows().max(1)).step_by(share).collect();
    let runs = parallel::map(threads, starts, |start| {
        let rows = share.min(batch.num_rows() - start);
        run::<W>(keys, &batch.slice(start, rows), start as u32)
    });
    let mut runs = runs.into_iter().collect::<Result<Vec<_>, _>>()?.into_iter();
    let Some((mut groups, first)) = runs.next() else { return Ok((Groups::One, GroupedTimes::default())) };
    let mut times = if runs.len() == 0 {
        first
    } else {
        let mut maps = vec![(0..groups.len() as u32).collect()];
        let mut all = vec![first];
        for (other, times) in runs {
            maps.push(groups.insert_all(&other));
            all.push(times);
        }
        GroupedTimes::merge(groups.len(), all, &maps)
    };
    times.sort(ties, threads);
    Ok((groups, times))
}

/// Groups some rows, of which the first has the number `first_row`.
fn run<W: TimeWord>(
    keys: &AsOfKeys,
    batch: &RecordBatch,
    first_row: u32,
) -> Result<(Groups, GroupedTimes<W>), JoinError> {
    let mut groups = None;
    let (mut of_rows, mut times) = (Vec::with_capacity(batch.num_rows()), Vec::with_capacity(batch.num_rows()));
    for start in (0..batch.num_rows().max(1)).step_by(PIECE_ROWS) {
        let piece = batch.slice(start, PIECE_ROWS.min(batch.num_rows() - start));
        let encoded = keys.encode(&piece)?;
        let groups = groups.get_or_insert_with(|| Groups::for_keys(&encoded));
        of_rows.extend(groups.insert(&encoded, piece.num_rows()));
        times.extend_from_slice(W::words(&encoded));
    }
    let groups = groups.unwrap_or(Groups::One);
    let times = GroupedTimes::cluster(groups.len(), &of_rows, &times, first_row);
    Ok((groups, times))
}

/// Sorts the times of a group with their rows, unless they are in order.
fn sort_group<W: TimeWord>(times: &mut [W], rows: &mut [u32]) {
    if times.is_sorted() {
        return;
    }
    let mut pairs: Vec<(W, u32)> = times.iter().copied().zip(rows.iter().copied()).collect();
    pairs.par_sort_unstable();
    for ((time, row), pair) in times.iter_mut().zip(rows).zip(pairs) {
        (*time, *row) = pair;
    }
}

/// Decides which of the rows with equal keys and equal times counts.
struct Ties<'a> {
    rows: &'a RecordBatch,
    /// A comparison of each column, once one is needed.
    comparators: OnceLock<Vec<DynComparator>>,
}

impl Ties<'_> {
    /// Puts the greatest row of equal times in both their first and their last place, where searches
    /// end.
    fn settle<W: TimeWord>(&self, times: &[W], rows: &mut [u32]) {
        let mut start = 0;
        while start < times.len() {
            let equal = times[start + 1..].iter().take_while(|&&time| time == times[start]).count();
            let end = start + equal;
            if equal > 0
                && let Some(greatest) = rows[start..=end].iter().copied().max_by(|&a, &b| self.compare(a, b))
            {
                (rows[start], rows[end]) = (greatest, greatest);
            }
            start = end + 1;
        }
    }

    fn compare(&self, a: u32, b: u32) -> Ordering {
        let (a, b) = (a as usize, b as usize);
        let orders = self.comparators().iter().map(|compare| compare(a, b));
        // Rows that no column tells apart: the later one.
        orders.into_iter().find(|order| order.is_ne()).unwrap_or_else(|| a.cmp(&b))
    }

    fn comparators(&self) -> &[DynComparator] {
        self.comparators.get_or_init(|| {
            let options = SortOptions { descending: false, nulls_first: true };
            // The two zeros only decide where all else is equal. Arrow does not order maps, for example: such
            // columns decide nothing.
            let floats = self.rows.columns().iter().filter(|column| column.data_type().is_floating()).cloned();
            let columns = self.rows.columns().iter().map(one_zero).chain(floats);
            columns.filter_map(|column| make_comparator(&column, &column, options).ok()).collect()
        })
    }
}
