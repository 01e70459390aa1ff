//! Groupings in two steps around a repartition: when the first step gives up.
//!
//! DataFusion groups the rows of each input partition, repartitions the groups, and groups them
//! again. If most groups have few rows, the first step costs as much as the second and saves
//! little. DataFusion looks at the first 100,000 rows of each input partition, and passes the
//! remaining rows on as they are if more than 80 % of those had a group of their own (its
//! `aggregates/skip_partial.rs`). Behind an exchange that passes rows on cheaply, giving up pays
//! sooner.

use std::{fmt, sync::Arc};

use arrow::datatypes::{DataType, FieldRef};
use datafusion::{
    common::stats::Precision,
    config::{ConfigOptions, ExecutionOptions},
    execution::TaskContext,
    physical_expr::aggregate::AggregateFunctionExpr,
    physical_plan::{
        ExecutionPlan, ExecutionPlanProperties, InputOrderMode,
        aggregates::{AggregateExec, AggregateMode},
    },
};

use crate::context::with_options;

/// The share of the rows that the first step looks at, if their number is known: what it sees in
/// fewer tells too little about the groups of the rest.
const LOOKED_AT: usize = 16;

/// The fewest rows that it looks at: a batch of the usual size.
const LEAST_ROWS: usize = 1 << 13;

/// The ratio of groups to rows above which the first step gives up. If groups of one size come
/// in any order, 6 % of all rows are left then by the first step, which is about where the two ways
/// cost the same. If a few groups are large and many are small, as with most data, 20 to 50 % are
/// left.
const GROUPS: f64 = 0.6;

/// The numbers with which the first step of a grouping gives up.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct SkipPartial {
    /// The rows of an input partition after which it asks for the first time.
    pub rows: usize,
    /// The ratio of groups to rows above which it gives up.
    pub groups: f64,
}

impl SkipPartial {
    /// The numbers where no repartition comes next: a table of few groups alone is worth it.
    pub const FEW: Self = Self { rows: LEAST_ROWS, groups: 0.1 };

    /// Returns the numbers for the grouping `input`, the plan below a repartition; `None` if it is
    /// no first step of a grouping. They are the session's own if they were set there, if
    /// statistics do not tell the number of rows, if a partition has at most [`LEAST_ROWS`] for
    /// certain, or if a sixteenth of its rows is more than what DataFusion looks at. An estimate of
    /// fewer rows is not trusted: one that is right costs nothing, since the step ends before it
    /// asks.
    /// `rows_of` returns the number of rows of a plan, as far as statistics tell.
    pub fn for_input(
        input: &Arc<dyn ExecutionPlan>,
        rows_of: impl Fn(&Arc<dyn ExecutionPlan>) -> Precision<usize>,
        config: &ConfigOptions,
    ) -> Option<Self> {
        let grouping = input.downcast_ref::<AggregateExec>()?;
        if *grouping.mode() != AggregateMode::Partial {
            return None;
        }
        let session = Self::session(&config.execution);
        if session != Self::default() || !skips_cheaply(grouping) {
            return Some(session);
        }
        let partitions = grouping.input().output_partitioning().partition_count();
        let rows = rows_of(grouping.input());
        let all = rows.get_value().and_then(|rows| rows.checked_div(partitions));
        let may_have_more = |all: &usize| *all > LEAST_ROWS || matches!(rows, Precision::Inexact(_));
        let sooner = all.filter(may_have_more).map(|all| (all / LOOKED_AT).max(LEAST_ROWS));
        let sooner = sooner.filter(|&rows| rows < session.rows).map(|rows| Self { rows, groups: GROUPS });
        Some(sooner.unwrap_or(session))
    }

    /// Returns the numbers of a session.
    pub fn session(options: &ExecutionOptions) -> Self {
        Self {
            rows: options.skip_partial_aggregation_probe_rows_threshold,
            groups: options.skip_partial_aggregation_probe_ratio_threshold,
        }
    }

    /// Returns `context` with these numbers, for the plan below the repartition. They hold for all
    /// of it, up to the next repartition below that has numbers of its own.
    pub fn apply(self, context: &Arc<TaskContext>) -> Arc<TaskContext> {
        if self == Self::session(&context.session_config().options().execution) {
            return Arc::clone(context);
        }
        with_options(context, |options| {
            options.execution.skip_partial_aggregation_probe_rows_threshold = self.rows;
            options.execution.skip_partial_aggregation_probe_ratio_threshold = self.groups;
        })
    }
}

/// Returns whether `grouping`, a first step, can pass rows on as they are, and cheaply: in each
/// aggregate, a row becomes a state of a few plain values.
pub(crate) fn skips_cheaply(grouping: &AggregateExec) -> bool {
    let is_plain = |of: &DataType| of.primitive_width().is_some() || matches!(of, DataType::Boolean);
    let is_cheap = |aggregate: &Arc<AggregateFunctionExpr>| {
        let plain = |fields: Vec<FieldRef>| fields.iter().all(|field| is_plain(field.data_type()));
        aggregate.groups_accumulator_supported() && aggregate.state_fields().is_ok_and(plain)
    };
    *grouping.input_order_mode() == InputOrderMode::Linear
        && grouping.group_expr().is_single()
        && !grouping.group_expr().is_empty()
        && grouping.aggr_expr().iter().all(is_cheap)
}

impl Default for SkipPartial {
    /// Returns DataFusion's own numbers.
    fn default() -> Self {
        Self::session(&ExecutionOptions::default())
    }
}

impl fmt::Display for SkipPartial {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}@{}", self.groups, self.rows)
    }
}
