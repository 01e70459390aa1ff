//! The rivals that Annulus is measured against, for benchmarks and tests only: the page managers
//! and partitioners of the paper on streaming shuffles, all of them, and the trait under which our
//! own way onto pages runs beside them.
//!
//! A [`partitioner`] decides how tuples reach their partition's pages, and a page manager
//! (`manager`) who may write where. The [`generator`] makes tuples whose every byte can be checked.
#![warn(missing_docs)]

pub mod generator;
mod manager;
pub mod partitioner;
mod simd;
