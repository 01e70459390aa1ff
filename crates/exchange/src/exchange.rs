//! The exchange: M producers, N consumers, every row to the consumer that its hash names.

use std::{
    sync::Arc,
    task::{Context, Poll},
};

use arrow::{array::RecordBatch, datatypes::SchemaRef};

use crate::{
    config::{DataPath, ExchangeConfig},
    error::{ExchangeError, SendError, StopError},
    overflow::{Delivery, Overflow},
    publish::{self, PublishConsumer, PublishProducer},
    reserve::{self, ReserveConsumer, ReserveProducer},
    ring::{Admission, block_on},
    stats::ExchangeStats,
};

/// The handles of a new exchange for batches of `schema`; `overflow` accounts for its memory.
///
/// # Errors
/// If an option of `config` is outside what is possible.
pub fn exchange(
    config: &ExchangeConfig,
    schema: SchemaRef,
    overflow: Arc<dyn Overflow>,
) -> Result<(Vec<Producer>, Vec<Consumer>), ExchangeError> {
    config.check()?;
    let (producers, consumers): (Vec<_>, Vec<_>) = match choose(config, &schema)? {
        DataPath::Reserve => {
            let (producers, consumers) = reserve::reserve(config, Arc::clone(&schema), overflow);
            (
                producers.into_iter().map(ProducerPath::Reserve).collect(),
                consumers.into_iter().map(ConsumerPath::Reserve).collect(),
            )
        }
        path => {
            let (producers, consumers) = publish::publish(config, path, Arc::clone(&schema), overflow);
            (
                producers.into_iter().map(ProducerPath::Publish).collect(),
                consumers.into_iter().map(Box::new).map(ConsumerPath::Publish).collect(),
            )
        }
    };
    let producers = producers.into_iter().map(|path| Producer { schema: Arc::clone(&schema), path }).collect();
    Ok((producers, consumers.into_iter().map(|path| Consumer { path }).collect()))
}

/// The path that [`exchange`] takes for this configuration and schema.
///
/// # Errors
/// If the configuration asks for reserved ranges, which hold fixed-width values, booleans and views
/// only.
pub fn choose(config: &ExchangeConfig, schema: &SchemaRef) -> Result<DataPath, ExchangeError> {
    match config.path {
        DataPath::Auto if reserve::supports(config, schema) => Ok(DataPath::Reserve),
        DataPath::Auto => Ok(DataPath::Gather),
        DataPath::Reserve if !reserve::supports(config, schema) => Err(ExchangeError::Config {
            option: "path",
            value: "reserve".to_string(),
            remedy: "choose auto: reserved ranges hold batches of at most 65536 rows of fixed-width values, booleans and \
                     views",
        }),
        path => Ok(path),
    }
}

enum ProducerPath {
    Reserve(ReserveProducer),
    Publish(PublishProducer),
}

enum ConsumerPath {
    Reserve(ReserveConsumer),
    Publish(Box<PublishConsumer>),
}

/// The same call on whichever path it is.
macro_rules! on_path {
    ($kind:ident, $path:expr, $handle:ident => $call:expr) => {
        match $path {
            $kind::Reserve($handle) => $call,
            $kind::Publish($handle) => $call,
        }
    };
}

impl ProducerPath {
    /// Calls `f`. If it panics, as the embedder's code may, rows can be missing, so that the
    /// exchange is stopped.
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

/// Sends batches. A call that panics in the embedder's code stops the exchange. One thread or task
/// owns it; dropping it before [`finish`](Self::finish) stops the exchange with
/// [`ExchangeError::ProducerLost`].
pub struct Producer {
    schema: SchemaRef,
    path: ProducerPath,
}

impl Producer {
    /// [`Admission::Granted`] when a batch may be sent: the exchange has room, or one of its
    /// consumers starves. [`Admission::Yield`] if there may be room once the consumers had
    /// their turn: let other tasks run, then call again.
    ///
    /// # Errors
    /// If the exchange was stopped, or no consumer is left.
    pub fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<Admission, ExchangeError>> {
        self.path.guarded(|path| match path {
            ProducerPath::Reserve(path) => path.poll_ready(cx).map_ok(|()| Admission::Granted),
            ProducerPath::Publish(path) => path.poll_ready(cx),
        })
    }

