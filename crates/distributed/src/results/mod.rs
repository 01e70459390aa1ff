//! Datasets that queries write where they run: each task writes a folder of its own.
//!
//! ```text
//! coordinator: dataset.rs: locks the folder, runs a plan of an INSERT
//! worker:      exec.rs: hidden files -> store.rs: complete, and still hidden
//! coordinator: dataset.rs: all are complete -> published by the workers (store.rs), then the manifest
//! ```

mod dataset;
mod exec;
mod store;

pub use dataset::{NewDataset, Written};
pub(crate) use exec::WriteExec;
pub(crate) use store::{Request, Results, Target};
