//! How the nearest rows are found.

use std::{fmt, sync::Arc};

use annulus_join::{
    CancelToken, FilterColumn, JoinError, LineIndex, PlaneIndex, RightVectors, Side, Sides, VectorBlock,
    nearest_vectors,
};
use arrow::{
    array::{ArrayRef, RecordBatch},
    datatypes::{DataType, Schema},
};
use datafusion::{
    common::{cast::as_float64_array, internal_err},
    error::Result,
    physical_expr::PhysicalExpr,
};

use super::{blocks::Block, forms::Form, scores::Lists};
use crate::{
    error::from_join,
    join::{
        convert::{side_column, with_own_columns},
        loops::PairExpr,
    },
    nearest::NearestOrder,
};

/// The most rows of the right side that the expression is evaluated for at once.
const PIECE_ROWS: usize = 8192;

/// How the nearest rows are found.
#[derive(Debug)]
pub(super) struct Method {
    order: NearestOrder,
    /// The type of the expression's values.
    data_type: DataType,
    search: Search,
}

#[derive(Debug)]
enum Search {
    /// All pairs of rows are compared.
    Pairs(PairExpr),
    /// Rows are looked up in an index.
    Index(Form),
}

/// The index of a block.
#[derive(Debug)]
pub(super) enum Index {
    None,
    Line(LineIndex),
    Plane(PlaneIndex),
    Vectors(VectorBlock),
}

impl Method {
    /// Returns the method for an expression over the columns of both sides.
    ///
    /// # Errors
    /// If the expression cannot be evaluated with such columns.
    pub(super) fn new(
        by: &Arc<dyn PhysicalExpr>,
        order: NearestOrder,
        joined: &Schema,
        left_columns: usize,
    ) -> Result<Self> {
        let search = match Form::from_expr(by, order, joined, left_columns)? {
            Some(form) => Search::Index(form),
            None => Search::Pairs(pair_expr(by, joined, left_columns)?),
        };
        Ok(Self { order, data_type: by.data_type(joined)?, search })
    }

    /// Returns whether all pairs of rows are compared.
    pub(super) fn compares_pairs(&self) -> bool {
        matches!(self.search, Search::Pairs(_) | Search::Index(Form::Vectors { .. }))
    }

    /// Returns empty lists for left rows.
    ///
    /// # Errors
    /// If the expression's values have no order.
    pub(super) fn lists(&self, rows: usize, k: usize) -> Result<Lists> {
        Lists::new(&self.data_type, self.order, rows, k)
    }

    /// Returns the index of a block whose first row has the number `first`.
    ///
    /// # Errors
    /// If an expression fails.
    pub(super) fn index(&self, rows: &RecordBatch, ties: &[u64], first: u32, threads: usize) -> Result<Index> {
        Ok(match &self.search {
            Search::Pairs(_) => Index::None,
            Search::Index(Form::Line(sides)) => {
                let values = values(&sides.right, rows)?;
                Index::Line(LineIndex::try_new(&values, ties, first, threads).map_err(from_join)?)
            }
            Search::Index(Form::Plane { xs, ys, formula }) => {
                let (xs, ys) = (values(&xs.right, rows)?, values(&ys.right, rows)?);
                let (xs, ys) = (as_float64_array(&xs)?, as_float64_array(&ys)?);
                Index::Plane(PlaneIndex::try_new(xs, ys, *formula, ties, first, threads).map_err(from_join)?)
            }
            Search::Index(Form::Vectors { vectors, metric }) => {
                Index::Vectors(VectorBlock::try_new(&values(&vectors.right, rows)?, *metric).map_err(from_join)?)
            }
        })
    }

