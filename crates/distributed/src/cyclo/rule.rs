//! The choice of the joins that run around a ring.

use std::{fmt, sync::Arc};

use annulus_datafusion::{AnnulusConfig, DescribedJoin, Joins, NearestJoinExec, config::PlacementMode};
use annulus_join::{Side, Sides};
use datafusion::{
    common::{
        JoinType, Statistics,
        tree_node::{Transformed, TreeNode},
    },
    config::ConfigOptions,
    error::Result,
    physical_optimizer::PhysicalOptimizerRule,
    physical_plan::{
        ExecutionPlan, StatisticsArgs,
        filter::FilterExec,
        joins::{HashJoinExec, NestedLoopJoinExec},
        projection::ProjectionExec,
        repartition::RepartitionExec,
        statistics::StatisticsContext,
    },
};
use datafusion_distributed::{DistributedConfig, WorkerResolver};
use url::Url;
use uuid::Uuid;

use crate::resident::ResidentScanExec;

use super::{
    cost::{JoinEstimate, RingChoice, SideSize, nearest_ring},
    exec::{CycloJoinExec, RingPlan},
    hot_keys,
    key_filter::FilterSizes,
    options::RingJoinOptions,
};

type Rules = Vec<Arc<dyn PhysicalOptimizerRule + Send + Sync>>;

/// The bytes of a value that neither types nor statistics tell.
const UNKNOWN_BYTES: f64 = 32.0;
/// The rows of a side without statistics.
const MANY_ROWS: f64 = 1e9;

/// Replaces joins by [`CycloJoinExec`] where that is expected to be the fastest, or as `annulus.cyclo_join` says.
///
/// It runs after the sides have been chosen, and before inputs are brought into one partition for the
/// operators that it replaces.
pub(crate) struct ChooseCycloJoins {
    pub(crate) workers: Arc<dyn WorkerResolver>,
}

impl fmt::Debug for ChooseCycloJoins {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(Self::NAME)
    }
}

impl ChooseCycloJoins {
    const NAME: &'static str = "ChooseCycloJoins";

    /// Inserts this rule into a list that does not have it.
    pub(crate) fn install(self, rules: &mut Rules) {
        if rules.iter().all(|rule| rule.name() != Self::NAME) {
            let selection = rules.iter().rposition(|rule| rule.name() == "join_selection");
            rules.insert(selection.map_or(0, |place| place + 1), Arc::new(self));
        }
    }
}

impl PhysicalOptimizerRule for ChooseCycloJoins {
    fn optimize(&self, plan: Arc<dyn ExecutionPlan>, config: &ConfigOptions) -> Result<Arc<dyn ExecutionPlan>> {
        let defaults = AnnulusConfig::default();
        let options = config.extensions.get::<AnnulusConfig>().unwrap_or(&defaults);
        if options.cyclo_join == Joins::Never || PlacementMode::from_options(config) == PlacementMode::InProcess {
            return Ok(plan);
        }
        let workers = self.workers.get_urls()?;
        let choice = Choice {
            cyclo_join: options.cyclo_join,
            options: config.extensions.get().copied().unwrap_or_default(),
            workers: &workers,
            broadcasts: DistributedConfig::from_config_options(config)?.broadcast_joins,
            filters: config.optimizer.enable_join_dynamic_filter_pushdown,
            config,
        };
        Ok(plan.transform_up(|node| choice.replace(node))?.data)
    }

    fn name(&self) -> &str {
        Self::NAME
    }

    fn schema_check(&self) -> bool {
        true
    }
}

struct Choice<'a> {
    cyclo_join: Joins,
    options: RingJoinOptions,
    workers: &'a [Url],
    /// Whether the engine sends a side to all workers where that is possible.
    broadcasts: bool,
    /// Whether keys of one side may drop rows of the other one.
    filters: bool,
    config: &'a ConfigOptions,
}

