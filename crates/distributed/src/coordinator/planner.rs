//! The planner of a coordinator.

use std::{fmt, sync::Arc};

use annulus_datafusion::{AnnulusConfig, UnitScan, config::PlacementMode, inputs_meet, is_of_each_process};
use async_trait::async_trait;
use datafusion::{
    catalog::{Session, memory::DataSourceExec},
    common::{
        display::{PlanType, StringifiedPlan},
        plan_err,
        tree_node::TreeNode,
    },
    config::ConfigOptions,
    datasource::physical_plan::FileScanConfig,
    error::{DataFusionError, Result},
    execution::{SessionState, SessionStateBuilder, context::QueryPlanner, object_store::ObjectStoreUrl},
    logical_expr::LogicalPlan,
    physical_plan::{ExecutionPlan, explain::ExplainExec},
    physical_planner::{DefaultPhysicalPlanner, PhysicalPlanner},
};
use datafusion_distributed::{
    DistributedConfig, DistributedExec, DistributedLeafExec, NetworkBoundaryExt, Stage, WorkerResolver,
    display_plan_ascii,
};
use datafusion_proto::{
    physical_plan::{AsExecutionPlan, DefaultPhysicalExtensionCodec},
    protobuf::PhysicalPlanNode,
};
use futures::future::join_all;

use super::{live::LiveWorkers, skipped::telling_skipped};
use crate::{
    error::{WorkerError, WorkerErrorKind},
    files::Reads,
    stage::follow_tables,
};

/// Plans queries in the stages of datafusion-distributed, and shows them in `EXPLAIN`. A query with one stage, or
/// with tables that cannot be sent, is planned for this process, with all operators of Annulus. A query in stages
/// starts again if a worker is lost.
pub(crate) struct StagePlanner(Arc<PlannerContext>);

/// What a query is planned with.
pub(super) struct PlannerContext {
    pub(super) engine: Arc<dyn QueryPlanner + Send + Sync>,
    pub(super) live: Arc<LiveWorkers>,
    /// The planner of the session before it had workers, unless that was DataFusion's own.
    pub(super) in_process: Option<Arc<dyn QueryPlanner + Send + Sync>>,
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
        self.0.live.ask_lost().await;
        let is_run = std::ptr::eq(query, logical);
        let Some(plan) = self.0.plan_in_stages(query, session, is_run).await? else {
            return self.0.plan_in_process(logical, session).await;
        };
        if is_run {
            return Ok(telling_skipped(self.0.restarting(plan, logical, session)?));
        }
        let unsorted = without_existing_sorts(session);
        let in_stages = unsorted.as_ref().map_or(session, |state| state);
        let stock = self.0.engine.create_physical_plan(logical, in_stages).await?;
        Ok(match stock.downcast_ref::<ExplainExec>() {
            Some(stock) => Arc::new(explained(stock, plan.as_ref())),
            None => stock,
        })
    }
}

impl fmt::Debug for StagePlanner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("StagePlanner").field("engine", &self.0.engine).finish_non_exhaustive()
    }
}

impl StagePlanner {
    pub(super) fn new(context: PlannerContext) -> Self {
        Self(Arc::new(context))
    }
}

impl PlannerContext {
    /// Plans a query for the workers that take queries; `None` if it is to run in this process. If it `is_run`, and
    /// not only explained, workers must be allowed to read its files.
    pub(super) async fn plan_in_stages(
        &self,
        query: &LogicalPlan,
        session: &dyn Session,
        is_run: bool,
    ) -> Result<Option<Arc<dyn ExecutionPlan>>> {
        if self.live.available()?.is_empty() {
            return Ok(None);
        }
        let unsorted = without_existing_sorts(session);
        let in_stages = unsorted.as_ref().map_or(session, |state| state);
        let mut plan = self.engine.create_physical_plan(query, in_stages).await?;
        if let Some(undeclared) = without_partitions(&plan, in_stages)? {
            plan = self.engine.create_physical_plan(query, &undeclared).await?;
        }
        check_own_files(&plan, 1, self.live.list()?.len())?;
        let is_in_stages = plan.exists(|node| Ok(node.is::<DistributedExec>()))?;
        if !is_in_stages && is_run {
            self.check_readable(&plan).await?;
        }
        match is_in_stages && can_be_sent(&plan, false) {
            true => follow_tables(plan).map(Some),
            false => Ok(None),
        }
    }

    /// Checks that the workers may read the files of a query which only runs here because it is small. It should
    /// not fail when its files have grown.
    ///
    /// # Errors
    /// If one may not.
    async fn check_readable(&self, plan: &Arc<dyn ExecutionPlan>) -> Result<()> {
        let mut reads = Reads::default();
        add_reads(plan, &mut reads);
        if reads.is_empty() {
            return Ok(());
        }
        let (workers, connections) = (self.live.get_urls()?, self.live.connections());
        let answers = join_all(workers.iter().map(|worker| connections.ask(worker, &reads))).await;
        // This query needs no worker, so a worker that does not answer is ignored.
        let is_refusal = |error: &DataFusionError| {
            let is_there = WorkerError::find_in(error).is_some_and(|error| error.kind == WorkerErrorKind::Query);
            is_there && matches!(error.find_root(), DataFusionError::Execution(_))
        };
        let refusal = answers.into_iter().filter_map(Result::err).find(is_refusal);
        refusal.map_or(Ok(()), Err)
    }

