//! What is known of the sizes of the inputs of hash joins.

use std::{collections::VecDeque, fmt, sync::Arc};

use datafusion::{
    common::{
        stats::Precision,
        tree_node::{TreeNodeRecursion, TreeNodeVisitor},
    },
    error::Result,
    physical_plan::{ExecutionPlan, aggregates::AggregateExec, joins::HashJoinExec, statistics::StatisticsContext},
};

use crate::table::scanned_bytes;

/// How many times as large as the other ones files must be for their rows to be more, too: files of
/// other formats, or with other columns, have more or fewer rows in as many bytes.
const CLEARLY: u64 = 4;

/// The sizes of the inputs of each hash join, in the order in which a plan is transformed from
/// below.
#[derive(Default)]
pub(super) struct Sizes {
    /// Goes by the addresses of nodes, so it is for one plan only.
    statistics: StatisticsContext,
    pub(super) found: VecDeque<Size>,
}

/// The sizes of the inputs of a join.
#[derive(Default)]
pub(super) struct Size {
    build: Input,
    probe: Input,
}

/// What is known of the size of an input.
#[derive(Default)]
struct Input {
    rows: Precision<usize>,
    /// The bytes of a row.
    width: Option<usize>,
    /// The bytes of the files that it reads, if they say something of its rows, and statistics do not
    /// compare the sides.
    file_bytes: Option<u64>,
}

impl Size {
    /// Returns whether the build side surely has no more rows than this, nor more bytes.
    pub(super) fn is_within(&self, most_rows: usize, most_bytes: usize) -> bool {
        let fits = |rows: usize| self.build.width.is_some_and(|width| rows.saturating_mul(width) <= most_bytes);
        matches!(self.build.rows, Precision::Exact(rows) if rows <= most_rows && fits(rows))
    }

    /// Returns whether the build side has clearly the larger files, and nothing is known of the rows
    /// of one side. DataFusion, which goes by rows, has not chosen the sides then.
    pub(super) fn is_reversed(&self) -> bool {
        let bytes = self.build.file_bytes.zip(self.probe.file_bytes);
        bytes.is_some_and(|(build, probe)| build / CLEARLY > probe)
    }

    /// Returns the sizes with the build side as the probe side.
    pub(super) fn reversed(self) -> Self {
        Self { build: self.probe, probe: self.build }
    }
}

impl fmt::Display for Size {
    /// Writes the rows of both sides, and the width of those of the build side.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.build.fmt(f)?;
        if let Some(bytes) = self.build.width {
            write!(f, " of {bytes} B")?;
        }
        write!(f, " by {}", self.probe)
    }
}

impl fmt::Display for Input {
    /// Writes the number of rows; `~` stands before an estimate.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.rows, self.file_bytes) {
            (Precision::Exact(rows), _) => write!(f, "{rows} rows"),
            (Precision::Inexact(rows), _) => write!(f, "~{rows} rows"),
            (Precision::Absent, Some(bytes)) => write!(f, "unknown rows in {bytes} B"),
            (Precision::Absent, None) => write!(f, "unknown rows"),
        }
    }
}

impl TreeNodeVisitor<'_> for Sizes {
    type Node = Arc<dyn ExecutionPlan>;

    fn f_up(&mut self, node: &Arc<dyn ExecutionPlan>) -> Result<TreeNodeRecursion> {
        if let Some(join) = node.downcast_ref::<HashJoinExec>() {
            let [mut build, mut probe] = [join.left(), join.right()].map(|input| self.input(input));
            if [build.rows, probe.rows].contains(&Precision::Absent) {
                (build.file_bytes, probe.file_bytes) = (file_bytes(join.left()), file_bytes(join.right()));
            }
            self.found.push_back(Size { build, probe });
        }
        Ok(TreeNodeRecursion::Continue)
    }
}

impl Sizes {
    fn input(&self, input: &Arc<dyn ExecutionPlan>) -> Input {
        let statistics = super::statistics(&self.statistics, input);
        let (rows, bytes) = (statistics.num_rows, statistics.total_byte_size);
        let fixed: Option<usize> =
            input.schema().fields().iter().map(|field| field.data_type().primitive_width()).sum();
        let measured = || bytes.get_value()?.checked_div(*rows.get_value()?);
        Input { rows, width: fixed.or_else(measured), file_bytes: None }
    }
}

/// Returns the bytes of the files that an input reads: of the larger side of joins, whose other side
/// mostly adds columns. None if rows come from elsewhere, or are grouped or limited.
fn file_bytes(input: &Arc<dyn ExecutionPlan>) -> Option<u64> {
    if input.is::<AggregateExec>() || input.fetch().is_some() {
        return None;
    }
    match input.children()[..] {
        [] => Some(scanned_bytes(input.as_ref())?.iter().sum()),
        [child] => file_bytes(child),
        [left, right] if input.is::<HashJoinExec>() => Some(file_bytes(left)?.max(file_bytes(right)?)),
        _ => None,
    }
}
