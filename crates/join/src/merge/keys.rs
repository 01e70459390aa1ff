//! The keys of a side, in the form in which they are sorted and compared.

use std::slice;

use arrow::{
    array::{Array, ArrayRef, BooleanBufferBuilder, LargeBinaryArray, RecordBatch},
    buffer::{BooleanBuffer, NullBuffer},
    datatypes::DataType,
    error::ArrowError,
    row::{RowConverter, Rows, SortField},
};

use super::words::{self, Word, shape};
use crate::{
    key::{one_zero, with_wide_offsets},
    parallel,
};

/// The form of one part of the keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Form {
    /// The keys have no such part.
    Nothing,
    /// In 64 bits.
    Words,
    /// In 128 bits.
    Wide,
    /// As bytes, for columns that do not fit or have no fixed width.
    Rows,
}

impl Form {
    /// Returns the narrowest form for these columns together.
    pub(super) fn narrowest(types: &[DataType], nulls_equal: bool) -> Self {
        let bits: Option<u32> = types.iter().map(|data_type| shape(data_type).map(|(bits, _)| bits)).sum();
        match bits {
            _ if types.is_empty() => Self::Nothing,
            // Words have no representation of nulls.
            Some(1..=64) if !nulls_equal => Self::Words,
            Some(65..=128) if !nulls_equal => Self::Wide,
            _ => Self::Rows,
        }
    }
}

/// One part of the keys of all rows of a side.
#[derive(Debug)]
pub(super) enum Column {
    Nothing,
    Words(Vec<u64>),
    Wide(Vec<u128>),
    Rows(Rows),
    /// The bytes of [`Rows`](Self::Rows), as they travel with a fragment.
    Bytes(LargeBinaryArray),
}

/// The key columns of a side, by their places.
#[derive(Debug, Default)]
pub(super) struct KeyColumns {
    pub(super) equal: Vec<usize>,
    pub(super) band: Option<usize>,
    /// The column of the band's high bound, if it is another one.
    pub(super) high: Option<usize>,
    /// The column of the second band.
    pub(super) second: Option<usize>,
}

/// The keys of all rows of a side.
#[derive(Debug)]
pub(super) struct Keys {
    pub(super) equal: Column,
    pub(super) band: Column,
    /// The key of the band's high bound, if it is another one.
    pub(super) high: Column,
    pub(super) second: Column,
    /// The validity of the rows; a null row has no match.
    pub(super) nulls: Option<NullBuffer>,
}

impl Keys {
    pub(super) fn memory_bytes(&self) -> usize {
        let column = |column: &Column| match column {
            Column::Nothing => 0,
            Column::Words(words) => size_of_val(&words[..]),
            Column::Wide(words) => size_of_val(&words[..]),
            Column::Rows(rows) => rows.size(),
            Column::Bytes(rows) => rows.get_buffer_memory_size(),
        };
        let nulls = self.nulls.as_ref().map_or(0, |nulls| nulls.buffer().len());
        column(&self.equal) + column(&self.band) + column(&self.high) + column(&self.second) + nulls
    }
}

/// The encoder of keys; both sides have the same form.
#[derive(Debug)]
pub(super) struct Encoder {
    equal: Form,
    band: Form,
    second: Form,
    nulls_equal: bool,
    /// The converter if `equal` is [`Form::Rows`].
    converter: Option<RowConverter>,
}

impl Encoder {
    /// Returns the encoder for equal keys, and perhaps a key within a band and one within a second
    /// band, of these types.
    ///
    /// # Errors
    /// If Arrow's row format does not know a type.
    pub(super) fn new(
        equal: Vec<DataType>,
        nulls_equal: bool,
        [band, second]: [Option<DataType>; 2],
    ) -> Result<Self, ArrowError> {
        let form = Form::narrowest(&equal, nulls_equal);
        let fields = equal.into_iter().map(SortField::new).collect();
        let converter = if form == Form::Rows { Some(RowConverter::new(fields)?) } else { None };
        let [band, second] = [band, second].map(|data_type| Form::narrowest(data_type.as_slice(), false));
        Ok(Self { equal: form, band, second, nulls_equal, converter })
    }

