//! A row group, read batch by batch: filters on codes, then the rows that are left.

use std::{collections::VecDeque, ops::Range, sync::Arc, time::Instant};

use arrow::{
    array::{Array, ArrayRef, RecordBatch, RecordBatchOptions, new_null_array},
    compute::{cast, concat},
    error::ArrowError,
};
use parquet::{
    basic::{Encoding, EncodingMask},
    file::metadata::{ColumnChunkMetaData, RowGroupMetaData},
};

use crate::{
    builder::ColumnBuilder,
    chunk::ChunkBytes,
    column::Column,
    error::ScanError,
    filter::{Conjunct, order},
    reader::ColumnReader,
    scan::Scan,
    selection::Selection,
    source::Source,
};

/// The rows for each entry of a dictionary from which on all of its entries are asked about at first.
const FEW_ENTRIES: usize = 4;

/// What a row group needed.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct ScanCounts {
    /// The rows that were considered.
    pub rows: u64,
    /// Those that were left after all conditions.
    pub kept: u64,
    /// The values that were copied into batches.
    pub values: u64,
    /// The pages that were not decompressed.
    pub pages_skipped: u64,
    /// The row groups that a dictionary ruled out.
    pub row_groups_skipped: u64,
}

/// A row group of which some rows are left.
pub struct RowGroupReader {
    scan: Arc<Scan>,
    readers: Vec<ColumnReader>,
    builders: Vec<ColumnBuilder>,
    tables: Vec<Table>,
    order: Vec<usize>,
    /// The ranges of rows that are left, in order, and the row that the readers are at.
    ranges: VecDeque<Range<usize>>,
    row: usize,
    rows: usize,
    selection: Selection,
    /// The rows of the batch that is being built.
    built: usize,
    counts: ScanCounts,
}

/// The answers of a conjunct on one column, for each entry of a dictionary.
#[derive(Debug, Default)]
struct Table {
    source: Option<Arc<Source>>,
    passes: Vec<bool>,
    null_passes: bool,
    /// The rows that were evaluated without a table since the source was met.
    evaluated: usize,
    failed: bool,
}

impl RowGroupReader {
    /// Returns a reader of those rows of a row group that are in `ranges`. `chunks` are those of its columns, and
    /// have the pages of these rows.
    ///
    /// # Errors
    /// If a chunk cannot be read, or its dictionary is damaged.
    pub fn try_new(
        scan: Arc<Scan>,
        row_group: &RowGroupMetaData,
        ranges: impl IntoIterator<Item = Range<usize>>,
        chunks: Vec<ChunkBytes>,
    ) -> Result<Self, ScanError> {
        let rows = usize::try_from(row_group.num_rows()).unwrap_or_default();
        let readers = scan.columns.iter().zip(chunks).map(|(column, bytes)| {
            ColumnReader::new(column.clone(), row_group.column(column.index), bytes, rows, &scan.buffers)
        });
        let readers = readers.collect::<Result<Vec<_>, _>>()?;
        let outputs = scan.columns[..scan.schema.fields().len()].iter();
        let builders = outputs.map(|column| ColumnBuilder::new(column.kept_type(), column.data_type.clone())).collect();
        let mut reader = Self {
            readers,
            builders,
            tables: scan.conjuncts.iter().map(|_| Table::default()).collect(),
            order: order(&scan.conjuncts),
            ranges: ranges.into_iter().filter(|range| !range.is_empty()).collect(),
            row: 0,
            rows,
            selection: Selection::default(),
            built: 0,
            counts: ScanCounts::default(),
            scan,
        };
        // In a row group without rows, a dictionary may have no bytes, and its page is not found.
        if !reader.ranges.is_empty() && reader.dictionary_rules_out(row_group)? {
            reader.counts.row_groups_skipped = 1;
            reader.counts.rows = reader.ranges.drain(..).map(|range| range.len() as u64).sum();
        }
        Ok(reader)
    }

    /// Returns what was needed so far.
    pub fn counts(&self) -> ScanCounts {
        let pages_skipped = self.readers.iter().map(|reader| reader.pages_skipped as u64).sum();
        ScanCounts { pages_skipped, ..self.counts }
    }

    /// Returns whether no entry of some dictionary passes, where a chunk has no other values.
    fn dictionary_rules_out(&mut self, row_group: &RowGroupMetaData) -> Result<bool, ScanError> {
        let scan = Arc::clone(&self.scan);
        for &number in &self.order {
            let conjunct = &scan.conjuncts[number];
            let [place] = conjunct.columns[..] else { continue };
            let reader = &mut self.readers[place];
            if conjunct.may_fail || !is_coded(row_group.column(reader.column().index)) {
                continue;
            }
            let Some(source) = reader.dictionary()?.map(Arc::clone) else { continue };
            // More entries are asked about when it is their turn, if enough rows are left then.
            if source.len() * FEW_ENTRIES <= self.rows {
                self.tables[number].fill(conjunct, self.readers[place].column(), &source);
                let table = &self.tables[number];
                let nulls = table.null_passes && self.readers[place].column().is_optional;
                if !table.failed && !nulls && !table.passes.contains(&true) {
                    return Ok(true);
                }
            }
        }
        Ok(false)
    }

