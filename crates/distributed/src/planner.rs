//! The planner of a coordinator.

use std::sync::Arc;

use annulus_datafusion::{UnitScan, config::InProcess};
use async_trait::async_trait;
use datafusion::{
    catalog::{Session, memory::DataSourceExec},
    common::{
        display::{PlanType, StringifiedPlan},
        tree_node::TreeNode,
    },
    config::ConfigOptions,
    error::Result,
    execution::{SessionState, SessionStateBuilder, context::QueryPlanner},
    logical_expr::LogicalPlan,
    physical_plan::{ExecutionPlan, explain::ExplainExec},
    physical_planner::{DefaultPhysicalPlanner, PhysicalPlanner},
};
use datafusion_distributed::{DistributedExec, DistributedLeafExec, NetworkBoundaryExt, display_plan_ascii};
use datafusion_proto::{
    physical_plan::{AsExecutionPlan, DefaultPhysicalExtensionCodec},
    protobuf::PhysicalPlanNode,
};

/// Plans as datafusion-distributed does, and shows that in `EXPLAIN`. A query that has one stage only,
/// or reads what cannot be sent, is planned for this process, with all operators of Annulus.
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
        let unsorted = without_existing_sorts(session);
        let in_stages = unsorted.as_ref().map_or(session, |state| state);
        let plan = self.engine.create_physical_plan(query, in_stages).await?;
        if !plan.exists(|node| Ok(node.is::<DistributedExec>()))? || !can_be_sent(&plan, false) {
            return self.plan_here(logical, session).await;
        }
        if std::ptr::eq(query, logical) {
            return Ok(plan);
        }
        let stock = self.engine.create_physical_plan(logical, in_stages).await?;
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
        let state = with_options(state, |options| options.extensions.insert(InProcess));
        match &self.here {
            Some(planner) => planner.create_physical_plan(logical, &state).await,
            None => DefaultPhysicalPlanner::default().create_physical_plan(logical, &state).await,
        }
    }
}

/// Returns the session with another option, if it lets exchanges keep an order. Between stages, they do
/// not.
fn without_existing_sorts(session: &dyn Session) -> Option<SessionState> {
    let state = session.as_any().downcast_ref::<SessionState>()?;
    let keeps = state.config_options().optimizer.prefer_existing_sort;
    keeps.then(|| with_options(state, |options| options.optimizer.prefer_existing_sort = false))
}

/// Returns the session with changed options, and the same tables.
fn with_options(state: &SessionState, change: impl FnOnce(&mut ConfigOptions)) -> SessionState {
    // Else the new session would put an empty catalog in the place of the one that both share.
    let mut config = state.config().clone().with_create_default_catalog_and_schema(false);
    change(config.options_mut());
    SessionStateBuilder::new_from_existing(state.clone()).with_config(config).build()
}

/// Returns whether all scans below a boundary of stages can be sent to another process. Those of memory
/// cannot, nor those of files that Annulus reads itself, such as CSV, if they declare a partitioning.
fn can_be_sent(plan: &Arc<dyn ExecutionPlan>, is_below: bool) -> bool {
    let is_below = is_below || plan.is_network_boundary();
    let leaf = plan.downcast_ref::<DistributedLeafExec>().map_or(plan, DistributedLeafExec::original);
    if is_below && leaf.is::<DataSourceExec>() {
        if UnitScan::of(leaf.as_ref()).is_some() {
            return true;
        }
        let sent = PhysicalPlanNode::try_from_physical_plan(Arc::clone(leaf), &DefaultPhysicalExtensionCodec {});
        return sent.is_ok();
    }
    plan.children().into_iter().all(|child| can_be_sent(child, is_below))
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
