//! Rows onto fixed-size pages, by partition: page layout, row codec, claimed ranges, streams and
//! files of pages.
//!
//! A page is the unit of wire and disk: a header, slots that grow up, tuple bytes that grow down
//! ([`page`]). Batches of [`tuples`] reach their partition's pages through claimed [`ranges`].
//! [`memory`] is where pages come from. The paper's own ways onto pages are in `annulus-baselines`.
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
