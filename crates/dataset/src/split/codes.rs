//! The columns of a job that are moved as codes.

use std::sync::Arc;

use super::{Job, Shares};
use crate::{
    codes::Codes,
    output::{Encoding, Output, ParquetEncoding},
};

/// All dictionaries together may take the memory limit divided by this.
const DICTIONARIES_SHARE: usize = 16;
/// The tables of codes that the open files have for one column may take the memory of these files divided by
/// this.
const TABLES_SHARE: usize = 16;

/// Returns the columns to move as codes from the inputs to `files` files. These are columns that all inputs have
/// dictionaries for, and for which dictionaries pay. Keys are not among them, unless they name folders: the values of
/// others are hashed or compared row by row.
pub(super) fn codes_of(job: &Job, output: &Output, shares: Shares, files: usize) -> Codes {
    let schema = &job.dataset.schema;
    let (Encoding::Parquet(encoding), Ok(leaves)) = (output.encoding(), ParquetEncoding::leaves(schema)) else {
        return Codes::new(schema.fields().iter().map(|_| None).collect());
    };
    let is_candidate = |column: usize| {
        let is_free = job.placement.is_by_value() || !job.by.contains(schema.field(column).name());
        is_free && job.dataset.hints.dictionary(column) == Some(true)
    };
    let candidates = (0..schema.fields().len()).filter(|&column| is_candidate(column)).count().max(1);
    let most_entries = shares.writers / (TABLES_SHARE * files.max(1)) / size_of::<u16>();
    let most_bytes = job.memory_limit / DICTIONARIES_SHARE / candidates;
    let columns = (0..schema.fields().len()).map(|column| {
        let data_type = schema.field(column).data_type();
        let encoding = encoding.codes(&leaves, column, data_type, most_entries, most_bytes);
        let encoding = encoding.filter(|_| is_candidate(column))?;
        let units = &mut job.dataset.units.iter();
        units.all(|unit| unit.has_codes(column, encoding.dictionary())).then(|| Arc::new(encoding))
    });
    Codes::new(columns.collect())
}
