//! The first step of a grouping, for one partition.

use std::{collections::VecDeque, mem, sync::Arc};

use arrow::{
    array::{ArrayRef, RecordBatch},
    compute::concat,
    datatypes::SchemaRef,
};
use datafusion::{
    error::{DataFusionError, Result},
    execution::{
        TaskContext,
        memory_pool::{MemoryConsumer, MemoryReservation},
    },
    logical_expr::EmitTo,
    physical_plan::{
        ExecutionPlan,
        aggregates::{
            AggregateExec, PhysicalGroupBy, evaluate_group_by,
            group_values::{GroupValues, new_group_values},
            order::GroupOrdering,
        },
        metrics::{Count, ExecutionPlanMetricsSet, MetricBuilder, MetricCategory},
    },
};

use super::{
    exec::Groups,
    recent::RecentGroups,
    runs::{MOST_STARTS, RunFinder, Runs},
    states::States,
};
use crate::grouping::SkipPartial;

/// Groups the rows of one partition, in memory that it may give back at any time: the step after it
/// merges groups that come several times.
///
/// It looks groups up in a table, as DataFusion's own first step does, but once for a whole run of
/// rows with equal keys. It gives the table up by the same thresholds, where they compare groups to
/// runs instead of rows. Afterwards it passes runs on, each as a group, and rows where there are no
/// runs. If it gave up because of runs and they end, it starts with a new table. If only few
/// groups are to be looked up, it begins without a table, as if it had given one up because of runs.
pub(super) struct FirstStep {
    group_by: PhysicalGroupBy,
    keys: SchemaRef,
    runs: RunFinder,
    states: States,
    /// The table of groups, unless it was given up.
    table: Option<Table>,
    passing: PassedRuns,
    thresholds: Option<Thresholds>,
    /// The group of each row of a batch.
    of_rows: Vec<usize>,
    schema: SchemaRef,
    batch_rows: usize,
    output: VecDeque<RecordBatch>,
    reservation: MemoryReservation,
    merged: Count,
}

/// The rows for each group, with more of which runs are not looked for: the groups are in the cache,
/// and a look-up costs no more than a comparison.
const MANY_ROWS: usize = 64;

/// The groups that were found, and in how many rows.
struct Table {
    groups: Box<dyn GroupValues>,
    /// The group of each run of a batch.
    of_runs: Vec<usize>,
    seen_rows: usize,
    seen_runs: usize,
    /// What remembers the groups of recent rows, if there are few groups.
    recent: Option<RecentGroups>,
}

/// The runs that are passed on after the table was given up.
#[derive(Default)]
struct PassedRuns {
    /// The keys of the runs of each batch that are not yet output.
    keys: Vec<Vec<ArrayRef>>,
    /// Their number.
    runs: usize,
    /// Whether the table was given up because of runs.
    is_of_runs: bool,
}

/// When a table of groups is given up.
struct Thresholds {
    /// Compares groups to runs instead of rows.
    limits: SkipPartial,
    skipped: Count,
}

impl FirstStep {
    pub(super) fn new(
        grouping: &AggregateExec,
        groups: Groups,
        context: &TaskContext,
        partition: usize,
        metrics: &ExecutionPlanMetricsSet,
    ) -> Result<Self> {
        let group_by = grouping.group_expr().clone();
        let keys = group_by.group_schema(&grouping.input().schema())?;
        let counter = || MetricBuilder::new(metrics).with_category(MetricCategory::Rows);
        let limits = match groups {
            Groups::All => SkipPartial::session(&context.session_config().options().execution),
            Groups::Few => SkipPartial::FEW,
        };
        // With a share of 1, the table is never given up.
        let thresholds = (limits.groups < 1.0).then(|| {
            let skipped = counter().counter("skipped_aggregation_rows", partition);
            Thresholds { limits, skipped }
        });
        let consumer = MemoryConsumer::new(format!("RunAggregate[{partition}]")).with_can_spill(true);
        Ok(Self {
            group_by,
            runs: RunFinder::new(keys.fields().iter().map(|field| field.data_type())),
            states: States::new(grouping)?,
            table: (groups == Groups::All).then(|| Table::new(&keys)).transpose()?,
            keys,
            // So the first batch without runs begins a table.
            passing: PassedRuns { is_of_runs: true, ..PassedRuns::default() },
            thresholds,
            of_rows: Vec::new(),
            schema: grouping.schema(),
            batch_rows: context.session_config().batch_size().max(1),
            output: VecDeque::new(),
            reservation: consumer.register(context.memory_pool()),
            merged: counter().counter("merged_rows", partition),
        })
    }

    /// Takes a batch, when the output has been returned.
    pub(super) fn push(&mut self, rows: &RecordBatch) -> Result<()> {
        let keys = evaluate_group_by(&self.group_by, rows)?.swap_remove(0);
        let has_few_groups = self.table.as_ref().is_some_and(Table::has_few_groups);
        let runs = if has_few_groups { None } else { self.runs.find(&keys) };
        self.merged.add(runs.as_ref().map_or(0, |runs| rows.num_rows() - runs.len()));
        if self.table.is_none() && runs.is_none() && self.passing.is_of_runs {
            self.flush()?;
            self.table = Some(Table::new(&self.keys)?);
        }
        if let Some(mut table) = self.table.take() {
            self.look_up(&mut table, rows, &keys, runs.as_ref())?;
            let gives_up = self.thresholds.as_ref().is_some_and(|thresholds| thresholds.are_reached(&table));
            self.passing.is_of_runs = table.has_runs();
            self.table = Some(table);
            if gives_up {
                return self.give_up();
            }
        } else {
            self.pass_on(rows, keys, runs)?;
        }
        self.reserve()
    }

