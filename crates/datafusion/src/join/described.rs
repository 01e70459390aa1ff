//! The columns and the condition of a join, for a crate that finds the pairs itself.

use std::{any::Any, fmt, sync::Arc};

use annulus_join::{
    Keys, Likeness, LoopCondition, MergeCondition, NearestSearch, OutputSpec, Side, Sides, SimilarityCondition,
};
use arrow::{array::RecordBatch, datatypes::SchemaRef};
use datafusion::{
    error::Result,
    physical_expr::PhysicalExpr,
    physical_expr_common::physical_expr::is_volatile,
    physical_plan::{
        ExecutionPlan,
        joins::{HashJoinExec, NestedLoopJoinExec, utils::JoinFilter},
    },
};

use super::{
    band::{Equalities, as_nested_loops, merge_condition, narrowed},
    loops::PairCondition,
    morsels::RowsPlan,
    nearest::NearestJoinExec,
    similarity::similarity_condition,
};

/// The description of a join whose left side is the build side: the columns that it reads of each side, the
/// part of the condition by which pairs are found, and its output.
///
/// Operators of other crates find the pairs, such as `CycloJoinExec` of `annulus-distributed`.
pub struct DescribedJoin {
    rows: RowsPlan,
    method: PairMethod,
    row_bytes: usize,
}

/// The memory of a neighbour in a list, and of its columns, roughly.
const NEIGHBOUR_BYTES: usize = 64;

/// How a join finds its pairs. Columns are numbered as those that [`DescribedJoin::read`] returns.
#[derive(Clone, Debug)]
pub enum PairMethod {
    /// By the hashes of equal keys.
    Hash {
        /// The keys of the left side.
        build: Vec<usize>,
        /// The keys of the right side.
        probe: Vec<usize>,
        /// Whether null is equal to null.
        nulls_equal: bool,
    },
    /// By sorting both sides.
    Merge(Box<MergeCondition>),
    /// By an index of similar texts, or by products of vectors.
    Similar(Box<SimilarityCondition>),
    /// By the nearest rows of the right side, which arrive in parts.
    Nearest(Arc<dyn NearestSearch>),
    /// By comparing all pairs; without a condition, all of them match.
    Any(Option<Arc<dyn LoopCondition>>),
}

impl fmt::Display for PairMethod {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Hash { .. } => "hash",
            Self::Merge(_) => "merge",
            Self::Similar(_) => "similarity",
            Self::Nearest(_) => "nearest",
            Self::Any(_) => "all pairs",
        })
    }
}

impl DescribedJoin {
    /// Returns `node` as a join by nested loops, whose filter is the whole condition. `None` if it is not a
    /// join, or if its pairs alone do not decide the answer: it has a limit, or keys whose nulls decide about
    /// other rows.
    ///
    /// # Errors
    /// If the join is invalid.
    pub fn stock_form(node: &Arc<dyn ExecutionPlan>) -> Result<Option<Arc<NestedLoopJoinExec>>> {
        if let Some(stock) = node.downcast_ref::<HashJoinExec>() {
            return Ok(as_nested_loops(stock)?.map(Arc::new));
        }
        if !node.is::<NestedLoopJoinExec>() {
            return Ok(None);
        }
        Ok((Arc::clone(node) as Arc<dyn Any + Send + Sync>).downcast().ok())
    }

    /// Returns the description of a join by nested loops or with the nearest rows. `None` if it is another
    /// operator, or as for [`from_plan`](Self::from_plan).
    ///
    /// # Errors
    /// If the join is invalid.
    pub fn from_node(node: &Arc<dyn ExecutionPlan>) -> Result<Option<Self>> {
        if let Some(nearest) = node.downcast_ref::<NearestJoinExec>() {
            let (rows, search) = nearest.arriving()?;
            let bytes = nearest.condition().k.saturating_mul(NEIGHBOUR_BYTES);
            return Ok(Some(Self { rows, method: PairMethod::Nearest(search), row_bytes: bytes }));
        }
        node.downcast_ref::<NestedLoopJoinExec>().map_or(Ok(None), Self::from_plan)
    }

