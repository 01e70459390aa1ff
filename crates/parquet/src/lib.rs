#![doc = include_str!("../README.md")]
#![warn(missing_docs)]

mod bits;
mod builder;
mod column;
mod error;
mod filter;
mod hybrid;
mod levels;
mod pages;
mod reader;
mod row_group;
mod selection;
mod source;
mod values;
mod window;

pub use column::Column;
pub use error::{PageError, ScanError};
pub use filter::{Conjunct, Predicate};
pub use row_group::{RowGroupReader, Scan, ScanCounts};
