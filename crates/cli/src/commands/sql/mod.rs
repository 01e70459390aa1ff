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
mod spec;
mod statement;
mod tables;
mod view;
mod writer;

pub use args::SqlArgs;
pub use output::{OutputFile, ResultFormat};
pub use overflow::checked;
pub use run::run;
pub use script::{PlacedStatement, Script, ScriptStatement};
pub use spec::SessionSpec;
pub use statement::{explain, plan, start};
pub use tables::table_of;
