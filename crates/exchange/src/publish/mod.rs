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
//! batch -> IndexedBatch (../indexed.rs) -> ../transport/ -> BatchBuilder of each consumer -> output batch
//!                                  full, and a consumer starves: laggard.rs, account or spill
//! ```

mod consumer;
mod laggard;
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
    contract::{Handles, Shape},
    error::ExchangeError,
    indexed::{IndexedBatch, Indexer},
    overflow::{Overflow, OverflowBytes},
    strategy::{DataPath, Strategy},
    transport::transport,
};

/// The state that the handles share beside the transport.
struct PublishCore {
    indexer: Indexer,
    batch_rows: usize,
    full_batches: bool,
    overflow_bytes: OverflowBytes,
    /// Whether batches that the budget refuses go to the overflow, because the transport keeps them
    /// all.
    keeps_all: bool,
    /// The rows that were taken off the transport on behalf of each consumer, for each ring.
    laggards: Box<[Laggard]>,
    consumers: usize,
    activity: Activity,
}

impl PublishCore {
    /// Returns the overflow of a consumer in a ring.
    fn laggard(&self, consumer: usize, ring: usize) -> &Laggard {
        &self.laggards[ring * self.consumers + consumer]
    }

    /// Returns the overflows of a consumer, one for each ring.
    fn laggards_of(&self, consumer: usize) -> impl Iterator<Item = &Laggard> {
        self.laggards[consumer..].iter().step_by(self.consumers)
    }

    /// Returns an empty output batch.
    fn builder(&self) -> BatchBuilder {
        BatchBuilder::new(Arc::clone(&self.indexer.schema), self.batch_rows, Arc::clone(&self.indexer.pool))
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
    let (senders, receivers) = handles(strategy, shape)?;
    let sizes = pool_sizes(&schema, config.batch_rows);
    let laggards = config.consumers * shape.rings(strategy);
    let indexer = Indexer {
        schema,
        modulo: Modulo::new(config.consumers),
        cluster: path == DataPath::Cluster,
        pool: BufferPool::new(sizes, config.consumers + (config.groups + 2) * config.group_slots()),
        overflow,
    };
    let shared = Arc::new(PublishCore {
        indexer,
        batch_rows: config.batch_rows,
        full_batches: config.full_batches,
        overflow_bytes: OverflowBytes::new(config.overflow_bytes),
        keeps_all: strategy.keeps_all(),
        laggards: (0..laggards).map(|_| Laggard::default()).collect(),
        consumers: config.consumers,
        activity: Activity::new(config.producers),
    });
    let producers = senders.into_iter().map(|sender| PublishProducer::new(sender, Arc::clone(&shared)));
    let consumers = receivers.into_iter().map(|receiver| PublishConsumer::new(receiver, Arc::clone(&shared)));
    Ok((producers.collect(), consumers.collect()))
}

/// Creates the handles of the transport.
fn handles(strategy: Strategy, shape: Shape) -> Result<Handles<IndexedBatch>, ExchangeError> {
    match strategy {
        #[cfg(feature = "transports")]
        Strategy::Other(other) => Ok(other.transport().handles(shape)),
        strategy => transport(strategy, shape),
    }
}