    /// Offers all rows of a block to the lists of all rows of a chunk.
    ///
    /// # Errors
    /// If the expression fails, or the token is cancelled.
    pub(super) fn offer(
        &self,
        chunk: &RecordBatch,
        block: &Block,
        lists: &mut Lists,
        token: &CancelToken,
    ) -> Result<()> {
        let mut check = || token.check().map_err(JoinError::from);
        match (&self.search, &block.index, lists) {
            (Search::Pairs(pairs), _, lists) => self.offer_pairs(pairs, chunk, block, lists, &mut check),
            (Search::Index(Form::Line(sides)), Index::Line(index), Lists::Words { lists, .. }) => {
                index.nearest(&values(&sides.left, chunk)?, lists, &mut check).map_err(from_join)
            }
            (Search::Index(Form::Plane { xs, ys, .. }), Index::Plane(index), Lists::Words { lists, .. }) => {
                let (xs, ys) = (values(&xs.left, chunk)?, values(&ys.left, chunk)?);
                let (xs, ys) = (as_float64_array(&xs)?, as_float64_array(&ys)?);
                index.nearest(xs, ys, lists, &mut check).map_err(from_join)
            }
            (Search::Index(Form::Vectors { vectors, metric }), Index::Vectors(right), Lists::Words { lists, .. }) => {
                let left = VectorBlock::try_new(&values(&vectors.left, chunk)?, *metric).map_err(from_join)?;
                let right = RightVectors { block: right, ties: &block.ties, first_row: block.first };
                nearest_vectors(&left, 0..left.rows(), right, lists, &mut check).map_err(from_join)
            }
            _ => internal_err!("a block without the index of its method"),
        }
    }

    fn offer_pairs(
        &self,
        pairs: &PairExpr,
        chunk: &RecordBatch,
        block: &Block,
        lists: &mut Lists,
        check: &mut dyn FnMut() -> Result<(), JoinError>,
    ) -> Result<()> {
        let others = block.rows.project(&pairs.columns.right)?;
        if chunk.num_rows() == 0 {
            return Ok(());
        }
        let one = pairs.of_one_row(Side::Left, chunk)?;
        for start in (0..others.num_rows()).step_by(PIECE_ROWS) {
            let rows = PIECE_ROWS.min(others.num_rows() - start);
            let piece = others.slice(start, rows);
            for row in 0..chunk.num_rows() {
                check().map_err(from_join)?;
                let mut next = start;
                one.evaluate(row, &piece, |rows, values| {
                    let values = values.into_array(rows)?;
                    let first = next;
                    next += rows;
                    lists.offer(row, &values, &block.ties[first..next], block.first + first as u32)
                })?;
            }
        }
        Ok(())
    }
}

impl Index {
    /// Returns the memory of the index in bytes.
    pub(super) fn memory_bytes(&self) -> usize {
        match self {
            Self::None => 0,
            Self::Line(index) => index.memory_bytes(),
            Self::Plane(index) => index.memory_bytes(),
            Self::Vectors(vectors) => vectors.memory_bytes(),
        }
    }
}

impl fmt::Display for Method {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        f.write_str(match &self.search {
            Search::Pairs(_) => "all pairs",
            Search::Index(form) => form.name(),
        })
    }
}

/// Returns an expression over the columns of both sides as one over pairs of rows.
fn pair_expr(by: &Arc<dyn PhysicalExpr>, joined: &Schema, left_columns: usize) -> Result<PairExpr> {
    let (expr, indices) = with_own_columns(by)?;
    let mut columns: Sides<Vec<usize>> = Sides::default();
    let places = indices.iter().map(|&index| {
        let FilterColumn { side, index } = side_column(index, left_columns);
        columns[side].push(index);
        FilterColumn { side, index: columns[side].len() - 1 }
    });
    let places = places.collect();
    Ok(PairExpr { expr, places, schema: Arc::new(joined.project(&indices)?), columns })
}

/// Returns the values of an expression for each row of a batch.
fn values(expr: &Arc<dyn PhysicalExpr>, rows: &RecordBatch) -> Result<ArrayRef> {
    expr.evaluate(rows)?.into_array(rows.num_rows())
}
