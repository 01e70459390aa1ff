//! The files of a host, and how much memory they and the rows in transit may take.

use annulus_dataset::{Collection, OutputOptions, WholeDataset};
use annulus_join::Sides;

use super::load::HostInput;
use crate::{control::Task, error::ClusterError, plan::Bound};

/// The largest memory of files that are being written, and that of rows that are prepared together.
const MOST_BYTES: u64 = 256 << 20;
/// The memory of files that are being written is at most 1/`WRITERS_SHARE` of a host's limit.
const WRITERS_SHARE: u64 = 8;
/// The memory of each file that a single host writes. A row group that takes as much has enough
/// rows.
const FILE_BYTES: u64 = 32 << 20;
/// The memory of a single host that its operators do not account for: the program, and batches in
/// transit.
const QUERY_BYTES: u64 = 96 << 20;
/// The memory of a single host's operators for each thread, at least. With less, rows go to disk in
/// very small parts.
const POOL_BYTES: u64 = 16 << 20;
/// The number of fragments whose rotating rows are prepared together. Each fragment then meets few
/// partitions, or values.
const WAVE_FRAGMENTS: u64 = 32;
/// The memory of these rows is at most 1/`WAVE_SHARE` of a host's limit.
const WAVE_SHARE: u64 = 16;

/// Returns the most bytes that all files being written may take.
pub(crate) fn writers_bytes(memory_bytes: Option<u64>) -> u64 {
    (memory_bytes.unwrap_or(u64::MAX) / WRITERS_SHARE).min(MOST_BYTES)
}

/// Returns the bytes of rotating rows that are read and prepared together. Memory holds three times
/// as much: rows being read, rows being prepared, and rows waiting to be sent.
pub(crate) fn wave_bytes(fragment_bytes: u32, memory_bytes: Option<u64>) -> u64 {
    let fragment = u64::from(fragment_bytes);
    (WAVE_FRAGMENTS * fragment).min(MOST_BYTES).min(memory_bytes.unwrap_or(u64::MAX) / WAVE_SHARE).max(fragment)
}

/// Returns the memory that the operators of a single host's query may take together.
pub(super) fn pool_bytes(memory_bytes: u64) -> u64 {
    memory_bytes.saturating_sub(writers_bytes(Some(memory_bytes))).saturating_sub(QUERY_BYTES)
}

/// Returns the smallest memory limit of a single host that runs a query on `threads` threads.
pub(crate) fn query_bytes(threads: usize) -> u64 {
    (QUERY_BYTES + POOL_BYTES * threads as u64) / (WRITERS_SHARE - 1) * WRITERS_SHARE
}

/// Begins a host's part of the result. No file exists before it has rows.
pub(super) fn create_files(
    task: &Task,
    bound: &Bound,
    inputs: &Sides<HostInput>,
) -> Result<WholeDataset, ClusterError> {
    let output = &task.output;
    let mut options = OutputOptions::new(Collection::member_dir(&output.dir, output.member), output.format);
    (options.compression, options.existing) = (output.compression, output.existing);
    let settings = Collection::member_settings(output.member, task.ring.session);
    let most = if task.join.single.is_some() { FILE_BYTES * task.threads() as u64 } else { u64::MAX };
    let memory = writers_bytes(task.resources.memory_bytes).min(most) as usize;
    let dictionaries = bound.dictionaries(inputs.as_ref().map(|input| &input.dataset.hints));
    let dictionary = |column: usize| dictionaries[column];
    Ok(WholeDataset::create(&options, settings, bound.schema()?, task.threads(), memory, &dictionary)?)
}
