//! The radix-partitioned hash join: both sides are clustered by the hash of their keys into
//! partitions that fit in the second-level cache, and partitions are joined one by one (Manegold,
//! Boncz and Kersten 2002; section IV.C of the cyclo-join paper).
//!
//! ```text
//! build side  -> clustered rows, a table for each partition              [`BuildSide`]
//!             or rows in their order, and one place or bit for each number
//! probe side  -> clustered rows, cut into [`Fragment`]s of some partitions each   -> bytes -> other hosts
//! fragment    -> morsels -> pairs of row numbers                         [`BuildSide::probe`]
//! batch       -> pairs of row numbers, in the order of its rows           [`Finder`]
//! either side -> parts, which are joined one by one, if not all fit in memory   [`Divider`]
//! ```
//! Fragments are cut from a side that was clustered as a whole. So each meets few tables, with many
//! rows for each of them.

mod build;
mod cluster;
mod dense;
mod divide;
mod fragment;
mod key_set;
mod lookup;
mod memory;
mod ordered;
mod probe;
mod radix;
mod ranked;
mod table;
mod wire;

pub use build::{BuildSide, HashConfig};
pub use divide::Divider;
pub use fragment::{Fragment, Morsel};
pub use key_set::{KeyHashes, KeySet, KeySetBuilder};
pub use probe::{Finder, PairSlices};
pub use radix::Partitions;
pub use wire::{FragmentFormat, match_bits, store_matched};
