//! The methods of joins of morsels: the parts in which they differ.

use annulus_join::{Output, SideRows, Writer};
use arrow::array::RecordBatch;
use datafusion::{error::Result, physical_plan::joins::NestedLoopJoinExec};

use super::{left::Part, probe::Emit, rows::RowsPlan};

/// A method that finds the pairs of a join.
pub trait Method: Sized + Send + Sync + 'static {
    /// Rows of the left side, prepared.
    type Left: Send + Sync;
    /// A morsel of the right side, prepared.
    type Right: Send;
    /// The position in a morsel and a part from which the search for pairs goes on. The default is the
    /// first.
    type Position: Default + Send;

    /// The names of the join.
    const NAMES: Names;
    /// Memory that preparing takes for each row, beside the rows themselves.
    const ROW_BYTES: usize;
    /// A morsel is full at this many bytes, if the left side is on disk.
    const MORSEL_BYTES: usize;

    /// Returns the method for a stock join; `None` if it cannot evaluate the condition.
    ///
    /// # Errors
    /// If the stock join is invalid.
    fn from_plan(stock: &NestedLoopJoinExec) -> Result<Option<Self>>;

    /// Returns the parts of the condition, with their names, as `EXPLAIN` prints them.
    fn facts(&self, stock: &NestedLoopJoinExec) -> Vec<(&'static str, String)>;

    /// Returns the rows at which a morsel is full, if the left side is in memory.
    fn morsel_rows(&self) -> usize;

    /// Returns the columns of the join.
    fn rows(&self) -> &RowsPlan;

    /// Prepares rows of the left side as parts. Without batches there may be none.
    ///
    /// # Errors
    /// If they are too many for a batch.
    fn left(&self, batches: Vec<RecordBatch>, threads: usize) -> Result<Vec<Self::Left>>;

    /// Returns the rows of a part.
    fn left_batch(left: &Self::Left) -> &RecordBatch;

    /// Returns the memory of parts in bytes.
    fn left_bytes<'a>(parts: impl Iterator<Item = &'a Self::Left>) -> usize;

    /// Prepares a morsel, which has rows.
    ///
    /// # Errors
    /// If the rows are too many for a batch.
    fn right(&self, batches: Vec<RecordBatch>) -> Result<Self::Right>;

    /// Returns the rows of a morsel.
    fn right_batch(right: &Self::Right) -> &RecordBatch;

    /// Finds some pairs, about [`MOST_PAIRS`](annulus_join::MOST_PAIRS), and returns their number,
    /// and whether these were the last.
    ///
    /// # Errors
    /// If the condition cannot be evaluated.
    fn join(&self, step: Step<'_, Self>) -> Result<(usize, bool)>;
}

/// The names of a join in plans, metrics and errors.
pub struct Names {
    /// The name of the operator, under which memory is reserved.
    pub(in crate::join) operator: &'static str,
    /// The name of the join in errors.
    pub(in crate::join) join: &'static str,
    /// The name of the algorithm in plans, if the operator's does not say it.
    pub(in crate::join) algorithm: Option<&'static str>,
    /// The metric of the time to prepare morsels.
    pub(in crate::join) prepare_time: &'static str,
    /// The metric of the pairs that were found.
    pub(in crate::join) pairs: &'static str,
}

/// A part and a morsel, and what their pairs are for.
pub struct Step<'a, M: Method> {
    pub(in crate::join) left: &'a Part<M>,
    pub(in crate::join) right: (&'a M::Right, &'a SideRows),
    pub(in crate::join) place: &'a mut M::Position,
    pub(in crate::join) output: &'a Output,
    pub(in crate::join) writer: &'a mut Writer<Emit>,
}