    /// Returns the keys of all rows of some batches, computed on up to `threads` threads. Each part
    /// takes 8 or 16 bytes of memory a row, or the bytes of Arrow's row format.
    ///
    /// # Errors
    /// If Arrow's row format fails.
    pub(super) fn encode(
        &self,
        batches: &[RecordBatch],
        columns: &KeyColumns,
        threads: usize,
    ) -> Result<Keys, ArrowError> {
        let KeyColumns { equal, band, high, second } = columns;
        let part = |form, columns: &[usize]| {
            Ok::<_, ArrowError>(match form {
                Form::Nothing => Column::Nothing,
                Form::Words => Column::Words(pack(batches, columns, threads)),
                Form::Wide => Column::Wide(pack(batches, columns, threads)),
                Form::Rows => Column::Rows(self.rows(batches, columns)?),
            })
        };
        let nullable = if self.nulls_equal { &[] } else { &equal[..] };
        let nullable: Vec<usize> = nullable.iter().chain(band).chain(high).chain(second).copied().collect();
        Ok(Keys {
            equal: part(self.equal, equal)?,
            band: part(self.band, band.as_slice())?,
            high: part(if high.is_some() { self.band } else { Form::Nothing }, high.as_slice())?,
            second: part(self.second, second.as_slice())?,
            nulls: nulls(batches, &nullable),
        })
    }

    /// Returns whether the keys of a side travel with its fragments: those that are costly to
    /// derive. Keys of a fixed width are derived in about as many nanoseconds as the bytes that
    /// they would add.
    pub(super) fn keys_travel(&self) -> bool {
        self.equal == Form::Rows
    }

    /// Returns the equal keys of a batch as bytes that sort like them, if they travel.
    ///
    /// # Errors
    /// If Arrow's row format fails, or the keys have more than 2 GiB.
    pub(super) fn bytes(&self, batch: &RecordBatch, equal: &[usize]) -> Result<Option<LargeBinaryArray>, ArrowError> {
        if !self.keys_travel() {
            return Ok(None);
        }
        with_wide_offsets(&self.rows(slice::from_ref(batch), equal)?.try_into_binary()?).map(Some)
    }

    /// Returns the keys of a batch whose equal keys travelled with it.
    ///
    /// # Errors
    /// As [`encode`](Self::encode).
    pub(super) fn beside(
        &self,
        bytes: LargeBinaryArray,
        batch: &RecordBatch,
        columns: &KeyColumns,
    ) -> Result<Keys, ArrowError> {
        let others = Self { equal: Form::Nothing, converter: None, ..*self };
        let keys = others.encode(slice::from_ref(batch), columns, 1)?;
        Ok(Keys { equal: Column::Bytes(bytes), ..keys })
    }

    fn rows(&self, batches: &[RecordBatch], columns: &[usize]) -> Result<Rows, ArrowError> {
        let Some(converter) = &self.converter else {
            return Err(ArrowError::ComputeError("keys in rows without a converter".to_owned()));
        };
        let mut rows = converter.empty_rows(num_rows(batches), 0);
        for batch in batches {
            let columns: Vec<ArrayRef> = columns.iter().map(|&column| one_zero(batch.column(column))).collect();
            converter.append(&mut rows, &columns)?;
        }
        Ok(rows)
    }
}

/// Returns the number of rows of all batches.
pub(super) fn num_rows(batches: &[RecordBatch]) -> usize {
    batches.iter().map(RecordBatch::num_rows).sum()
}

fn pack<W: Word>(batches: &[RecordBatch], columns: &[usize], threads: usize) -> Vec<W> {
    let mut words = vec![W::default(); num_rows(batches)];
    let mut rest = words.as_mut_slice();
    for batch in batches {
        let (rows, after) = rest.split_at_mut(batch.num_rows());
        parallel::fill(threads, rows, |start, rows| {
            columns.iter().for_each(|&column| words::append(&batch.column(column).slice(start, rows.len()), rows));
        });
        rest = after;
    }
    words
}

fn nulls(batches: &[RecordBatch], columns: &[usize]) -> Option<NullBuffer> {
    let of_batch = |batch: &RecordBatch| {
        let nulls: Vec<_> = columns.iter().map(|&column| batch.column(column).logical_nulls()).collect();
        NullBuffer::union_many(nulls.iter().map(Option::as_ref))
    };
    let nulls: Vec<Option<NullBuffer>> = batches.iter().map(of_batch).collect();
    if nulls.iter().all(Option::is_none) {
        return None;
    }
    let mut valid = BooleanBufferBuilder::new(num_rows(batches));
    for (batch, nulls) in batches.iter().zip(nulls) {
        valid.append_buffer(&nulls.map_or_else(|| BooleanBuffer::new_set(batch.num_rows()), NullBuffer::into_inner));
    }
    Some(NullBuffer::new(valid.finish()))
}
