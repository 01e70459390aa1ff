//! TPC-H lineitem, generated in memory.

use std::sync::{Arc, Weak};

use annulus_terminal::{machine, progress};
use anyhow::{Context, Result};
use arrow::{array::RecordBatch, datatypes::SchemaRef};
use datafusion::datasource::{memory::MemorySourceConfig, source::DataSourceExec};
use futures::{StreamExt, TryStreamExt, stream};
use indicatif::ProgressBar;
use tpchgen::generators::{LineItemGenerator, OrderGenerator};
use tpchgen_arrow::LineItemArrow;

use super::args::Payload;

/// The number of rows of an input batch and of an output batch.
pub const BATCH_ROWS: usize = 8192;
/// The number of orders that one task generates; each has 4 lines on average.
const PART_ORDERS: i64 = 250_000;
const LINES_PER_ORDER: i64 = 4;

/// Batches in the order of the generator, with the columns of one payload.
pub struct Input {
    pub batches: Vec<RecordBatch>,
    schema: SchemaRef,
}

impl Input {
    /// Generates lineitem at `scale` on all cores, with the columns of the largest payload.
    /// Dropping the future stops it.
    pub async fn generate(scale: f64) -> Result<Self> {
        let orders = OrderGenerator::calculate_row_count(scale, 1, 1);
        let parts = 1 + (orders / PART_ORDERS) as i32;
        let bar = progress::bar((orders * LINES_PER_ORDER) as u64, "generating rows");
        let wanted = Arc::new(());
        let generate_part = |part| {
            let (bar, wanted) = (bar.clone(), Arc::downgrade(&wanted));
            tokio::task::spawn_blocking(move || generate(LineItemGenerator::new(scale, part, parts), &bar, &wanted))
        };
        let batches: Vec<Vec<RecordBatch>> = stream::iter(1..=parts)
            .map(generate_part)
            .buffered(machine::cores())
            .map(|part| part.context("a generator failed")?)
            .try_collect()
            .await?;
        bar.finish_and_clear();
        Self::new(batches.concat())
    }

    /// Creates an input of these batches, which must be of one schema.
    ///
    /// # Errors
    /// If there are none.
    pub fn new(batches: Vec<RecordBatch>) -> Result<Self> {
        let schema = batches.first().context("the scale is too small: the table has no rows")?.schema();
        Ok(Self { batches, schema })
    }

    /// Returns the columns of `payload`, which share their memory with these.
    pub fn payload(&self, payload: Payload) -> Result<Self> {
        Self::new(self.batches.iter().map(|batch| project(batch, payload)).collect::<Result<_>>()?)
    }

    /// Returns the name of the column that rows are hashed on.
    pub fn key(&self) -> &str {
        self.schema.field(0).name()
    }

    /// Returns the columns.
    pub fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    /// Returns the number of rows.
    pub fn rows(&self) -> usize {
        self.batches.iter().map(RecordBatch::num_rows).sum()
    }

    /// Returns a plan that reads these batches in `partitions` contiguous shares.
    pub fn scan(&self, partitions: usize) -> Result<Arc<DataSourceExec>> {
        let bound = |partition| partition * self.batches.len() / partitions;
        let shares: Vec<_> =
            (0..partitions).map(|partition| self.batches[bound(partition)..bound(partition + 1)].to_vec()).collect();
        Ok(MemorySourceConfig::try_new_exec(&shares, Arc::clone(&self.schema), None)?)
    }
}

/// Returns the batches of one part of the table. Stops if `wanted` has been dropped.
fn generate(part: LineItemGenerator<'static>, bar: &ProgressBar, wanted: &Weak<()>) -> Result<Vec<RecordBatch>> {
    let reader = LineItemArrow::new(part).with_batch_size(BATCH_ROWS);
    let mut batches = Vec::new();
    for batch in reader.take_while(|_| wanted.strong_count() > 0) {
        let batch = batch?;
        bar.inc(batch.num_rows() as u64);
        batches.push(project(&batch, Payload::B)?);
    }
    Ok(batches)
}

fn project(batch: &RecordBatch, payload: Payload) -> Result<RecordBatch> {
    let schema = batch.schema_ref();
    let indices = payload.columns().iter().map(|name| schema.index_of(name)).collect::<Result<Vec<_>, _>>()?;
    Ok(batch.project(&indices)?)
}

#[cfg(test)]
mod tests {
    use datafusion::physical_plan::ExecutionPlan;

    use super::*;

    #[tokio::test]
    async fn every_partition_gets_a_contiguous_share() {
        let input = Input::generate(0.01).await.unwrap().payload(Payload::A).unwrap();
        assert!(input.rows() > 50_000);
        assert_eq!(input.schema.fields().len(), 6);
        let scan = input.scan(3).unwrap();
        assert_eq!(scan.properties().partitioning.partition_count(), 3);
        let source = scan.data_source().downcast_ref::<MemorySourceConfig>().unwrap();
        assert_eq!(source.partitions().concat(), input.batches);
        assert!(source.partitions().iter().all(|share| !share.is_empty()));
    }
}
