//! The row codec: turns rows of any Arrow type into bytes, and back.
//!
//! ```text
//! row of columns     | validity bits | fixed-width values | ends: u32 each | values of varying length |
//! ```
//! A column that can be null has a validity bit (1: valid). Values of fixed width follow each other
//! without gaps, as in Arrow's buffers. A null has zeros in place of its value. Each value of
//! varying length, except the last one, has its end, counted from the beginning of the row. The
//! last one ends with the row. If no column varies, all rows have one size.
//!
//! A struct is encoded as a row. A list is encoded as the rows of its elements; if these vary in
//! length, their number and lengths come first, u32 each. A union is its type and a row. A
//! dictionary's key is encoded as the value that it refers to. Rows do not carry their types:
//! writer and reader agree on the schema.
//!
//! Numbers are little-endian. The decoder trusts no byte: any input gives an error or a valid
//! batch. It takes time and memory in proportion to the input's length. With sparse unions, it also
//! takes them in proportion to the number of rows times the union's width.
//!
//! Why not arrow-row: its rows are designed for comparison, so encoding takes about twice as long,
//! and four to five times as long with columns of fixed width. Its decoder panics on foreign bytes.
//! `benches/codec.rs` measures both.

mod decode;
mod encode;
mod error;
mod layout;

use std::sync::Arc;

use arrow::{
    array::{Array, RecordBatch, RecordBatchOptions},
    datatypes::{DataType, SchemaRef},
};

pub use error::CodecError;

use crate::{page::PayloadSize, tuples::TupleBatch};
use encode::{EncodedRows, Rows};
use layout::RowLayout;

// Rows hold values as they are in Arrow's buffers.
const _: () = assert!(cfg!(target_endian = "little"), "rows are little-endian");

/// The version of the row format, for files and frames that carry rows.
pub const ROW_FORMAT: u32 = 1;

/// The largest number of payload bytes in one batch of [`RowCodec::batches`]. With more, 32-bit
/// offsets might overflow.
const MAX_BATCH_BYTES: usize = 1 << 30;

/// An encoder and decoder for the rows of one schema.
///
/// ```
/// use std::sync::Arc;
///
/// use annulus_pages::{codec::RowCodec, tuples::TupleBatch};
/// use arrow::array::{ArrayRef, Int64Array, RecordBatch, StringArray, UInt32Array};
///
/// let id: ArrayRef = Arc::new(Int64Array::from(vec![1, 2, 3]));
/// let name: ArrayRef = Arc::new(StringArray::from(vec![Some("a"), None, Some("long")]));
/// let batch = RecordBatch::try_from_iter_with_nullable([("id", id, false), ("name", name, true)])?;
///
/// let codec = RowCodec::new(batch.schema())?;
/// let mut tuples = TupleBatch { keys: vec![17, 29], ..Default::default() };
/// codec.encode(&batch, Some(&[2, 1]), &mut tuples)?;
///
/// let tuples = tuples.tuples(codec.payload_size())?;
/// let decoded = codec.decode(&[tuples.payload(0), tuples.payload(1)])?;
/// assert_eq!(decoded, arrow::compute::take_record_batch(&batch, &UInt32Array::from(vec![2, 1]))?);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
pub struct RowCodec {
    schema: SchemaRef,
    layout: Arc<RowLayout>,
}

impl RowCodec {
    /// Creates a codec for batches of `schema`.
    ///
    /// # Errors
    /// [`CodecError::Unsupported`] names a column whose type is invalid, whose rows are wider than
    /// any page, or which is a dictionary of nulls, unions, runs or dictionaries.
    pub fn new(schema: SchemaRef) -> Result<Self, CodecError> {
        let layout = Arc::new(RowLayout::new(schema.fields(), "")?);
        Ok(Self { schema, layout })
    }

    /// Returns the schema.
    pub fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    /// Returns the bytes of each row: fixed if all columns have a fixed width.
    pub fn payload_size(&self) -> PayloadSize {
        match self.layout.row_bytes() {
            // A page's width is a limit of the layout.
            Some(bytes) => PayloadSize::Fixed(bytes as u32),
            None => PayloadSize::Variable,
        }
    }

