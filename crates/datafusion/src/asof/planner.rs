//! The planners of the operator.

use std::sync::Arc;

use annulus_join::Sides;
use async_trait::async_trait;
use datafusion::{
    catalog::Session,
    common::{DFSchema, internal_err},
    error::Result,
    execution::context::QueryPlanner,
    logical_expr::{
        Expr, LogicalPlan, UserDefinedLogicalNode, physical_planning_context::PhysicalPlanningContext,
        utils::conjunction,
    },
    physical_expr::PhysicalExpr,
    physical_plan::ExecutionPlan,
    physical_planner::{DefaultPhysicalPlanner, ExtensionPlanner, PhysicalPlanner},
};

use super::node::{AsOfJoin, Condition};
use crate::{
    config::PlacementMode,
    join::{AsOfCondition, AsOfJoinExec},
};

/// DataFusion's planner of queries, with [`AsOfPlanner`].
#[derive(Debug)]
pub struct AnnulusPlanner;

/// Plans an [`AsOfJoin`] as an [`AsOfJoinExec`]. A session with a query planner of its own adds it to the
/// extension planners there.
#[derive(Debug)]
pub struct AsOfPlanner;

#[async_trait]
impl QueryPlanner for AnnulusPlanner {
    async fn create_physical_plan(&self, plan: &LogicalPlan, session: &dyn Session) -> Result<Arc<dyn ExecutionPlan>> {
        let planner = DefaultPhysicalPlanner::with_extension_planners(vec![Arc::new(AsOfPlanner)]);
        planner.create_physical_plan(plan, session).await
    }
}

#[async_trait]
impl ExtensionPlanner for AsOfPlanner {
    async fn plan_extension(
        &self,
        planner: &dyn PhysicalPlanner,
        node: &dyn UserDefinedLogicalNode,
        logical_inputs: &[&LogicalPlan],
        physical_inputs: &[Arc<dyn ExecutionPlan>],
        session: &dyn Session,
        planning: &PhysicalPlanningContext,
    ) -> Result<Option<Arc<dyn ExecutionPlan>>> {
        let Some(join) = node.as_any().downcast_ref::<AsOfJoin>() else { return Ok(None) };
        let (&[left_plan, right_plan], [left, right]) = (logical_inputs, physical_inputs) else {
            return internal_err!("an AsOfJoin has two inputs");
        };
        let schemas = Sides { left: left_plan.schema(), right: right_plan.schema() };
        let physical = |expr: &Expr, schema: &DFSchema| planner.create_physical_expr(expr, schema, session, planning);
        let of_sides = |pair: &Sides<Expr>| -> Result<Sides<Arc<dyn PhysicalExpr>>> {
            let left = physical(&pair.left, schemas.left)?;
            Ok(Sides { left, right: physical(&pair.right, schemas.right)? })
        };
        let Condition { on, times, comparison, bounds } = join.condition()?;
        let bounds = conjunction(bounds).map(|bounds| physical(&bounds, node.schema())).transpose()?;
        let on = on.iter().map(of_sides).collect::<Result<_>>()?;
        let condition = AsOfCondition { on, times: of_sides(&times)?, comparison, bounds };
        let inputs = Sides { left: Arc::clone(left), right: Arc::clone(right) };
        // One index for all partitions is in the memory of one process.
        let is_partitioned = PlacementMode::from_options(session.config_options()) == PlacementMode::Shipped;
        Ok(Some(Arc::new(AsOfJoinExec::try_new(inputs, condition, is_partitioned)?)))
    }
}
