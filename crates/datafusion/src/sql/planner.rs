//! The planners of the operator.

use std::sync::Arc;

use annulus_join::Sides;
use async_trait::async_trait;
use datafusion::{
    catalog::Session,
    common::DFSchema,
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

use crate::{
    asof::{AsOfJoin, Condition},
    config::PlacementMode,
    join::{AsOfCondition, AsOfJoinExec, NearestCondition, NearestJoinExec},
    nearest::NearestJoin,
};

/// DataFusion's planner of queries, with [`JoinPlanner`].
#[derive(Debug)]
pub struct AnnulusPlanner;

/// Plans an [`AsOfJoin`] as an [`AsOfJoinExec`], and a [`NearestJoin`] as a [`NearestJoinExec`]. A session with a
/// query planner of its own adds it to the extension planners there.
#[derive(Debug)]
pub struct JoinPlanner;

#[async_trait]
impl QueryPlanner for AnnulusPlanner {
    async fn create_physical_plan(&self, plan: &LogicalPlan, session: &dyn Session) -> Result<Arc<dyn ExecutionPlan>> {
        let planner = DefaultPhysicalPlanner::with_extension_planners(vec![Arc::new(JoinPlanner)]);
        planner.create_physical_plan(plan, session).await
    }
}

#[async_trait]
impl ExtensionPlanner for JoinPlanner {
    async fn plan_extension(
        &self,
        planner: &dyn PhysicalPlanner,
        node: &dyn UserDefinedLogicalNode,
        logical_inputs: &[&LogicalPlan],
        physical_inputs: &[Arc<dyn ExecutionPlan>],
        session: &dyn Session,
        planning: &PhysicalPlanningContext,
    ) -> Result<Option<Arc<dyn ExecutionPlan>>> {
        let (&[left_plan, right_plan], [left, right]) = (logical_inputs, physical_inputs) else { return Ok(None) };
        let inputs = Sides { left: Arc::clone(left), right: Arc::clone(right) };
        if let Some(join) = node.as_any().downcast_ref::<NearestJoin>() {
            let schema = left_plan.schema().join(right_plan.schema())?;
            let by = planner.create_physical_expr(join.by(), &schema, session, planning)?;
            let condition = NearestCondition { by, order: join.order(), k: join.k(), keeps_left: join.keeps_left() };
            return Ok(Some(Arc::new(NearestJoinExec::try_new(inputs, condition)?)));
        }
        let Some(join) = node.as_any().downcast_ref::<AsOfJoin>() else { return Ok(None) };
        let schemas = Sides { left: left_plan.schema(), right: right_plan.schema() };
        let physical = |expr: &Expr, schema: &DFSchema| planner.create_physical_expr(expr, schema, session, planning);
        let of_sides = |pair: &Sides<Expr>| -> Result<Sides<Arc<dyn PhysicalExpr>>> {
            let left = physical(&pair.left, schemas.left)?;
            Ok(Sides { left, right: physical(&pair.right, schemas.right)? })
        };
        let Condition { on, times, comparison, bounds } = join.condition()?;
        let bounds = conjunction(bounds).map(|bounds| physical(&bounds, node.schema())).transpose()?;
        let on = on.iter().map(of_sides).collect::<Result<_>>()?;
        let condition =
            AsOfCondition { on, times: of_sides(&times)?, comparison, bounds, keeps_left: join.keeps_left() };
        // What all partitions share is in the memory of one process.
        let is_of_one_process = PlacementMode::from_options(session.config_options()) != PlacementMode::Shipped;
        Ok(Some(Arc::new(AsOfJoinExec::try_new(inputs, condition, !is_of_one_process)?)))
    }
}
