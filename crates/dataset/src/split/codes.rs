//! The columns of a job that are moved as codes.

use std::sync::Arc;

use annulus_parquet::{CodesEncoding, FileEncoding};

use super::{Job, Shares};
use crate::{
    codes::Codes,
    output::{Encoding, Output, for_parquet},
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
    // With the columns that name folders.
    let all = match (output.encoding(), for_parquet(schema)) {
        (Encoding::Parquet(files), Ok(schema)) => FileEncoding::try_new(schema, files.properties().clone()).ok(),
        _ => None,
    };
    let Some(all) = all else { return Codes::new(schema.fields().iter().map(|_| None).collect()) };
    let is_candidate = |column: usize| {
        let is_free = job.placement.is_by_value() || !job.by.contains(schema.field(column).name());
        is_free && job.dataset.hints.dictionary(column) == Some(true)
    };
    let candidates = (0..schema.fields().len()).filter(|&column| is_candidate(column)).count().max(1);
    let most_entries = shares.writers / (TABLES_SHARE * files.max(1)) / size_of::<u16>();
    let most_bytes = job.memory_limit / DICTIONARIES_SHARE / candidates;
    let columns = (0..schema.fields().len()).map(|column| {
        let data_type = schema.field(column).data_type();
        let leaf = all.leaf(column).filter(|_| is_candidate(column))?;
        let encoding = CodesEncoding::try_new(&leaf, data_type, all.properties(), most_entries, most_bytes).ok()?;
        let units = &mut job.dataset.units.iter();
        units.all(|unit| unit.has_codes(column, encoding.dictionary())).then(|| Arc::new(encoding))
    });
    Codes::new(columns.collect())
}
