//! Tables that stay in the memory of the workers.
//!
//! ```text
//! CREATE: statement.rs -> tables.rs: a plan of an INSERT -> keep.rs on each worker -> store.rs
//! read:   tables.rs asks the workers which shares they have (service.rs)
//!         -> table.rs -> scan.rs, in the tasks of a stage: the worker's own share, and others
//! ```

mod keep;
mod scan;
mod service;
mod statement;
mod store;
mod table;
mod tables;

pub(crate) use keep::{KeepExec, count_batch, count_schema, sum_of_counts};
pub(crate) use scan::{ResidentScanExec, Shares, route, with_shares};
pub(crate) use service::{PartOfShare, Request, apply, decoded, encoded};
pub use statement::ResidentStatement;
pub(crate) use store::{Purpose, ResidentStore, Share, TableInfo};
pub use tables::ResidentTables;
