//! Tables that are partitioned by hash, which the tasks of a stage read by whole partitions.
//!
//! ```text
//! coordinator:  partition p of each table -> task p % tasks, in the same place
//!               an exchange that meets a table -> TaskPartitionsExec, to the same tasks
//!               partitions that run a few at a time -> a few of each task
//!               task t -> the same worker in each query
//! ```
//!
//! So rows of equal keys meet in a task, and joins and groupings on the key exchange nothing. The engine divides an
//! exchange otherwise: among as many partitions as all tasks have together.

use std::sync::Arc;

use annulus_datafusion::{InTurnExec, hash_partitions, inputs_meet, scanned_bytes};
use datafusion::{
    catalog::memory::DataSourceExec,
    common::internal_err,
    error::Result,
    physical_expr::Partitioning,
    physical_plan::{
        ChildrenPropertiesMode, ExecutionPlan, ExecutionPlanProperties, ReplaceChildrenOptions,
        repartition::RepartitionExec,
    },
};
use datafusion_distributed::{
    DesiredTaskCountEvent, DesiredTaskCountEventResponse, DistributedConfig, DistributedExec, DistributedGetterExt,
    DistributedLeafExec, NetworkBoundaryExt, NetworkShuffleExec, RouteTasksEvent, RouteTasksEventResponse,
};
use url::Url;

use super::{scans::is_whole, task_partitions::TaskPartitionsExec};

const RECOMPUTE: ReplaceChildrenOptions = ReplaceChildrenOptions::new(ChildrenPropertiesMode::Recompute);

/// The name of the union of the engine, whose inputs have tasks of their own.
const UNION: &str = "ChildrenIsolatorUnionExec";

/// A table that the tasks of a stage read by partitions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct DividedTable {
    partitions: usize,
    tasks: usize,
}

/// Sets the number of tasks that read a table that is partitioned by hash: at most one for each partition, if it is
/// too large for one task. So a worker reads the same partitions, however many rows a query needs of them.
///
/// A stage has one task if it reads inputs by key of which some rows would not meet.
pub(crate) fn tasks_of_tables(event: DesiredTaskCountEvent<'_>) -> Option<Result<DesiredTaskCountEventResponse>> {
    let engine = DistributedConfig::from_session_config(event.session_config).ok()?;
    let scan = event.plan.downcast_ref::<DataSourceExec>();
    if scan.and_then(is_whole) == Some(true) {
        return None;
    }
    let Some(partitions) = hash_partitions(event.plan.as_ref()) else {
        // Task counts that are decided while the query runs come with heads of the engine.
        let meet = inputs_meet(event.plan, !engine.dynamic_task_count);
        return (!meet).then(|| Ok(DesiredTaskCountEventResponse::maximum(1)));
    };
    let bytes: u64 = scanned_bytes(event.plan.as_ref()).into_iter().flatten().sum();
    let each = engine.file_scan_config_bytes_per_partition.saturating_mul(event.session_config.target_partitions());
    let is_small = usize::try_from(bytes).is_ok_and(|bytes| bytes <= each);
    Some(Ok(DesiredTaskCountEventResponse::desired(if is_small { 1 } else { partitions })))
}

/// Places the tasks of a stage that reads tables by partitions on the same workers in each query. If a worker is not
/// in the list, the others have its partitions.
pub(crate) fn route_tables(event: RouteTasksEvent<'_>) -> Option<Result<RouteTasksEventResponse>> {
    tables_of(event.plan).first().filter(|table| table.tasks == event.task_count)?;
    let resolver = event.task_ctx.session_config().get_distributed_worker_resolver().ok()?;
    let mut workers = resolver.get_urls().ok()?;
    workers.sort_unstable_by(|one, other| one.as_str().cmp(other.as_str()));
    let urls: Vec<Url> = workers.into_iter().cycle().take(event.task_count).collect();
    (urls.len() == event.task_count).then(|| Ok(RouteTasksEventResponse::new(urls)))
}

