//! `annulus sql`: tables from files and URLs, statements from text or a shell, results to the
//! screen and to files.

mod args;
mod copy_types;
mod external;
mod format;
mod functions;
mod given_types;
mod grid;
mod output;
mod overflow;
mod paths;
mod pipe;
mod plans;
mod run;
mod script;
mod shell;
mod show_columns;
mod statement;
mod tables;
mod view;
mod writer;

pub use args::SqlArgs;
pub use run::run;
