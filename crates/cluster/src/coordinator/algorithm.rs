//! Estimates what a join on equal keys costs by each algorithm.

use annulus_cyclo::{AlgorithmCosts, AlgorithmSizes, JoinSpec};
use annulus_dataset::{Dataset, Extent};
use annulus_join::{Partitions, Side, Sides};

use crate::{
    error::ClusterError,
    host::wave_bytes,
    job::{Algorithm, JoinOptions, Link, Query, Revolutions, threads_or_cores},
    plan::{self, Condition},
};

/// The parts of a plan that costs depend on.
pub(super) struct Costing<'a> {
    pub(super) condition: &'a Condition,
    pub(super) query: &'a Query,
    pub(super) options: &'a JoinOptions,
    pub(super) hosts: usize,
    pub(super) sides: Sides<&'a Dataset>,
    /// The rows and bytes of all hosts.
    pub(super) extents: Sides<Extent>,
}

impl Costing<'_> {
    /// Returns the costs if `rotate` is the rotating side, or `None` if a hash and a merge join are
    /// not both possible.
    ///
    /// # Errors
    /// If an expression is invalid, or an input cannot be read.
    pub(super) fn costs(&self, rotate: Side) -> Result<Option<AlgorithmCosts>, ClusterError> {
        let bound = plan::bind(self.condition, self.query, rotate, Algorithm::Hash)?;
        let spec = JoinSpec::new(bound.output.clone(), bound.condition(Partitions::for_rows(1)), 0);
        let Some(keys) = spec.key_form()? else { return Ok(None) };
        let stationary = rotate.other();
        let sorted = |side: Side| match self.condition.key_columns(side) {
            Some(columns) => Ok(self.sides[side].appears_sorted(&columns)?),
            None => Ok::<_, ClusterError>(false),
        };
        let sizes = AlgorithmSizes {
            hosts: self.hosts as u64,
            revolutions: match self.options.revolutions {
                Revolutions::Exactly(revolutions) => revolutions as u64,
                // It follows from the memory that the algorithm needs.
                Revolutions::Auto => 1,
            },
            threads: threads_or_cores(self.options.threads) as u64,
            build_rows: self.extents[stationary].rows,
            probe_rows: self.extents[rotate].rows,
            probe_bytes: self.extents[rotate].bytes,
            wave_bytes: wave_bytes(self.options.fragment_bytes, self.options.memory_bytes),
            send_ns: match self.options.link {
                Link::SharedMemory => 0.0,
                Link::Network => AlgorithmSizes::NETWORK_SEND_NS,
            },
            keys,
            build_sorted: sorted(stationary)?,
            probe_sorted: sorted(rotate)?,
        };
        Ok(Some(sizes.costs()))
    }
}
