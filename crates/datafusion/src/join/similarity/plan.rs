//! A similarity join as `annulus-join` runs it.

use annulus_join::{
    KeyPair, Likeness, MOST_PAIRS, Sides, SimilarityBuild, SimilarityCondition, SimilarityFragment, SimilarityJoin,
    SimilarityPosition,
};
use arrow::array::RecordBatch;
use datafusion::{
    error::Result,
    physical_plan::joins::{NestedLoopJoinExec, utils::JoinFilter},
};

use super::condition::Condition;
use crate::{
    error::from_join,
    join::{
        band::narrowed,
        morsels::{Method, Names, RowsPlan, Step, whole},
    },
};

/// A join of rows whose texts or vectors are similar, with the left side as the build side.
pub struct SimilarityPlan {
    rows: RowsPlan,
    condition: Condition,
    join: SimilarityJoin,
}

/// Rows of the right side, with what finds pairs of them.
pub struct RightRows {
    batch: RecordBatch,
    fragment: SimilarityFragment,
}

/// Returns the condition by which pairs are found, over the columns that the join reads.
pub(in crate::join) fn similarity_condition(
    stock: &NestedLoopJoinExec,
) -> Result<Option<(SimilarityCondition, RowsPlan)>> {
    let Some(condition) = stock.filter().and_then(Condition::from_filter) else { return Ok(None) };
    let rows = rows_of(stock, &condition)?;
    Ok(Some((over_rows(&condition, &rows), rows)))
}

fn rows_of(stock: &NestedLoopJoinExec, condition: &Condition) -> Result<RowsPlan> {
    let rest = match (stock.filter(), &condition.rest) {
        (Some(filter), Some(rest)) => Some(narrowed(filter, rest)?),
        _ => None,
    };
    let filtered = rest.as_ref().map_or(&[][..], JoinFilter::column_indices);
    Ok(RowsPlan::new(stock, |side| condition.keys[side].iter(), filtered)?.with_filter(rest))
}

fn over_rows(condition: &Condition, rows: &RowsPlan) -> SimilarityCondition {
    let keys = rows.sides.as_ref().map(|side| &side.keys);
    let values = keys.map(|keys| keys[0]);
    let equal = keys.left.iter().zip(keys.right).skip(1);
    let equal = equal.map(|(&build, &probe)| KeyPair { build, probe }).collect();
    SimilarityCondition { likeness: condition.likeness, values, equal }
}

impl Method for SimilarityPlan {
    type Left = SimilarityBuild;
    type Right = RightRows;
    type Position = SimilarityPosition;

    const NAMES: Names = Names {
        operator: "SimilarityJoinExec",
        join: "similarity join",
        algorithm: None,
        prepare_time: "index_time",
        pairs: "similar_pairs",
    };
    /// The index of texts, and what is sorted for it.
    const ROW_BYTES: usize = 168;
    /// Text of a morsel has offsets of 32 bits.
    const MORSEL_BYTES: usize = 1 << 30;

    fn from_plan(stock: &NestedLoopJoinExec) -> Result<Option<Self>> {
        let Some(condition) = stock.filter().and_then(Condition::from_filter) else { return Ok(None) };
        let rows = rows_of(stock, &condition)?;
        let Sides { left, right } = rows.sides.as_ref().map(|side| &side.schema);
        let join = SimilarityJoin::try_new(&over_rows(&condition, &rows), left, right).map_err(from_join)?;
        Ok(Some(Self { rows, condition, join }))
    }

    fn facts(&self, _stock: &NestedLoopJoinExec) -> Vec<(&'static str, String)> {
        let mut facts = vec![("similar", self.condition.predicate.to_string())];
        facts.extend(self.condition.rest.as_ref().map(|rest| ("filter", rest.to_string())));
        facts
    }

    fn morsel_rows(&self) -> usize {
        match self.condition.likeness {
            // Large morsels share work for equal texts.
            Likeness::Texts(_) => 1 << 15,
            Likeness::Vectors(..) => 1 << 12,
        }
    }

    fn rows(&self) -> &RowsPlan {
        &self.rows
    }

    fn left(&self, batches: Vec<RecordBatch>, threads: usize) -> Result<Vec<Self::Left>> {
        let batch = whole(&self.rows.sides.left.schema, batches)?;
        Ok(vec![self.join.prepare_build(batch, threads).map_err(from_join)?])
    }

    fn left_batch(left: &Self::Left) -> &RecordBatch {
        left.batch()
    }

    fn left_bytes<'a>(parts: impl Iterator<Item = &'a Self::Left>) -> usize {
        parts.map(SimilarityBuild::memory_bytes).sum()
    }

    fn right(&self, batches: Vec<RecordBatch>) -> Result<Self::Right> {
        let batch = whole(&self.rows.sides.right.schema, batches)?;
        let fragment = self.join.prepare_probe(&batch).map_err(from_join)?;
        Ok(RightRows { batch, fragment })
    }

    fn right_batch(right: &Self::Right) -> &RecordBatch {
        &right.batch
    }

    fn join(&self, step: Step<'_, Self>) -> Result<(usize, bool)> {
        let Step { left, right: (right, rows), place, output, writer } = step;
        let (build, most) = (&left.left, MOST_PAIRS as u64);
        let mut sink = writer.sink(&left.rows, rows);
        let found = self.join.probe_some(build, &right.fragment, place, output.wanted(), most, &mut sink);
        Ok((found.map_err(from_join)? as usize, place.is_end(build)))
    }
}