    /// Encodes all rows of a batch, or those that `rows` names, in its order. The rows replace the
    /// content of `out.bytes`. Unless all rows have one size, their offsets replace the content of
    /// `out.offsets`. The caller sets the keys. Buffers are reused. Each byte is copied once, those
    /// of nested columns a few times.
    ///
    /// # Errors
    /// If the batch does not have the columns of the schema, a selected row does not exist, or the
    /// rows take 4 GiB or more.
    pub fn encode(&self, batch: &RecordBatch, rows: Option<&[u32]>, out: &mut TupleBatch) -> Result<(), CodecError> {
        self.check_columns(batch)?;
        let rows = match rows {
            None => Rows::All(batch.num_rows()),
            Some(rows) => {
                if let Some(&row) = rows.iter().find(|&&row| row as usize >= batch.num_rows()) {
                    return Err(CodecError::Selection { row, rows: batch.num_rows() });
                }
                Rows::Some(rows)
            }
        };
        let mut encoded =
            EncodedRows { bytes: std::mem::take(&mut out.bytes), offsets: std::mem::take(&mut out.offsets) };
        let result = encode::encode(&self.layout, batch.columns(), &rows, &mut encoded);
        (out.bytes, out.offsets) = (encoded.bytes, encoded.offsets);
        result
    }

    /// Decodes the rows in `payloads`, which may hold any bytes.
    ///
    /// # Errors
    /// [`CodecError::Damaged`] or [`CodecError::Invalid`] if they are not rows of the schema.
    /// [`CodecError::TooLarge`] if an offset or the key of a dictionary would not fit its type.
    pub fn decode(&self, payloads: &[&[u8]]) -> Result<RecordBatch, CodecError> {
        let columns = decode::decode(&self.layout, payloads)?;
        let options = RecordBatchOptions::new().with_row_count(Some(payloads.len()));
        RecordBatch::try_new_with_options(Arc::clone(&self.schema), columns, &options)
            .map_err(|error| CodecError::Invalid { column: "(all)".to_owned(), what: error.to_string() })
    }

    /// Decodes payloads, for example those of a page's tuples, to batches of `rows` rows, at least
    /// one. The last batch may have fewer rows, and so may a batch of more than 1 GiB.
    pub fn batches<'a, I>(&self, payloads: I, rows: usize) -> Batches<'a, I::IntoIter>
    where
        I: IntoIterator<Item = &'a [u8]>,
    {
        Batches { codec: self.clone(), payloads: payloads.into_iter(), rows: rows.max(1), cells: Vec::new() }
    }

    fn check_columns(&self, batch: &RecordBatch) -> Result<(), CodecError> {
        let fields = self.schema.fields();
        if batch.num_columns() != fields.len() {
            return Err(CodecError::Columns { expected: fields.len(), found: batch.num_columns() });
        }
        for (field, array) in fields.iter().zip(batch.columns()) {
            if field.data_type() != array.data_type() {
                return Err(CodecError::Type {
                    column: field.name().clone(),
                    expected: field.data_type().clone(),
                    found: array.data_type().clone(),
                });
            }
            // The nulls of the other types are in their values.
            let own = !matches!(field.data_type(), DataType::Null | DataType::Union(..) | DataType::RunEndEncoded(..));
            if own && !field.is_nullable() && array.is_nullable() && array.logical_null_count() > 0 {
                return Err(CodecError::Null { column: field.name().clone() });
            }
        }
        Ok(())
    }
}

/// An iterator over the batches in payloads, from [`RowCodec::batches`].
#[derive(Clone, Debug)]
pub struct Batches<'a, I> {
    codec: RowCodec,
    payloads: I,
    rows: usize,
    cells: Vec<&'a [u8]>,
}

impl<'a, I: Iterator<Item = &'a [u8]>> Iterator for Batches<'a, I> {
    type Item = Result<RecordBatch, CodecError>;

    fn next(&mut self) -> Option<Self::Item> {
        self.cells.clear();
        let mut bytes = 0;
        while self.cells.len() < self.rows && bytes < MAX_BATCH_BYTES {
            let Some(payload) = self.payloads.next() else { break };
            bytes += payload.len();
            self.cells.push(payload);
        }
        (!self.cells.is_empty()).then(|| self.codec.decode(&self.cells))
    }
}
