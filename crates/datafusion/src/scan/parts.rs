//! Files in parts that become smaller towards the end, so that the threads of a scan end at the same time.
//!
//! Streams of a scan take files from one queue. A part is a range of a file's bytes, as elsewhere in DataFusion: the
//! row groups that begin there. Row groups are not divided, since each part would decompress their dictionaries.

use std::ops::Range;

use datafusion::datasource::{
    listing::{FileRange, PartitionedFile},
    physical_plan::parquet::ParquetAccessPlan,
};

/// The fewest bytes of a part: opening one costs about as much as decoding a tenth of this.
const SMALLEST: u64 = 4 << 20;
/// A part has this share of what is left for each stream.
const SHARE: u64 = 2;

/// Returns the same files, the later ones in parts, for `streams` streams.
pub(super) fn in_parts(files: Vec<PartitionedFile>, streams: usize) -> Vec<PartitionedFile> {
    let files = joined(files);
    let mut left: u64 = files.iter().map(|file| length(&range(file))).sum();
    let mut parts = Vec::with_capacity(files.len() + 8 * streams);
    for file in files {
        let whole = range(&file);
        let mut rest = whole.clone();
        loop {
            let part = (left / (SHARE * streams.max(1) as u64)).max(SMALLEST);
            // A remainder that is nearly as small belongs to it.
            let is_last = length(&rest) < part + SMALLEST || is_selected(&file);
            let end = if is_last { rest.end } else { rest.start + part as i64 };
            let taken = rest.start..end;
            left -= length(&taken);
            rest.start = end;
            let part = file.clone();
            parts.push(if taken == whole { part } else { part.with_range(taken.start, taken.end) });
            if is_last {
                break;
            }
        }
    }
    parts
}

/// Joins ranges of a file that follow each other.
fn joined(files: Vec<PartitionedFile>) -> Vec<PartitionedFile> {
    let mut joined: Vec<PartitionedFile> = Vec::with_capacity(files.len());
    for file in files {
        match joined.last_mut() {
            Some(last) if follows(last, &file) => {
                last.range = Some(FileRange { end: range(&file).end, ..range_of(last) })
            }
            _ => joined.push(file),
        }
    }
    joined
}

fn follows(last: &PartitionedFile, file: &PartitionedFile) -> bool {
    let are_ranges = last.range.is_some() && file.range.is_some() && !is_selected(last) && !is_selected(file);
    are_ranges
        && last.object_meta == file.object_meta
        && last.partition_values == file.partition_values
        && range(last).end == range(file).start
}

/// Returns whether the rows of a file are selected from outside.
fn is_selected(file: &PartitionedFile) -> bool {
    file.extensions.get::<ParquetAccessPlan>().is_some()
}

fn range_of(file: &PartitionedFile) -> FileRange {
    file.range.clone().unwrap_or(FileRange { start: 0, end: i64::try_from(file.object_meta.size).unwrap_or(i64::MAX) })
}

/// Returns the bytes of a file that belong to a scan.
fn range(file: &PartitionedFile) -> Range<i64> {
    let FileRange { start, end } = range_of(file);
    start..end.max(start)
}

fn length(range: &Range<i64>) -> u64 {
    range.start.abs_diff(range.end)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(name: &str, size: u64) -> PartitionedFile {
        PartitionedFile::new(name, size)
    }

    #[test]
    fn parts_are_all_bytes_and_become_smaller() {
        let size = 100 << 20;
        let parts = in_parts(vec![file("a", size), file("b", size), file("c", 0)], 2);
        for name in ["a", "b", "c"] {
            let own: Vec<_> = parts.iter().filter(|part| part.object_meta.location.as_ref() == name).collect();
            assert!(own.windows(2).all(|pair| range(pair[0]).end == range(pair[1]).start), "{own:?}");
            let (first, last) = (range(own[0]), range(own[own.len() - 1]));
            assert_eq!((first.start, last.end), (0, own[0].object_meta.size as i64));
        }
        let lengths: Vec<_> = parts.iter().map(|part| length(&range(part))).collect();
        assert_eq!(lengths[..2], [50 << 20, 150 << 18], "{lengths:?}");
        assert!(lengths.iter().rev().skip(2).take(3).all(|length| (SMALLEST..2 * SMALLEST).contains(length)));
    }

    #[test]
    fn ranges_of_a_file_are_joined_and_small_files_stay() {
        let half = |start, end| file("a", 1 << 20).with_range(start, end);
        let parts = in_parts(vec![half(0, 1 << 19), half(1 << 19, 1 << 20), file("b", 5)], 4);
        assert_eq!(parts.iter().map(range).collect::<Vec<_>>(), [0..1 << 20, 0..5]);
    }
}
