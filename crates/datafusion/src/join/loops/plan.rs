//! A join by nested loops.

use annulus_join::{LoopCondition, Loops, Sides};
use arrow::array::RecordBatch;
use datafusion::{
    common::utils::memory::RecordBatchMemoryCounter,
    error::Result,
    physical_plan::joins::{NestedLoopJoinExec, utils::JoinFilter},
};

use super::condition::PairCondition;
use crate::{
    error::from_join,
    join::morsels::{Method, Names, RowsPlan, Step, whole},
};

/// The rows, and the bytes of memory, of which either makes a part of the left side large enough.
const PART_ROWS: usize = 1 << 16;
const PART_BYTES: usize = 16 << 20;

/// A join by nested loops on any condition, with the left side as the build side.
pub struct LoopPlan {
    rows: RowsPlan,
    condition: Option<PairCondition>,
}

impl Method for LoopPlan {
    type Left = RecordBatch;
    type Right = RecordBatch;
    type Position = Option<Loops>;

    const NAMES: Names = Names {
        operator: "LoopJoinExec",
        join: "nested-loops join",
        algorithm: None,
        prepare_time: "concat_time",
        pairs: "loop_pairs",
    };
    /// The match bits.
    const ROW_BYTES: usize = 1;
    /// Text of a morsel has offsets of 32 bits.
    const MORSEL_BYTES: usize = 1 << 30;

    fn from_plan(stock: &NestedLoopJoinExec) -> Result<Option<Self>> {
        let filtered = stock.filter().map_or(&[][..], JoinFilter::column_indices);
        let rows = RowsPlan::new(stock, |_| [].iter(), filtered)?;
        let condition = stock.filter().map(|filter| PairCondition::from_filter(filter, &rows)).transpose()?;
        Ok(Some(Self { rows, condition }))
    }

    fn facts(&self, stock: &NestedLoopJoinExec) -> Vec<(&'static str, String)> {
        stock.filter().map(|filter| ("filter", filter.expression().to_string())).into_iter().collect()
    }

    fn morsel_rows(&self) -> usize {
        // As many as are compared with a row at a time.
        annulus_join::MOST_PAIRS
    }

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
        let loops = match place {
            Some(loops) => loops,
            None => {
                let condition = self.condition.as_ref().map(|condition| condition as &dyn LoopCondition);
                let sides = Sides { left: &left.left, right };
                place.insert(Loops::new(condition, sides, output.wanted()).map_err(from_join)?)
            }
        };
        loops.some(&mut writer.sink(&left.rows, rows)).map_err(from_join)
    }
}
