//! Connections between the processes of a query.
//!
//! ```text
//! connections.rs    one connection to each worker, with the identity and the silence limit of this process
//! channel.rs        a query on it: headers.rs sends its options, sent.rs restores its batches
//! sent.rs           the form of batches between stages: packed.rs, or large_lists.rs
//! failures.rs       the first error of a query ends all of its readers
//! naming.rs         an error names the worker that had it, and says whether the worker is lost
//! restarts.rs       the workers that are lost, and what people learn of queries that start again
//! asks.rs           requests beside queries; ask_service.rs answers them on a worker
//! tls.rs, plain.rs  streams of bytes, encrypted or not, and the member at the other end (mismatch.rs: if
//!                   one side alone encrypts)
//! runtime.rs        the threads that serve them
//! ```

mod ask_service;
mod asks;
mod channel;
mod connections;
mod failures;
mod headers;
mod large_lists;
mod mismatch;
mod naming;
mod packed;
mod plain;
mod restarts;
mod runtime;
mod sent;
mod tls;

pub(crate) use ask_service::AskService;
pub(crate) use asks::Ask;
pub(crate) use channel::{keeps_heads, restored_stream, with_own_head};
pub use connections::{Connections, DEFAULT_SILENCE};
pub(crate) use headers::{QueryRestarts, execution, restarts, set_options, worker_url};
pub(crate) use runtime::{CONNECTION_BYTES, STREAM_BYTES, network_threads};
pub(crate) use sent::SentForm;
pub(crate) use tls::{Connection, Peer, accept};
