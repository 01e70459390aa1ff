//! Operators that read several inputs by key, in a stage of several tasks.

use std::sync::Arc;

use datafusion::physical_plan::{ExecutionPlan, Partitioning, repartition::RepartitionExec, union::InterleaveExec};

use super::regions::{feeding, keyed};
use crate::table::hash_partitions;

/// Where the rows of partition `p` of an operator come from, within its stage.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Origin {
    /// Partition `p` of a table that declares this number of hash partitions.
    Table(usize),
    /// An exchange by hash into this number of partitions.
    Exchange(usize),
    /// Anything else.
    Unknown,
}

/// Returns whether rows of equal keys come to the same task from all inputs of `node`, if its stage has several
/// tasks and reads tables that are partitioned by hash. Such tables are
/// [divided](crate::divide_partitions) by whole partitions. Where exchanges `follow`, those into as many partitions
/// put rows in the task that reads the partition of the table.
pub fn inputs_meet(node: &Arc<dyn ExecutionPlan>, follow: bool) -> bool {
    let children = node.children();
    let inputs: Vec<_> = match keyed(node) {
        _ if node.is::<InterleaveExec>() => children,
        keyed if keyed.len() > 1 => keyed.into_iter().map(|child| children[child]).collect(),
        _ => return true,
    };
    let mut origins = Vec::new();
    inputs.into_iter().for_each(|input| add_origins(input, &mut origins));
    let Some(partitions) = origins.iter().find_map(Origin::partitions_of_table) else { return true };
    origins.iter().all(|origin| match origin {
        Origin::Table(others) => *others == partitions,
        Origin::Exchange(others) => follow && *others == partitions,
        Origin::Unknown => false,
    })
}

impl Origin {
    fn partitions_of_table(&self) -> Option<usize> {
        match self {
            Self::Table(partitions) => Some(*partitions),
            Self::Exchange(_) | Self::Unknown => None,
        }
    }
}

fn add_origins(plan: &Arc<dyn ExecutionPlan>, origins: &mut Vec<Origin>) {
    if let Some(partitions) = hash_partitions(plan.as_ref()) {
        return origins.push(Origin::Table(partitions));
    }
    let exchange = plan.downcast_ref::<RepartitionExec>().map(RepartitionExec::partitioning);
    if let Some(Partitioning::Hash(_, partitions)) = exchange {
        return origins.push(Origin::Exchange(*partitions));
    }
    let feeding = feeding(plan);
    if feeding.is_empty() {
        return origins.push(Origin::Unknown);
    }
    feeding.into_iter().for_each(|child| add_origins(child, origins));
}
