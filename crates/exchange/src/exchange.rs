//! The exchange: sends the rows of M producers to N consumers, each row to consumer `hash % N`.

#[cfg(all(test, loom))]
mod loom_models;

use std::{
    sync::Arc,
    task::{Context, Poll},
};

use annulus_rows::RowsError;
use arrow::{array::RecordBatch, datatypes::SchemaRef};

use crate::{
    admission::Admission,
    choice::Choice,
    config::ExchangeConfig,
    error::{ExchangeError, SendError, StopError},
    overflow::{Delivery, Overflow},
    publish::{self, PublishConsumer, PublishProducer},
    reserve::{self, ReserveConsumer, ReserveProducer},
    stats::ExchangeStats,
    waiting::{block_on, block_until_admitted},
};

/// Creates an exchange for batches of `schema`, and returns the handles of its producers and
/// consumers. Its memory is accounted for through `overflow`.
///
/// ```
/// use std::sync::Arc;
///
/// use annulus_exchange::{Delivery, ExchangeConfig, Unlimited, exchange};
/// use arrow::array::{ArrayRef, Int64Array, RecordBatch};
///
/// let ids: ArrayRef = Arc::new(Int64Array::from(vec![10, 11, 12]));
/// let batch = RecordBatch::try_from_iter([("id", ids)])?;
///
/// let config = ExchangeConfig::new(1, 2);
/// let (mut producers, mut consumers) = exchange(&config, batch.schema(), Arc::new(Unlimited))?;
/// let mut producer = producers.remove(0);
/// producer.send_blocking(batch, &[10, 11, 12])?; // a hash for each row
/// producer.finish();
///
/// // Consumer 0 receives the rows with even hashes.
/// let Some(Ok(Delivery::Batch(rows))) = consumers[0].recv_blocking() else { panic!() };
/// assert_eq!(rows.num_rows(), 2);
/// assert!(consumers[0].recv_blocking().is_none());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Errors
/// [`ExchangeError::Config`] if an option of `config` is outside its limits.
pub fn exchange(
    config: &ExchangeConfig,
    schema: SchemaRef,
    overflow: Arc<dyn Overflow>,
) -> Result<(Vec<Producer>, Vec<Consumer>), ExchangeError> {
    config.check()?;
    let (producers, consumers): (Vec<_>, Vec<_>) = match config.choose(&schema)? {
        Choice { path: None, .. } => {
            let (producers, consumers) = reserve::reserve(config, Arc::clone(&schema), overflow);
            (
                producers.into_iter().map(Box::new).map(ProducerPath::Reserve).collect(),
                consumers.into_iter().map(ConsumerPath::Reserve).collect(),
            )
        }
        Choice { strategy, path: Some(path) } => {
            let (producers, consumers) = publish::publish(config, strategy, path, Arc::clone(&schema), overflow)?;
            (
                producers.into_iter().map(ProducerPath::Publish).collect(),
                consumers.into_iter().map(Box::new).map(ConsumerPath::Publish).collect(),
            )
        }
    };
    let producers = producers.into_iter().map(|path| Producer { schema: Arc::clone(&schema), path }).collect();
    Ok((producers, consumers.into_iter().map(|path| Consumer { path }).collect()))
}

enum ProducerPath {
    Reserve(Box<ReserveProducer>),
    Publish(PublishProducer),
}

enum ConsumerPath {
    Reserve(ReserveConsumer),
    Publish(Box<PublishConsumer>),
}

/// Makes the same call on the handle of any path.
macro_rules! on_path {
    ($kind:ident, $path:expr, $handle:ident => $call:expr) => {
        match $path {
            $kind::Reserve($handle) => $call,
            $kind::Publish($handle) => $call,
        }
    };
}

impl ProducerPath {
    /// Calls `f`. If it panics, as the embedder's code may, rows may be missing, so the exchange
    /// stops.
    fn guarded<R>(&mut self, f: impl FnOnce(&mut Self) -> R) -> R {
        struct Guard<'a>(&'a mut ProducerPath);
        impl Drop for Guard<'_> {
            fn drop(&mut self) {
                on_path!(ProducerPath, &mut *self.0, path => path.lost());
            }
        }
        let guard = Guard(self);
        let result = f(guard.0);
        std::mem::forget(guard);
        result
    }
}

