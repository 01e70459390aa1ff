//! The two paths through the ring: producers publish indexed batches, and every consumer copies its
//! rows from each of them.
//!
//! A publish costs one shared read-modify-write operation, independent of M and N. There are two
//! ways to copy:
//! - *gather*: the producer publishes the batch as it came, and each consumer gathers its rows.
//!   Rows are copied once.
//! - *cluster*: the producer first groups the batch by consumer, and each consumer copies one
//!   contiguous range. Rows are copied twice, but a consumer reads no rows of others.
//!
//! ```text
//! batch -> IndexedBatch (indexed.rs) -> Ring<IndexedBatch> -> BatchBuilder of each consumer -> output batch
//!                                         full, and a consumer starves: laggard.rs, account or spill
//! ```

mod consumer;
mod indexed;
mod laggard;
mod producer;

use std::sync::Arc;

use annulus_rows::{gather::pool_sizes, partition::Modulo, pool::BufferPool};
use arrow::datatypes::SchemaRef;

pub(crate) use consumer::PublishConsumer;
pub(crate) use producer::PublishProducer;

use self::laggard::Laggard;
use crate::{
    activity::Activity,
    config::{DataPath, ExchangeConfig},
    overflow::{Beyond, Overflow},
    ring::{RingConfig, ring},
};

/// The state that the handles share beside the ring.
struct Shared {
    schema: SchemaRef,
    batch_rows: usize,
    full_batches: bool,
    modulo: Modulo,
    cluster: bool,
    pool: Arc<BufferPool>,
    overflow: Arc<dyn Overflow>,
    beyond: Beyond,
    /// The rows that were taken off the ring on behalf of each consumer.
    laggards: Box<[Laggard]>,
    activity: Activity,
}

/// Creates the handles of an exchange on one of these paths.
pub(crate) fn publish(
    config: &ExchangeConfig,
    path: DataPath,
    schema: SchemaRef,
    overflow: Arc<dyn Overflow>,
) -> (Vec<PublishProducer>, Vec<PublishConsumer>) {
    let (groups, slots) = (config.groups, config.group_slots());
    let (producers, consumers) =
        ring(RingConfig::new(config.producers, config.consumers).with_groups(groups).with_slots(slots));
    let sizes = pool_sizes(&schema, config.batch_rows);
    let shared = Arc::new(Shared {
        batch_rows: config.batch_rows,
        full_batches: config.full_batches,
        modulo: Modulo::new(config.consumers),
        cluster: path == DataPath::Cluster,
        pool: BufferPool::new(sizes, config.consumers + (groups + 1) * slots),
        overflow,
        beyond: Beyond::new(config.overflow_bytes),
        laggards: (0..config.consumers).map(|_| Laggard::default()).collect(),
        activity: Activity::new(config.producers),
        schema,
    });
    let producers = producers.into_iter().map(|ring| PublishProducer::new(ring, Arc::clone(&shared)));
    let consumers = consumers.into_iter().map(|ring| PublishConsumer::new(ring, Arc::clone(&shared)));
    (producers.collect(), consumers.collect())
}
