#![doc = include_str!("../README.md")]
#![warn(missing_docs)]

mod bits;
mod error;
mod fetch;
mod filter;
mod hash;
mod key;
mod key_filter;
mod loops;
mod matches;
mod merge;
mod nearest;
mod output;
mod pace;
mod pairs;
mod parallel;
mod sides;
mod similarity;
mod sink;
mod texts;
mod types;
mod views;

pub use annulus_sync::{CancelToken, Cancelled};
pub use error::JoinError;
pub use filter::{FilterColumn, PairFilter};
pub use hash::{
    BuildSide, Divider, Finder, Fragment, FragmentFormat, HashConfig, KeyHashes, KeySet, KeySetBuilder, Morsel,
    PairSlices, Partitions, match_bits, store_matched,
};
pub use key::Keys;
pub use key_filter::{KeyFilter, KeyFilterBuilder, KeyFilterKind};
pub use loops::{LoopCondition, Loops, MatchingRows, RowCondition};
pub use matches::MatchBits;
pub use merge::{
    AsOfBytes, AsOfComparison, AsOfIndex, AsOfKeys, AsOfProbe, Band, BandParts, Comparison, KeyPair, MergeBuild,
    MergeCondition, MergeFragment, MergeJoin, MergePosition, Offset, ProbeLimits, Term,
};
pub use nearest::{
    LineIndex, NearestLists, NearestPairs, NearestRows, NearestSearch, Neighbour, PlaneFormula, PlaneIndex,
    RightVectors, VectorBlock, VectorMetric, VectorPosition, VectorThreshold, distance_word, nearest_vectors,
    vector_pairs,
};
pub use output::{BATCH_ROWS, Output, OutputSpec, PairWriter, SideRows, Writer};
pub use pairs::RequiredPairs;
pub use sides::{Side, Sides};
pub use similarity::{
    Likeness, SimilarityBuild, SimilarityCondition, SimilarityFragment, SimilarityJoin, SimilarityPosition,
};
pub use sink::{MOST_PAIRS, MOST_UNCHECKED_ROWS, PairSink};
pub use texts::{
    EditDistance, SetMeasure, TextBuild, TextCondition, TextFragment, TextJoin, TextPosition, TextStatistics,
    TokenSimilarity, Tokens,
};
pub use types::{Emission, JoinType, UnpairedRows};
