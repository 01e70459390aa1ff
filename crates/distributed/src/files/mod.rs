//! The files that a worker reads and writes, and the requests about them.
//!
//! ```text
//! roots.rs   folders, whose links are resolved
//! access.rs  datasets that are read, and results that are written
//! store.rs   object stores, and files that are read one by one
//! reads.rs   a coordinator asks whether the worker may read the files of a query
//! ```

mod access;
mod reads;
mod roots;
mod store;

pub use access::WorkerFiles;
pub(crate) use reads::{Reads, serve};
pub use roots::Roots;
pub use store::ReadOnlyStore;
