//! Estimates the size and the order of a dataset before it is read.

use std::{panic, thread};

use arrow::{
    array::{Array, RecordBatch},
    datatypes::{DataType, Field},
    error::ArrowError,
    row::{OwnedRow, RowConverter, SortField},
};
use parquet::file::metadata::ParquetMetaData;

use super::{
    DataFile, Dataset, Unit,
    unit::{Decoded, UnitReader},
};
use crate::error::DatasetError;

/// The most units that are read.
const UNITS: usize = 4;

/// The estimated number of rows of a dataset, and their memory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Extent {
    /// The number of rows. It is exact if every file states it, as Parquet files do.
    pub rows: u64,
    /// The bytes of all rows as batches, estimated from a few of them.
    pub bytes: u64,
}

impl Dataset {
    /// Estimates the size of the columns at `columns` from the first batches of up to four units.
    ///
    /// # Errors
    /// If a unit cannot be read.
    pub fn extent(&self, columns: &[usize]) -> Result<Extent, DatasetError> {
        let told = self.units.iter().map(Unit::rows).sum::<Option<u64>>();
        let (mut rows, mut bytes, mut file_bytes) = (0, 0, 0);
        for decoded in self.first_batches(|unit| unit.read_nearby(columns))? {
            rows += decoded.batch.num_rows() as u64;
            bytes += decoded.batch.get_array_memory_size() as u64;
            file_bytes += decoded.input_bytes;
        }
        let scaled =
            |part: u64, of: u64, whole: u64| (u128::from(part) * u128::from(whole) / u128::from(of.max(1))) as u64;
        let rows_in_all = told.unwrap_or_else(|| scaled(rows, file_bytes, self.total_bytes));
        Ok(Extent { rows: rows_in_all, bytes: scaled(bytes, rows, rows_in_all) })
    }

    /// Returns the size of the columns at `columns` as the files state it: of their values, without
    /// what batches take beside them. Reads nothing. It is `None` unless all files are Parquet,
    /// columns are not nested, and the files state the lengths of their texts.
    pub fn stated_extent(&self, columns: &[usize]) -> Option<Extent> {
        let mut extent = Extent::default();
        for file in &self.files {
            let metadata = file.metadata.as_deref()?;
            let rows = metadata.file_metadata().num_rows().max(0) as u64;
            extent.rows = extent.rows.saturating_add(rows);
            for &column in columns {
                let field = self.schema.fields().get(column)?;
                let fixed = rows.saturating_mul(fixed_bytes(field.data_type())?);
                extent.bytes = extent.bytes.saturating_add(fixed).saturating_add(text_bytes(file, metadata, field)?);
            }
        }
        Some(extent)
    }