impl Choice<'_> {
    fn replace(&self, node: Arc<dyn ExecutionPlan>) -> Result<Transformed<Arc<dyn ExecutionPlan>>> {
        if let Some(nearest) = node.downcast_ref::<NearestJoinExec>() {
            let Some(why) = self.why_nearest(nearest) else { return Ok(Transformed::no(node)) };
            let Some(ring) = self.ring(None) else { return Ok(Transformed::no(node)) };
            return CycloJoinExec::replace_stock(node, &ring, &why.into()).map(Transformed::yes);
        }
        let Some(stock) = DescribedJoin::stock_form(&node)? else { return Ok(Transformed::no(node)) };
        let Some(join) = DescribedJoin::from_plan(&stock)? else { return Ok(Transformed::no(node)) };
        let Some(choice) = self.choose(&node, &stock, &join) else { return Ok(Transformed::no(node)) };
        let (stationary, rotating) = match choice.stationary {
            Side::Left => (stock.left(), stock.right()),
            Side::Right => (stock.right(), stock.left()),
        };
        let filter = if self.filters { filter_sizes(stationary, rotating) } else { None };
        let Some(ring) = self.ring(filter) else { return Ok(Transformed::no(node)) };
        // The operator's left side is stationary.
        let stock = if choice.stationary == Side::Left { stock as _ } else { stock.swap_inputs()? };
        CycloJoinExec::replace_stock(stock, &ring, &choice.why.into()).map(Transformed::yes)
    }

    /// Returns the plan of a new ring; `None` without workers.
    fn ring(&self, filter: Option<FilterSizes>) -> Option<RingPlan> {
        let id = Uuid::new_v4();
        let at = (id.as_u128() % self.workers.len().max(1) as u128) as usize;
        let meeting_at = self.workers.get(at)?.clone();
        Some(RingPlan { id: id.simple().to_string(), meeting_at, workers: self.workers.len(), filter })
    }

    /// Returns why a join with the nearest rows is to run around the ring. Its left side is stationary.
    fn why_nearest(&self, join: &NearestJoinExec) -> Option<String> {
        if self.cyclo_join == Joins::Always {
            return Some("annulus.cyclo_join".to_owned());
        }
        let [left, right] = join.children()[..] else { return None };
        let sizes = (size_of(left), size_of(right));
        // A small side is sent to all workers.
        let is_small = |right: SideSize| self.broadcasts && right.bytes <= self.options.broadcast_limit as f64;
        match sizes {
            _ if self.workers.len() < 2 => None,
            (_, Some(right)) if is_small(right) => None,
            (Some(left), Some(right)) => nearest_ring(Sides { left, right }, self.workers.len(), join.compares_pairs()),
            _ => Some("a number of rows is unknown".to_owned()),
        }
    }

    /// Returns the stationary side and the reason, if the join is to run around a ring.
    fn choose(
        &self,
        node: &Arc<dyn ExecutionPlan>,
        stock: &NestedLoopJoinExec,
        join: &DescribedJoin,
    ) -> Option<RingChoice> {
        let sizes = [stock.left(), stock.right()].map(size_of);
        let is_always = self.cyclo_join == Joins::Always;
        let unknown = SideSize { rows: MANY_ROWS, bytes: MANY_ROWS * UNKNOWN_BYTES };
        let [left, right] = sizes;
        let is_known = left.is_some() && right.is_some();
        let sides = Sides { left: left.unwrap_or(unknown), right: right.unwrap_or(unknown) };
        // Such a join runs in one task: each task would find the whole side without partners.
        let is_safe = !matches!(stock.join_type(), JoinType::Full) || node.is::<HashJoinExec>();
        let broadcast = (is_safe && self.broadcasts).then_some(self.options.broadcast_limit as f64);
        let is_resident = |side: &Arc<dyn ExecutionPlan>| side.is::<ResidentScanExec>();
        let resident = match (is_resident(stock.left()), is_resident(stock.right())) {
            (true, false) => Some(Side::Left),
            (false, true) => Some(Side::Right),
            _ => None,
        };
        let (has_keys, workers) = (node.is::<HashJoinExec>(), self.workers.len());
        let mut estimate =
            JoinEstimate { method: join.method(), sides, workers, broadcast, has_keys, resident, hot_key: None };
        if is_always {
            return Some(RingChoice { stationary: estimate.stationary_side(), why: "annulus.cyclo_join".to_owned() });
        }
        if self.workers.len() < 2 {
            return None;
        }
        let is_large = sides.left.rows.max(sides.right.rows) >= self.options.hot_key_rows as f64;
        if let Some(hash) = node.downcast_ref::<HashJoinExec>()
            && is_known
            && is_large
            // With one partition, the engine repartitions nothing.
            && self.config.execution.target_partitions > 1
            && estimate.is_shuffled()
        {
            estimate.hot_key = hot_keys::hottest(hash, sides.map(|side| side.rows), self.config);
        }
        match (is_known, has_keys) {
            (true, _) => estimate.choose_ring(),
            // A side that is not known may be too large for one worker, unless keys divide it.
            (false, true) => None,
            (false, false) => Some(RingChoice {
                stationary: estimate.stationary_side(),
                why: "a number of rows is unknown".to_owned(),
            }),
        }
    }
}

/// Returns the size of a side, if its rows are known.
pub(crate) fn size_of(side: &Arc<dyn ExecutionPlan>) -> Option<SideSize> {
    let known = StatisticsContext::new().compute(side.as_ref(), &StatisticsArgs::new()).ok()?;
    size(&known, side)
}

/// Returns the sizes on which a filter of keys depends, if they are known.
fn filter_sizes(stationary: &Arc<dyn ExecutionPlan>, rotating: &Arc<dyn ExecutionPlan>) -> Option<FilterSizes> {
    let mut whole = stationary;
    while whole.is::<FilterExec>() || whole.is::<ProjectionExec>() || whole.is::<RepartitionExec>() {
        whole = whole.children().into_iter().next()?;
    }
    let (whole, rotating) = (size_of(whole)?, size_of(rotating)?);
    Some(FilterSizes { whole_rows: whole.rows, rotating_rows: rotating.rows, rotating_bytes: rotating.bytes })
}

/// Returns the size of a side, if its rows are known.
fn size(known: &Statistics, side: &Arc<dyn ExecutionPlan>) -> Option<SideSize> {
    let rows = *known.num_rows.get_value()? as f64;
    let schema = side.schema();
    let widths = schema.fields().iter().enumerate().map(|(column, field)| {
        let total = known.column_statistics.get(column).and_then(|column| column.byte_size.get_value().copied());
        match (field.data_type().primitive_width(), total) {
            (Some(width), _) => width as f64,
            (None, Some(total)) if rows > 0.0 => total as f64 / rows,
            _ => UNKNOWN_BYTES,
        }
    });
    Some(SideSize { rows, bytes: rows * widths.sum::<f64>() })
}
