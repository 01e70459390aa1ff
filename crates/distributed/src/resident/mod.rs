//! Tables that stay in the memory of the workers.
//!
//! ```text
//! CREATE: statement.rs -> tables.rs: the plan of an INSERT -> keep.rs, in a task on each worker -> its share
//! read:   tables.rs asks the workers for their shares (service.rs) -> table.rs
//!         -> scan.rs, in the tasks of a stage: the share of the worker, and the shares of others (rows.rs)
//! ```

mod keep;
mod rows;
mod scan;
mod service;
mod statement;
mod table;
mod tables;

pub(crate) use keep::KeepExec;
pub(crate) use scan::{ResidentScanExec, Shares, route, with_shares};
pub(crate) use service::serve;
pub use statement::{NewResidentTable, ResidentStatement};
pub use tables::ResidentTables;
