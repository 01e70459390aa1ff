//! Decides how a join runs: as a query on a single host or on a ring, the rotating relation, the
//! algorithm, the revolutions, and the memory of a host.

use annulus_dataset::{Dataset, Extent};
use annulus_join::Sides;

use super::estimates::Estimates;
use crate::{
    error::ClusterError,
    job::{Inputs, JoinOptions, KeyFilterMode, Query, Revolutions},
    plan::{self, Bound, Choice, Condition},
};

/// What the decision depends on.
pub(super) struct Deciding<'a> {
    pub(super) condition: &'a Condition,
    pub(super) query: &'a Query,
    pub(super) options: &'a JoinOptions,
    pub(super) hosts: usize,
    pub(super) sides: Sides<&'a Dataset>,
}

/// The decision.
pub(super) struct Decided {
    pub(super) choice: Choice,
    pub(super) bound: Bound,
    /// The rows and bytes of all hosts.
    pub(super) extents: Sides<Extent>,
    /// Whether the only host runs a query of DataFusion.
    pub(super) is_single: bool,
    pub(super) revolutions: usize,
    pub(super) memory_per_host: u64,
}

impl Deciding<'_> {
    /// Decides from the sizes of the columns that are `read`. Those come from the files' metadata if
    /// a single host runs a query, and else, or if files do not state them, from a few batches.
    ///
    /// # Errors
    /// If an input cannot be read, the options do not fit the condition, or hosts would need more
    /// memory than they may use.
    pub(super) fn decide(&self, read: &Sides<Vec<usize>>) -> Result<Decided, ClusterError> {
        let Sides { left, right } = self.sides;
        if self.allows_query() && self.options.revolutions == Revolutions::Exactly(1) {
            let stated = (left.stated_extent(&read.left), right.stated_extent(&read.right));
            if let (Some(left), Some(right)) = stated
                && let Some(decided) = Some(self.with(Sides { left, right })?).filter(|decided| decided.is_single)
            {
                return Ok(decided);
            }
        }
        self.with(Sides { left: left.extent(&read.left)?, right: right.extent(&read.right)? })
    }

    /// Returns whether the options allow that a single host runs a query: other forms of a key
    /// filter, and revolutions, are those of rings.
    fn allows_query(&self) -> bool {
        self.hosts == 1 && matches!(self.options.key_filter, KeyFilterMode::Auto | KeyFilterMode::Never)
    }

    /// Decides for inputs of these sizes.
    fn with(&self, seen: Sides<Extent>) -> Result<Decided, ClusterError> {
        let &Self { condition, query, options, hosts, sides } = self;
        // If each host has its own files, the files seen here are those of one host.
        let copies = if options.inputs == Inputs::Each { hosts as u64 } else { 1 };
        let of_all = |Extent { rows, bytes }| Extent { rows: rows * copies, bytes: bytes * copies };
        let extents = seen.map(of_all);
        let estimates = Estimates { condition, query, options, hosts, sides, seen, extents };
        let choice = plan::choose(condition, options, seen, hosts, |rotate| estimates.costs(rotate))?;
        let bound = plan::bind(condition, query, choice.rotate, choice.algorithm)?;
        let sizes = estimates.memory(&bound, choice.rotate, choice.algorithm)?;
        let suits = self.allows_query() && condition.suits_query(choice.algorithm);
        let (revolutions, memory_per_host) = match options.revolutions {
            // It spills what a ring would have to keep in memory.
            Revolutions::Exactly(1) if suits => (1, sizes.of_query()?),
            _ => sizes.revolutions()?,
        };
        Ok(Decided { choice, bound, extents, is_single: suits && revolutions == 1, revolutions, memory_per_host })
    }
}