    /// Returns the description of `stock`. `None` if an input is unbounded, or the condition is volatile.
    ///
    /// # Errors
    /// If the stock join is invalid.
    pub fn from_plan(stock: &NestedLoopJoinExec) -> Result<Option<Self>> {
        let is_volatile = stock.filter().is_some_and(|filter| is_volatile(filter.expression()));
        if is_volatile || stock.properties().boundedness.is_unbounded() {
            return Ok(None);
        }
        if let Some((condition, rows)) = similarity_condition(stock)? {
            // Texts are indexed with their equal keys. Vectors beside equal keys are compared by a hash join.
            if matches!(condition.likeness, Likeness::Vectors(..))
                && let Some(join) = Self::by_hash(stock)?
            {
                return Ok(Some(join));
            }
            return Ok(Some(Self { rows, method: PairMethod::Similar(Box::new(condition)), row_bytes: 0 }));
        }
        if let Some((merge, rows)) = merge_condition(stock)? {
            return Ok(Some(Self { rows, method: PairMethod::Merge(Box::new(merge)), row_bytes: 0 }));
        }
        match Self::by_hash(stock)? {
            Some(join) => Ok(Some(join)),
            None => Self::by_pairs(stock).map(Some),
        }
    }

    fn by_hash(stock: &NestedLoopJoinExec) -> Result<Option<Self>> {
        let Some(filter) = stock.filter() else { return Ok(None) };
        let Some(equalities) = Equalities::from_filter(filter) else { return Ok(None) };
        let rest = equalities.rest.as_ref().map(|rest| narrowed(filter, rest)).transpose()?;
        let filtered = rest.as_ref().map_or(&[][..], JoinFilter::column_indices);
        let rows = RowsPlan::new(stock, |side| equalities.keys(side), filtered)?.with_filter(rest);
        let nulls_equal = equalities.nulls_equal;
        let keys = Sides::from_fn(|side| {
            let side = &rows.sides[side];
            Keys::new(&side.schema, &side.keys, nulls_equal)
        });
        let Sides { left: Ok(left), right: Ok(right) } = keys else { return Ok(None) };
        if left.check(&right).is_err() {
            return Ok(None);
        }
        let (build, probe) = (rows.sides.left.keys.clone(), rows.sides.right.keys.clone());
        Ok(Some(Self { rows, method: PairMethod::Hash { build, probe, nulls_equal }, row_bytes: 0 }))
    }

    fn by_pairs(stock: &NestedLoopJoinExec) -> Result<Self> {
        let filtered = stock.filter().map_or(&[][..], JoinFilter::column_indices);
        let no_keys = |_| [].iter() as std::slice::Iter<'_, Arc<dyn PhysicalExpr>>;
        let rows = RowsPlan::new(stock, no_keys, filtered)?;
        let condition = stock.filter().map(|filter| PairCondition::from_filter(filter, &rows)).transpose()?;
        let condition = condition.map(|condition| Arc::new(condition) as Arc<dyn LoopCondition>);
        Ok(Self { rows, method: PairMethod::Any(condition), row_bytes: 0 })
    }

    /// Returns how the join finds its pairs.
    pub fn method(&self) -> &PairMethod {
        &self.method
    }

    /// Returns the memory that each row of the left side takes while it is joined, beside the row.
    pub fn row_bytes(&self) -> usize {
        self.row_bytes
    }

    /// Returns the columns that the join reads of a side.
    pub fn schema(&self, side: Side) -> &SchemaRef {
        &self.rows.sides[side].schema
    }

    /// Returns the columns of a batch of an input that the join needs, and keys that it computes of
    /// them. Columns are shared, not copied.
    ///
    /// # Errors
    /// If a key cannot be computed.
    pub fn read(&self, side: Side, batch: &RecordBatch) -> Result<RecordBatch> {
        self.rows.sides[side].read(batch)
    }

    /// Returns the output of the join, in batches of this many rows.
    pub fn output(&self, batch_rows: usize) -> OutputSpec {
        self.rows.spec().with_batch_rows(batch_rows)
    }

    /// Returns a batch of that output with the columns of the stock operator.
    ///
    /// # Errors
    /// If a column has another type.
    pub fn finish(&self, batch: &RecordBatch) -> Result<RecordBatch> {
        self.rows.finish(batch)
    }
}
