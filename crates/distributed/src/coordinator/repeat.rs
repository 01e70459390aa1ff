//! Lets a query in stages start again.

use std::sync::Arc;

use annulus_datafusion::AnnulusConfig;
use datafusion::{
    catalog::{Session, memory::DataSourceExec},
    common::{exec_err, internal_datafusion_err},
    config::ConfigOptions,
    error::Result,
    execution::SessionState,
    logical_expr::LogicalPlan,
    physical_plan::{
        ExecutionPlan, ExecutionPlanProperties, empty::EmptyExec, memory::LazyMemoryExec,
        placeholder_row::PlaceholderRowExec,
    },
};
use datafusion_distributed::{DistributedConfig, DistributedExec, DistributedLeafExec, NetworkBoundaryExt};
use futures::FutureExt;
use url::Url;

use super::{
    analyze::RestartAnalyzeExec,
    planner::PlannerContext,
    restart::{Replan, RestartExec},
    sinks,
};
use crate::{resident::ResidentScanExec, state::TableInfo};

impl PlannerContext {
    /// Returns the plan of a query in stages, whose rows come from an operator that starts it again if a worker is
    /// lost, unless the rows go to files of workers, have no end, or cannot be read again.
    pub(super) fn restarting(
        self: &Arc<Self>,
        plan: Arc<dyn ExecutionPlan>,
        logical: &LogicalPlan,
        session: &dyn Session,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let options = session.config_options();
        let retries = options.extensions.get::<AnnulusConfig>().map_or(0, |annulus| annulus.retries);
        let Some(state) = session.as_any().downcast_ref::<SessionState>().filter(|_| retries > 0) else {
            return Ok(plan);
        };
        if let LogicalPlan::Analyze(analyze) = logical {
            // That of the engine shows a plan in stages alone.
            let [input] = plan.children()[..] else { return Ok(plan) };
            let repeated = self.restarting(Arc::clone(input), &analyze.input, session)?;
            let is_repeated = !Arc::ptr_eq(&repeated, input);
            return Ok(match is_repeated {
                true => Arc::new(RestartAnalyzeExec::new(plan.as_ref(), repeated, analyze.verbose)),
                false => plan,
            });
        }
        let Some(staged) = plan.downcast_ref::<DistributedExec>() else { return Ok(plan) };
        let [whole] = staged.children()[..] else { return Ok(plan) };
        let Some(first) = staged_rows(&plan, logical, options)? else { return Ok(plan) };
        if first.boundedness().is_unbounded() || !can_be_repeated(&first) {
            return Ok(plan);
        }
        let (planning, query, state) = (Arc::clone(self), logical.clone(), state.clone());
        let replan: Replan = Arc::new(move || {
            let (planning, query, state) = (Arc::clone(&planning), query.clone(), state.clone());
            async move { planning.rows_again(&query, &state).await }.boxed()
        });
        let rows = RestartExec::new(first, replan, Arc::clone(&self.live), retries);
        sinks::with_rows(whole, logical, Arc::new(rows))
    }

    /// Plans the rows of a query that starts again.
    ///
    /// # Errors
    /// If it cannot do without a lost worker.
    async fn rows_again(&self, query: &LogicalPlan, state: &SessionState) -> Result<Arc<dyn ExecutionPlan>> {
        let plan = match self.plan_in_stages(query, state, true).await? {
            Some(plan) => plan,
            None => self.plan_in_process(query, state).await?,
        };
        let available = self.live.available()?;
        if let Some(table) = lost_table(&plan, &available) {
            return exec_err!(
                "resident table '{}' has rows on a worker that is lost: create it again with {}",
                table.name,
                table.statement()
            );
        }
        let staged = staged_rows(&plan, query, state.config_options())?;
        let rows = staged.or_else(|| sinks::rows_of(&plan, query).cloned());
        rows.ok_or_else(|| internal_datafusion_err!("a statement that starts again has no rows to write"))
    }
}

/// Returns the rows of a query in stages, or those that a statement writes: a plan in stages of its own, below the
/// operator that writes them. `None` for another plan, and if workers write the rows.
fn staged_rows(
    plan: &Arc<dyn ExecutionPlan>,
    logical: &LogicalPlan,
    options: &ConfigOptions,
) -> Result<Option<Arc<dyn ExecutionPlan>>> {
    let Some(staged) = plan.downcast_ref::<DistributedExec>() else { return Ok(None) };
    let [whole] = staged.children()[..] else { return Ok(None) };
    if !sinks::writes(logical) {
        return Ok(Some(Arc::clone(plan)));
    }
    let Some(rows) = sinks::rows_of(whole, logical) else { return Ok(None) };
    let collects = DistributedConfig::from_config_options(options)?.collect_metrics;
    Ok(Some(Arc::new(DistributedExec::new(Arc::clone(rows)).with_metrics_collection(collects))))
}

/// Returns whether all tables that the process of the coordinator reads itself can be read again. Workers read
/// files.
fn can_be_repeated(plan: &Arc<dyn ExecutionPlan>) -> bool {
    if plan.is_network_boundary() {
        return true;
    }
    let children = plan.children();
    if !children.is_empty() {
        return children.into_iter().all(can_be_repeated);
    }
    plan.is::<DistributedLeafExec>()
        || plan.is::<DataSourceExec>()
        || plan.is::<EmptyExec>()
        || plan.is::<PlaceholderRowExec>()
        || plan.is::<LazyMemoryExec>()
        || plan.is::<ResidentScanExec>()
}

/// Returns a resident table of a plan that has a share on none of the workers.
fn lost_table<'a>(plan: &'a Arc<dyn ExecutionPlan>, workers: &[Url]) -> Option<&'a TableInfo> {
    if let Some(scan) = plan.downcast_ref::<ResidentScanExec>() {
        let shares = scan.shares();
        let is_lost = |worker: &String| !workers.iter().any(|found| found.as_str() == worker);
        return shares.workers.iter().any(is_lost).then_some(&shares.table);
    }
    plan.children().into_iter().find_map(|child| lost_table(child, workers))
}
