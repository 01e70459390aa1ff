//! Datasets that queries write where they run: each task writes a folder of its own.
//!
//! ```text
//! coordinator: dataset.rs locks the folder, and runs the plan of an INSERT
//! worker:      exec.rs writes hidden files -> the worker's store: complete, and still hidden
//! coordinator: dataset.rs, when all are complete: the workers publish them (service.rs), then the manifest
//! ```

mod dataset;
mod exec;
mod service;

pub use dataset::{NewDataset, Written};
pub(crate) use exec::WriteExec;
pub(crate) use service::serve;
