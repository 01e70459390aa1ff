//! Runs a repartition of rows in memory with DataFusion's operator or with ours, and compares their
//! rows.

mod drain;
mod input;
mod operator;

pub use drain::{CHECK_HASHES, Tally, compare, drain};
pub use input::Input;
pub use operator::Operator;
