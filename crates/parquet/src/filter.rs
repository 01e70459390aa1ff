//! Filters: what a scan asks of rows, in the order that was found to be cheapest.

use std::{
    fmt,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
    time::Duration,
};

use arrow::{
    array::{ArrayRef, BooleanArray},
    error::ArrowError,
};

/// A condition on values of some columns.
pub trait Predicate: fmt::Debug + Send + Sync {
    /// Returns for each row whether the condition holds, or null. `columns` are those of the conjunct, in
    /// its order, all of one length.
    ///
    /// # Errors
    /// If it cannot be evaluated on these values.
    fn evaluate(&self, columns: &[ArrayRef]) -> Result<BooleanArray, ArrowError>;
}

/// A condition that rows must meet, with the columns that it reads.
#[derive(Debug)]
pub struct Conjunct {
    /// The places of the columns among those of the [`Scan`](crate::Scan).
    pub(crate) columns: Vec<usize>,
    pub(crate) predicate: Arc<dyn Predicate>,
    /// Whether the predicate may fail for values of rows that others leave out.
    pub(crate) may_fail: bool,
    cost: Cost,
}

/// What a conjunct did so far.
#[derive(Debug, Default)]
struct Cost {
    rows: AtomicU64,
    kept: AtomicU64,
    nanos: AtomicU64,
}

impl Conjunct {
    /// Returns a condition on `columns`, by their places among those of the [`Scan`](crate::Scan).
    ///
    /// A predicate that `may_fail` is evaluated after all others, in the order in which they were given, on
    /// the rows that are left. Any other one may be evaluated on values that no row has.
    pub fn new(columns: Vec<usize>, predicate: Arc<dyn Predicate>, may_fail: bool) -> Self {
        Self { columns, predicate, may_fail, cost: Cost::default() }
    }

    /// Counts rows that the conjunct was asked about.
    pub(crate) fn count(&self, rows: usize, kept: usize, time: Duration) {
        self.cost.rows.fetch_add(rows as u64, Relaxed);
        self.cost.kept.fetch_add(kept as u64, Relaxed);
        self.cost.nanos.fetch_add(time.as_nanos() as u64, Relaxed);
    }

    /// Returns the rows that the conjunct was asked about, and those of them that met it.
    pub fn asked(&self) -> (u64, u64) {
        (self.cost.rows.load(Relaxed), self.cost.kept.load(Relaxed))
    }

    /// Returns the nanoseconds that it takes to leave out a row: what decides the order.
    fn rank(&self) -> f64 {
        let (rows, nanos) = (self.cost.rows.load(Relaxed) as f64, self.cost.nanos.load(Relaxed) as f64);
        // Before anything was measured, all are equal and stay in their order.
        if rows == 0.0 {
            return 0.0;
        }
        nanos / (rows - self.cost.kept.load(Relaxed) as f64).max(0.5)
    }
}

/// Returns the places of conjuncts in the order in which they are best evaluated: those that leave out rows
/// at the lowest price first, and those that may fail last.
pub(crate) fn order(conjuncts: &[Arc<Conjunct>]) -> Vec<usize> {
    let mut order: Vec<usize> = (0..conjuncts.len()).collect();
    order.sort_by(|&a, &b| {
        let rank = |at: usize| if conjuncts[at].may_fail { 0.0 } else { conjuncts[at].rank() };
        let fails = conjuncts[a].may_fail.cmp(&conjuncts[b].may_fail);
        fails.then(rank(a).total_cmp(&rank(b)))
    });
    order
}
