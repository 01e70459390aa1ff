//! The interactive shell: its loop, its commands and its line editor.

mod command;
mod editor;
mod pending;
mod run;

pub use run::run;
