//! The pairs of a part and a morsel that satisfy a condition.

use std::sync::Arc;

use annulus_join::{Emits, MOST_PAIRS, PairSink, Side, Sides, Wanted};
use arrow::array::{Array, ArrayRef, BooleanArray, RecordBatch};
use datafusion::{
    common::{
        ScalarValue,
        cast::as_boolean_array,
        internal_err,
        tree_node::{Transformed, TreeNode},
    },
    error::Result,
    logical_expr::ColumnarValue,
    physical_expr::{PhysicalExpr, expressions::Column},
};

use super::{
    once::Once,
    plan::Condition,
    value::{Row, RowValue, takes_constants},
};
use crate::error::from_join;

/// The rows of a chunk. Its columns stay in the second-level cache while all rows of the other side
/// are compared with it.
const CHUNK_ROWS: usize = MOST_PAIRS;

/// The same of a join that needs one match of each row: a row with a match in a chunk is not
/// compared with the next.
const ONE_MATCH_CHUNK_ROWS: usize = 1024;

/// The rows of the other side from which on the rows that need one match are taken one by one,
/// though the other side has fewer.
const ONE_BY_ONE_ROWS: usize = 512;

/// A condition, and how far it has been evaluated: for each chunk of the rows of one side, with all
/// rows of the other, one by one.
pub(super) struct Comparison {
    /// The side whose rows are taken one by one.
    one: Side,
    /// The number of these rows, and of those of the other side.
    rows: usize,
    others: usize,
    /// The condition over columns of the other side; none if all pairs satisfy it.
    condition: Option<(Arc<dyn PhysicalExpr>, Arc<Row>)>,
    columns: RecordBatch,
    chunk_rows: usize,
    /// The next row.
    row: usize,
    /// The first row of the chunk, and the chunk if a row has been compared with it.
    start: usize,
    chunk: Option<RecordBatch>,
}

/// What to do with the pairs.
pub(super) struct Found<'a, S> {
    pub(super) sink: &'a mut S,
    /// Whether a row of the side has a match. It need not be compared again.
    pub(super) is_done: &'a dyn Fn(Side, usize) -> bool,
}

impl Comparison {
    /// Returns the comparison of all rows of both sides, which have rows.
    ///
    /// # Errors
    /// If the condition reads a column that does not exist.
    pub(super) fn new(
        condition: Option<&Condition>,
        sides: Sides<&RecordBatch>,
        (emits, wanted): (Emits, Wanted),
    ) -> Result<Self> {
        let mut rows = sides.map(RecordBatch::num_rows);
        let one_match = wanted_side(emits);
        if condition.is_none() {
            // All rows match: one row of the other side is enough.
            match wanted {
                Wanted::All => {}
                Wanted::OneOfEachProbeRow => rows.left = rows.left.min(1),
                Wanted::OneOfEachBuildRow => rows.right = rows.right.min(1),
            }
        }
        let smaller = if rows.left <= rows.right { Side::Left } else { Side::Right };
        let one = one_match.filter(|side| rows[side.other()] >= ONE_BY_ONE_ROWS).unwrap_or(smaller);
        let other = condition.map_or_else(Vec::new, |condition| condition.columns[one.other()].clone());
        let condition = condition.map(|condition| condition.of_one_row(one, sides[one])).transpose()?;
        let chunk_rows = if one_match == Some(one) { ONE_MATCH_CHUNK_ROWS } else { CHUNK_ROWS };
        let columns = sides[one.other()].project(&other)?;
        Ok(Self {
            one,
            rows: rows[one],
            others: rows[one.other()],
            condition,
            columns,
            chunk_rows,
            row: 0,
            start: 0,
            chunk: None,
        })
    }

