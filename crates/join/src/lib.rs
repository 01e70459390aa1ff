#![doc = include_str!("../README.md")]
#![warn(missing_docs)]

mod bits;
mod error;
mod filter;
mod hash;
mod key;
mod key_filter;
mod loops;
mod matched;
mod merge;
mod output;
mod pairs;
mod parallel;
mod sides;
mod sink;
mod types;
mod views;

pub use annulus_sync::{CancelToken, Cancelled};
pub use error::JoinError;
pub use filter::{FilterColumn, PairFilter};
pub use hash::{
    BuildSide, Divider, Finder, Found, Fragment, FragmentFormat, HashConfig, KeyHashes, KeySet, KeySetBuilder, Morsel,
    Partitions, match_bits, store_matched,
};
pub use key::Keys;
pub use key_filter::{KeyFilter, KeyFilterBuilder, KeyFilterKind};
pub use loops::{Kept, LoopCondition, Loops, RowCondition};
pub use matched::Matched;
pub use merge::{
    Band, BandParts, Comparison, KeyPair, MergeBuild, MergeCondition, MergeFragment, MergeJoin, MergePlace, Offset,
    Term,
};
pub use output::{BATCH_ROWS, Output, OutputSpec, PairWriter, SideRows, Writer};
pub use pairs::Wanted;
pub use sides::{Side, Sides};
pub use sink::{MOST_PAIRS, MOST_UNCHECKED_ROWS, PairSink};
pub use types::{Alone, Emits, JoinType};
