//! The nested-loops join: all pairs of rows, for conditions that no other algorithm evaluates (the
//! fallback of cyclo-join, section IV.C).

use std::fmt;

use arrow::array::{Array, BooleanArray, RecordBatch};

use crate::{
    error::JoinError,
    pairs::RequiredPairs,
    sides::{Side, Sides},
    sink::{MOST_PAIRS, PairSink},
};

/// The rows of a chunk. Its columns stay in the second-level cache while all rows of the other side
/// are compared with it.
const CHUNK_ROWS: usize = MOST_PAIRS;

/// The same of a join that needs one match of each row: a row with a match in a chunk is not
/// compared with the next.
const ONE_MATCH_CHUNK_ROWS: usize = 1024;

/// The rows of the other side from which on the rows that need one match are taken one by one,
/// though the other side has fewer.
const ONE_BY_ONE_ROWS: usize = 512;

/// A condition on a row of one side and many rows of the other. Nothing is copied to evaluate it,
/// unlike a [`PairFilter`](crate::PairFilter). Several threads use it at once.
pub trait LoopCondition: fmt::Debug + Send + Sync {
    /// Returns the columns of a side that the condition reads, by their places in its batches.
    fn columns(&self, side: Side) -> &[usize];

    /// Returns the side whose rows are to be taken one by one, if it matters: what is costly to make
    /// of a row, such as a pattern, is then made once for many pairs. Else it is the side with fewer
    /// rows.
    fn prefers(&self) -> Option<Side> {
        None
    }

    /// Returns the condition for rows of side `one`, which have all columns of that side.
    ///
    /// # Errors
    /// [`JoinError::Outside`] if the condition cannot be evaluated with such rows.
    fn of_rows(&self, one: Side, rows: &RecordBatch) -> Result<Box<dyn RowCondition>, JoinError>;
}

/// A [`LoopCondition`] with rows of one side. It keeps no columns of the other side, and those of
/// its own until it is dropped: they may lie in a buffer that is used again.
pub trait RowCondition: Send {
    /// Returns which of `others` match a row, given by its place. `others` has the condition's
    /// columns of the other side.
    ///
    /// # Errors
    /// [`JoinError::Outside`] with the condition's own error, which ends the join.
    fn keep(&mut self, row: usize, others: &RecordBatch) -> Result<MatchingRows, JoinError>;
}

/// The rows that match a row.
#[derive(Clone, Debug, PartialEq)]
pub enum MatchingRows {
    /// All rows match.
    All,
    /// No row matches.
    None,
    /// The rows with true match; null counts as false.
    Some(BooleanArray),
}

/// A join of a batch of the build side, here called the left one, with a batch of the probe side,
/// and how far it has come: each chunk of the rows of one side has met all rows of the other, one
/// by one.
///
/// ```
/// use std::sync::Arc;
///
/// use annulus_join::{JoinError, Loops, PairSink, Sides, RequiredPairs};
/// use arrow::array::{ArrayRef, Int64Array, RecordBatch};
///
/// struct Count(usize);
///
/// impl PairSink for Count {
///     fn pairs(&mut self, build: &[u32], _probe: &[u32]) -> Result<(), JoinError> {
///         self.0 += build.len();
///         Ok(())
///     }
/// }
///
/// let batch = |rows| RecordBatch::try_from_iter([("id", Arc::new(Int64Array::from_iter(0..rows)) as ArrayRef)]);
/// let (build, probe) = (batch(3)?, batch(5)?);
/// let mut count = Count(0);
/// Loops::new(None, Sides { left: &build, right: &probe }, RequiredPairs::All)?.all(&mut count)?;
/// assert_eq!(count.0, 15);
/// # Ok::<(), JoinError>(())
/// ```
pub struct Loops {
    /// The side whose rows are taken one by one.
    one: Side,
    /// The number of these rows, and of those of the other side.
    rows: usize,
    others: usize,
    /// The number of the first row of each side.
    first: Sides<u32>,
    /// None if all pairs satisfy the condition.
    condition: Option<Box<dyn RowCondition>>,
    /// The columns of the other side that the condition reads.
    columns: RecordBatch,
    chunk_rows: usize,
    /// The next row.
    row: usize,
    /// The first row of the chunk, and the chunk if a row has been compared with it.
    start: usize,
    chunk: Option<RecordBatch>,
    /// Pairs that are not passed on yet.
    pairs: Pairs,
}

