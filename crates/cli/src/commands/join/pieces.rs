//! Pieces of files, which threads take in turn.

use std::sync::Arc;

use datafusion::{
    common::tree_node::{Transformed, TreeNode},
    datasource::{
        listing::PartitionedFile,
        physical_plan::{FileGroup, FileScanConfig, FileScanConfigBuilder},
        source::DataSourceExec,
    },
    error::DataFusionError,
    physical_plan::ExecutionPlan,
};

/// The pieces of all files for each thread, at most.
const PIECES: u64 = 16;
/// The bytes of a piece, at least.
const PIECE_BYTES: u64 = 4 << 20;

/// Divides the files that a plan scans into pieces. DataFusion lets threads take whole files in
/// turn, so that one thread may be left with a file when the others have nothing to do.
///
/// # Errors
/// If an operator refuses its new input.
pub fn in_pieces(plan: Arc<dyn ExecutionPlan>) -> Result<Arc<dyn ExecutionPlan>, DataFusionError> {
    let divided = plan.transform_up(|plan| {
        let scan = divided(plan.as_ref());
        Ok(scan.map_or_else(|| Transformed::no(plan), Transformed::yes))
    })?;
    Ok(divided.data)
}

/// Returns a scan with smaller pieces, if `plan` is one whose files any of several threads may take.
fn divided(plan: &dyn ExecutionPlan) -> Option<Arc<dyn ExecutionPlan>> {
    let scan = plan.downcast_ref::<DataSourceExec>()?.data_source().downcast_ref::<FileScanConfig>()?;
    if scan.preserve_order || scan.output_partitioning.is_some() || scan.file_groups.len() < 2 {
        return None;
    }
    let files = scan.file_groups.iter().flat_map(FileGroup::iter);
    let bytes: u64 = files.map(|file| range(file).1 - range(file).0).sum();
    let most = (bytes / (PIECES * scan.file_groups.len() as u64)).max(PIECE_BYTES);
    let groups =
        scan.file_groups.iter().map(|group| FileGroup::new(group.iter().flat_map(|file| pieces(file, most)).collect()));
    let scan = FileScanConfigBuilder::from(scan.clone()).with_file_groups(groups.collect()).build();
    Some(DataSourceExec::from_data_source(scan))
}

/// Returns the first byte of a file that is read, and the end.
fn range(file: &PartitionedFile) -> (u64, u64) {
    match &file.range {
        Some(range) => (range.start.max(0) as u64, range.end.max(range.start).max(0) as u64),
        None => (0, file.object_meta.size),
    }
}

/// Divides a file into pieces of at most `most` bytes, which follow one another. A row group belongs
/// to the piece in which it begins.
fn pieces(file: &PartitionedFile, most: u64) -> Vec<PartitionedFile> {
    let (start, end) = range(file);
    let count = (end - start).div_ceil(most).max(1);
    let border = |piece: u64| (start + (u128::from(end - start) * u128::from(piece) / u128::from(count)) as u64) as i64;
    (0..count).map(|piece| file.clone().with_range(border(piece), border(piece + 1))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_of_a_file_follow_one_another() {
        for (range, most, borders) in [
            (None, 40, &[0, 33, 66, 100][..]),
            (None, 100, &[0, 100]),
            (Some((20, 51)), 10, &[20, 27, 35, 43, 51]),
            (Some((20, 20)), 10, &[20, 20]),
        ] {
            let file = PartitionedFile::new("a.parquet", 100);
            let file = match range {
                Some((start, end)) => file.with_range(start, end),
                None => file,
            };
            let found: Vec<_> = pieces(&file, most).iter().map(super::range).collect();
            let expected: Vec<_> = borders.windows(2).map(|border| (border[0], border[1])).collect();
            assert_eq!(found, expected);
        }
    }
}
