//! Publishes a join's dynamic filter when its build side is ready.

use std::{collections::HashSet, sync::Arc};

use annulus_join::{BuildSide, Keys};
use arrow::{
    array::{Array, ArrayRef},
    datatypes::{DataType, Field, Schema},
};
use datafusion::{
    common::{
        NullEquality,
        tree_node::{TreeNode, TreeNodeRecursion},
    },
    error::Result,
    functions_aggregate::min_max::{MaxAccumulator, MinAccumulator},
    logical_expr::{Accumulator, Operator},
    physical_expr::{
        PhysicalExpr, conjunction,
        expressions::{BinaryExpr, DynamicFilterPhysicalExpr, lit},
    },
    physical_plan::{ExecutionPlan, joins::HashJoinExec},
};

use super::expr::{Filter, MayMatch};
use crate::error::from_join;

/// The most rows of a build side of which scans get the keys. The keys of more would miss the
/// caches and cost about what they save.
const MOST_ROWS: usize = 4 << 20;

/// Publishes the dynamic filter of one join.
#[derive(Debug)]
pub(in crate::join) struct Publisher {
    /// A [`DynamicFilterPhysicalExpr`].
    filter: Arc<dyn PhysicalExpr>,
    /// The keys of the probe side.
    keys: Vec<Arc<dyn PhysicalExpr>>,
}

impl Publisher {
    /// Returns the publisher for a join, if a node of its probe side uses the filter. A join in
    /// which null keys decide about other rows has none.
    ///
    /// # Errors
    /// If a node cannot list its expressions.
    pub(in crate::join) fn new(stock: &HashJoinExec) -> Result<Option<Self>> {
        let Some(filter) = stock.dynamic_expressions_produced().pop() else { return Ok(None) };
        if stock.null_aware || stock.null_equality() == NullEquality::NullEqualsNull || !uses(stock.right(), &filter)? {
            return Ok(None);
        }
        let keys = stock.on().iter().map(|(_, key)| Arc::clone(key)).collect();
        Ok(Some(Self { filter, keys }))
    }

    /// Publishes what the build side, with these key columns, says of the probe side's keys.
    /// O(rows).
    ///
    /// # Errors
    /// If a kernel fails.
    pub(in crate::join) fn publish(&self, side: &BuildSide, keys: &[ArrayRef]) -> Result<()> {
        let rows = keys.first().map_or(0, |keys| keys.len());
        if rows == 0 {
            return self.complete(vec![lit(false)]);
        }
        let mut bounds = self.bounds(keys.iter().map(|key| key.data_type()))?;
        bounds.update(keys)?;
        let mut all = bounds.conditions(&self.keys)?;
        if rows <= MOST_ROWS {
            let filter = Filter { set: side.key_set(), keys: key_columns(keys)? };
            all.push(Arc::new(MayMatch::new(self.keys.clone(), Arc::new(filter))));
        }
        self.complete(all)
    }

    /// Returns the bounds of no rows, for keys of these types.
    ///
    /// # Errors
    /// If a type has no order, though it should.
    pub(in crate::join) fn bounds<'a>(&self, types: impl Iterator<Item = &'a DataType>) -> Result<Bounds> {
        types.map(Bound::new).collect::<Result<_>>().map(Bounds)
    }

    /// Publishes the bounds of a build side that has rows, of which not all are in memory.
    ///
    /// # Errors
    /// If a kernel fails.
    pub(in crate::join) fn publish_bounds(&self, mut bounds: Bounds) -> Result<()> {
        let conditions = bounds.conditions(&self.keys)?;
        self.complete(conditions)
    }

    fn complete(&self, conditions: Vec<Arc<dyn PhysicalExpr>>) -> Result<()> {
        if let Some(filter) = self.filter.downcast_ref::<DynamicFilterPhysicalExpr>() {
            filter.update(conjunction(conditions))?;
            filter.mark_complete();
        }
        Ok(())
    }
}

/// The least and the greatest key of each key column.
#[derive(Debug)]
pub(in crate::join) struct Bounds(Vec<Option<Bound>>);

#[derive(Debug)]
struct Bound {
    least: MinAccumulator,
    greatest: MaxAccumulator,
}

impl Bound {
    /// Returns nothing if the type has no order that scans can use.
    fn new(data_type: &DataType) -> Result<Option<Self>> {
        if !(data_type.is_integer() || data_type.is_temporal() || data_type.is_decimal() || data_type.is_string()) {
            return Ok(None);
        }
        let (least, greatest) = (MinAccumulator::try_new(data_type)?, MaxAccumulator::try_new(data_type)?);
        Ok(Some(Self { least, greatest }))
    }
}

impl Bounds {
    /// Adds rows with these keys.
    ///
    /// # Errors
    /// If a kernel fails.
    pub(in crate::join) fn update(&mut self, keys: &[ArrayRef]) -> Result<()> {
        for (bound, key) in self.0.iter_mut().zip(keys) {
            if let Some(Bound { least, greatest }) = bound {
                least.update_batch(std::slice::from_ref(key))?;
                greatest.update_batch(std::slice::from_ref(key))?;
            }
        }
        Ok(())
    }

    /// Returns the conditions that keys lie within the bounds.
    fn conditions(&mut self, keys: &[Arc<dyn PhysicalExpr>]) -> Result<Vec<Arc<dyn PhysicalExpr>>> {
        let mut all = Vec::new();
        for (bound, key) in self.0.iter_mut().zip(keys) {
            let Some(Bound { least, greatest }) = bound else { continue };
            let bound = |operator, bound| -> Arc<dyn PhysicalExpr> {
                Arc::new(BinaryExpr::new(Arc::clone(key), operator, lit(bound)))
            };
            all.push(bound(Operator::GtEq, least.evaluate()?));
            all.push(bound(Operator::LtEq, greatest.evaluate()?));
        }
        Ok(all)
    }
}

/// Returns the keys of a table with these columns alone.
fn key_columns(columns: &[ArrayRef]) -> Result<Keys> {
    let fields = columns.iter().map(|column| Field::new("key", column.data_type().clone(), true));
    let schema = Arc::new(Schema::new(fields.collect::<Vec<_>>()));
    Keys::new(&schema, &(0..columns.len()).collect::<Vec<_>>(), false).map_err(from_join)
}

/// Returns whether a node of the plan uses the filter, perhaps over other columns.
fn uses(plan: &Arc<dyn ExecutionPlan>, filter: &Arc<dyn PhysicalExpr>) -> Result<bool> {
    let id = filter.expression_id();
    let mut found = false;
    plan.apply(|node| {
        node.apply_expressions(&mut |root| {
            root.apply(|expr| {
                found |= expr.expression_id() == id;
                Ok(if found { TreeNodeRecursion::Stop } else { TreeNodeRecursion::Continue })
            })
        })
    })?;
    Ok(found)
}

/// Returns whether a scan of the plan uses a dynamic filter that a node outside the plan makes.
///
/// # Errors
/// If a node cannot list its expressions.
pub(in crate::join) fn has_filters_from_above(plan: &Arc<dyn ExecutionPlan>) -> Result<bool> {
    let (mut used, mut made) = (HashSet::new(), HashSet::new());
    plan.apply(|node| {
        made.extend(node.dynamic_expressions_produced().iter().filter_map(|filter| filter.expression_id()));
        node.apply_expressions(&mut |root| {
            root.apply(|expr| {
                used.extend(expr.is::<DynamicFilterPhysicalExpr>().then(|| expr.expression_id()).flatten());
                Ok(TreeNodeRecursion::Continue)
            })
        })
    })?;
    Ok(!used.is_subset(&made))
}
