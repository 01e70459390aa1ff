//! A join on a band as `annulus-join` runs it.

use std::sync::Arc;

use annulus_join::{MOST_PAIRS, MergeBuild, MergeCondition, MergeFragment, MergeJoin, MergePosition, ProbeLimits};
use arrow::array::RecordBatch;
use datafusion::{
    common::JoinType,
    error::Result,
    physical_plan::{
        ExecutionPlan,
        joins::{NestedLoopJoinExec, utils::JoinFilter},
    },
};

use super::{condition::Condition, filter::narrowed};
use crate::{
    error::from_join,
    join::morsels::{Method, MorselJoinExec, Names, RowsPlan, Step},
};

/// A join on a band or an inequality by sorting, with the left side as the build side.
pub struct BandPlan {
    join: MergeJoin,
    rows: RowsPlan,
    condition: Condition,
}

impl MorselJoinExec<BandPlan> {
    /// Returns a plan with the operator in the place of `stock`. A join that looks for one partner
    /// of each left row by two bands has its sides swapped: it can stop at the first partner of
    /// a row of the right side. Returns `None` if the operator cannot run the join.
    ///
    /// # Errors
    /// If `stock` is invalid.
    pub(crate) fn replace(stock: Arc<NestedLoopJoinExec>, why: &str) -> Result<Option<Arc<dyn ExecutionPlan>>> {
        let Some(condition) = stock.filter().and_then(Condition::from_filter) else { return Ok(None) };
        let one_partner = matches!(stock.join_type(), JoinType::LeftSemi | JoinType::LeftAnti | JoinType::LeftMark);
        let swap = one_partner && condition.second.is_some() && condition.rest.is_none();
        let plan = if swap { stock.swap_inputs()? } else { stock };
        Self::replace_in(plan, &why.into())
    }
}

/// Returns the columns of a stock join, and the condition of a merge join with which `annulus-join` can
/// evaluate it, if there is one.
///
/// # Errors
/// If the stock join is invalid.
pub(in crate::join) fn merge_condition(stock: &NestedLoopJoinExec) -> Result<Option<(MergeCondition, RowsPlan)>> {
    Ok(merged(stock)?.map(|(_, merge, rows, _)| (merge, rows)))
}

fn merged(stock: &NestedLoopJoinExec) -> Result<Option<(MergeJoin, MergeCondition, RowsPlan, Condition)>> {
    let Some(filter) = stock.filter() else { return Ok(None) };
    let Some(condition) = Condition::from_filter(filter) else { return Ok(None) };
    let rest = condition.rest.as_ref().map(|rest| narrowed(filter, rest)).transpose()?;
    let filtered = rest.as_ref().map_or(&[][..], JoinFilter::column_indices);
    let rows = RowsPlan::new(stock, |side| condition.keys(side), filtered)?.with_filter(rest);
    let merge = condition.merge(rows.sides.as_ref().map(|side| &side.keys[..]));
    if merge.band.is_none() || merge.second.is_some() != condition.second.is_some() {
        return Ok(None);
    }
    let schemas = rows.sides.as_ref().map(|side| &side.schema);
    let Ok(join) = MergeJoin::try_new(&merge, schemas.left, schemas.right) else { return Ok(None) };
    Ok(Some((join, merge, rows, condition)))
}

impl Method for BandPlan {
    type Left = MergeBuild;
    type Right = MergeFragment;
    type Position = MergePosition;

    const NAMES: Names = Names {
        operator: "BandJoinExec",
        join: "band join",
        algorithm: Some("sort-merge"),
        prepare_time: "sort_time",
        pairs: "band_pairs",
    };
    /// The keys, an index of the second one, and what the sort itself needs.
    const ROW_BYTES: usize = 36 + 3 * size_of::<u128>();
    /// More rows are sorted for longer before the first is joined, and fewer rows visit more of the
    const MORSEL_BYTES: usize = usize::MAX;

    fn from_plan(stock: &NestedLoopJoinExec) -> Result<Option<Self>> {
        let found = merged(stock)?;
        Ok(found.map(|(join, _, rows, condition)| Self { join, rows, condition }))
    }

    fn facts(&self, _stock: &NestedLoopJoinExec) -> Vec<(&'static str, String)> {
        let mut facts = self.condition.parts();
        facts.extend(self.condition.rest.as_ref().map(|rest| ("filter", rest.to_string())));
        facts
    }

    fn morsel_rows(&self) -> usize {
        // More rows are sorted for longer before the first is joined, and fewer rows visit more of the build side.
        1 << 17
    }

    fn rows(&self) -> &RowsPlan {
        &self.rows
    }

    fn left(&self, batches: Vec<RecordBatch>, threads: usize) -> Result<Vec<MergeBuild>> {
        Ok(vec![self.join.prepare_build(batches, threads).map_err(from_join)?])
    }

    fn left_batch(left: &MergeBuild) -> &RecordBatch {
        left.batch()
    }

    fn left_bytes<'a>(parts: impl Iterator<Item = &'a MergeBuild>) -> usize {
        parts.map(MergeBuild::memory_bytes).sum()
    }

    fn right(&self, batches: Vec<RecordBatch>) -> Result<MergeFragment> {
        let sorted = self.join.prepare_probe(batches, usize::MAX, 1).map_err(from_join)?;
        let [sorted] = &sorted[..] else {
            return datafusion::common::internal_err!("{} fragments of a morsel", sorted.len());
        };
        self.join.fragment(sorted).map_err(from_join)
    }

    fn right_batch(right: &MergeFragment) -> &RecordBatch {
        right.batch()
    }

    fn join(&self, step: Step<'_, Self>) -> Result<(usize, bool)> {
        let Step { left, right: (right, rows), place, output, writer } = step;
        let end = right.batch().num_rows() as u32;
        let mut sink = writer.sink(&left.rows, rows);
        let limits = ProbeLimits { end, required: output.wanted(), most: MOST_PAIRS as u64 };
        let found = self.join.probe_some(&left.left, right, &mut *place, limits, &mut sink);
        Ok((found.map_err(from_join)? as usize, place.row() >= end))
    }
}
