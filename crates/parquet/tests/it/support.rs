//! Files in memory, and both ways to read them.

use std::{ops::Range, sync::Arc};

use annulus_parquet::{ChunkRead, Column, Conjunct, Predicate, RowGroupReader, Scan, ScanCounts, ScanError};
use arrow::{
    array::{Array, ArrayRef, BooleanArray, RecordBatch, UInt32Array},
    compute::{concat_batches, filter_record_batch, take},
    datatypes::SchemaRef,
    error::ArrowError,
};
use bytes::Bytes;
use parquet::{
    arrow::{
        ArrowWriter,
        arrow_reader::{ArrowReaderMetadata, ArrowReaderOptions, ParquetRecordBatchReaderBuilder},
    },
    file::{metadata::PageIndexPolicy, properties::WriterProperties},
};

pub fn write(batches: &[RecordBatch], properties: WriterProperties) -> Bytes {
    let mut bytes = Vec::new();
    let mut writer = ArrowWriter::try_new(&mut bytes, batches[0].schema(), Some(properties)).unwrap();
    batches.iter().for_each(|batch| writer.write(batch).unwrap());
    writer.close().unwrap();
    bytes.into()
}

/// Returns all rows, as the `parquet` crate reads them with the columns' types of `schema`, if there is one.
pub fn stock(file: &Bytes, schema: Option<SchemaRef>) -> RecordBatch {
    let options = schema.map_or_else(ArrowReaderOptions::new, |schema| ArrowReaderOptions::new().with_schema(schema));
    let builder = ParquetRecordBatchReaderBuilder::try_new_with_options(file.clone(), options).unwrap();
    let schema = Arc::clone(builder.schema());
    let batches: Vec<_> = builder.build().unwrap().collect::<Result<_, _>>().unwrap();
    concat_batches(&schema, &batches).unwrap()
}

/// A condition that a closure answers for the hash of each value, so that it is any subset of them.
#[derive(Debug)]
pub struct Subset {
    pub seed: u64,
    pub share: u64,
    pub null_passes: bool,
}

impl Subset {
    pub fn holds(&self, column: &dyn Array, row: usize) -> bool {
        if column.is_null(row) {
            return self.null_passes;
        }
        let one = take(column, &UInt32Array::from(vec![row as u32]), None).unwrap();
        let text = format!("{one:?}");
        let hash = text.bytes().fold(self.seed, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3));
        hash >> 33 & 0xff < self.share
    }
}

impl Predicate for Subset {
    fn evaluate(&self, columns: &[ArrayRef]) -> Result<BooleanArray, ArrowError> {
        Ok((0..columns[0].len()).map(|row| Some(columns.iter().all(|column| self.holds(column, row)))).collect())
    }
}

/// The conditions of a scan: the columns, and the subset of their values.
pub type Conditions = Vec<(Vec<usize>, Subset, bool)>;

/// Returns those of all rows that meet the conditions.
pub fn expected(all: &RecordBatch, ranges: &[Range<usize>], conditions: &Conditions) -> RecordBatch {
    let keep: BooleanArray = (0..all.num_rows())
        .map(|row| {
            let held = conditions
                .iter()
                .all(|(columns, subset, _)| columns.iter().all(|&column| subset.holds(all.column(column), row)));
            Some(held && ranges.iter().any(|range| range.contains(&row)))
        })
        .collect();
    filter_record_batch(all, &keep).unwrap()
}

/// The bytes of a column chunk that are read.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Extent {
    Whole,
    PagesOfRows,
}

/// Returns the rows of a file that are in `ranges` (of the whole file) and meet the conditions, in batches.
pub fn ours(
    file: &Bytes,
    schema: &SchemaRef,
    (ranges, conditions): (&[Range<usize>], Conditions),
    batch_rows: usize,
    extent: Extent,
) -> Result<(Vec<RecordBatch>, ScanCounts), ScanError> {
    let options = ArrowReaderOptions::new().with_page_index_policy(PageIndexPolicy::Optional);
    // Damage that is in the footer alone is none of the reader's.
    let metadata = ArrowReaderMetadata::load(file, options);
    let metadata = metadata.or_else(|_| ArrowReaderMetadata::load(file, ArrowReaderOptions::new())).unwrap();
    let leaves = metadata.parquet_schema();
    let columns: Vec<_> = schema
        .fields()
        .iter()
        .enumerate()
        .map(|(index, field)| Column::try_new(index, &leaves.column(index), field.data_type()).unwrap())
        .collect();
    let outputs = columns.len();
    let conjuncts = conditions
        .into_iter()
        .map(|(columns, subset, may_fail)| Arc::new(Conjunct::new(columns, Arc::new(subset), may_fail)));
    let scan = Arc::new(Scan::new(columns, outputs, conjuncts.collect(), batch_rows));
    let (mut batches, mut total, mut first) = (Vec::new(), ScanCounts::default(), 0);
    for (number, row_group) in metadata.metadata().row_groups().iter().enumerate() {
        for column in scan.columns() {
            column.check(row_group.column(column.index())).unwrap();
        }
        let rows = row_group.num_rows() as usize;
        let own = ranges
            .iter()
            .map(|range| range.start.clamp(first, first + rows) - first..range.end.clamp(first, first + rows) - first);
        let own: Vec<_> = own.filter(|range| !range.is_empty()).collect();
        let pages = metadata
            .metadata()
            .offset_index()
            .filter(|_| extent == Extent::PagesOfRows)
            .map(|index| index[number].as_slice());
        let reads = scan.reads(row_group, pages, &own);
        let bytes = reads.iter().flat_map(ChunkRead::byte_ranges);
        let bytes = bytes.map(|range| file.slice(range.start as usize..range.end as usize));
        let chunks = ChunkRead::chunks(&reads, bytes);
        let mut reader = RowGroupReader::try_new(Arc::clone(&scan), row_group, own, chunks)?;
        while let Some(batch) = reader.next_batch()? {
            batches.push(batch);
        }
        let counts = reader.counts();
        total.rows += counts.rows;
        total.kept += counts.kept;
        total.values += counts.values;
        total.pages_skipped += counts.pages_skipped;
        total.row_groups_skipped += counts.row_groups_skipped;
        first += rows;
    }
    Ok((batches, total))
}
