//! The reserved-range path: producers gather rows straight into ranges of each consumer's open
//! chunk.
//!
//! One copy, from the input batch to the output batch. For each consumer that a batch has rows for,
//! a producer takes one compare-and-swap to claim rows of the consumer's open chunk and one
//! `fetch_add` to complete them; a whole chunk is an output batch and moves to the consumer's
//! queue. `PROTOCOL.md` beside this file has the rules.
//!
//! ```text
//! batch -> RowIndex -> claim (lane.rs) -> copy (copy.rs) into the chunk (chunk.rs) -> complete -> queue.rs -> consumer
//!                                          admission: gate.rs                        over the bound: account, or spill
//! ```

mod chunk;
mod consumer;
mod copy;
mod gate;
mod kernels;
mod lane;
#[cfg(all(test, loom))]
mod loom_models;
mod order;
mod producer;
mod queue;
mod shared;

use std::sync::Arc;

use arrow::datatypes::SchemaRef;

pub(crate) use consumer::ReserveConsumer;
pub(crate) use producer::ReserveProducer;

use crate::{config::ExchangeConfig, overflow::Overflow};
use shared::Shared;

/// Whether chunks hold every column of the schema: fixed widths, booleans and views.
pub(crate) fn supports(config: &ExchangeConfig, schema: &SchemaRef) -> bool {
    config.batch_rows <= lane::MAX_ROWS
        && schema.fields().iter().all(|field| chunk::Layout::of(field.data_type()).is_some())
}

/// The handles of an exchange on this path, for a configuration and a schema that it [`supports`].
pub(crate) fn reserve(
    config: &ExchangeConfig,
    schema: SchemaRef,
    overflow: Arc<dyn Overflow>,
) -> (Vec<ReserveProducer>, Vec<ReserveConsumer>) {
    let shared = Arc::new(Shared::new(config, schema, overflow));
    let producers = (0..config.producers).map(|index| ReserveProducer::new(index, Arc::clone(&shared))).collect();
    let consumers = (0..config.consumers).map(|index| ReserveConsumer::new(index, Arc::clone(&shared))).collect();
    (producers, consumers)
}
