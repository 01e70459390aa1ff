//! Measures one kind of repartition with every way in turn.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use annulus_datafusion::{
    config::{self, DataPath, ExchangeStrategy, Strategy},
    profile::{BATCH_ROWS, Cell, Cost, Layout, domains, row_bytes},
};
use annulus_terminal::{
    statistics::{median, spread},
    units::Shape,
};
use anyhow::{Context, Result};
use datafusion::{execution::TaskContext, prelude::SessionConfig};

use super::plan::{Plan, spread_of};
use crate::repartition::{CHECK_HASHES, Input, Operator, Tally, compare, drain};

/// One kind of repartition.
pub struct Kind<'a> {
    pub layout: Layout,
    pub input: &'a Input,
    /// Next to no rows of the same columns.
    pub few: &'a Input,
    pub shape: Shape,
    pub reads: bool,
}

/// A way, and the times of its runs in nanoseconds: with the input, and with few rows.
struct TimedVariant {
    operator: Operator,
    way: config::Variant,
    all: Vec<f64>,
    few: Vec<f64>,
}

impl Kind<'_> {
    /// Compares the rows of all ways with those of DataFusion's operator, and measures all in turn,
    /// as often as `plan` has time for.
    ///
    /// # Errors
    /// If a way fails, or its rows differ.
    pub async fn measure(&self, plan: &mut Plan) -> Result<Cell> {
        let began = Instant::now();
        let mut ways = ways(self.layout);
        let mut expected = None;
        for way in &ways {
            let found = self.run(way.operator, self.input, CHECK_HASHES).await?.1;
            compare(expected.get_or_insert_with(|| found.clone()), &found).with_context(|| way.way.to_string())?;
        }
        let (timed, mut rounds) = (Instant::now(), 0);
        while plan.another(rounds, timed, Instant::now()) {
            for turn in 0..ways.len() {
                // Each round begins with another one, so that none always has the first turn.
                let index = (rounds + turn) % ways.len();
                let way = &mut ways[index];
                way.few.push(self.time(way.operator, self.few).await?);
                way.all.push(self.time(way.operator, self.input).await?);
            }
            rounds += 1;
        }
        let rows = self.input.rows();
        plan.measured(rows, rounds, began, Instant::now());
        let costs = ways.iter().filter_map(|way| way.cost(rows.saturating_sub(self.few.rows()))).collect();
        let Shape { inputs, outputs, .. } = self.shape;
        let row_bytes = row_bytes(self.input.schema());
        Ok(Cell { inputs, outputs, layout: self.layout, row_bytes, reads: self.reads, rows, rounds, costs })
    }

    /// Returns the nanoseconds of a run.
    async fn time(&self, operator: Operator, input: &Input) -> Result<f64> {
        Ok(self.run(operator, input, usize::from(self.reads)).await?.0.as_secs_f64() * 1e9)
    }

    async fn run(&self, operator: Operator, input: &Input, hashes: usize) -> Result<(Duration, Vec<Tally>)> {
        let plan = operator.plan(input, self.shape)?;
        let config = SessionConfig::new().with_batch_size(BATCH_ROWS);
        let context = Arc::new(TaskContext::default().with_session_config(config));
        drain(&plan, &context, &|_| hashes, false).await.with_context(|| operator.to_string())
    }
}

impl TimedVariant {
    fn new(way: config::Variant) -> Self {
        let operator = match way.strategy {
            Strategy::Stock => Operator::Stock,
            _ => Operator::Ours(way),
        };
        Self { operator, way, all: Vec::new(), few: Vec::new() }
    }

    /// Returns the costs, for `rows` rows more than few. `None` if runs with them did not take
    /// longer: then a row would cost nothing.
    fn cost(&self, rows: usize) -> Option<Cost> {
        let open_ns = median(&self.few);
        let row_ns = (median(&self.all) - open_ns) / rows as f64;
        let [spread, open_spread] = [&self.all, &self.few].map(|times| spread_of(times.len(), spread(times)));
        (rows > 0 && row_ns > 0.0).then_some(Cost { variant: self.way, open_ns, row_ns, spread, open_spread })
    }
}

/// Returns the ways to measure, DataFusion's operator first: all that could be best and that hold a
/// bounded number of rows.
fn ways(layout: Layout) -> Vec<TimedVariant> {
    use ExchangeStrategy::{Channel, Reserve, Ring, RingPerDomain};
    let way = |strategy, path| config::Variant::new(Strategy::Exchange(strategy), path);
    let mut ways = vec![config::Variant::new(Strategy::Stock, DataPath::Auto)];
    if layout != Layout::Variable {
        ways.push(way(Reserve, DataPath::Auto));
    }
    let rings = if domains() > 1 { [Ring, RingPerDomain].as_slice() } else { &[Ring] };
    for &strategy in rings.iter().chain(&[Channel]) {
        ways.extend([DataPath::Gather, DataPath::Cluster].map(|path| way(strategy, path)));
    }
    ways.into_iter().map(TimedVariant::new).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_way_without_a_measurable_cost_of_rows_is_left_out() {
        let timed =
            |all: f64, few: f64| TimedVariant { all: vec![all; 3], few: vec![few; 3], ..ways(Layout::Fixed).remove(0) };
        let cost = timed(300.0, 100.0).cost(10).expect("a cost");
        assert_eq!((cost.open_ns, cost.row_ns), (100.0, 20.0));
        assert!(timed(100.0, 100.0).cost(10).is_none());
        assert!(timed(90.0, 100.0).cost(10).is_none());
        assert!(timed(300.0, 100.0).cost(0).is_none());
    }
}
