//! Values that cannot be compared.

use datafusion::error::DataFusionError;

/// The reason why two values have no comparison.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Incomparable {
    /// One has a time zone, and nobody said in which one the other is.
    #[error(
        "cannot compare {naive} with {zoned}: the time zone of {naive} is unknown; write {at_zone}, or set \
         `datafusion.execution.time_zone` to the zone of all times without one"
    )]
    Zone {
        /// The value without a zone, as SQL.
        naive: String,
        /// The value with a zone, and its type.
        zoned: String,
        /// How the query can name the zone.
        at_zone: String,
        /// The names of the columns without a zone.
        columns: Vec<String>,
    },
    /// The values are of different kinds.
    #[error("cannot compare {left} with {right}; {remedy}")]
    Kinds {
        /// A value, and its type.
        left: String,
        /// The other value, and its type.
        right: String,
        /// What to write instead.
        remedy: String,
    },
}

impl From<Incomparable> for DataFusionError {
    fn from(error: Incomparable) -> Self {
        Self::External(Box::new(error))
    }
}
