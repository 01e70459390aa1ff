//! The machine, and what its caches suggest.

use std::sync::LazyLock;

use annulus_topology::{Policy, Topology};

use super::demand::{Demand, Layout};

/// Returns the topology of this machine.
pub(crate) fn topology() -> &'static Topology {
    static TOPOLOGY: LazyLock<Topology> = LazyLock::new(Topology::detect);
    &TOPOLOGY
}

/// Describes this machine: its processor, CPUs, caches and limits. A profile of another machine is
/// not used.
pub fn machine() -> &'static str {
    static MACHINE: LazyLock<String> = LazyLock::new(annulus_topology::machine);
    &MACHINE
}

/// Returns the number of last-level caches that this process may use, at least 1.
pub fn domains() -> usize {
    domains_of(topology())
}

/// Returns the number of last-level caches of `topology`, at least 1.
pub(crate) fn domains_of(topology: &Topology) -> usize {
    topology.domains().len().max(1)
}

/// The part of the last-level cache that batches in flight may take. The rest is for what the
/// operators beside the exchange keep there.
const CACHE_SHARE: u64 = 4;

/// The most groups that are chosen: turns beyond this length gained nothing.
const MOST_GROUPS: u64 = 16;

/// Returns the number of groups in a ring that suits the caches, for batches of `batch_rows` rows:
/// what the paper suggests, or more where a single cache has room and rows are known to have few
/// bytes. Inputs and outputs then take longer turns, and evict each other's data less often.
pub(crate) fn groups(topology: &Topology, demand: &Demand, batch_rows: usize) -> usize {
    let placement = topology.place(demand.inputs, demand.outputs, Policy::default());
    let batch_bytes = (batch_rows * demand.row_bytes) as u64;
    let suggested = topology.groups(&placement, Some(batch_bytes)).groups;
    let (Some(cache_bytes), Layout::Fixed) = (topology.shared_cache_bytes(&placement), demand.layout) else {
        return suggested;
    };
    // As many batches as fit, for each partition of the wider side, less the one that fills.
    let partitions = demand.inputs.max(demand.outputs) as u64;
    let fit = cache_bytes / CACHE_SHARE / (partitions * batch_bytes).max(1);
    suggested.max(fit.saturating_sub(1).min(MOST_GROUPS) as usize)
}

#[cfg(test)]
mod tests;