    /// Plans a query that runs in this process.
    pub(super) async fn plan_in_process(
        &self,
        logical: &LogicalPlan,
        session: &dyn Session,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let Some(state) = session.as_any().downcast_ref::<SessionState>() else {
            return self.engine.create_physical_plan(logical, session).await;
        };
        let state = with_options(state, |options| options.extensions.insert(PlacementMode::InProcess));
        match &self.in_process {
            Some(planner) => planner.create_physical_plan(logical, &state).await,
            None => DefaultPhysicalPlanner::default().create_physical_plan(logical, &state).await,
        }
    }
}

/// Adds the local files that the scans of a plan read.
fn add_reads(plan: &Arc<dyn ExecutionPlan>, reads: &mut Reads) {
    if let Some(units) = UnitScan::from_plan(plan.as_ref()) {
        reads.inputs.extend_from_slice(units.inputs());
    } else if let Some(scan) = plan.downcast_ref::<DataSourceExec>()
        && let Some(scan) = scan.data_source().downcast_ref::<FileScanConfig>()
        && scan.object_store_url == ObjectStoreUrl::local_filesystem()
    {
        let files = scan.file_groups.iter().flat_map(|group| group.iter());
        reads.files.extend(files.map(|file| format!("/{}", file.object_meta.location).into()));
    }
    plan.children().into_iter().for_each(|child| add_reads(child, reads));
}

/// Returns the session with another option, if it lets exchanges keep an order. Between stages, they do
/// not.
fn without_existing_sorts(session: &dyn Session) -> Option<SessionState> {
    let state = session.as_any().downcast_ref::<SessionState>()?;
    let keeps = state.config_options().optimizer.prefer_existing_sort;
    keeps.then(|| with_options(state, |options| options.optimizer.prefer_existing_sort = false))
}

/// Returns the session without partitioned tables, if the task counts of `plan` are decided while it runs, and in
/// several tasks rows of partitions would not meet exchanged ones. One task would have to run such a stage.
fn without_partitions(plan: &Arc<dyn ExecutionPlan>, session: &dyn Session) -> Result<Option<SessionState>> {
    let Some(state) = session.as_any().downcast_ref::<SessionState>() else { return Ok(None) };
    let is_dynamic = DistributedConfig::from_config_options(state.config_options())?.dynamic_task_count;
    let is_apart = is_dynamic && plan.exists(|node| Ok(!inputs_meet(node, false)))?;
    Ok(is_apart.then(|| {
        with_options(state, |options| {
            if let Some(annulus) = options.extensions.get_mut::<AnnulusConfig>() {
                annulus.partitioned_tables = false;
            }
        })
    }))
}

/// Returns the session with changed options, and the same tables.
fn with_options(state: &SessionState, change: impl FnOnce(&mut ConfigOptions)) -> SessionState {
    // Otherwise the new session would replace the catalog that both share by an empty one.
    let mut config = state.config().clone().with_create_default_catalog_and_schema(false);
    change(config.options_mut());
    SessionStateBuilder::new_from_existing(state.clone()).with_config(config).build()
}

/// Returns whether all scans below a boundary of stages can be sent to another process. Those of memory
/// cannot.
fn can_be_sent(plan: &Arc<dyn ExecutionPlan>, is_below: bool) -> bool {
    let is_below = is_below || plan.is_network_boundary();
    let leaf = plan.downcast_ref::<DistributedLeafExec>().map_or(plan, DistributedLeafExec::original);
    if is_below && leaf.is::<DataSourceExec>() {
        if UnitScan::from_plan(leaf.as_ref()).is_some() {
            return true;
        }
        let sent = PhysicalPlanNode::try_from_physical_plan(Arc::clone(leaf), &DefaultPhysicalExtensionCodec {});
        return sent.is_ok();
    }
    plan.children().into_iter().all(|child| can_be_sent(child, is_below))
}

/// Checks that every stage which reads files of each worker has a task on each.
fn check_own_files(plan: &Arc<dyn ExecutionPlan>, tasks: usize, workers: usize) -> Result<()> {
    if let Some(boundary) = plan.as_network_boundary() {
        return match boundary.input_stage() {
            Stage::Local(stage) => check_own_files(&stage.plan, stage.tasks, workers),
            // Stages that run have been planned.
            Stage::Remote(_) => Ok(()),
        };
    }
    let leaf = plan.downcast_ref::<DistributedLeafExec>().map_or(plan, DistributedLeafExec::original);
    if is_of_each_process(leaf.as_ref()) && (tasks != workers || workers < 2) {
        return plan_err!(
            "with per-worker files, every worker must run a task, but only {tasks} of {workers} would: name two or \
             more workers, and let joins repartition or go around a ring (annulus.cyclo_join)"
        );
    }
    plan.children().into_iter().try_for_each(|child| check_own_files(child, tasks, workers))
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
