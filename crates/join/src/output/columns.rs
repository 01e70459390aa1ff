//! The columns of both sides that the output and the filter use.

use std::sync::Arc;

use annulus_rows::{gather::SourceBatch, pool::BufferPool};
use arrow::{
    array::{Array, ArrayRef, BooleanArray, RecordBatch, RecordBatchOptions},
    buffer::BooleanBuffer,
    datatypes::{Field, Schema, SchemaRef},
    error::ArrowError,
};

use super::gather::{PairGather, outside, pool};
use crate::{error::JoinError, filter::PairFilter, sides::Side, sink::MOST_PAIRS};

/// The columns of one side to output, and those that the filter reads.
pub(super) struct SideColumns {
    pub(super) output: Projection,
    pub(super) filter: Projection,
}

impl SideColumns {
    pub(super) fn new(schema: &Schema, output: Vec<usize>, filter: Vec<usize>) -> Result<Self, ArrowError> {
        Ok(Self { output: Projection::new(schema, output)?, filter: Projection::new(schema, filter)? })
    }
}

/// Some columns of a side.
pub(super) struct Projection {
    columns: Vec<usize>,
    pub(super) schema: SchemaRef,
}

impl Projection {
    fn new(schema: &Schema, columns: Vec<usize>) -> Result<Self, ArrowError> {
        let schema = Arc::new(schema.project(&columns)?);
        Ok(Self { columns, schema })
    }

    /// Returns the fields. A field is nullable if its column is, or if rows of this side may be
    /// missing.
    pub(super) fn fields(&self, nullable: bool) -> impl Iterator<Item = Field> {
        self.schema
            .fields()
            .iter()
            .map(move |field| field.as_ref().clone().with_nullable(field.is_nullable() || nullable))
    }

    pub(super) fn project(&self, batch: &RecordBatch) -> Result<RecordBatch, JoinError> {
        Ok(batch.project(&self.columns)?)
    }

    pub(super) fn source(&self, batch: &RecordBatch) -> Result<SourceBatch, JoinError> {
        SourceBatch::try_new(&self.project(batch)?, &self.schema).map_err(outside)
    }
}

/// The filter of a join, and the columns that it gets.
pub(super) struct FilterPlan {
    filter: Arc<dyn PairFilter>,
    schema: SchemaRef,
    /// For each column, whether it is the build side's, and its index among those of its side.
    places: Vec<(bool, usize)>,
    pool: Arc<BufferPool>,
    build: SchemaRef,
    probe: SchemaRef,
}

impl FilterPlan {
    pub(super) fn new(filter: Arc<dyn PairFilter>, side: Side, build: &Projection, probe: &Projection) -> Self {
        let (mut of_build, mut of_probe) = (0.., 0..);
        let place = |is_build| if is_build { of_build.next() } else { of_probe.next() };
        let sides = filter.columns().iter().map(|column| column.side == side);
        let places: Vec<(bool, usize)> = sides.clone().zip(sides.filter_map(place)).collect();
        let field = |&(is_build, place): &(bool, usize)| {
            Arc::clone(&if is_build { &build.schema } else { &probe.schema }.fields()[place])
        };
        let schema = Arc::new(Schema::new(places.iter().map(field).collect::<Vec<_>>()));
        let (build, probe) = (Arc::clone(&build.schema), Arc::clone(&probe.schema));
        Self { filter, schema, places, pool: pool([&build, &probe], MOST_PAIRS), build, probe }
    }

    pub(super) fn gather(&self) -> PairGather {
        PairGather::new(&self.build, &self.probe, MOST_PAIRS, &self.pool)
    }

    /// Returns which candidates satisfy the filter. Each side's columns are passed separately.
    pub(super) fn keep(&self, build: &RecordBatch, probe: &RecordBatch) -> Result<BooleanBuffer, JoinError> {
        let column = |&(is_build, place): &(bool, usize)| -> ArrayRef {
            Arc::clone(if is_build { build } else { probe }.column(place))
        };
        let rows = build.num_rows();
        let options = RecordBatchOptions::new().with_row_count(Some(rows));
        let columns = self.places.iter().map(column).collect();
        let kept =
            self.filter.keep(&RecordBatch::try_new_with_options(Arc::clone(&self.schema), columns, &options)?)?;
        if kept.len() != rows {
            let message = format!("the filter returned {} values for {rows} pairs of rows", kept.len());
            return Err(JoinError::Outside(message.into()));
        }
        Ok(yes(&kept))
    }
}

/// Returns a bit for each answer: set for true, unset for false or null.
fn yes(answers: &BooleanArray) -> BooleanBuffer {
    match answers.nulls() {
        Some(nulls) => answers.values() & nulls.inner(),
        None => answers.values().clone(),
    }
}
