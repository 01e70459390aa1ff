//! The right side of an as-of join: the times of each group in ascending order, and their rows.

use std::mem::take;

use arrow::array::{ArrayRef, RecordBatch};
use rayon::slice::ParallelSliceMut;

use super::{
    AsOfKeys,
    groups::{Groups, NONE},
    ties::Ties,
};
use crate::{
    error::JoinError,
    merge::{keys::Column, words::Word},
    parallel,
};

/// The number of rows whose keys are computed at a time.
const PIECE_ROWS: usize = 1 << 16;
/// The values of a level that one value of the next level stands for: two cache lines.
pub(super) const STRIDE: usize = 16;
/// A level with at most this number of values for each group is the last one: it fits in a cache.
const TOP_VALUES: usize = 32;
/// The rows of a group from which on all threads sort it.
const PARALLEL_SORT: usize = 1 << 17;

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
/// let index = AsOfIndex::prepare(keys, &[vec![symbols, times]], &[quotes], 1)?;
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
    /// The last of each [`STRIDE`] times, the last of each as many of these, and so on: where a search looks
    /// first. They are counted from the first time of all, not of a group.
    pub(super) levels: Vec<Vec<W>>,
}

/// The keys of some rows that follow each other.
struct Piece {
    keys: RecordBatch,
    /// The number of the first row.
    first_row: u32,
}

/// The rows of a piece, with their groups and times.
struct UngroupedRows<W> {
    groups: Vec<u32>,
    times: Vec<W>,
    first_row: u32,
}

/// A word of a time, as it is in the encoded keys.
pub(super) trait TimeWord: Word {
    fn words(times: Column) -> Vec<Self>;
}

impl TimeWord for u64 {
    fn words(times: Column) -> Vec<Self> {
        if let Column::Words(words) = times { words } else { Vec::new() }
    }
}

impl TimeWord for u128 {
    fn words(times: Column) -> Vec<Self> {
        if let Column::Wide(words) = times { words } else { Vec::new() }
    }
}