    /// Returns the next batch, or `None` at the end.
    ///
    /// # Errors
    /// If a chunk is damaged, or a condition fails.
    pub fn next_batch(&mut self) -> Result<Option<RecordBatch>, ScanError> {
        let most = self.scan.batch_rows;
        while let Some(range) = self.ranges.front().cloned() {
            let rows = range.len().min(most);
            self.move_to(range.start);
            self.filter(rows)?;
            let kept = self.selection.len();
            if self.built > 0 && self.built + kept > most {
                // The window is kept, and its rows are selected again: nothing is evaluated twice.
                let batch = self.finish()?;
                self.append(range, rows)?;
                return Ok(Some(batch));
            }
            self.append(range, rows)?;
            if self.built == most {
                return Ok(Some(self.finish()?));
            }
        }
        if self.built > 0 { Ok(Some(self.finish()?)) } else { Ok(None) }
    }

    /// Leaves out the rows before `row`.
    fn move_to(&mut self, row: usize) {
        if row > self.row {
            let rows = row - self.row;
            self.readers.iter_mut().for_each(|reader| reader.skip(rows));
            self.row = row;
        }
    }

    /// Selects those of the next `rows` rows that meet all conditions.
    fn filter(&mut self, rows: usize) -> Result<(), ScanError> {
        self.selection.reset(rows);
        let scan = Arc::clone(&self.scan);
        for place in 0..self.order.len() {
            let number = self.order[place];
            let before = self.selection.len();
            if before == 0 {
                break;
            }
            let start = Instant::now();
            let conjunct = &scan.conjuncts[number];
            match conjunct.columns[..] {
                [place] => filter_column(
                    conjunct,
                    &mut self.tables[number],
                    &mut self.readers[place],
                    &mut self.selection,
                    (rows, self.rows - self.row),
                )?,
                _ => self.filter_values(conjunct, rows)?,
            }
            conjunct.count(before, self.selection.len(), start.elapsed());
        }
        self.counts.rows += rows as u64;
        self.counts.kept += self.selection.len() as u64;
        Ok(())
    }

    /// Evaluates a condition on the values of the rows that are selected.
    fn filter_values(&mut self, conjunct: &Conjunct, rows: usize) -> Result<(), ScanError> {
        let mut columns = Vec::with_capacity(conjunct.columns.len());
        for &place in &conjunct.columns {
            columns.push(selected(&mut self.readers[place], &self.selection, rows)?);
        }
        retain(&mut self.selection, conjunct, &columns)
    }

    /// Adds the selected rows of the window of `rows` rows at the start of `range` to the batch.
    fn append(&mut self, range: Range<usize>, rows: usize) -> Result<(), ScanError> {
        let kept = self.selection.len();
        if kept > 0 {
            for (builder, reader) in self.builders.iter_mut().zip(&mut self.readers) {
                builder.append(reader.window(rows)?, &self.selection, self.scan.batch_rows);
            }
            self.built += kept;
            self.counts.values += (kept * self.builders.len()) as u64;
        }
        self.readers.iter_mut().for_each(|reader| reader.end_window(rows));
        self.row += rows;
        match self.ranges.front_mut() {
            Some(front) if range.len() > rows => front.start += rows,
            _ => drop(self.ranges.pop_front()),
        }
        Ok(())
    }

    fn finish(&mut self) -> Result<RecordBatch, ScanError> {
        let columns = self.builders.iter_mut().map(ColumnBuilder::finish).collect::<Result<Vec<_>, _>>()?;
        let options = RecordBatchOptions::new().with_row_count(Some(std::mem::take(&mut self.built)));
        Ok(RecordBatch::try_new_with_options(Arc::clone(&self.scan.schema), columns, &options)?)
    }
}

