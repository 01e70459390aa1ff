//! Values as the column writers of the `parquet` crate encode them: plain, with their statistics.

use std::sync::{Arc, Mutex, PoisonError};

use parquet::{
    column::{
        page::{CompressedPage, PageWriteSpec, PageWriter},
        writer::{ColumnCloseResult, ColumnWriter, get_column_writer},
    },
    data_type::{ByteArray, FixedLenByteArray},
    errors::{ParquetError, Result},
    file::{
        page_index::column_index::ColumnIndexMetaData,
        properties::WriterPropertiesPtr,
        statistics::{Statistics, ValueStatistics},
    },
    schema::types::ColumnDescPtr,
};

/// Writes values, given as their bytes in the format, in a column chunk of plain pages.
///
/// # Errors
/// Those of the column writer.
pub(super) fn write(
    descr: &ColumnDescPtr,
    properties: &WriterPropertiesPtr,
    values: &[&[u8]],
    pages: Box<dyn PageWriter + '_>,
) -> Result<ColumnCloseResult> {
    let mut writer = get_column_writer(Arc::clone(descr), Arc::clone(properties), pages);
    macro_rules! numbers {
        ($writer:ident, $number:ty) => {{
            let number = |bytes: &&[u8]| bytes.first_chunk().copied().map(<$number>::from_le_bytes).unwrap_or_default();
            $writer.write_batch(&values.iter().map(number).collect::<Vec<_>>(), None, None)
        }};
    }
    match &mut writer {
        ColumnWriter::Int32ColumnWriter(writer) => numbers!(writer, i32),
        ColumnWriter::Int64ColumnWriter(writer) => numbers!(writer, i64),
        ColumnWriter::FloatColumnWriter(writer) => numbers!(writer, f32),
        ColumnWriter::DoubleColumnWriter(writer) => numbers!(writer, f64),
        ColumnWriter::ByteArrayColumnWriter(writer) => {
            let values: Vec<_> = values.iter().map(|bytes| ByteArray::from(bytes.to_vec())).collect();
            writer.write_batch(&values, None, None)
        }
        ColumnWriter::FixedLenByteArrayColumnWriter(writer) => {
            let values: Vec<_> = values.iter().map(|bytes| FixedLenByteArray::from(bytes.to_vec())).collect();
            writer.write_batch(&values, None, None)
        }
        _ => return Err(ParquetError::NYI(format!("no codes for {}", descr.physical_type()))),
    }?;
    writer.close()
}

/// Keeps the pages that are written to it or to its clones.
#[derive(Clone, Default)]
pub(super) struct PageSink(Arc<Mutex<Vec<CompressedPage>>>);

impl PageSink {
    /// Returns the pages.
    pub fn take(&self) -> Vec<CompressedPage> {
        std::mem::take(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl PageWriter for PageSink {
    fn write_page(&mut self, page: CompressedPage) -> Result<PageWriteSpec> {
        let mut spec = PageWriteSpec::new();
        spec.page_type = page.page_type();
        spec.num_values = page.num_values();
        self.0.lock().unwrap_or_else(PoisonError::into_inner).push(page);
        Ok(spec)
    }

    fn close(&mut self) -> Result<()> {
        Ok(())
    }
}

/// Returns the statistics with another number of nulls.
pub(super) fn with_nulls(statistics: &Statistics, nulls: u64) -> Statistics {
    macro_rules! counted {
        ($($kind:ident)*) => {
            match statistics {
                $(Statistics::$kind(of) => Statistics::$kind(
                    ValueStatistics::new(of.min_opt().cloned(), of.max_opt().cloned(), None, Some(nulls), false)
                        .with_min_is_exact(of.min_is_exact())
                        .with_max_is_exact(of.max_is_exact())
                        .with_backwards_compatible_min_max(of.is_min_max_backwards_compatible()),
                ),)*
            }
        };
    }
    counted!(Boolean Int32 Int64 Int96 Float Double ByteArray FixedLenByteArray)
}

/// Returns the least and the greatest value of a page in an index, as the format writes them.
pub(super) fn ends_of(index: &ColumnIndexMetaData, page: usize) -> [Vec<u8>; 2] {
    macro_rules! numbers {
        ($of:ident) => {
            [$of.min_value(page), $of.max_value(page)]
                .map(|end| end.map(|end| end.to_le_bytes().to_vec()).unwrap_or_default())
        };
    }
    match index {
        ColumnIndexMetaData::INT32(of) => numbers!(of),
        ColumnIndexMetaData::INT64(of) => numbers!(of),
        ColumnIndexMetaData::FLOAT(of) => numbers!(of),
        ColumnIndexMetaData::DOUBLE(of) => numbers!(of),
        ColumnIndexMetaData::BYTE_ARRAY(of) | ColumnIndexMetaData::FIXED_LEN_BYTE_ARRAY(of) => {
            [of.min_value(page), of.max_value(page)].map(|end| end.unwrap_or_default().to_vec())
        }
        _ => Default::default(),
    }
}
