//! Estimates the cost and the memory of a join by each algorithm.

use annulus_cyclo::{AlgorithmCosts, AlgorithmSizes, JoinSpec};
use annulus_dataset::{Dataset, Extent};
use annulus_join::{BuildSide, Partitions, Side, Sides};

use super::memory::{self, largest_unit};
use crate::{
    error::ClusterError,
    host::wave_bytes,
    job::{Algorithm, JoinOptions, Link, Query, threads_or_cores},
    plan::{self, Bound, Condition},
};

/// The parts of a plan that estimates depend on.
pub(super) struct Estimates<'a> {
    pub(super) condition: &'a Condition,
    pub(super) query: &'a Query,
    pub(super) options: &'a JoinOptions,
    pub(super) hosts: usize,
    pub(super) sides: Sides<&'a Dataset>,
    /// The rows and bytes that are seen here: of all hosts, or of one.
    pub(super) seen: Sides<Extent>,
    /// The rows and bytes of all hosts.
    pub(super) extents: Sides<Extent>,
}

impl<'a> Estimates<'a> {
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
            // Without enough memory the plan fails, whatever the algorithm.
            revolutions: self.memory(&bound, rotate, Algorithm::Hash)?.revolutions().map_or(1, |found| found.0) as u64,
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

    /// Returns the sizes that decide the memory of hosts.
    ///
    /// # Errors
    /// If a column of the result does not exist.
    pub(super) fn memory(
        &self,
        bound: &Bound,
        rotate: Side,
        algorithm: Algorithm,
    ) -> Result<memory::Sizes<'a>, ClusterError> {
        let stationary = self.extents[rotate.other()];
        Ok(memory::Sizes {
            options: self.options,
            hosts: self.hosts as u64,
            stationary,
            copies: match algorithm {
                Algorithm::Hash => {
                    let rows = stationary.rows / self.hosts as u64;
                    let schema = bound.scans[rotate.other()].schema();
                    BuildSide::copies_in_halves(schema, Partitions::for_rows(rows as usize))
                }
                Algorithm::Merge | Algorithm::Loops => 4,
            },
            has_tables: algorithm != Algorithm::Loops,
            unit: largest_unit(self.sides[rotate], self.seen[rotate]),
            columns_out: bound.schema()?.fields().len() as u64,
        })
    }
}
