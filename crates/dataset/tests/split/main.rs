//! Datasets split by key: what comes out, what is left after a failure, and what it takes.

mod append;
mod differential;
mod folder;
mod hot;
mod journal;
mod kills;
#[cfg(unix)]
mod links;
mod support;
mod values;