/// The sending handle of one thread or task.
///
/// Dropping it before [`finish`](Self::finish) stops the exchange with
/// [`ExchangeError::ProducerLost`], and so does a panic of the embedder's code in one of its calls.
///
/// A thread calls [`send_blocking`](Self::send_blocking). A task polls
/// [`poll_ready`](Self::poll_ready), then calls [`send_hashed`](Self::send_hashed):
///
/// ```
/// use std::{future::poll_fn, sync::Arc};
///
/// use annulus_exchange::{Admission, ExchangeConfig, ExchangeError, Producer, Unlimited, exchange};
/// use arrow::array::{ArrayRef, Int64Array, RecordBatch};
///
/// async fn send(producer: &mut Producer, batch: RecordBatch, hashes: &[u64]) -> Result<(), ExchangeError> {
///     while poll_fn(|cx| producer.poll_ready(cx)).await? == Admission::Yield {
///         // With tokio: `tokio::task::yield_now().await`, so that consumers get their turn.
///     }
///     producer.send_hashed(batch, hashes).map_err(|refused| refused.error)
/// }
///
/// let ids: ArrayRef = Arc::new(Int64Array::from(vec![1, 2]));
/// let batch = RecordBatch::try_from_iter([("id", ids)])?;
/// let (mut producers, _consumers) = exchange(&ExchangeConfig::new(1, 1), batch.schema(), Arc::new(Unlimited))?;
/// let mut producer = producers.remove(0);
/// futures::executor::block_on(send(&mut producer, batch, &[1, 2]))?;
/// assert_eq!(producer.finish().rows, 2);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Producer {
    schema: SchemaRef,
    path: ProducerPath,
}

impl Producer {
    /// Waits until a batch may be sent, and returns [`Admission::Granted`]: the exchange has a free
    /// slot, or one of its consumers starves. Returns [`Admission::Yield`] if a slot may be free
    /// after the consumers have run: let other tasks run, then call again.
    ///
    /// # Errors
    /// The error that stopped the exchange, or [`ExchangeError::ConsumersGone`].
    pub fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<Admission, ExchangeError>> {
        self.path.guarded(|path| match path {
            ProducerPath::Reserve(path) => path.poll_ready(cx).map_ok(|()| Admission::Granted),
            ProducerPath::Publish(path) => path.poll_ready(cx),
        })
    }

    /// Sends each row of `batch` to consumer `hash % N`. `hashes` has one hash for each row. Never
    /// waits: call it after [`poll_ready`](Self::poll_ready) has granted admission.
    ///
    /// # Errors
    /// The error returns the batch. It is refused if the exchange was stopped or has no consumer
    /// left, its schema differs from the exchange's, or the number of hashes is not the number of
    /// rows.
    pub fn send_hashed(&mut self, batch: RecordBatch, hashes: &[u64]) -> Result<(), SendError<RecordBatch>> {
        match self.check(&batch, hashes) {
            Ok(()) => self.path.guarded(|path| on_path!(ProducerPath, path, path => path.send_hashed(batch, hashes))),
            Err(error) => Err(SendError { value: batch, error }),
        }
    }

    /// Blocks this thread until a batch may be sent, then sends it like
    /// [`send_hashed`](Self::send_hashed).
    ///
    /// # Errors
    /// Those of [`send_hashed`](Self::send_hashed).
    pub fn send_blocking(&mut self, batch: RecordBatch, hashes: &[u64]) -> Result<(), SendError<RecordBatch>> {
        match block_until_admitted(|cx| self.poll_ready(cx)) {
            Ok(()) => self.send_hashed(batch, hashes),
            Err(error) => Err(SendError { value: batch, error }),
        }
    }

    /// Returns whether rows beyond the bound of the exchange wait for slow consumers. A task may
    /// still send while another consumer starves. It should yield first, so that consumers on its
    /// thread can run.
    pub fn has_overflow(&self) -> bool {
        on_path!(ProducerPath, &self.path, path => path.has_overflow())
    }

    /// Announces that the input has nothing ready, so that waiting consumers see the rows that were
    /// sent. They get incomplete batches only if [`full_batches`](ExchangeConfig::full_batches) is
    /// off and all producers are idle.
    pub fn idle(&mut self) {
        self.path.guarded(|path| on_path!(ProducerPath, path, path => path.idle()));
    }

    /// Ends this producer's input, and returns its counters. The consumers' streams end when all
    /// producers have finished.
    pub fn finish(self) -> ExchangeStats {
        on_path!(ProducerPath, self.path, path => path.finish())
    }

    /// Stops the exchange: every handle gets `error`, unless it was stopped with another one
    /// before.
    pub fn fail(mut self, error: StopError) {
        on_path!(ProducerPath, &mut self.path, path => path.stop(error));
    }

