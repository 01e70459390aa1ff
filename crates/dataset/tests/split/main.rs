//! Datasets split by key: the output, what a failure leaves, and the resources that a run takes.

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
mod version_1;
