//! Tables that are partitioned already.

#[path = "../common/peak.rs"]
mod peak;

mod answers;
mod groupings;
mod memory;
mod metadata;
mod plans;
mod support;
mod wrong;
