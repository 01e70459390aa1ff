//! The errors of a join.

use annulus_sync::Cancelled;
use arrow::{datatypes::DataType, error::ArrowError};

/// The reason why a join failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum JoinError {
    /// The two sides have different numbers of keys.
    #[error("{build} key columns on the build side and {probe} on the probe side; name the same number on both")]
    KeyCount {
        /// The number of key columns of the build side.
        build: usize,
        /// The number of key columns of the probe side.
        probe: usize,
    },
    /// Two keys have different types.
    #[error(
        "key {index} is {build} on the build side and {probe} on the probe side; cast one of them to the other's type"
    )]
    KeyTypes {
        /// The number of the pair of keys, from 0.
        index: usize,
        /// The key's type on the build side.
        build: DataType,
        /// The key's type on the probe side.
        probe: DataType,
    },
    /// Columns of this type cannot be keys.
    #[error("key {index} is {data_type}, which this join cannot compare; cast it to another type")]
    KeyUnsupported {
        /// The number of the pair of keys, from 0.
        index: usize,
        /// The key's type.
        data_type: DataType,
    },
    /// A bound of a band is a fraction, and the keys' type has none.
    #[error("key {index} is {data_type}, but a bound of its band is a fraction; use whole units, or cast both keys")]
    BandFraction {
        /// The number of the pair of keys, from 0.
        index: usize,
        /// The key's type.
        data_type: DataType,
    },
    /// Vectors that are compared have different lengths.
    #[error(
        "a vector of the left side has {left} elements, and one of the right side {right}; make their lengths equal"
    )]
    VectorLengths {
        /// The number of elements of a left vector.
        left: usize,
        /// The number of elements of a right vector.
        right: usize,
    },
    /// Columns of this type are not vectors.
    #[error("a vector cannot be {data_type}; cast it to a list of Float16, Float32, Float64 or Int8")]
    VectorsUnsupported {
        /// The column's type.
        data_type: DataType,
    },
    /// The build side has more rows than 32-bit numbers can count.
    #[error(
        "{rows} rows on the build side, but a host can join with at most 4294967295; use more hosts or more revolutions"
    )]
    TooManyRows {
        /// The number of rows of the build side.
        rows: usize,
    },
    /// Columns of this type cannot be compared as texts.
    #[error("texts are {data_type}, which a join of texts cannot compare; cast them to Utf8")]
    TextsUnsupported {
        /// The column's type.
        data_type: DataType,
    },
    /// A side has another number of hashes of keys than of rows.
    #[error("{hashes} hashes of keys for {rows} texts; give one for each row")]
    KeyHashes {
        /// The number of rows.
        rows: usize,
        /// The number of hashes.
        hashes: usize,
    },
    /// A row of the probe side does not fit in a fragment.
    #[error("a row takes {bytes} bytes as a fragment, but fragments have at most {max_bytes}; make them larger")]
    RowTooLarge {
        /// The bytes of a fragment with this row alone.
        bytes: usize,
        /// The largest size of a fragment.
        max_bytes: usize,
    },
    /// A fragment was not prepared for this build side, or is damaged.
    #[error("invalid fragment: {what}")]
    Fragment {
        /// The reason why the fragment is invalid.
        what: &'static str,
    },
    /// The join was cancelled.
    #[error("the join was cancelled")]
    Cancelled,
    /// An Arrow kernel failed.
    #[error(transparent)]
    Arrow(#[from] ArrowError),
    /// The caller's filter or sink failed.
    #[error(transparent)]
    Outside(Box<dyn std::error::Error + Send + Sync>),
}

impl From<Cancelled> for JoinError {
    fn from(_: Cancelled) -> Self {
        Self::Cancelled
    }
}
