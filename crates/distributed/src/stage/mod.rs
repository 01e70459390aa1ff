//! Changes to the plan of a stage.
//!
//! ```text
//! coordinator: scans.rs            the files that each task reads
//!              tables.rs           partitioned tables, of which each task reads its own partitions
//!              task_partitions.rs  the rows of an exchange for the tasks that read them
//! worker:      windows.rs          inputs of windows promise their order again
//!              head.rs             the operators of Annulus, and the head that other processes read
//! ```

mod head;
mod scans;
mod tables;
mod task_partitions;
mod windows;

pub(crate) use head::rewrite_stage;
pub(crate) use scans::{divide_files, is_whole, keep_whole, tasks_of_units};
pub(crate) use tables::{follow_tables, route_tables, tasks_of_tables};
pub(crate) use task_partitions::TaskPartitionsExec;
