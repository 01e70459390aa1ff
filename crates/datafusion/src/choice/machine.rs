//! The machine, and what its caches suggest.

use std::sync::LazyLock;

use annulus_topology::{Policy, Topology};

use super::demand::Demand;

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

/// Returns the number of groups in a ring that suits the caches, for batches of `batch_rows` rows.
pub(crate) fn groups(topology: &Topology, demand: &Demand, batch_rows: usize) -> usize {
    let placement = topology.place(demand.inputs, demand.outputs, Policy::default());
    topology.groups(&placement, Some((batch_rows * demand.row_bytes) as u64)).groups
}

#[cfg(test)]
mod tests;
