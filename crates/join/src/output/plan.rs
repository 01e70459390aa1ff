//! What comes out of a join, and how it is put together.

use std::sync::Arc;

use annulus_rows::pool::BufferPool;
use arrow::{
    array::RecordBatch,
    datatypes::{Field, Schema, SchemaRef},
};

use super::{
    columns::{FilterPlan, SideColumns},
    gather::{PairGather, pool},
    side::SideRows,
};
use crate::{
    cancel::CancelToken,
    error::JoinError,
    filter::PairFilter,
    pairs::Wanted,
    types::{Emits, JoinType, Rows, Side},
};

/// Rows of an output batch; the last one of a writer has fewer.
pub const BATCH_ROWS: usize = 8192;

/// What a join is to give.
#[derive(Clone)]
pub struct OutputSpec {
    /// Which rows.
    pub join: JoinType,
    /// The side that stays.
    pub build: Side,
    /// All columns of the left side.
    pub left: SchemaRef,
    /// All columns of the right side.
    pub right: SchemaRef,
    /// Columns of the left side that come out, in this order. They do not if the join gives rows of
    /// the right side alone.
    pub left_columns: Vec<usize>,
    /// Columns of the right side that come out after those. They do not if the join gives rows of
    /// the left side alone.
    pub right_columns: Vec<usize>,
    /// The rest of the condition, if any.
    pub filter: Option<Arc<dyn PairFilter>>,
}

/// Turns pairs into what a join gives. Shared by the threads that run it.
pub struct Output {
    pub(super) emits: Emits,
    pub(super) build_side: Side,
    pub(super) schema: SchemaRef,
    pub(super) build: SideColumns,
    pub(super) probe: SideColumns,
    pub(super) filter: Option<FilterPlan>,
    /// For output columns of either side.
    pub(super) pool: Arc<BufferPool>,
    pub(super) cancel: CancelToken,
}

impl Output {
    /// Checks what is asked for against the columns of both sides.
    ///
    /// # Errors
    /// If there is no such column.
    pub fn try_new(spec: OutputSpec) -> Result<Self, JoinError> {
        let emits = spec.join.emits(spec.build);
        let (left_out, right_out) = match spec.join {
            JoinType::LeftSemi | JoinType::LeftAnti => (spec.left_columns, Vec::new()),
            JoinType::RightSemi | JoinType::RightAnti => (Vec::new(), spec.right_columns),
            _ => (spec.left_columns, spec.right_columns),
        };
        let wanted = spec.filter.as_ref().map_or(&[][..], |filter| filter.columns());
        let filter_of = |side| wanted.iter().filter(|column| column.side == side).map(|column| column.index).collect();
        let left = SideColumns::new(&spec.left, left_out, filter_of(Side::Left))?;
        let right = SideColumns::new(&spec.right, right_out, filter_of(Side::Right))?;
        let nullable = matches!(spec.join, JoinType::Right | JoinType::Full);
        let fields = left.output.fields(nullable);
        let nullable = matches!(spec.join, JoinType::Left | JoinType::Full);
        let fields: Vec<Field> = fields.chain(right.output.fields(nullable)).collect();
        let (build, probe) = if spec.build == Side::Left { (left, right) } else { (right, left) };
        let filter = spec.filter.map(|filter| FilterPlan::new(filter, spec.build, &build.filter, &probe.filter));
        Ok(Self {
            emits,
            build_side: spec.build,
            schema: Arc::new(Schema::new(fields)),
            pool: pool([&build.output.schema, &probe.output.schema], BATCH_ROWS),
            build,
            probe,
            filter,
            cancel: CancelToken::new(),
        })
    }

    /// The same, with a token that ends whoever makes pairs for it, or hands on its batches.
    #[must_use]
    pub fn cancelled_by(self, cancel: CancelToken) -> Self {
        Self { cancel, ..self }
    }

    /// The columns of its batches: the left side's, then the right side's. Those of a side that may
    /// be missing from a row are nullable.
    pub fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    /// Which pairs a join must find for it.
    pub fn wanted(&self) -> Wanted {
        match self.emits {
            // A pair that the filter drops must not stand for others.
            _ if self.filter.is_some() => Wanted::All,
            Emits { pairs: true, .. } => Wanted::All,
            Emits { build: Rows::None, .. } => Wanted::OneOfEachProbeRow,
            Emits { .. } => Wanted::OneOfEachBuildRow,
        }
    }

    /// All rows of the build side on this host, in the order to which pairs refer.
    ///
    /// # Errors
    /// If the batch has other columns.
    pub fn build_rows(&self, batch: &RecordBatch) -> Result<SideRows, JoinError> {
        SideRows::try_new(batch, &self.build, self.emits.build)
    }

    /// All rows of a fragment, in the order to which pairs refer.
    ///
    /// # Errors
    /// If the batch has other columns.
    pub fn probe_rows(&self, batch: &RecordBatch) -> Result<SideRows, JoinError> {
        SideRows::try_new(batch, &self.probe, self.emits.probe)
    }

    pub(super) fn gather(&self) -> PairGather {
        PairGather::new(&self.build.output.schema, &self.probe.output.schema, BATCH_ROWS, &self.pool)
    }
}
