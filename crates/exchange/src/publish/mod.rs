//! The two paths through a transport: producers publish indexed batches, and every consumer copies
//! its rows from each of them.
//!
//! In the ring a publish costs one shared read-modify-write operation, independent of M and N.
//! There are two ways to copy:
//! - *gather*: the producer publishes the batch as it came, and each consumer gathers its rows.
//!   Rows are copied once.
//! - *cluster*: the producer first groups the batch by consumer, and each consumer copies one
//!   contiguous range. Rows are copied twice, but a consumer reads no rows of others.
//!
//! ```text
//! batch -> IndexedBatch (indexed.rs) -> ../transport/ -> BatchBuilder of each consumer -> output batch
//!                               full, and a consumer starves: laggard.rs, account or spill
//! ```

mod consumer;
mod indexed;
mod laggard;
#[cfg(all(test, loom))]
mod loom_models;
mod producer;

use std::sync::Arc;

use annulus_rows::{
    gather::{BatchBuilder, pool_sizes},
    partition::Modulo,
    pool::BufferPool,
};
use arrow::datatypes::SchemaRef;

pub(crate) use consumer::PublishConsumer;
pub(crate) use producer::PublishProducer;

use self::laggard::Laggard;
use crate::{
    activity::Activity,
    config::ExchangeConfig,
    error::ExchangeError,
    overflow::{Beyond, Overflow},
    strategy::{DataPath, Strategy},
    transport::transport,
};

/// The state that the handles share beside the transport.
struct Shared {
    schema: SchemaRef,
    batch_rows: usize,
    full_batches: bool,
    modulo: Modulo,
    cluster: bool,
    pool: Arc<BufferPool>,
    overflow: Arc<dyn Overflow>,
    beyond: Beyond,
    /// Whether batches that the budget refuses go to the overflow, because the transport keeps them
    /// all.
    keeps_all: bool,
    /// The rows that were taken off the transport on behalf of each consumer, for each lane.
    laggards: Box<[Laggard]>,
    consumers: usize,
    activity: Activity,
}

impl Shared {
    /// Returns the overflow of a consumer in a lane.
    fn laggard(&self, consumer: usize, lane: usize) -> &Laggard {
        &self.laggards[lane * self.consumers + consumer]
    }

    /// Returns the overflows of a consumer, one for each lane.
    fn laggards_of(&self, consumer: usize) -> impl Iterator<Item = &Laggard> {
        self.laggards[consumer..].iter().step_by(self.consumers)
    }

    /// Returns an empty output batch.
    fn builder(&self) -> BatchBuilder {
        BatchBuilder::new(Arc::clone(&self.schema), self.batch_rows, Arc::clone(&self.pool))
    }
}

/// Creates the handles of an exchange on one of these paths.
///
/// # Errors
/// [`ExchangeError::Config`] if no transport has this strategy.
pub(crate) fn publish(
    config: &ExchangeConfig,
    strategy: Strategy,
    path: DataPath,
    schema: SchemaRef,
    overflow: Arc<dyn Overflow>,
) -> Result<(Vec<PublishProducer>, Vec<PublishConsumer>), ExchangeError> {
    let shape = config.shape();
    let (senders, receivers) = transport(strategy, shape)?;
    let sizes = pool_sizes(&schema, config.batch_rows);
    let laggards = config.consumers * shape.lanes(strategy);
    let shared = Arc::new(Shared {
        batch_rows: config.batch_rows,
        full_batches: config.full_batches,
        modulo: Modulo::new(config.consumers),
        cluster: path == DataPath::Cluster,
        pool: BufferPool::new(sizes, config.consumers + (config.groups + 2) * config.group_slots()),
        overflow,
        beyond: Beyond::new(config.overflow_bytes),
        keeps_all: strategy == Strategy::Batch,
        laggards: (0..laggards).map(|_| Laggard::default()).collect(),
        consumers: config.consumers,
        activity: Activity::new(config.producers),
        schema,
    });
    let producers = senders.into_iter().map(|sender| PublishProducer::new(sender, Arc::clone(&shared)));
    let consumers = receivers.into_iter().map(|receiver| PublishConsumer::new(receiver, Arc::clone(&shared)));
    Ok((producers.collect(), consumers.collect()))
}
