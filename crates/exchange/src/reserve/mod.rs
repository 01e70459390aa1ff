//! The path of reserved ranges: producers copy rows straight into ranges of each consumer's open
//! chunk.
//!
//! Rows are copied once, from the input batch to the output batch. For each consumer with rows in a
//! batch, a producer takes one compare-and-swap to claim rows of the consumer's open chunk, and one
//! `fetch_add` to complete them. A whole chunk is an output batch and moves to the consumer's
//! queue. `PROTOCOL.md` beside this file has the rules.
//!
//! ```text
//! batch -> RowIndex -> claim (claim.rs) -> copy (copy.rs) into the chunk (chunk.rs) -> complete -> queue.rs
//!                                           admission: gate.rs                     over the bound: account, or spill
//! ```

mod chunk;
mod claim;
mod consumer;
mod copy;
mod gate;
mod kernels;
#[cfg(all(test, loom))]
mod loom_models;
mod order;
mod producer;
mod queue;
mod shared;

use std::sync::Arc;

use arrow::datatypes::{Schema, SchemaRef};

pub(crate) use consumer::ReserveConsumer;
pub(crate) use producer::ReserveProducer;

use crate::{config::ExchangeConfig, overflow::Overflow};
use shared::ReserveCore;

/// Returns whether chunks can hold every column of the schema: fixed widths, booleans and views.
pub(crate) fn supports(config: &ExchangeConfig, schema: &Schema) -> bool {
    config.batch_rows <= claim::MAX_ROWS
        && schema.fields().iter().all(|field| chunk::ColumnLayout::for_type(field.data_type()).is_some())
}

/// Creates the handles of an exchange on this path, which must [support](supports) the
/// configuration and the schema.
pub(crate) fn reserve(
    config: &ExchangeConfig,
    schema: SchemaRef,
    overflow: Arc<dyn Overflow>,
) -> (Vec<ReserveProducer>, Vec<ReserveConsumer>) {
    let shared = Arc::new(ReserveCore::new(config, schema, overflow));
    let producers = (0..config.producers).map(|index| ReserveProducer::new(index, Arc::clone(&shared))).collect();
    let consumers = (0..config.consumers).map(|index| ReserveConsumer::new(index, Arc::clone(&shared))).collect();
    (producers, consumers)
}
