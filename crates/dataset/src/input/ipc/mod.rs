//! Arrow IPC: files, whose batches can be read in any order, and streams.

mod file;
mod message;
mod stream;

pub(super) use file::open;
pub(super) use stream::Once;
