#![doc = include_str!("../README.md")]
#![warn(missing_docs)]

pub mod codec;
pub mod error;
pub mod file;
pub mod memory;
pub mod page;
pub mod ranges;
pub mod simd;
pub mod stream;
pub mod target;
pub mod tuples;

pub use codec::RowCodec;
pub use error::PagesError;
pub use page::{Page, PageReader, PageShape};
