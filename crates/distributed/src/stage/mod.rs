//! Changes to the plan of a stage.
//!
//! ```text
//! coordinator: scans.rs    the files that each task reads
//! worker:      windows.rs  inputs of windows promise their order again
//!              head.rs     the operators of Annulus, and the head that other processes read
//! ```

mod head;
mod scans;
mod windows;

pub(crate) use head::rewrite_stage;
pub(crate) use scans::{divide_files, is_whole, keep_whole, tasks_of_units};
