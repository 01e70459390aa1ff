//! The members that are accepted, and that data over a secure connection is what was sent, or an
//! error.

mod common;
mod data;
mod files;
mod interop;
mod refusals;