    /// Ends the input: the rest becomes output.
    pub(super) fn finish(&mut self) -> Result<()> {
        self.give_up()
    }

    /// Returns the next batch of the output.
    pub(super) fn next(&mut self) -> Option<RecordBatch> {
        let first = self.output.pop_front()?;
        let rest = first.num_rows().saturating_sub(self.batch_rows);
        if rest == 0 {
            return Some(first);
        }
        self.output.push_front(first.slice(self.batch_rows, rest));
        Some(first.slice(0, self.batch_rows))
    }

    /// Turns the groups into output, and keeps none any more. Their memory stays reserved until
    /// the next batch comes, when the output has been returned.
    fn give_up(&mut self) -> Result<()> {
        self.flush()?;
        self.table = None;
        Ok(())
    }

    /// Adds rows to their groups.
    fn look_up(&mut self, table: &mut Table, rows: &RecordBatch, keys: &[ArrayRef], runs: Option<&Runs>) -> Result<()> {
        match runs {
            Some(runs) => {
                table.groups.intern(&runs.keys(keys)?, &mut table.of_runs)?;
                runs.spread(table.of_runs.iter().copied(), &mut self.of_rows);
            }
            None => table.intern(keys, &mut self.of_rows)?,
        }
        table.seen_rows += rows.num_rows();
        table.seen_runs += runs.map_or(rows.num_rows(), Runs::len);
        self.states.add(rows, &self.of_rows, table.groups.len())
    }

    /// Passes runs on, each as a group, or rows.
    fn pass_on(&mut self, rows: &RecordBatch, keys: Vec<ArrayRef>, runs: Option<Runs>) -> Result<()> {
        if let Some(thresholds) = &self.thresholds {
            thresholds.skipped.add(rows.num_rows());
        }
        let Some(runs) = runs else {
            let columns = keys.into_iter().chain(self.states.of_each(rows)?).collect();
            self.output.push_back(RecordBatch::try_new(Arc::clone(&self.schema), columns)?);
            return Ok(());
        };
        if self.passing.runs + runs.len() > self.batch_rows {
            self.flush()?;
        }
        let first = self.passing.runs;
        self.passing.runs += runs.len();
        runs.spread(first..self.passing.runs, &mut self.of_rows);
        self.states.add(rows, &self.of_rows, self.passing.runs)?;
        self.passing.keys.push(runs.keys(&keys)?);
        Ok(())
    }

    /// Turns all groups into output.
    fn flush(&mut self) -> Result<()> {
        let mut columns = match &mut self.table {
            Some(table) if table.groups.is_empty() => return Ok(()),
            Some(table) => {
                let keys = table.groups.emit(EmitTo::All)?;
                table.groups.clear_shrink(0);
                table.recent = None;
                keys
            }
            None if self.passing.runs == 0 => return Ok(()),
            None => self.passing.take()?,
        };
        columns.extend(self.states.take()?);
        self.output.push_back(RecordBatch::try_new(Arc::clone(&self.schema), columns)?);
        Ok(())
    }

    /// Reserves the memory of the groups. If it is refused, they become output.
    fn reserve(&mut self) -> Result<()> {
        match self.reservation.try_resize(self.bytes()) {
            Err(DataFusionError::ResourcesExhausted(_)) => {
                self.flush()?;
                self.reservation.try_resize(self.bytes())
            }
            other => other,
        }
    }

    fn bytes(&self) -> usize {
        let keys: usize = self.passing.keys.iter().flatten().map(|keys| keys.get_array_memory_size()).sum();
        let table = self.table.as_ref().map_or(0, |table| table.groups.size());
        self.states.bytes() + table + keys
    }
}

impl Table {
    fn new(keys: &SchemaRef) -> Result<Self> {
        let groups = new_group_values(Arc::clone(keys), &GroupOrdering::None)?;
        Ok(Self { groups, of_runs: Vec::new(), seen_rows: 0, seen_runs: 0, recent: None })
    }

    /// Finds the group of each row.
    fn intern(&mut self, keys: &[ArrayRef], of_rows: &mut Vec<usize>) -> Result<()> {
        if self.has_few_groups() && RecentGroups::suits(self.groups.len(), keys.len()) {
            let recent = self.recent.get_or_insert_with(RecentGroups::new);
            if recent.intern(keys, self.groups.as_mut(), of_rows)? {
                return Ok(());
            }
        }
        self.groups.intern(keys, of_rows)
    }

    fn has_few_groups(&self) -> bool {
        self.groups.len() < self.seen_rows / MANY_ROWS
    }

    /// Returns whether many of the rows that were looked up were in runs.
    fn has_runs(&self) -> bool {
        self.seen_runs as f64 <= MOST_STARTS * self.seen_rows as f64
    }
}

impl PassedRuns {
    /// Returns the keys of all runs, and forgets them.
    fn take(&mut self) -> Result<Vec<ArrayRef>> {
        let batches = mem::take(&mut self.keys);
        self.runs = 0;
        let columns = batches.first().map_or(0, Vec::len);
        let column = |column: usize| {
            let parts: Vec<_> = batches.iter().map(|keys| keys[column].as_ref()).collect();
            Ok(concat(&parts)?)
        };
        (0..columns).map(column).collect()
    }
}

impl Thresholds {
    fn are_reached(&self, table: &Table) -> bool {
        let SkipPartial { rows, groups } = self.limits;
        table.seen_rows >= rows && table.groups.len() as f64 > groups * table.seen_runs as f64
    }
}
