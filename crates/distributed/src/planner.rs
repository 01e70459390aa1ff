//! The planner of a coordinator.

use std::sync::Arc;

use async_trait::async_trait;
use datafusion::{
    catalog::Session,
    common::display::{PlanType, StringifiedPlan},
    error::Result,
    execution::context::QueryPlanner,
    logical_expr::LogicalPlan,
    physical_plan::{ExecutionPlan, explain::ExplainExec},
};
use datafusion_distributed::{DistributedExec, display_plan_ascii};

/// Plans as datafusion-distributed does. In `EXPLAIN`, too, where that shows the plan of one process.
#[derive(Debug)]
pub(crate) struct StagePlanner {
    pub(crate) engine: Arc<dyn QueryPlanner + Send + Sync>,
}

#[async_trait]
impl QueryPlanner for StagePlanner {
    async fn create_physical_plan(
        &self,
        logical: &LogicalPlan,
        session: &dyn Session,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let plan = self.engine.create_physical_plan(logical, session).await?;
        if let (LogicalPlan::Explain(explain), Some(stock)) = (logical, plan.downcast_ref::<ExplainExec>())
            && explain.logical_optimization_succeeded
        {
            let query = self.engine.create_physical_plan(&explain.plan, session).await?;
            if query.is::<DistributedExec>() {
                let shown = Arc::new(display_plan_ascii(query.as_ref(), false));
                let plans = stock.stringified_plans().iter().map(|plan| match plan.plan_type {
                    PlanType::FinalPhysicalPlan => StringifiedPlan::new(PlanType::FinalPhysicalPlan, shown.as_str()),
                    _ => plan.clone(),
                });
                return Ok(Arc::new(ExplainExec::new(stock.schema(), plans.collect(), stock.verbose())));
            }
        }
        Ok(plan)
    }
}
