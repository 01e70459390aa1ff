//! The operator that replaces DataFusion's `RepartitionExec`.

mod plan;

use std::{fmt, sync::Arc, time::Duration};

use annulus_exchange::{Choice, ExchangeConfig};
use datafusion::{
    error::Result,
    execution::{TaskContext, memory_pool::MemoryLimit},
    physical_plan::{ExecutionPlan, ExecutionPlanProperties, Partitioning, repartition::RepartitionExec},
};
use parking_lot::Mutex;

use crate::{
    bridge::{Bridge, Flush, Setup},
    choice::{self, Basis, Decision, Demand, Position, machine, profile::BATCH_ROWS},
    config::{AnnulusConfig, ExchangeTuning, Strategy},
    error::from_exchange,
    grouping::SkipPartial,
    metrics::{ExchangeReport, NodeMetrics},
};

/// A hash repartition through the exchange.
///
/// It contains the stock operator that it replaced, over the same child. The stock operator answers
/// every question of the optimizer, and a downcast to `RepartitionExec` finds it (plan encoders and
/// distributed planners look for it). Only execution uses the exchange. The plan properties are the
/// stock operator's own `Arc`, because ancestors compare them by pointer.
pub struct RingRepartitionExec {
    stock: Arc<RepartitionExec>,
    options: AnnulusConfig,
    tuning: ExchangeTuning,
    position: Position,
    decision: Decision,
    /// When the first step of a grouping, in the input, gives up.
    skip: Option<SkipPartial>,
    metrics: NodeMetrics,
    /// The current execution, from the first executed partition on.
    bridge: Mutex<Option<Bridge>>,
}

impl RingRepartitionExec {
    /// Returns whether the exchange can replace `stock`: a hash partitioning that preserves no
    /// order. Of unbounded input only with a strategy that passes each batch on at once: `auto`,
    /// the rings of this crate, and queues.
    pub fn can_replace(stock: &RepartitionExec, options: &AnnulusConfig) -> bool {
        matches!(stock.partitioning(), Partitioning::Hash(exprs, outputs) if !exprs.is_empty() && *outputs > 0)
            && !stock.preserve_order()
            && !Self::keeps_back(stock, options)
    }

    /// Returns whether the strategy would keep rows of unbounded input back.
    pub(crate) fn keeps_back(stock: &RepartitionExec, options: &AnnulusConfig) -> bool {
        is_unbounded(stock) && !passes_on_at_once(options.strategy.strategy)
    }

    /// Creates the operator that replaces `stock`, for which [`can_replace`](Self::can_replace) is
    /// true. With unbounded input, `auto` is the ring.
    ///
    /// # Errors
    /// If an option is invalid, or names a profile that cannot be read.
    pub fn try_new(stock: RepartitionExec, options: AnnulusConfig) -> Result<Self> {
        Self::try_tuned(stock, options, ExchangeTuning::default())
    }

    /// Creates the operator with bounds of the exchange.
    ///
    /// # Errors
    /// As with [`try_new`](Self::try_new).
    pub fn try_tuned(stock: RepartitionExec, options: AnnulusConfig, tuning: ExchangeTuning) -> Result<Self> {
        Self::with_basis(stock, &Basis::new(&options, tuning, BATCH_ROWS), Position::default())
    }

    /// Creates the operator for a position in a plan, by what is known of the machine.
    pub(crate) fn with_basis(stock: RepartitionExec, basis: &Basis<'_>, position: Position) -> Result<Self> {
        let (options, tuning) = (basis.options, basis.tuning);
        let schema = stock.schema();
        let demand = demand(&stock, position);
        let groups = match tuning.groups {
            0 => machine::groups(basis.topology, &demand, basis.batch_rows),
            groups => groups,
        };
        let config = ExchangeConfig::new(demand.inputs, demand.outputs)
            .with_batch_rows(basis.batch_rows)
            .with_groups(groups)
            .with_slots(tuning.slots)
            .with_domains(if tuning.domains == 0 { machine::domains_of(basis.topology) } else { tuning.domains })
            .with_overflow_bytes(if options.overflow_limit == 0 { usize::MAX } else { options.overflow_limit });
        config.check().map_err(from_exchange)?;
        let decision = choice::decide(basis, &config, &schema, &demand, is_unbounded(&stock))?;
        Ok(Self::decided(stock, basis, position, decision))
    }

