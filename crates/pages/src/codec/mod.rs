//! Rows of any Arrow type as bytes, and back.
//!
//! ```text
//! row of columns     | validity bits | fixed-width values | ends: u32 each | values of varying length |
//! ```
//! A column that can be null has a validity bit (1: valid). Values of fixed width stand one behind
//! the other, as in Arrow's buffers, without gaps; below a null are zeros. Of the values of varying
//! length, each but the last has its end, counted from the row's beginning; the last one ends with
//! the row. If no column varies, all rows have one size. A struct is a row; a list its elements'
//! rows (with their number and lengths in front, u32 each, if they vary); a union its type and a
//! row; a dictionary's key the value that it stands for. Rows have no types in them: writer and
//! reader agree on the schema.
//!
//! Numbers are little-endian. Reading trusts nothing: any bytes give an error or a valid batch, and
//! take time and memory in proportion to their length (and, for sparse unions, to their number
//! times the union's width).
//!
//! Why not arrow-row, which is well kept: its rows are made to be compared, which takes about twice
//! as long, and four to five times with columns of fixed width; and its decoder panics on bytes
//! that are not its own. `benches/codec.rs` runs both.

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
use encode::{Encoded, Rows};
use layout::Layout;

// Values go to rows as they stand in Arrow's buffers.
const _: () = assert!(cfg!(target_endian = "little"), "rows are little-endian");

/// The format of rows, for files and frames that carry them.
pub const ROW_FORMAT: u32 = 1;

/// Most payload bytes of one batch of [`RowCodec::batches`]: with more, 32-bit offsets might not
/// do.
const MAX_BATCH_BYTES: usize = 1 << 30;

/// Encodes the rows of one schema, and decodes them.
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
    layout: Arc<Layout>,
}

impl RowCodec {
    /// A codec for batches of `schema`.
    ///
    /// # Errors
    /// [`CodecError::Unsupported`], which names the column: Arrow cannot make use of its type, a
    /// row of it is wider than any page, or it is a dictionary of nulls, unions, runs or
    /// dictionaries.
    pub fn new(schema: SchemaRef) -> Result<Self, CodecError> {
        let layout = Arc::new(Layout::new(schema.fields(), "")?);
        Ok(Self { schema, layout })
    }

    /// The schema.
    pub fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    /// Bytes of each row: fixed if all columns have a fixed width.
    pub fn payload_size(&self) -> PayloadSize {
        match self.layout.row_bytes() {
            // A page's width is a limit of the layout.
            Some(bytes) => PayloadSize::Fixed(bytes as u32),
            None => PayloadSize::Variable,
        }
    }

    /// Writes the batch's rows, or those that `rows` names, in its order, to `out.bytes` and,
    /// unless all have one size, where they begin to `out.offsets`, in place of what is there.
    /// The keys are the caller's. Buffers are reused; each byte is copied once, nested columns
    /// a few times.
    ///
    /// # Errors
    /// If the batch's columns are not the schema's, there is no such row, or the rows take 4 GiB or
    /// more.
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
        let mut encoded = Encoded { bytes: std::mem::take(&mut out.bytes), offsets: std::mem::take(&mut out.offsets) };
        let result = encode::encode(&self.layout, batch.columns(), &rows, &mut encoded);
        (out.bytes, out.offsets) = (encoded.bytes, encoded.offsets);
        result
    }

    /// The rows that were encoded to `payloads`, which may hold anything.
    ///
    /// # Errors
    /// [`CodecError::Damaged`] or [`CodecError::Invalid`] if they are not rows of the schema;
    /// [`CodecError::TooLarge`] if the batch would have an offset or a dictionary a key that
    /// does not fit its type.
    pub fn decode(&self, payloads: &[&[u8]]) -> Result<RecordBatch, CodecError> {
        let columns = decode::decode(&self.layout, payloads)?;
        let options = RecordBatchOptions::new().with_row_count(Some(payloads.len()));
        RecordBatch::try_new_with_options(Arc::clone(&self.schema), columns, &options)
            .map_err(|error| CodecError::Invalid { column: "of all columns".to_owned(), what: error.to_string() })
    }

    /// Decodes payloads, for example those of a page's tuples, to batches of `rows` rows, at least
    /// one, and fewer at the end or if they take more than 1 GiB.
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
            // Nulls of the others are in their values.
            let own = !matches!(field.data_type(), DataType::Null | DataType::Union(..) | DataType::RunEndEncoded(..));
            if own && !field.is_nullable() && array.is_nullable() && array.logical_null_count() > 0 {
                return Err(CodecError::Null { column: field.name().clone() });
            }
        }
        Ok(())
    }
}

/// Batches out of payloads, by [`RowCodec::batches`].
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
