//! What the interactive shell is made of: its commands and its line editor.

pub mod command;
pub mod editor;
