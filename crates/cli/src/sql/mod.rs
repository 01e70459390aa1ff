//! What `annulus sql` is made of: tables from files and URLs, statements from text, results to the
//! screen and to files.

mod dataset_table;
pub mod format;
mod grid;
pub mod output;
mod pipe;
pub mod script;
pub mod statement;
pub mod stores;
pub mod tables;
pub mod timestamps;
pub mod view;
mod writer;
