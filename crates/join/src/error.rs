//! The errors of a join.

use annulus_sync::Cancelled;
use arrow::{datatypes::DataType, error::ArrowError};

/// Why a join failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum JoinError {
    /// The two sides' keys are not as many.
    #[error("{build} key columns on the build side and {probe} on the probe side; name as many on both")]
    KeyCount {
        /// Key columns of the build side.
        build: usize,
        /// Key columns of the probe side.
        probe: usize,
    },
    /// Two keys cannot be compared.
    #[error(
        "key {index} is {build} on the build side and {probe} on the probe side; cast one of them to the other's type"
    )]
    KeyTypes {
        /// Which pair of keys, from 0.
        index: usize,
        /// Its type on the build side.
        build: DataType,
        /// Its type on the probe side.
        probe: DataType,
    },
    /// Columns of this type cannot be keys.
    #[error("key {index} is {data_type}, which this join cannot compare")]
    KeyUnsupported {
        /// Which pair of keys, from 0.
        index: usize,
        /// Its type.
        data_type: DataType,
    },
    /// A band of these keys cannot have fractions as its bounds.
    #[error("key {index} is {data_type}, and a bound of its band is a fraction; give whole units, or cast both keys")]
    BandFraction {
        /// Which pair of keys, from 0.
        index: usize,
        /// Its type.
        data_type: DataType,
    },
    /// Row numbers are 32 bits wide.
    #[error(
        "{rows} rows on the build side; one host joins with 4294967295 at most, so use more hosts or more revolutions"
    )]
    TooManyRows {
        /// Rows of the build side.
        rows: usize,
    },
    /// A row of the probe side does not fit in a fragment.
    #[error(
        "a row takes {bytes} bytes as a fragment of its own, and fragments have at most {max_bytes}; make them larger"
    )]
    RowTooLarge {
        /// Bytes that it takes.
        bytes: usize,
        /// Most bytes of a fragment.
        max_bytes: usize,
    },
    /// A fragment was not prepared for this build side, or is damaged.
    #[error("a fragment does not fit: {what}")]
    Fragment {
        /// What is wrong with it.
        what: &'static str,
    },
    /// It was asked to stop.
    #[error("the join was cancelled")]
    Cancelled,
    /// An Arrow kernel failed.
    #[error(transparent)]
    Arrow(#[from] ArrowError),
    /// The condition, or who takes the result, failed.
    #[error(transparent)]
    Outside(Box<dyn std::error::Error + Send + Sync>),
}

impl From<Cancelled> for JoinError {
    fn from(_: Cancelled) -> Self {
        Self::Cancelled
    }
}