    fn decided(stock: RepartitionExec, basis: &Basis<'_>, position: Position, decision: Decision) -> Self {
        let (options, tuning) = (basis.options.clone(), basis.tuning);
        let (metrics, bridge) = (NodeMetrics::default(), Mutex::default());
        Self { stock: Arc::new(stock), options, tuning, position, decision, skip: None, metrics, bridge }
    }

    /// Sets when the first step of a grouping, in the input, gives up.
    pub(crate) fn skipping(self, skip: Option<SkipPartial>) -> Self {
        Self { skip, ..self }
    }

    /// Returns when the first step of a grouping, in the input, gives up, if not by DataFusion's
    /// own thresholds.
    pub(super) fn skip(&self) -> Option<SkipPartial> {
        self.skip.filter(|skip| *skip != SkipPartial::default())
    }

    /// Returns the stock operator over the same child.
    pub fn stock(&self) -> &RepartitionExec {
        &self.stock
    }

    /// Returns the options from the time of planning.
    pub fn options(&self) -> &AnnulusConfig {
        &self.options
    }

    /// Returns the strategy, and the side that copies the rows.
    pub fn choice(&self) -> Choice {
        self.decision.choice
    }

    /// Returns the shape and the bounds of the exchange.
    pub fn config(&self) -> &ExchangeConfig {
        &self.decision.config
    }

    /// Returns the reason for the choice, as `EXPLAIN` prints it.
    pub fn why(&self) -> &str {
        &self.decision.why
    }

    /// Returns the rows and bytes that the exchange has moved.
    pub fn report(&self) -> ExchangeReport {
        self.metrics.report()
    }

    /// Creates a new operator that replaces `plan`, or returns `plan` if it cannot be replaced.
    /// The choice stays unless the shape or the schema has changed.
    fn rewrap(&self, plan: Arc<dyn ExecutionPlan>) -> Result<Arc<dyn ExecutionPlan>> {
        let Some(stock) = plan.downcast_ref::<RepartitionExec>() else { return Ok(plan) };
        if !Self::can_replace(stock, &self.options) {
            return Ok(plan);
        }
        let basis = Basis::new(&self.options, self.tuning, self.decision.config.batch_rows);
        let asked = |stock| (demand(stock, self.position), is_unbounded(stock));
        let new = if asked(stock) == asked(&self.stock) && stock.schema() == self.stock.schema() {
            Self::decided(stock.clone(), &basis, self.position, self.decision.clone())
        } else {
            Self::with_basis(stock.clone(), &basis, self.position)?
        };
        Ok(Arc::new(new.skipping(self.skip)))
    }

    fn setup(&self, context: &TaskContext) -> Setup<'_> {
        let exprs = match self.stock.partitioning() {
            Partitioning::Hash(exprs, _) => exprs.as_slice(),
            _ => &[],
        };
        let config = self.decision.config.clone();
        let open_bytes = open_bytes(context, config.open_bytes);
        let config = config.with_batch_rows(context.session_config().batch_size());
        // Waiting for full batches delays no row of bounded inputs indefinitely.
        let unbounded = is_unbounded(&self.stock);
        let config = config.with_full_batches(!unbounded).with_open_bytes(open_bytes);
        let flush = unbounded.then(|| Flush::after(Duration::from_millis(self.options.flush_interval.max(1) as u64)));
        Setup { input: self.stock.input(), exprs, config, flush, metrics: &self.metrics }
    }
}

/// Returns what is known of `stock`. Without inputs no exchange is created, but its config must be
/// valid.
fn demand(stock: &RepartitionExec, position: Position) -> Demand {
    let inputs = stock.input().output_partitioning().partition_count();
    Demand::new(inputs.max(1), stock.partitioning().partition_count(), &stock.schema()).with_position(position)
}

fn is_unbounded(stock: &RepartitionExec) -> bool {
    stock.properties().boundedness.is_unbounded()
}

/// Returns whether a batch that was sent can be read at once, by any strategy that this may be.
fn passes_on_at_once(strategy: Strategy) -> bool {
    matches!(strategy, Strategy::Exchange(strategy) if strategy.shows_at_once())
}

/// Returns the bytes for open chunks: `usual`, but at most 1/32 of a limited pool. A plan may have
/// many exchanges, and its other operators need the pool too.
fn open_bytes(context: &TaskContext, usual: usize) -> usize {
    match context.memory_pool().memory_limit() {
        MemoryLimit::Finite(limit) => usual.min(limit / 32),
        _ => usual,
    }
}

impl fmt::Debug for RingRepartitionExec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RingRepartitionExec").field("stock", &self.stock).finish_non_exhaustive()
    }
}
