//! What `annulus sql` is made of: tables from files, statements from text, results to files.

mod dataset_table;
pub mod format;
pub mod output;
pub mod pipe;
pub mod script;
pub mod tables;
pub mod timestamps;
pub mod writer;