impl AsOfIndex {
    /// Prepares the rows of the right side. They are numbered from 0 on, through all batches. `columns` has
    /// the equal keys and the time of each batch. Rows in which one of them is null have no partner. Of rows
    /// with equal keys and equal times, the one counts that is greatest by the columns of the batch, from left
    /// to right, with nulls least.
    ///
    /// O(rows) if times ascend within each batch, and those of no batch are between those of another; else
    /// O(rows * log(rows)). Takes 13 bytes a row and 20 to 36 more for each group, beside its key, and up to 24
    /// more a row while it runs. Where times are equal, the batches are copied for that time.
    ///
    /// # Errors
    /// [`JoinError::TooManyRows`] from 2^32 - 1 rows on; [`JoinError::Arrow`] if the columns have other
    /// types than `keys` or other lengths than the batches.
    pub fn prepare(
        keys: AsOfKeys,
        columns: &[Vec<ArrayRef>],
        batches: &[RecordBatch],
        threads: usize,
    ) -> Result<Self, JoinError> {
        let rows = batches.iter().map(RecordBatch::num_rows).sum();
        if rows >= NONE as usize {
            return Err(JoinError::TooManyRows { rows });
        }
        let pieces = pieces(&keys, columns)?;
        let ties = Ties::new(batches);
        let (groups, times) = if keys.is_wide {
            let (groups, times) = grouped::<u128>(&keys, pieces, &ties, threads)?;
            (groups, Times::Wide(times))
        } else {
            let (groups, times) = grouped::<u64>(&keys, pieces, &ties, threads)?;
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
        let levels: usize = self.levels.iter().map(|level| size_of_val(&level[..])).sum();
        size_of_val(&self.starts[..]) + size_of_val(&self.times[..]) + size_of_val(&self.rows[..]) + levels
    }

    fn of_rows(rows: usize) -> Self {
        Self { starts: Vec::new(), times: vec![W::default(); rows], rows: vec![0; rows], levels: Vec::new() }
    }

    /// Adds the levels above the times.
    fn add_levels(&mut self) {
        let groups = self.starts.len();
        let mut below = &self.times;
        while below.len() > TOP_VALUES * groups {
            let level = below.chunks_exact(STRIDE).map(|values| values[STRIDE - 1]).collect();
            self.levels.push(level);
            below = &self.levels[self.levels.len() - 1];
        }
    }

    /// Returns the start of a group, or the end of the one before.
    #[inline]
    pub(super) fn start(&self, group: u32) -> usize {
        self.starts[group as usize] as usize
    }

    /// Returns the times and rows of these groups, which are clustered by a counting sort.
    fn cluster(groups: usize, pieces: &[UngroupedRows<W>]) -> Self {
        let mut starts = vec![0; groups + 1];
        let of_rows = pieces.iter().flat_map(|piece| &piece.groups);
        of_rows.filter(|&&group| group != NONE).for_each(|&group| starts[group as usize + 1] += 1);
        add_up(&mut starts);
        let mut clustered = Self::of_rows(starts[groups] as usize);
        let mut places = starts.clone();
        for piece in pieces {
            for (row, (&group, &time)) in (piece.first_row..).zip(piece.groups.iter().zip(&piece.times)) {
                if group != NONE {
                    let place = &mut places[group as usize];
                    clustered.times[*place as usize] = time;
                    clustered.rows[*place as usize] = row;
                    *place += 1;
                }
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
        add_up(&mut starts);
        let rows = starts[groups] as usize;
        let mut merged = Self::of_rows(rows);
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
    fn sort(&mut self, ties: &Ties<'_>, threads: usize) -> Result<(), JoinError> {
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
        let sorted = parallel::map(threads, tasks, |(starts, times, rows)| {
            starts.windows(2).try_for_each(|bounds| {
                let group = (bounds[0] - starts[0]) as usize..(bounds[1] - starts[0]) as usize;
                let (times, rows) = (&mut times[group.clone()], &mut rows[group]);
                sort_group(times, rows);
                ties.settle(times, rows)
            })
        });
        sorted.into_iter().collect::<Result<(), _>>()?;
        self.add_levels();
        Ok(())
    }
}

/// Turns the number of rows of each group, which stands behind it, into the ends of the groups.
fn add_up(counts: &mut [u32]) {
    for group in 1..counts.len() {
        counts[group] += counts[group - 1];
    }
}

/// Returns the keys of all batches in pieces, those with earlier times first.
fn pieces(keys: &AsOfKeys, columns: &[Vec<ArrayRef>]) -> Result<Vec<Piece>, JoinError> {
    let (mut pieces, mut first) = (Vec::new(), 0);
    for columns in columns {
        let batch = keys.batch(columns)?;
        for start in (0..batch.num_rows()).step_by(PIECE_ROWS) {
            let rows = PIECE_ROWS.min(batch.num_rows() - start);
            let piece = batch.slice(start, rows);
            let begins = match keys.encode(&piece.slice(0, 1))?.times {
                Column::Words(words) => words.first().copied().map_or(0, u128::from),
                Column::Wide(words) => words.first().copied().unwrap_or_default(),
                _ => 0,
            };
            pieces.push((begins, Piece { keys: piece, first_row: first }));
            first += rows as u32;
        }
    }
    pieces.sort_by_key(|(begins, _)| *begins);
    Ok(pieces.into_iter().map(|(_, piece)| piece).collect())
}

/// Groups the rows of all pieces, and sorts the groups by time.
fn grouped<W: TimeWord>(
    keys: &AsOfKeys,
    pieces: Vec<Piece>,
    ties: &Ties<'_>,
    threads: usize,
) -> Result<(Groups, GroupedTimes<W>), JoinError> {
    let rows = pieces.iter().map(|piece| piece.keys.num_rows()).sum();
    let share = parallel::part(rows, threads).max(1);
    let (mut shares, mut filled) = (vec![Vec::new()], 0);
    for piece in pieces {
        if filled >= share * shares.len() {
            shares.push(Vec::new());
        }
        filled += piece.keys.num_rows();
        if let Some(last) = shares.last_mut() {
            last.push(piece);
        }
    }
    let runs = parallel::map(threads, shares, |pieces| run::<W>(keys, pieces));
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
    times.sort(ties, threads)?;
    Ok((groups, times))
}

/// Groups the rows of some pieces.
fn run<W: TimeWord>(keys: &AsOfKeys, pieces: Vec<Piece>) -> Result<(Groups, GroupedTimes<W>), JoinError> {
    let (mut groups, mut ungrouped) = (None, Vec::with_capacity(pieces.len()));
    for Piece { keys: piece, first_row } in pieces {
        let encoded = keys.encode(&piece)?;
        let groups = groups.get_or_insert_with(|| Groups::for_keys(&encoded));
        let of_rows = groups.insert(&encoded, piece.num_rows());
        ungrouped.push(UngroupedRows { groups: of_rows, times: W::words(encoded.times), first_row });
    }
    let groups = match groups {
        Some(groups) => groups,
        None => Groups::for_keys(&keys.encode(&keys.no_rows())?),
    };
    let times = GroupedTimes::cluster(groups.len(), &ungrouped);
    Ok((groups, times))
}

/// Sorts the times of a group with their rows, unless they are in order.
fn sort_group<W: TimeWord>(times: &mut [W], rows: &mut [u32]) {
    if times.is_sorted() {
        return;
    }
    let mut pairs: Vec<(W, u32)> = times.iter().copied().zip(rows.iter().copied()).collect();
    if pairs.len() < PARALLEL_SORT {
        pairs.sort_unstable()
    } else {
        pairs.par_sort_unstable()
    }
    for ((time, row), pair) in times.iter_mut().zip(rows).zip(pairs) {
        (*time, *row) = pair;
    }
}
