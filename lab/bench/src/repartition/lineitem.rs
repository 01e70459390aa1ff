//! TPC-H lineitem, generated in memory.

use std::sync::{Arc, Weak};

use annulus_calibrate::repartition::Input;
use annulus_terminal::{machine, progress};
use anyhow::{Context, Result};
use arrow::array::RecordBatch;
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

/// Generates lineitem at `scale` on all cores, with the columns of the largest payload.
/// Dropping the future stops it.
pub async fn generate(scale: f64) -> Result<Input> {
    let orders = OrderGenerator::calculate_row_count(scale, 1, 1);
    let parts = 1 + (orders / PART_ORDERS) as i32;
    let bar = progress::bar((orders * LINES_PER_ORDER) as u64, "generating rows");
    let wanted = Arc::new(());
    let start = |part| {
        let (bar, wanted) = (bar.clone(), Arc::downgrade(&wanted));
        tokio::task::spawn_blocking(move || generate_part(LineItemGenerator::new(scale, part, parts), &bar, &wanted))
    };
    let batches: Vec<Vec<RecordBatch>> = stream::iter(1..=parts)
        .map(start)
        .buffered(machine::cores())
        .map(|part| part.context("a generator failed")?)
        .try_collect()
        .await?;
    bar.finish_and_clear();
    Input::new(batches.concat()).context("the scale is too small")
}

/// Returns the columns of `payload`, which share their memory with these.
pub fn payload(input: &Input, payload: Payload) -> Result<Input> {
    Input::new(input.batches.iter().map(|batch| project(batch, payload)).collect::<Result<_>>()?)
}

/// Returns the batches of one part of the table. Stops if `wanted` has been dropped.
fn generate_part(part: LineItemGenerator<'static>, bar: &ProgressBar, wanted: &Weak<()>) -> Result<Vec<RecordBatch>> {
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
    use datafusion::{datasource::memory::MemorySourceConfig, physical_plan::ExecutionPlan};

    use super::*;

    #[tokio::test]
    async fn every_partition_gets_a_contiguous_share() {
        let input = payload(&generate(0.01).await.unwrap(), Payload::A).unwrap();
        assert!(input.rows() > 50_000);
        assert_eq!(input.schema().fields().len(), 6);
        let scan = input.scan(3).unwrap();
        assert_eq!(scan.properties().partitioning.partition_count(), 3);
        let source = scan.data_source().downcast_ref::<MemorySourceConfig>().unwrap();
        assert_eq!(source.partitions().concat(), input.batches);
        assert!(source.partitions().iter().all(|share| !share.is_empty()));
    }
}
