//! The exchange: M producers, N consumers, every row to the consumer that its hash names.

use std::{
    sync::Arc,
    task::{Context, Poll, Wake, Waker},
    thread::Thread,
};

use arrow::{array::RecordBatch, datatypes::SchemaRef};

use crate::{
    config::ExchangeConfig,
    error::{ExchangeError, SendError, StopError},
    overflow::{Delivery, Overflow},
    reserve::{self, ReserveConsumer, ReserveProducer},
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
    let (producers, consumers) = reserve::reserve(config, Arc::clone(&schema), overflow).expect("for now");
    let producers = producers.into_iter().map(|path| Producer { schema: Arc::clone(&schema), path }).collect();
    Ok((producers, consumers.into_iter().map(|path| Consumer { path }).collect()))
}

/// Sends batches. One thread or task owns it; dropping it before [`finish`](Self::finish) stops the exchange with
/// [`ExchangeError::ProducerLost`].
pub struct Producer {
    schema: SchemaRef,
    path: ReserveProducer,
}

impl Producer {
    /// Ready when a batch may be sent: the exchange has room, or one of its consumers starves.
    ///
    /// # Errors
    /// If the exchange was stopped, or no consumer is left.
    pub fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), ExchangeError>> {
        self.path.poll_ready(cx)
    }

    /// Sends each row of `batch` to consumer `hash % N`. Never waits; call it after [`poll_ready`](Self::poll_ready).
    ///
    /// # Errors
    /// Gives the batch back if the exchange was stopped, no consumer is left, the schema is another one, or there is not
    /// one hash a row.
    pub fn send_hashed(&mut self, batch: RecordBatch, hashes: &[u64]) -> Result<(), SendError<RecordBatch>> {
        match self.check(&batch, hashes) {
            Ok(()) => self.path.send_hashed(batch, hashes),
            Err(error) => Err(SendError { value: batch, error }),
        }
    }

    /// Waits for admission on this thread, then sends.
    ///
    /// # Errors
    /// As [`send_hashed`](Self::send_hashed).
    pub fn send_blocking(&mut self, batch: RecordBatch, hashes: &[u64]) -> Result<(), SendError<RecordBatch>> {
        match block_on(|cx| self.poll_ready(cx)) {
            Ok(()) => self.send_hashed(batch, hashes),
            Err(error) => Err(SendError { value: batch, error }),
        }
    }

    /// Says that the input has nothing ready, so that what was sent becomes visible to those who wait for it.
    pub fn idle(&mut self) {
        self.path.idle();
    }

    /// Ends this producer's input. The consumers' streams end when all producers have finished.
    pub fn finish(mut self) -> ExchangeStats {
        self.path.finish();
        self.path.stats()
    }

    /// Stops the exchange: every handle gets `error`, unless another one came first.
    pub fn fail(mut self, error: StopError) {
        self.path.stop(ExchangeError::Stopped(error));
    }

    /// What this handle has counted.
    pub fn stats(&self) -> ExchangeStats {
        self.path.stats()
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

/// Receives the rows of one consumer. One thread or task owns it; dropping it tells the producers that these rows are not
/// wanted.
pub struct Consumer {
    path: ReserveConsumer,
}

impl Consumer {
    /// The next rows, an error once, or the end.
    ///
    /// # Errors
    /// The first error that stopped the exchange; the end follows it.
    pub fn poll_recv(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Delivery, ExchangeError>>> {
        self.path.poll_recv(cx)
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
        self.path.stop(ExchangeError::Stopped(error));
    }

    /// What this handle has counted.
    pub fn stats(&self) -> ExchangeStats {
        self.path.stats()
    }
}

struct Unpark(Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

/// Polls on this thread, parked in between.
fn block_on<T>(mut poll: impl FnMut(&mut Context<'_>) -> Poll<T>) -> T {
    let waker = Waker::from(Arc::new(Unpark(std::thread::current())));
    let mut cx = Context::from_waker(&waker);
    loop {
        match poll(&mut cx) {
            Poll::Ready(value) => return value,
            Poll::Pending => std::thread::park(),
        }
    }
}
