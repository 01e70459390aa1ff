//! Tables that are partitioned already.

mod answers;
mod memory;
mod plans;
mod support;
mod wrong;