    /// Returns whether rows appear to be in ascending order of the columns at `columns`, as one
    /// key: those of the first batches of up to four units are, in each and from one to the next.
    /// Rows with a null in these columns are skipped.
    ///
    /// # Errors
    /// If a unit cannot be read.
    pub fn appears_sorted(&self, columns: &[usize]) -> Result<bool, DatasetError> {
        let mut last = None;
        for decoded in self.first_batches(|unit| unit.read_columns(columns))? {
            // Columns of a type without an order are not sorted.
            if !continues(&decoded.batch, &mut last).unwrap_or(false) {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Returns the first batches of up to four units, of those that have one, in order. Reads two
    /// units at once.
    fn first_batches(
        &self,
        read: impl Fn(&Unit) -> Result<UnitReader, DatasetError> + Sync,
    ) -> Result<Vec<Decoded>, DatasetError> {
        let units: Vec<&Unit> = self.spread_units().collect();
        let first = |units: &[&Unit]| -> Result<Vec<Decoded>, DatasetError> {
            units
                .iter()
                .filter_map(|unit| read(unit).map(|mut batches| batches.next()).transpose())
                .map(Result::flatten)
                .collect()
        };
        let (front, back) = units.split_at(units.len().div_ceil(2));
        thread::scope(|scope| {
            let helper = (!back.is_empty()).then(|| scope.spawn(|| first(back)));
            let mut all = first(front)?;
            if let Some(helper) = helper {
                all.extend(helper.join().unwrap_or_else(|panic| panic::resume_unwind(panic))?);
            }
            Ok(all)
        })
    }

    /// Returns up to four units, spread over the dataset, in order.
    fn spread_units(&self) -> impl Iterator<Item = &Unit> {
        let looked_at = UNITS.min(self.units.len());
        (0..looked_at).map(move |place| &self.units[place * self.units.len() / looked_at])
    }
}

/// Returns the bytes that each value of a type takes in a batch, apart from those of texts; `None`
/// if values are nested.
fn fixed_bytes(data_type: &DataType) -> Option<u64> {
    Some(match data_type {
        DataType::Null => 0,
        DataType::Boolean => 1,
        DataType::Utf8 | DataType::Binary => 4,
        DataType::LargeUtf8 | DataType::LargeBinary => 8,
        DataType::Utf8View | DataType::BinaryView => 16,
        DataType::FixedSizeBinary(bytes) => u64::try_from(*bytes).ok()?,
        other => other.primitive_width()? as u64,
    })
}

/// Returns the bytes of a column's texts in a file: 0 if its type has none, and `None` if the file
/// does not state it.
fn text_bytes(file: &DataFile, metadata: &ParquetMetaData, field: &Field) -> Option<u64> {
    let is_text = !matches!(field.data_type(), DataType::FixedSizeBinary(_))
        && (field.data_type().is_string() || field.data_type().is_binary());
    let is_constant = file.constants.iter().any(|(constant, _)| constant.name() == field.name());
    if !is_text || is_constant {
        return Some(0);
    }
    let schema = metadata.file_metadata().schema_descr();
    let leaf = (0..schema.num_columns()).find(|&leaf| schema.get_column_root(leaf).name() == field.name())?;
    let mut chunks = metadata.row_groups().iter().map(|group| group.column(leaf).unencoded_byte_array_data_bytes());
    chunks.try_fold(0_u64, |sum, bytes| Some(sum.saturating_add(bytes?.max(0) as u64)))
}

/// Returns whether the rows of a batch are in ascending order, and begin with at least `last`,
/// which becomes the last row.
fn continues(batch: &RecordBatch, last: &mut Option<OwnedRow>) -> Result<bool, ArrowError> {
    let fields = batch.schema().fields().iter().map(|field| SortField::new(field.data_type().clone())).collect();
    let rows = RowConverter::new(fields)?.convert_columns(batch.columns())?;
    let has_null = |row: usize| batch.columns().iter().any(|column| column.is_null(row));
    let mut rows = (0..batch.num_rows()).filter(|&row| !has_null(row)).map(|row| rows.row(row)).peekable();
    let follows = match (&last, rows.peek()) {
        (Some(last), Some(first)) => last.row() <= *first,
        _ => true,
    };
    let mut end = None;
    let ascends = rows.inspect(|row| end = Some(*row)).is_sorted();
    *last = end.map(|row| row.owned()).or(last.take());
    Ok(follows && ascends)
}

#[cfg(test)]
mod tests {
    use std::{fs, sync::Arc};

    use arrow::{
        array::{ArrayRef, Int64Array, ListArray, StringArray},
        datatypes::Int32Type,
    };
    use parquet::{arrow::ArrowWriter, file::properties::WriterProperties};

    use super::*;
    use crate::InputOptions;

    /// Writes a column of numbers, one of texts and one of lists to two Parquet files, and opens them.
    fn parquet(folder: &std::path::Path) -> Dataset {
        let numbers: ArrayRef = Arc::new(Int64Array::from_iter(0..1000));
        let texts: ArrayRef = Arc::new(StringArray::from_iter((0..1000).map(|row| (row % 4 > 0).then_some("a text"))));
        let lists = (0..1000).map(|row| Some(vec![Some(row)]));
        let lists: ArrayRef = Arc::new(ListArray::from_iter_primitive::<Int32Type, _, _>(lists));
        let rows = RecordBatch::try_from_iter([("n", numbers), ("text", texts), ("list", lists)]).unwrap();
        for name in ["a.parquet", "b.parquet"] {
            let properties = WriterProperties::builder().set_max_row_group_row_count(Some(600)).build();
            let file = fs::File::create(folder.join(name)).unwrap();
            let mut writer = ArrowWriter::try_new(file, rows.schema(), Some(properties)).unwrap();
            writer.write(&rows).unwrap();
            writer.close().unwrap();
        }
        let options = InputOptions { unit_rows: Some(100), ..InputOptions::default() };
        Dataset::open(&[folder.to_str().unwrap().to_owned()], &options).unwrap()
    }

    #[test]
    fn parquet_files_state_the_bytes_of_their_values() {
        let folder = tempfile::tempdir().unwrap();
        let dataset = parquet(folder.path());
        let stated = |columns: &[usize]| dataset.stated_extent(columns);
        assert_eq!(stated(&[]), Some(Extent { rows: 2000, bytes: 0 }));
        assert_eq!(stated(&[0]), Some(Extent { rows: 2000, bytes: 8 * 2000 }));
        assert_eq!(stated(&[1, 0]), Some(Extent { rows: 2000, bytes: 6 * 1500 + 4 * 2000 + 8 * 2000 }));
        assert_eq!(stated(&[2]), None, "values are nested");
        let read = dataset.extent(&[0]).unwrap();
        assert_eq!(read.rows, 2000);
        assert!(read.bytes >= 8 * 2000, "{read:?}");
        fs::write(folder.path().join("c.csv"), "n,text\n1,a\n").unwrap();
        let path = folder.path().join("c.csv").to_str().unwrap().to_owned();
        assert_eq!(Dataset::open(&[path], &InputOptions::default()).unwrap().stated_extent(&[0]), None);
    }

    #[test]
    fn an_order_is_found_within_files_and_across_them() {
        let folder = tempfile::tempdir().unwrap();
        let sorted = |files: &[&str]| {
            for (number, rows) in files.iter().enumerate() {
                fs::write(folder.path().join(format!("{number}.csv")), format!("a,b\n{rows}\n")).unwrap();
            }
            let dataset =
                Dataset::open(&[folder.path().to_str().unwrap().to_owned()], &InputOptions::default()).unwrap();
            [&[0][..], &[1], &[0, 1], &[1, 0]].map(|columns| dataset.appears_sorted(columns).unwrap())
        };
        assert_eq!(sorted(&["1,x\n2,y\n,a", "2,z\n3,z"]), [true, false, true, true]);
        // Each file is sorted by itself.
        assert_eq!(sorted(&["1,x\n5,y", "4,z\n6,z"]), [false, true, false, true]);
        assert_eq!(sorted(&["2,x\n1,x", "3,z\n3,z"]), [false, true, false, false]);
    }
}