    /// Returns the counters of this handle.
    pub fn stats(&self) -> ExchangeStats {
        on_path!(ProducerPath, &self.path, path => path.stats())
    }

    fn check(&self, batch: &RecordBatch, hashes: &[u64]) -> Result<(), ExchangeError> {
        if hashes.len() != batch.num_rows() {
            let (argument, value) = ("number of hashes", hashes.len().to_string());
            let remedy = "give one hash for each row of the batch";
            return Err(RowsError::Argument { argument, value, remedy }.into());
        }
        let schema = batch.schema_ref();
        if Arc::ptr_eq(schema, &self.schema) || same_columns(schema, &self.schema) {
            return Ok(());
        }
        let types = |schema: &SchemaRef| {
            let types: Vec<_> = schema.fields().iter().map(|field| field.data_type().to_string()).collect();
            format!("({})", types.join(", "))
        };
        Err(RowsError::Schema { expected: types(&self.schema), found: types(schema) }.into())
    }
}

/// Returns whether the types are equal, and only columns that are nullable in the exchange may have
/// nulls.
fn same_columns(found: &SchemaRef, expected: &SchemaRef) -> bool {
    let same = |(found, expected): (&arrow::datatypes::FieldRef, &arrow::datatypes::FieldRef)| {
        found.data_type() == expected.data_type() && (expected.is_nullable() || !found.is_nullable())
    };
    found.fields().len() == expected.fields().len() && found.fields().iter().zip(expected.fields()).all(same)
}

/// The receiving handle of one thread or task: receives the rows of one consumer.
///
/// Dropping it lets the producers skip these rows.
///
/// ```
/// use std::sync::Arc;
///
/// use annulus_exchange::{Consumer, Delivery, ExchangeConfig, ExchangeError, Unlimited, exchange};
/// use arrow::array::{ArrayRef, Int64Array, RecordBatch};
///
/// fn count(mut consumer: Consumer) -> Result<usize, ExchangeError> {
///     let mut rows = 0;
///     while let Some(delivery) = consumer.recv_blocking() {
///         match delivery? {
///             Delivery::Batch(batch) => rows += batch.num_rows(),
///             Delivery::Spilled(_) => unreachable!("`Unlimited` spills nothing"),
///         }
///     }
///     Ok(rows)
/// }
///
/// let ids: ArrayRef = Arc::new(Int64Array::from(vec![1, 2, 3]));
/// let batch = RecordBatch::try_from_iter([("id", ids)])?;
/// let (mut producers, mut consumers) = exchange(&ExchangeConfig::new(1, 1), batch.schema(), Arc::new(Unlimited))?;
/// let mut producer = producers.remove(0);
/// producer.send_blocking(batch, &[1, 2, 3])?;
/// producer.finish();
/// assert_eq!(count(consumers.remove(0))?, 3);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Consumer {
    path: ConsumerPath,
}

impl Consumer {
    /// Waits for the next rows. `None` is the end: every producer has finished, and all rows of
    /// this consumer were received.
    ///
    /// # Errors
    /// The first error that stopped the exchange. The end follows it.
    pub fn poll_recv(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Delivery, ExchangeError>>> {
        on_path!(ConsumerPath, &mut self.path, path => path.poll_recv(cx))
    }

    /// Blocks this thread until there are rows, or the end.
    ///
    /// # Errors
    /// Those of [`poll_recv`](Self::poll_recv).
    pub fn recv_blocking(&mut self) -> Option<Result<Delivery, ExchangeError>> {
        block_on(|cx| self.poll_recv(cx))
    }

    /// Returns the rows that were collected for the next batch, which is not full yet, for a caller
    /// that waits no longer. `None` if there are none, and with
    /// [`Strategy::Reserve`](crate::Strategy::Reserve), whose open batches belong to the producers.
    ///
    /// # Errors
    /// If the rows cannot become a batch.
    pub fn take_incomplete(&mut self) -> Option<Result<Delivery, ExchangeError>> {
        match &mut self.path {
            ConsumerPath::Reserve(_) => None,
            ConsumerPath::Publish(path) => path.take_incomplete().transpose(),
        }
    }

    /// Stops the exchange: every handle gets `error`, unless it was stopped with another one
    /// before.
    pub fn fail(mut self, error: StopError) {
        on_path!(ConsumerPath, &mut self.path, path => path.stop(error));
    }

    /// Returns the counters of this handle.
    pub fn stats(&self) -> ExchangeStats {
        on_path!(ConsumerPath, &self.path, path => path.stats())
    }
}