/// Evaluates a condition on one column: on the entries of its dictionary once, and then on codes; on values
/// otherwise. `rows` are those of the window and those that are left in the row group.
fn filter_column(
    conjunct: &Conjunct,
    table: &mut Table,
    reader: &mut ColumnReader,
    selection: &mut Selection,
    (rows, left): (usize, usize),
) -> Result<(), ScanError> {
    let column = reader.column().clone();
    let window = reader.window(rows)?;
    let mut segments = window.segments();
    let source = match (segments.next(), segments.next()) {
        (Some((_, segment)), None) if segment.source.is_dictionary => Some(Arc::clone(&segment.source)),
        _ => None,
    };
    drop(segments);
    let Some(source) = source else {
        let values = selected(reader, selection, rows)?;
        return retain(selection, conjunct, &[values]);
    };
    if !table.is_of(&source) {
        // A dictionary of more entries than rows that will be asked about is not worth it.
        let expected = left as f64 * selection.len() as f64 / rows as f64;
        if source.len() as f64 <= expected.max(table.evaluated as f64) {
            table.fill(conjunct, &column, &source);
        }
    }
    if !table.is_of(&source) || table.failed {
        table.evaluated += selection.len();
        let values = selected(reader, selection, rows)?;
        return retain(selection, conjunct, &[values]);
    }
    let window = reader.present();
    let (codes, passes) = (&window.codes[..rows], &table.passes[..]);
    match window.valid() {
        None => selection.retain_in([(0..rows, ())], |(), row| passes[codes[row] as usize]),
        Some(valid) => selection.retain_in([(0..rows, ())], |(), row| {
            if valid.get_bit(row) { passes[codes[row] as usize] } else { table.null_passes }
        }),
    }
    Ok(())
}

impl Table {
    fn is_of(&self, source: &Arc<Source>) -> bool {
        self.source.as_ref().is_some_and(|mine| Arc::ptr_eq(mine, source))
    }

    /// Evaluates a condition on all entries of a dictionary, and on null.
    fn fill(&mut self, conjunct: &Conjunct, column: &Column, source: &Arc<Source>) {
        self.source = Some(Arc::clone(source));
        let evaluated =
            entries_and_null(column, source).and_then(|values| Ok(conjunct.predicate.evaluate(&[values])?));
        match evaluated {
            Ok(answers) if answers.len() == source.len() + 1 => {
                let holds = match answers.nulls() {
                    None => answers.values().clone(),
                    Some(nulls) => answers.values() & nulls.inner(),
                };
                self.passes.clear();
                self.passes.resize(source.len() + 1, false);
                holds.set_indices().for_each(|at| self.passes[at] = true);
                self.null_passes = self.passes.pop().unwrap_or_default();
                self.failed = false;
            }
            // Entries need not be values of rows: the rows will show whether there is an error.
            _ => self.failed = true,
        }
    }
}

/// Returns the entries of a dictionary, and null at last.
fn entries_and_null(column: &Column, source: &Source) -> Result<ArrayRef, ScanError> {
    let null = new_null_array(source.array.data_type(), 1);
    let entries = concat(&[source.array.as_ref(), null.as_ref()])?;
    typed(column, entries)
}

/// Returns an array in the type that conditions expect.
fn typed(column: &Column, array: ArrayRef) -> Result<ArrayRef, ScanError> {
    if *array.data_type() == column.data_type { Ok(array) } else { Ok(cast(&array, &column.data_type)?) }
}

/// Returns the values of the selected rows.
fn selected(reader: &mut ColumnReader, selection: &Selection, rows: usize) -> Result<ArrayRef, ScanError> {
    let column = reader.column().clone();
    let window = reader.window(rows)?;
    let mut segments = window.segments();
    if let (Some((_, only)), None, None) = (segments.next(), segments.next(), selection.rows())
        && let (Some(first), None) = (only.consecutive, window.valid())
    {
        return typed(&column, only.source.array.slice(first, rows));
    }
    let mut builder = ColumnBuilder::new(column.kept_type(), column.data_type.clone());
    builder.append(window, selection, selection.len());
    builder.finish()
}

/// Keeps the selected rows for which a condition holds. `columns` are their values.
fn retain(selection: &mut Selection, conjunct: &Conjunct, columns: &[ArrayRef]) -> Result<(), ScanError> {
    let answers = conjunct.predicate.evaluate(columns)?;
    if answers.len() != selection.len() {
        let error = format!("a condition has {} answers for {} rows", answers.len(), selection.len());
        return Err(ScanError::Arrow(ArrowError::ComputeError(error)));
    }
    let values = answers.values();
    match answers.nulls() {
        None => selection.retain_nth(|nth| values.value(nth)),
        Some(nulls) => selection.retain_nth(|nth| nulls.is_valid(nth) && values.value(nth)),
    }
    Ok(())
}

/// Returns whether all pages of a chunk are known to have codes.
pub(crate) fn is_coded(chunk: &ColumnChunkMetaData) -> bool {
    let codes = [Encoding::RLE_DICTIONARY, Encoding::PLAIN_DICTIONARY];
    chunk.dictionary_page_offset().is_some()
        && chunk
            .page_encoding_stats_mask()
            .is_some_and(|mask: &EncodingMask| mask.encodings().all(|encoding| codes.contains(&encoding)))
}
