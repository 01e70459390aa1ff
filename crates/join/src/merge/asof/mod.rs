//! The as-of join: for each row of the left side, the row of the right side that is nearest in time
//! among those with equal keys.
//!
//! ```text
//! right side -> group of each row's keys -> times of each group, ascending    [`AsOfIndex`]
//! left side  -> group of each row's keys -> nearest time in the group          [`AsOfProbe`]
//! ```
//! Only the right side is prepared. Rows of the left side are looked up where they are and in their
//! order, so it is neither sorted nor kept. A probe remembers the place of the last time in each
//! group: where both sides are in the order of time, the next place is a few steps away.

mod bytes;
mod groups;
mod index;
mod probe;
mod ties;

use std::sync::Arc;

use arrow::{
    array::{Array, ArrayRef, RecordBatch},
    buffer::NullBuffer,
    datatypes::{DataType, Field, Schema, SchemaRef},
};
use serde::{Deserialize, Serialize};

pub use bytes::AsOfBytes;
pub use index::AsOfIndex;
pub use probe::AsOfProbe;
pub(crate) use probe::partition_point_near;

use super::{
    keys::{Column, Encoder, KeyColumns},
    words::shape,
};
use crate::{error::JoinError, key::Data};

/// The comparison of the left row's time with the right row's.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum AsOfComparison {
    /// `left >= right`: the last row that is not later.
    AtOrAfter,
    /// `left > right`: the last row that is earlier.
    After,
    /// `left <= right`: the first row that is not earlier.
    AtOrBefore,
    /// `left < right`: the first row that is later.
    Before,
}

/// The types of the keys of an as-of join, the same on both sides.
#[derive(Debug)]
pub struct AsOfKeys {
    encoder: Encoder,
    /// The equal keys, then the time.
    schema: SchemaRef,
    /// Whether the only equal key is a text or bytes, which are read where they are.
    is_text: bool,
    is_wide: bool,
}

/// The keys of some rows, as they are grouped and compared.
struct EncodedKeys {
    equal: EqualKeys,
    times: Column,
    /// The validity of the rows; a null row has no partner.
    nulls: Option<NullBuffer>,
}

enum EqualKeys {
    Encoded(Column),
    /// Texts or bytes.
    InPlace(Data),
}

impl AsOfKeys {
    /// Returns keys of these types. Equal keys may have any type that Arrow's row format knows; there
    /// may be none of them. Times are numbers, dates, times, timestamps, durations or booleans. Floats
    /// compare by IEEE 754's total order, with -0.0 equal to 0.0, so a NaN is later than all numbers.
    ///
    /// # Errors
    /// [`JoinError::KeyUnsupported`] if the time has another type; [`JoinError::Arrow`] if Arrow's row
    /// format does not know the type of an equal key.
    pub fn try_new(equal: &[DataType], time: &DataType) -> Result<Self, JoinError> {
        use DataType::{Binary, BinaryView, LargeBinary, LargeUtf8, Utf8, Utf8View};
        let Some((bits, _)) = shape(time) else {
            return Err(JoinError::KeyUnsupported { index: equal.len(), data_type: time.clone() });
        };
        let is_text = matches!(equal, [Binary | BinaryView | LargeBinary | LargeUtf8 | Utf8 | Utf8View]);
        let encoded = if is_text { Vec::new() } else { equal.to_vec() };
        let encoder = Encoder::new(encoded, false, [Some(time.clone()), None])?;
        let fields = equal.iter().chain([time]).map(|data_type| Field::new("", data_type.clone(), true));
        let schema = Arc::new(Schema::new(fields.collect::<Vec<_>>()));
        Ok(Self { encoder, schema, is_text, is_wide: bits > 64 })
    }

    /// Returns the keys of rows as a batch: the equal keys, then the time.
    ///
    /// # Errors
    /// If the columns have other types or lengths.
    fn batch(&self, keys: &[ArrayRef]) -> Result<RecordBatch, JoinError> {
        Ok(RecordBatch::try_new(Arc::clone(&self.schema), keys.to_vec())?)
    }

    /// Returns the keys of no rows.
    fn no_rows(&self) -> RecordBatch {
        RecordBatch::new_empty(Arc::clone(&self.schema))
    }

    /// Encodes the keys of a [`batch`](Self::batch).
    fn encode(&self, batch: &RecordBatch) -> Result<EncodedKeys, JoinError> {
        let time = self.schema.fields().len() - 1;
        let equal = if self.is_text { Vec::new() } else { (0..time).collect() };
        let columns = KeyColumns { equal, band: Some(time), ..KeyColumns::default() };
        let keys = self.encoder.encode(std::slice::from_ref(batch), &columns, 1)?;
        if !self.is_text {
            return Ok(EncodedKeys { equal: EqualKeys::Encoded(keys.equal), times: keys.band, nulls: keys.nulls });
        }
        let texts = batch.column(0);
        let nulls = NullBuffer::union(keys.nulls.as_ref(), texts.nulls());
        Ok(EncodedKeys { equal: EqualKeys::InPlace(Data::from_column(texts)), times: keys.band, nulls })
    }
}

impl EncodedKeys {
    fn is_valid(&self, row: usize) -> bool {
        self.nulls.as_ref().is_none_or(|nulls| nulls.is_valid(row))
    }
}
