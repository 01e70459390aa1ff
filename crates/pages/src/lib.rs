//! Rows onto fixed-size pages, by partition: page layout, row codec, page managers and partitioners.
//!
//! A page is the unit of wire and disk: a header, slots that grow up, tuple bytes that grow down ([`page`]). Batches of
//! [`tuples`] reach their partition's pages through a [`partitioner`], which decides how, and a page manager (`manager`), which
//! decides who may write where. [`memory`] is where pages come from.
#![warn(missing_docs)]

pub mod codec;
pub mod error;
pub mod file;
pub mod generator;
mod manager;
pub mod memory;
pub mod page;
pub mod partitioner;
pub mod ranges;
mod simd;
pub mod stream;
pub mod tuples;
