//! The output of a join: its specification, and the plan to build it.

use std::sync::Arc;

use annulus_rows::pool::BufferPool;
use annulus_sync::CancelToken;
use arrow::{
    array::RecordBatch,
    datatypes::{DataType, Field, Schema, SchemaRef},
};

use super::{
    columns::{FilterPlan, SideColumns},
    gather::{PairGather, pool},
    side::SideRows,
};
use crate::{
    error::JoinError,
    filter::PairFilter,
    pairs::RequiredPairs,
    sides::{Side, Sides},
    types::{Emission, JoinType, UnpairedRows},
};

/// The number of rows of an output batch, unless the specification says otherwise; the last one of
/// a writer may have fewer.
pub const BATCH_ROWS: usize = 8192;

/// The specification of a join's output.
#[derive(Clone)]
#[non_exhaustive]
pub struct OutputSpec {
    /// The rows to output.
    pub join: JoinType,
    /// The side that is the build side.
    pub build: Side,
    /// All columns of each side.
    pub schemas: Sides<SchemaRef>,
    /// The columns of each side to output, in this order, those of the left side first. A semi, anti
    /// or mark join outputs the columns of one side only, and a mark join the marks behind them.
    pub columns: Sides<Vec<usize>>,
    /// The part of the condition that no join algorithm evaluates, if any.
    pub filter: Option<Arc<dyn PairFilter>>,
    /// The number of rows of an output batch; the last one of a writer may have fewer.
    pub batch_rows: usize,
}

impl OutputSpec {
    /// Returns the specification of an output with all columns of both sides, and without a filter.
    pub fn new(join: JoinType, build: Side, schemas: Sides<SchemaRef>) -> Self {
        let columns = schemas.as_ref().map(|schema| (0..schema.fields().len()).collect());
        Self { join, build, schemas, columns, filter: None, batch_rows: BATCH_ROWS }
    }

    /// Sets the [columns](Self::columns) to output.
    #[must_use]
    pub fn with_columns(self, columns: Sides<Vec<usize>>) -> Self {
        Self { columns, ..self }
    }

    /// Sets the [filter](Self::filter).
    #[must_use]
    pub fn with_filter(self, filter: Option<Arc<dyn PairFilter>>) -> Self {
        Self { filter, ..self }
    }

    /// Sets the [number of rows](Self::batch_rows) of a batch, at least 1.
    #[must_use]
    pub fn with_batch_rows(self, batch_rows: usize) -> Self {
        Self { batch_rows: batch_rows.max(1), ..self }
    }
}

/// Turns pairs into a join's output. The threads of the join share it, each with a
/// [`Writer`](crate::Writer) of its own.
pub struct Output {
    pub(super) emits: Emission,
    pub(super) build_side: Side,
    pub(super) schema: SchemaRef,
    pub(super) build: SideColumns,
    pub(super) probe: SideColumns,
    pub(super) filter: Option<FilterPlan>,
    pub(super) batch_rows: usize,
    /// The buffers for the output columns of either side.
    pub(super) pool: Arc<BufferPool>,
    pub(super) cancel: CancelToken,
}

impl Output {
    /// Plans the output that `spec` describes.
    ///
    /// # Errors
    /// If a side lacks a column that `spec` or its filter names.
    pub fn try_new(spec: OutputSpec) -> Result<Self, JoinError> {
        let emits = spec.join.emits(spec.build);
        let wanted = spec.filter.as_ref().map_or(&[][..], |filter| filter.columns());
        let sides = Sides::try_from_fn(|side| {
            let output = if spec.join.outputs(side) { &spec.columns[side][..] } else { &[] };
            let filter = wanted.iter().filter(|column| column.side == side).map(|column| column.index).collect();
            SideColumns::new(&spec.schemas[side], output.to_vec(), filter)
        })?;
        let fields = |side: Side| sides[side].output.fields(spec.join.may_lack(side));
        let mark = spec.join.marks().then(|| Field::new("mark", DataType::Boolean, false));
        let fields: Vec<Field> = fields(Side::Left).chain(fields(Side::Right)).chain(mark).collect();
        let (build, probe) = sides.one_and_other(spec.build);
        let filter = spec.filter.map(|filter| FilterPlan::new(filter, spec.build, &build.filter, &probe.filter));
        Ok(Self {
            emits,
            build_side: spec.build,
            schema: Arc::new(Schema::new(fields)),
            pool: pool([&build.output.schema, &probe.output.schema], spec.batch_rows),
            batch_rows: spec.batch_rows,
            build,
            probe,
            filter,
            cancel: CancelToken::new(),
        })
    }

    /// Sets the token that ends the join.
    ///
    /// After [`cancel`](CancelToken::cancel) no thread of the join hands on another batch, and each
    /// makes at most [`MOST_PAIRS`](crate::MOST_PAIRS) more pairs. A thread that finds no pairs
    /// reads at most [`MOST_UNCHECKED_ROWS`](crate::MOST_UNCHECKED_ROWS) more rows. A running call
    /// of the caller's own filter or sink is not interrupted.
    #[must_use]
    pub fn cancelled_by(self, cancel: CancelToken) -> Self {
        Self { cancel, ..self }
    }

    /// Returns the columns of the output: the left side's, then the right side's, then the marks. The
    /// columns of a side that may be missing from a row are nullable.
    pub fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    /// Returns the rows that the join emits.
    pub fn emits(&self) -> Emission {
        self.emits
    }

    /// Returns which pairs a join must find for this output.
    pub fn wanted(&self) -> RequiredPairs {
        match self.emits {
            // The filter may drop a pair and keep another one of the same row.
            _ if self.filter.is_some() => RequiredPairs::All,
            Emission { pairs: true, .. } => RequiredPairs::All,
            Emission { build: UnpairedRows::None, .. } => RequiredPairs::OneOfEachProbeRow,
            Emission { .. } => RequiredPairs::OneOfEachBuildRow,
        }
    }

    /// Returns whether output batches, or those that the filter gets, may refer to the memory of
    /// the probe side's rows: those with columns of views do. All other values are copied.
    pub fn refers_to_probe_rows(&self) -> bool {
        let fields = [&self.probe.output, &self.probe.filter].into_iter().flat_map(|columns| columns.schema.fields());
        fields.into_iter().any(|field| matches!(field.data_type(), DataType::Utf8View | DataType::BinaryView))
    }

    /// Takes all rows of the build side on this host. Pairs refer to them by their place in
    /// `batch`.
    ///
    /// # Errors
    /// If the batch has other columns than the build side.
    pub fn build_rows(&self, batch: &RecordBatch) -> Result<SideRows, JoinError> {
        SideRows::try_new(batch, &self.build, self.emits.build)
    }

    /// Takes all rows of a fragment. Pairs refer to them by their place in `batch`.
    ///
    /// # Errors
    /// If the batch has other columns than the probe side.
    pub fn probe_rows(&self, batch: &RecordBatch) -> Result<SideRows, JoinError> {
        SideRows::try_new(batch, &self.probe, self.emits.probe)
    }

    pub(super) fn gather(&self) -> PairGather {
        PairGather::new(&self.build.output.schema, &self.probe.output.schema, self.batch_rows, &self.pool)
    }
}
