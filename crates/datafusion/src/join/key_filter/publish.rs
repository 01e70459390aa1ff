//! Publishes a join's dynamic filter when its build side is ready.

use std::{collections::HashSet, sync::Arc};

use annulus_join::{BuildSide, KeySet, Keys};
use arrow::{
    array::{Array, ArrayRef},
    datatypes::{DataType, Field, Schema, SchemaRef},
};
use datafusion::{
    common::{
        NullEquality,
        tree_node::{TreeNode, TreeNodeRecursion},
    },
    config::ConfigOptions,
    error::Result,
    logical_expr::Operator,
    physical_expr::{
        PhysicalExpr, conjunction,
        expressions::{BinaryExpr, DynamicFilterPhysicalExpr, InListExpr, IsNullExpr, lit},
    },
    physical_plan::{ExecutionPlan, joins::HashJoinExec},
};

use super::{
    expr::{Filter, MayMatch},
    known::{KeyColumn, Known},
    list::Limits,
};
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
    /// The columns of the probe side.
    schema: SchemaRef,
    nulls: Nulls,
    limits: Limits,
}

/// What becomes of a row of the probe side with a null key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Nulls {
    /// It has no partner.
    Drop,
    /// It has a partner with a null key in the same place, if there is one.
    Match,
    /// It decides about other rows, so the join must see it.
    Keep,
}

impl Publisher {
    /// Returns the publisher for a join, if a node of its probe side uses the filter.
    ///
    /// A null-aware anti join has a filter only if the keys of its build side are declared without
    /// nulls, since a row with a null key asks whether the probe side has any rows.
    ///
    /// # Errors
    /// If a node cannot list its expressions.
    pub(in crate::join) fn new(stock: &HashJoinExec, options: &ConfigOptions) -> Result<Option<Self>> {
        let Some(filter) = stock.dynamic_expressions_produced().pop() else { return Ok(None) };
        if !uses(stock.right(), &filter)? {
            return Ok(None);
        }
        let nulls = match stock.null_equality() {
            _ if stock.null_aware => Nulls::Keep,
            NullEquality::NullEqualsNull => Nulls::Match,
            NullEquality::NullEqualsNothing => Nulls::Drop,
        };
        let keys = stock.on().iter().map(|(_, key)| Arc::clone(key)).collect();
        Ok(Some(Self { filter, keys, schema: stock.right().schema(), nulls, limits: Limits::new(options) }))
    }

    /// Publishes what the build side, with these key columns, says of the probe side's keys. O(rows).
    ///
    /// # Errors
    /// If a kernel fails.
    pub(in crate::join) fn publish(&self, known: Known, side: &BuildSide, keys: &[ArrayRef]) -> Result<()> {
        let rows = keys.first().map_or(0, |keys| keys.len());
        if rows == 0 {
            return self.complete(vec![lit(false)]);
        }
        let lists = keys.iter().map(|keys| self.limits.list(keys)).collect::<Result<_>>()?;
        let set = (rows <= MOST_ROWS).then(|| side.key_set());
        self.publish_all(known, lists, set, side.keys().types())
    }

    /// Publishes what is known of a build side that has rows, of which not all are in memory.
    ///
    /// # Errors
    /// If a kernel fails.
    pub(in crate::join) fn publish_known(&self, known: Known, set: Option<KeySet>, keys: &Keys) -> Result<()> {
        self.publish_all(known, vec![None; self.keys.len()], set, keys.types())
    }

    fn publish_all<'a>(
        &self,
        mut known: Known,
        lists: Vec<Option<ArrayRef>>,
        set: Option<KeySet>,
        types: impl Iterator<Item = &'a DataType>,
    ) -> Result<()> {
        let mut all = Vec::new();
        for ((key, column), list) in self.keys.iter().zip(&mut known.columns).zip(lists) {
            all.extend(self.condition(key, column, list)?);
        }
        if let Some(set) = set {
            let set = if self.nulls == Nulls::Keep { set.with_nulls() } else { set };
            let filter = Filter { set, keys: key_columns(types, self.nulls == Nulls::Match)? };
            all.push(Arc::new(MayMatch::new(self.keys.clone(), Arc::new(filter))));
        }
        self.complete(all)
    }

    /// Returns what a key fulfils in each row that the join needs.
    fn condition(
        &self,
        key: &Arc<dyn PhysicalExpr>,
        column: &mut KeyColumn,
        list: Option<ArrayRef>,
    ) -> Result<Option<Arc<dyn PhysicalExpr>>> {
        let mut found = if column.has_value { column.bound_conditions(key)? } else { vec![lit(false)] };
        if let Some(list) = list {
            found.push(Arc::new(InListExpr::try_new_from_array(Arc::clone(key), list, false, &self.schema)?));
        }
        if found.is_empty() {
            return Ok(None);
        }
        let found = conjunction(found);
        let keeps_nulls = match self.nulls {
            Nulls::Drop => false,
            Nulls::Match => column.has_null,
            Nulls::Keep => true,
        };
        if !keeps_nulls || !key.nullable(&self.schema)? {
            return Ok(Some(found));
        }
        let is_null = Arc::new(IsNullExpr::new(Arc::clone(key)));
        Ok(Some(Arc::new(BinaryExpr::new(is_null, Operator::Or, found))))
    }

    fn complete(&self, conditions: Vec<Arc<dyn PhysicalExpr>>) -> Result<()> {
        if let Some(filter) = self.filter.downcast_ref::<DynamicFilterPhysicalExpr>() {
            filter.update(conjunction(conditions))?;
            filter.mark_complete();
        }
        Ok(())
    }
}

/// Returns the keys of a table with columns of these types alone.
fn key_columns<'a>(types: impl Iterator<Item = &'a DataType>, nulls_equal: bool) -> Result<Keys> {
    let fields: Vec<_> = types.map(|data_type| Field::new("key", data_type.clone(), true)).collect();
    let columns: Vec<_> = (0..fields.len()).collect();
    Keys::new(&Arc::new(Schema::new(fields)), &columns, nulls_equal).map_err(from_join)
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