/// Returns a plan in stages whose exchanges send rows to the tasks that read the partitions of the tables which
/// the rows meet. Each task runs as many partitions at a time as are planned.
///
/// # Errors
/// If DataFusion refuses a plan.
pub(crate) fn follow_tables(plan: Arc<dyn ExecutionPlan>) -> Result<Arc<dyn ExecutionPlan>> {
    follow(&plan, &[])
}

/// Returns the part of a stage with exchanges that follow `tables`, and the stages below.
fn follow(plan: &Arc<dyn ExecutionPlan>, tables: &[DividedTable]) -> Result<Arc<dyn ExecutionPlan>> {
    let begins = plan.is::<DistributedExec>() || is_end(plan);
    let children = plan.children();
    let followed =
        children.iter().map(|child| if begins { follow(child, &tables_of(child)) } else { follow(child, tables) });
    let mut followed = followed.collect::<Result<Vec<_>>>()?;
    let partitions = plan.output_partitioning().partition_count();
    let table = tables.iter().find(|table| table.partitions == partitions);
    if let (Some(table), [input], true) = (table, &mut followed[..], plan.is::<NetworkShuffleExec>()) {
        *input = with_tasks_of(input, *table)?;
    }
    if let (Some(table), Some(in_turn)) = (tables.first(), plan.downcast_ref::<InTurnExec>()) {
        return Arc::new(in_turn.for_tasks(table.tasks)).replace_children(followed, RECOMPUTE);
    }
    if followed.iter().zip(children).all(|(new, old)| Arc::ptr_eq(new, old)) {
        return Ok(Arc::clone(plan));
    }
    Arc::clone(plan).replace_children(followed, RECOMPUTE)
}

/// Returns the plan of a stage whose exchange sends its rows to the tasks of `table`.
fn with_tasks_of(plan: &Arc<dyn ExecutionPlan>, table: DividedTable) -> Result<Arc<dyn ExecutionPlan>> {
    let DividedTable { partitions, tasks } = table;
    if let Some(exchange) = plan.downcast_ref::<RepartitionExec>() {
        return match exchange.partitioning() {
            Partitioning::Hash(keys, all) if *all == partitions * tasks => {
                let by_hash = Partitioning::Hash(keys.clone(), partitions);
                let exchange = RepartitionExec::try_new(Arc::clone(exchange.input()), by_hash)?;
                Ok(Arc::new(TaskPartitionsExec::new(Arc::new(exchange), tasks)))
            }
            other => internal_err!("rows for {tasks} tasks of {partitions} partitions are exchanged by {other}"),
        };
    }
    // Groups that are merged before they are sent.
    match plan.children()[..] {
        [input] => Arc::clone(plan).replace_children(vec![with_tasks_of(input, table)?], RECOMPUTE),
        _ => internal_err!("{} sends rows to tasks without an exchange", plan.name()),
    }
}

/// Returns the tables that a part of a stage reads by partitions in several tasks. All have the same tasks.
fn tables_of(plan: &Arc<dyn ExecutionPlan>) -> Vec<DividedTable> {
    let mut tables = Vec::new();
    add_tables(plan, &mut tables);
    tables
}

fn add_tables(plan: &Arc<dyn ExecutionPlan>, tables: &mut Vec<DividedTable>) {
    if let Some(leaf) = plan.downcast_ref::<DistributedLeafExec>() {
        let tasks = leaf.variants().len();
        let partitions = hash_partitions(leaf.original().as_ref()).filter(|_| tasks > 1);
        tables.extend(partitions.map(|partitions| DividedTable { partitions, tasks }));
    } else if !is_end(plan) {
        plan.children().into_iter().for_each(|child| add_tables(child, tables));
    }
}

/// Returns whether the inputs of `plan` have other tasks.
fn is_end(plan: &Arc<dyn ExecutionPlan>) -> bool {
    plan.is_network_boundary() || plan.name() == UNION
}

#[cfg(test)]
mod tests;