impl Loops {
    /// Returns the join of all rows of two batches, which gives the `wanted` pairs among those that
    /// satisfy the condition.
    ///
    /// # Errors
    /// If the condition reads a column that does not exist, or cannot be evaluated, and
    /// [`JoinError::TooManyRows`] if rows cannot be numbered with 32 bits.
    pub fn new(
        condition: Option<&dyn LoopCondition>,
        sides: Sides<&RecordBatch>,
        wanted: RequiredPairs,
    ) -> Result<Self, JoinError> {
        let mut rows = sides.map(RecordBatch::num_rows);
        let most = rows.left.max(rows.right);
        u32::try_from(most).map_err(|_| JoinError::TooManyRows { rows: most })?;
        let one_match = match wanted {
            RequiredPairs::All => None,
            RequiredPairs::OneOfEachBuildRow => Some(Side::Left),
            RequiredPairs::OneOfEachProbeRow => Some(Side::Right),
        };
        if let (None, Some(side)) = (condition, one_match) {
            // All rows match: one row of the other side is enough.
            rows[side.other()] = rows[side.other()].min(1);
        }
        let smaller = if rows.left <= rows.right { Side::Left } else { Side::Right };
        let one = condition.and_then(LoopCondition::prefers);
        let one = one.or(one_match.filter(|side| rows[side.other()] >= ONE_BY_ONE_ROWS)).unwrap_or(smaller);
        let columns = condition.map_or(&[][..], |condition| condition.columns(one.other()));
        let columns = sides[one.other()].project(columns)?;
        // A condition may need the first row.
        let condition = condition.filter(|_| rows[one] > 0);
        let condition = condition.map(|condition| condition.of_rows(one, sides[one])).transpose()?;
        let chunk_rows = if one_match == Some(one) { ONE_MATCH_CHUNK_ROWS } else { CHUNK_ROWS };
        let others = if rows[one] > 0 { rows[one.other()] } else { 0 };
        let first = Sides::default();
        Ok(Self {
            one,
            rows: rows[one],
            others,
            first,
            condition,
            columns,
            chunk_rows,
            row: 0,
            start: 0,
            chunk: None,
            pairs: Pairs::default(),
        })
    }

    /// Sets the number of the first row of the probe side, which is 0 otherwise: for a batch that is
    /// a part of another one.
    #[must_use]
    pub fn with_first_probe_row(self, right: u32) -> Self {
        Self { first: Sides { right, ..self.first }, ..self }
    }

    /// Compares all pairs that are left, and returns their number. O(build rows * probe rows), with
    /// memory for [`MOST_PAIRS`] pairs.
    ///
    /// # Errors
    /// As [`some`](Self::some).
    pub fn all(mut self, sink: &mut impl PairSink) -> Result<u64, JoinError> {
        let mut all = 0;
        loop {
            let (compared, is_end) = self.some(sink)?;
            all += compared as u64;
            if is_end {
                return Ok(all);
            }
        }
    }

    /// Compares about [`MOST_PAIRS`] pairs, and returns their number, and whether these were the
    /// last.
    ///
    /// # Errors
    /// Those of the condition and the sink.
    pub fn some(&mut self, sink: &mut impl PairSink) -> Result<(usize, bool), JoinError> {
        sink.check()?;
        let (mut visited, mut compared) = (0, 0);
        let (first_one, first_other) = self.first.one_and_other(self.one);
        while self.start < self.others && visited < MOST_PAIRS {
            let rows = self.chunk_rows.min(self.others - self.start);
            let one = first_one + self.row as u32;
            if sink.is_done(self.one, one) {
                visited += 1;
            } else {
                if self.pairs.ones.len() + rows > MOST_PAIRS {
                    self.pairs.pass(self.one, sink)?;
                }
                let kept = self.kept(rows)?;
                self.pairs.add(one, first_other + self.start as u32, rows, &kept);
                visited += rows;
                compared += rows;
            }
            self.row += 1;
            if self.row == self.rows {
                self.row = 0;
                self.start += rows;
                self.chunk = None;
            }
        }
        self.pairs.pass(self.one, sink)?;
        Ok((compared, self.start == self.others))
    }

    /// Returns which rows of the chunk match the row.
    fn kept(&mut self, rows: usize) -> Result<MatchingRows, JoinError> {
        let Some(condition) = &mut self.condition else { return Ok(MatchingRows::All) };
        let chunk = self.chunk.get_or_insert_with(|| self.columns.slice(self.start, rows));
        condition.keep(self.row, chunk)
    }
}

/// Pairs: a row that was taken alone, and one of a chunk.
#[derive(Default)]
struct Pairs {
    ones: Vec<u32>,
    others: Vec<u32>,
}

impl Pairs {
    fn add(&mut self, one: u32, start: u32, rows: usize, kept: &MatchingRows) {
        match kept {
            MatchingRows::None => {}
            MatchingRows::All => self.others.extend(start..start + rows as u32),
            MatchingRows::Some(kept) if kept.null_count() == 0 => {
                self.others.extend(kept.values().set_indices().map(|place| start + place as u32));
            }
            MatchingRows::Some(kept) => {
                let places = kept.values().set_indices().filter(|&place| kept.is_valid(place));
                self.others.extend(places.map(|place| start + place as u32));
            }
        }
        self.ones.resize(self.others.len(), one);
    }

    /// Passes the pairs on.
    fn pass(&mut self, one: Side, sink: &mut impl PairSink) -> Result<(), JoinError> {
        let (build, probe) = Sides { left: &self.ones, right: &self.others }.one_and_other(one);
        for (build, probe) in build.chunks(MOST_PAIRS).zip(probe.chunks(MOST_PAIRS)) {
            sink.pairs(build, probe)?;
        }
        self.ones.clear();
        self.others.clear();
        Ok(())
    }
}
