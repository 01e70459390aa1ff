//! A join by nested loops.

use std::sync::Arc;

use annulus_join::{FilterColumn, Side, Sides, Wanted};
use arrow::{array::RecordBatch, compute::concat_batches, datatypes::SchemaRef};
use datafusion::{
    common::{internal_datafusion_err, utils::memory::RecordBatchMemoryCounter},
    error::Result,
    physical_expr::PhysicalExpr,
    physical_plan::joins::{NestedLoopJoinExec, utils::JoinFilter},
};

use super::compare::{Comparison, Found};
use crate::join::{
    convert::side,
    morsels::{Method, Names, RowsPlan, Step},
};

/// The rows, and the bytes of memory, of which either makes a part of the left side large enough.
const PART_ROWS: usize = 1 << 16;
const PART_BYTES: usize = 16 << 20;

/// A join by nested loops, with the left side as the build side.
pub(super) struct LoopPlan {
    rows: RowsPlan,
    condition: Option<Condition>,
}

/// A condition over columns of both sides.
pub(super) struct Condition {
    pub(super) expr: Arc<dyn PhysicalExpr>,
    /// The columns of the expression, by their places in `columns`.
    pub(super) places: Vec<FilterColumn>,
    pub(super) schema: SchemaRef,
    /// The columns of each side, by their places in what is read.
    pub(super) columns: Sides<Vec<usize>>,
}

impl LoopPlan {
    /// Returns the plan of a stock join.
    ///
    /// # Errors
    /// If the stock join is invalid.
    pub(super) fn of(stock: &NestedLoopJoinExec) -> Result<Self> {
        let filtered = stock.filter().map_or(&[][..], JoinFilter::column_indices);
        let rows = RowsPlan::new(stock, |_| [].iter(), filtered)?;
        let condition = stock.filter().map(|filter| Condition::of(filter, &rows)).transpose()?;
        Ok(Self { rows, condition })
    }
}

impl Condition {
    fn of(filter: &JoinFilter, rows: &RowsPlan) -> Result<Self> {
        let mut columns: Sides<Vec<usize>> = Sides::default();
        let places = filter.column_indices().iter().map(|column| {
            let side: Option<Side> = side(column.side);
            let place = side.and_then(|side| Some((side, rows.sides[side].place(column.index)?)));
            let (side, place) = place.ok_or_else(|| internal_datafusion_err!("a filter reads a mark"))?;
            columns[side].push(place);
            Ok(FilterColumn { side, index: columns[side].len() - 1 })
        });
        let places = places.collect::<Result<_>>()?;
        Ok(Self { expr: Arc::clone(filter.expression()), places, schema: Arc::clone(filter.schema()), columns })
    }
}

impl Method for LoopPlan {
    type Left = RecordBatch;
    type Right = RecordBatch;
    type Place = Option<Comparison>;

    const NAMES: Names =
        Names { operator: "LoopJoinExec", join: "nested-loops join", prepare_time: "concat_time", pairs: "loop_pairs" };
    /// The match bits.
    const ROW_BYTES: usize = 1;
    /// As many as are compared with a row at a time.
    const MORSEL_ROWS: usize = annulus_join::MOST_PAIRS;
    /// Text of a morsel has offsets of 32 bits.
    const MORSEL_BYTES: usize = 1 << 30;

    fn rows(&self) -> &RowsPlan {
        &self.rows
    }

    fn left(&self, batches: Vec<RecordBatch>, _threads: usize) -> Result<Vec<RecordBatch>> {
        let (mut parts, mut part, mut rows, mut bytes) = (Vec::new(), Vec::new(), 0, 0);
        for batch in batches {
            let more = (batch.num_rows(), batch.get_array_memory_size());
            if rows > 0 && (rows + more.0 > PART_ROWS || bytes + more.1 > PART_BYTES) {
                parts.push(whole(&self.rows.sides.left.schema, std::mem::take(&mut part))?);
                (rows, bytes) = (0, 0);
            }
            (rows, bytes) = (rows + more.0, bytes + more.1);
            part.push(batch);
        }
        if rows > 0 {
            parts.push(whole(&self.rows.sides.left.schema, part)?);
        }
        Ok(parts)
    }

    fn left_batch(left: &RecordBatch) -> &RecordBatch {
        left
    }

    fn left_bytes<'a>(parts: impl Iterator<Item = &'a RecordBatch>) -> usize {
        let mut memory = RecordBatchMemoryCounter::new();
        parts.map(|part| memory.count_batch(part)).sum()
    }

    fn right(&self, batches: Vec<RecordBatch>) -> Result<RecordBatch> {
        whole(&self.rows.sides.right.schema, batches)
    }

    fn right_batch(right: &RecordBatch) -> &RecordBatch {
        right
    }

    fn join(&self, step: Step<'_, Self>) -> Result<(usize, bool)> {
        let Step { left, right: (right, rows), place, output, writer } = step;
        let comparison = match place {
            Some(comparison) => comparison,
            None => {
                let wanted = if self.condition.is_some() { Wanted::All } else { output.wanted() };
                let sides = Sides { left: &left.left, right };
                place.insert(Comparison::new(self.condition.as_ref(), sides, (output.emits(), wanted))?)
            }
        };
        let needs_one = !output.emits().pairs;
        let matched = Sides { left: left.rows.matched(), right: rows.matched() };
        let is_done = |side, row| needs_one && matched[side].is_some_and(|matched| matched.get(row as u32));
        comparison.some(Found { sink: &mut writer.sink(&left.rows, rows), is_done: &is_done })
    }
}

/// Returns the rows of these batches in one. A single batch is not copied.
fn whole(schema: &SchemaRef, mut batches: Vec<RecordBatch>) -> Result<RecordBatch> {
    match (batches.pop(), batches.is_empty()) {
        (Some(batch), true) => Ok(batch),
        (last, _) => {
            batches.extend(last);
            Ok(concat_batches(schema, &batches)?)
        }
    }
}
