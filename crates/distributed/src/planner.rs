//! The planner of a coordinator.

use std::sync::Arc;

use annulus_datafusion::config::InProcess;
use async_trait::async_trait;
use datafusion::{
    catalog::Session,
    common::{
        display::{PlanType, StringifiedPlan},
        tree_node::TreeNode,
    },
    error::Result,
    execution::{SessionState, SessionStateBuilder, context::QueryPlanner},
    logical_expr::LogicalPlan,
    physical_plan::{ExecutionPlan, explain::ExplainExec},
    physical_planner::{DefaultPhysicalPlanner, PhysicalPlanner},
};
use datafusion_distributed::{DistributedExec, display_plan_ascii};

/// Plans as datafusion-distributed does, and shows that in `EXPLAIN`. A query that has one stage only is
/// planned for this process, with all operators of Annulus.
#[derive(Debug)]
pub(crate) struct StagePlanner {
    pub(crate) engine: Arc<dyn QueryPlanner + Send + Sync>,
    /// The planner of the session before it had workers, unless that was DataFusion's own.
    pub(crate) here: Option<Arc<dyn QueryPlanner + Send + Sync>>,
}

#[async_trait]
impl QueryPlanner for StagePlanner {
    async fn create_physical_plan(
        &self,
        logical: &LogicalPlan,
        session: &dyn Session,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let query = match logical {
            LogicalPlan::Explain(explain) if explain.logical_optimization_succeeded => explain.plan.as_ref(),
            _ => logical,
        };
        let plan = self.engine.create_physical_plan(query, session).await?;
        if !plan.exists(|node| Ok(node.is::<DistributedExec>()))? {
            return self.plan_here(logical, session).await;
        }
        if std::ptr::eq(query, logical) {
            return Ok(plan);
        }
        let stock = self.engine.create_physical_plan(logical, session).await?;
        Ok(match stock.downcast_ref::<ExplainExec>() {
            Some(stock) => Arc::new(explained(stock, plan.as_ref())),
            None => stock,
        })
    }
}

impl StagePlanner {
    /// Plans a query that runs in this process.
    async fn plan_here(&self, logical: &LogicalPlan, session: &dyn Session) -> Result<Arc<dyn ExecutionPlan>> {
        let Some(state) = session.as_any().downcast_ref::<SessionState>() else {
            return self.engine.create_physical_plan(logical, session).await;
        };
        let mut config = state.config().clone();
        config.options_mut().extensions.insert(InProcess);
        let state = SessionStateBuilder::new_from_existing(state.clone()).with_config(config).build();
        match &self.here {
            Some(planner) => planner.create_physical_plan(logical, &state).await,
            None => DefaultPhysicalPlanner::default().create_physical_plan(logical, &state).await,
        }
    }
}

/// Returns the explanation with the stages of `plan` in the place of a plan without stages.
fn explained(stock: &ExplainExec, plan: &dyn ExecutionPlan) -> ExplainExec {
    let stages = display_plan_ascii(plan, false);
    let plans = stock.stringified_plans().iter().map(|plan| match plan.plan_type {
        PlanType::FinalPhysicalPlan => StringifiedPlan::new(PlanType::FinalPhysicalPlan, stages.as_str()),
        _ => plan.clone(),
    });
    ExplainExec::new(stock.schema(), plans.collect(), stock.verbose())
}
