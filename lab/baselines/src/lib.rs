//! The rivals of Annulus, for benchmarks and tests only: the page managers and partitioners of the
//! paper on streaming shuffles. Annulus's own partitioner runs beside them under the same trait.
//!
//! A [`partitioner`] decides how tuples reach their partition's pages. A page manager (`manager`)
//! decides which thread may write where. The [`generator`] makes tuples whose every byte can be
//! checked. A [`stream`](stream::stream) takes pages out while a partitioner runs.
#![warn(missing_docs)]

pub mod clock;
pub mod generator;
mod manager;
pub mod partitioner;
mod simd;
pub mod source;
pub mod stream;