    /// Sends each row of `batch` to consumer `hash % N`. Never waits; call it after
    /// [`poll_ready`](Self::poll_ready).
    ///
    /// # Errors
    /// Gives the batch back if the exchange was stopped, no consumer is left, the schema is another
    /// one, or there is not one hash a row.
    pub fn send_hashed(&mut self, batch: RecordBatch, hashes: &[u64]) -> Result<(), SendError<RecordBatch>> {
        match self.check(&batch, hashes) {
            Ok(()) => self.path.guarded(|path| on_path!(ProducerPath, path, path => path.send_hashed(batch, hashes))),
            Err(error) => Err(SendError { value: batch, error }),
        }
    }

    /// Waits for admission on this thread, then sends.
    ///
    /// # Errors
    /// As [`send_hashed`](Self::send_hashed).
    pub fn send_blocking(&mut self, batch: RecordBatch, hashes: &[u64]) -> Result<(), SendError<RecordBatch>> {
        loop {
            match block_on(|cx| self.poll_ready(cx)) {
                Ok(Admission::Granted) => return self.send_hashed(batch, hashes),
                // A thread stands in nobody's way.
                Ok(Admission::Yield) => {}
                Err(error) => return Err(SendError { value: batch, error }),
            }
        }
    }

    /// Whether rows beyond the bound of the exchange wait for slow consumers. Sending is still
    /// right while some consumer starves, but a task had better yield first, so that consumers
    /// on its thread get their turn.
    pub fn is_crowded(&self) -> bool {
        on_path!(ProducerPath, &self.path, path => path.is_crowded())
    }

    /// Says that the input has nothing ready, so that what was sent becomes visible to those who
    /// wait for it; as incomplete batches only if
    /// [`full_batches`](ExchangeConfig::full_batches) is off and all producers are idle.
    pub fn idle(&mut self) {
        self.path.guarded(|path| on_path!(ProducerPath, path, path => path.idle()));
    }

    /// Ends this producer's input. The consumers' streams end when all producers have finished.
    pub fn finish(self) -> ExchangeStats {
        on_path!(ProducerPath, self.path, path => path.finish())
    }

    /// Stops the exchange: every handle gets `error`, unless another one came first.
    pub fn fail(mut self, error: StopError) {
        on_path!(ProducerPath, &mut self.path, path => path.stop(error));
    }

    /// What this handle has counted.
    pub fn stats(&self) -> ExchangeStats {
        on_path!(ProducerPath, &self.path, path => path.stats())
    }

    fn check(&self, batch: &RecordBatch, hashes: &[u64]) -> Result<(), ExchangeError> {
        if hashes.len() != batch.num_rows() {
            return Err(ExchangeError::Config {
                option: "hashes",
                value: hashes.len().to_string(),
                remedy: "give one hash for each row of the batch",
            });
        }
        let schema = batch.schema_ref();
        if Arc::ptr_eq(schema, &self.schema) || same_columns(schema, &self.schema) {
            return Ok(());
        }
        let types = |schema: &SchemaRef| {
            let types: Vec<_> = schema.fields().iter().map(|field| field.data_type().to_string()).collect();
            types.join(", ")
        };
        Err(ExchangeError::Schema { expected: types(&self.schema), found: types(schema) })
    }
}

/// Types agree, and no column may have nulls where the exchange has none.
fn same_columns(found: &SchemaRef, expected: &SchemaRef) -> bool {
    let same = |(found, expected): (&arrow::datatypes::FieldRef, &arrow::datatypes::FieldRef)| {
        found.data_type() == expected.data_type() && (expected.is_nullable() || !found.is_nullable())
    };
    found.fields().len() == expected.fields().len() && found.fields().iter().zip(expected.fields()).all(same)
}

/// Receives the rows of one consumer. One thread or task owns it; dropping it tells the producers
/// that these rows are not wanted.
pub struct Consumer {
    path: ConsumerPath,
}

impl Consumer {
    /// The next rows, an error once, or the end.
    ///
    /// # Errors
    /// The first error that stopped the exchange; the end follows it.
    pub fn poll_recv(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Delivery, ExchangeError>>> {
        on_path!(ConsumerPath, &mut self.path, path => path.poll_recv(cx))
    }

    /// Waits on this thread for the next rows.
    ///
    /// # Errors
    /// As [`poll_recv`](Self::poll_recv).
    pub fn recv_blocking(&mut self) -> Option<Result<Delivery, ExchangeError>> {
        block_on(|cx| self.poll_recv(cx))
    }

    /// Stops the exchange: every handle gets `error`, unless another one came first.
    pub fn fail(mut self, error: StopError) {
        on_path!(ConsumerPath, &mut self.path, path => path.stop(error));
    }

    /// What this handle has counted.
    pub fn stats(&self) -> ExchangeStats {
        on_path!(ConsumerPath, &self.path, path => path.stats())
    }
}
