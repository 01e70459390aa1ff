//! Empty texts in CSV files: `""` is one, and nothing between two delimiters is null. The decoder of
//! Arrow reads both as null.

use std::sync::Arc;

use arrow::{
    array::{ArrayRef, AsArray, RecordBatch, RecordBatchOptions, StringArray},
    error::ArrowError,
};
use memchr::{memchr, memchr2, memchr3, memmem};

use super::dialect::Dialect;

/// Returns records with a text that they do not have in place of each empty text in quotes, and that
/// text. `None` if there are no empty texts in columns that `is_text`.
pub(super) fn fill(records: &[u8], dialect: &Dialect, is_text: &[bool]) -> Option<(Vec<u8>, String)> {
    memmem::find(records, &[dialect.quote; 2])?;
    let places = places(records, dialect, is_text);
    if places.is_empty() {
        return None;
    }
    let mut filler = "\0".to_owned();
    while memmem::find(records, filler.as_bytes()).is_some() || dialect.null.is_match(&filler) {
        filler.push('\0');
    }
    let mut filled = Vec::with_capacity(records.len() + places.len() * filler.len());
    let mut copied = 0;
    for place in places {
        filled.extend_from_slice(&records[copied..place]);
        filled.extend_from_slice(filler.as_bytes());
        copied = place;
    }
    filled.extend_from_slice(&records[copied..]);
    Some((filled, filler))
}

/// Returns the positions between the quotes of empty texts. Like the scanner of records, it follows the
/// states of the `csv-core` crate.
fn places(records: &[u8], dialect: &Dialect, is_text: &[bool]) -> Vec<usize> {
    let Dialect { delimiter, quote, escape, comment, .. } = *dialect;
    let is_end = |at: usize| records.get(at).is_none_or(|byte| *byte == delimiter || matches!(byte, b'\n' | b'\r'));
    let (mut places, mut at, mut column) = (Vec::new(), 0, 0);
    while at < records.len() {
        if column == 0 && matches!(records[at], b'\n' | b'\r') {
            at += 1;
            continue;
        }
        if column == 0 && Some(records[at]) == comment {
            at += memchr(b'\n', &records[at..]).unwrap_or(records.len() - at);
            continue;
        }
        if records[at] == quote {
            if records.get(at + 1) == Some(&quote) && is_end(at + 2) && is_text.get(column) == Some(&true) {
                places.push(at + 1);
            }
            at = end_of_quotes(records, at + 1, quote, escape);
        }
        let rest = &records[at..];
        at += memchr3(delimiter, b'\n', b'\r', rest).map_or(rest.len(), |end| end + 1);
        column = if records[at - 1] == delimiter { column + 1 } else { 0 };
    }
    places
}

/// Returns the position behind the quote that ends a field whose content begins at `at`.
fn end_of_quotes(records: &[u8], mut at: usize, quote: u8, escape: Option<u8>) -> usize {
    while let Some(found) = memchr2(quote, escape.unwrap_or(quote), records.get(at..).unwrap_or_default()) {
        at += found + 1;
        if records[at - 1] == quote && records.get(at) != Some(&quote) {
            return at;
        }
        at += 1;
    }
    records.len()
}

/// Returns decoded rows with empty texts in place of `filler`.
pub(super) fn empty(batch: &RecordBatch, filler: &str) -> Result<RecordBatch, ArrowError> {
    let column = |column: &ArrayRef| match column.as_string_opt::<i32>() {
        Some(texts) if texts.iter().flatten().any(|text| text == filler) => {
            let texts = texts.iter().map(|text| text.map(|text| if text == filler { "" } else { text }));
            Arc::new(texts.collect::<StringArray>()) as ArrayRef
        }
        _ => Arc::clone(column),
    };
    let rows = RecordBatchOptions::new().with_row_count(Some(batch.num_rows()));
    RecordBatch::try_new_with_options(batch.schema(), batch.columns().iter().map(column).collect(), &rows)
}