    /// Compares about [`MOST_PAIRS`] pairs, and returns their number, and whether these were the
    /// last.
    ///
    /// # Errors
    /// If the condition cannot be evaluated, or the sink fails.
    pub(super) fn some(&mut self, found: Found<'_, impl PairSink>) -> Result<(usize, bool)> {
        let (mut pairs, mut compared) = (Pairs::default(), 0);
        let mut visited = 0;
        while self.start < self.others && visited < MOST_PAIRS {
            let rows = self.chunk_rows.min(self.others - self.start);
            if (found.is_done)(self.one, self.row) {
                visited += 1;
            } else {
                if pairs.ones.len() + rows > MOST_PAIRS {
                    pairs.pass(self.one, found.sink)?;
                }
                pairs.add(self.row, self.start, &self.kept(rows)?);
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
        pairs.pass(self.one, found.sink)?;
        Ok((compared, self.start == self.others))
    }

    /// Returns which rows of the chunk match the row.
    fn kept(&mut self, rows: usize) -> Result<Kept> {
        let Some((condition, row)) = &self.condition else { return Ok(Kept::All(rows)) };
        row.set(self.row as u32)?;
        let chunk = self.chunk.get_or_insert_with(|| self.columns.slice(self.start, rows));
        Ok(match condition.evaluate(chunk)? {
            ColumnarValue::Scalar(ScalarValue::Boolean(Some(true))) => Kept::All(rows),
            ColumnarValue::Scalar(_) => Kept::None,
            ColumnarValue::Array(kept) if kept.len() == rows => Kept::Some(as_boolean_array(&kept)?.clone()),
            ColumnarValue::Array(kept) => {
                return internal_err!("a filter returned {} values for {rows} pairs of rows", kept.len());
            }
        })
    }
}

/// Returns the side whose rows the join outputs alone, each with one match or none.
fn wanted_side(emits: Emits) -> Option<Side> {
    let build = (emits.build != annulus_join::Alone::None).then_some(Side::Left);
    let probe = (emits.probe != annulus_join::Alone::None).then_some(Side::Right);
    if emits.pairs { None } else { build.or(probe) }
}

/// The rows of a chunk that match a row.
enum Kept {
    All(usize),
    None,
    Some(BooleanArray),
}

/// Pairs: a row that was taken alone, and one of a chunk.
#[derive(Default)]
struct Pairs {
    ones: Vec<u32>,
    others: Vec<u32>,
}

impl Pairs {
    fn add(&mut self, row: usize, start: usize, kept: &Kept) {
        let start = start as u32;
        match kept {
            Kept::None => {}
            Kept::All(rows) => self.others.extend(start..start + *rows as u32),
            Kept::Some(kept) if kept.null_count() == 0 => {
                self.others.extend(kept.values().set_indices().map(|place| start + place as u32));
            }
            Kept::Some(kept) => {
                let places = kept.values().set_indices().filter(|&place| kept.is_valid(place));
                self.others.extend(places.map(|place| start + place as u32));
            }
        }
        self.ones.resize(self.others.len(), row as u32);
    }

    /// Passes the pairs on.
    fn pass(&mut self, one: Side, sink: &mut impl PairSink) -> Result<()> {
        let (build, probe) = Sides { left: &self.ones, right: &self.others }.one_and_other(one);
        for (build, probe) in build.chunks(MOST_PAIRS).zip(probe.chunks(MOST_PAIRS)) {
            sink.pairs(build, probe).map_err(from_join)?;
        }
        self.ones.clear();
        self.others.clear();
        Ok(())
    }
}

impl Condition {
    /// Returns the condition over columns of the other side, with those of `one` as the values of a
    /// row, and that row.
    fn of_one_row(&self, one: Side, batch: &RecordBatch) -> Result<(Arc<dyn PhysicalExpr>, Arc<Row>)> {
        let columns: Vec<ArrayRef> = self.columns[one].iter().map(|&column| Arc::clone(batch.column(column))).collect();
        let constants = takes_constants(&self.expr, self.schema.fields().iter().map(|field| field.data_type()));
        let row = Arc::new(Row::new(&columns, constants)?);
        let moved = Arc::clone(&self.expr).transform_down(|expr| {
            let Some(column) = expr.downcast_ref::<Column>() else { return Ok(Transformed::no(expr)) };
            let (Some(place), Some(field)) =
                (self.places.get(column.index()), self.schema.fields().get(column.index()))
            else {
                return internal_err!("the filter of a join has no column {column}");
            };
            let moved: Arc<dyn PhysicalExpr> = if place.side == one {
                let field = Arc::clone(field);
                Arc::new(RowValue::new(Arc::clone(&row), place.index, field))
            } else {
                Arc::new(Column::new(column.name(), place.index))
            };
            Ok(Transformed::yes(moved))
        })?;
        Ok((if constants { Once::within(moved.data)? } else { moved.data }, row))
    }
}
