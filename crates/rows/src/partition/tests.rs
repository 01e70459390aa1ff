use std::sync::Arc;

use arrow::{
    array::{ArrayRef, Int64Array, StringArray},
    compute::SortOptions,
    error::ArrowError,
};
use proptest::prelude::*;

use super::*;

fn edge_hashes(n: u64) -> Vec<u64> {
    let near = |value: u64| (0..4).flat_map(move |d| [value.wrapping_sub(d), value.wrapping_add(d)]);
    let multiples = [1, 2, 3, u64::MAX / n / 2, u64::MAX / n - 1, u64::MAX / n].map(|k| k.wrapping_mul(n));
    let bounds = [0, u64::MAX, 1 << 32, 1 << 63, u64::from(u32::MAX)];
    multiples.into_iter().chain(bounds).flat_map(near).collect()
}

#[test]
fn modulo_is_remainder_at_the_edges() {
    let mut targets = Vec::new();
    for n in (1..=4096).chain([10_007, 32_768, 65_535, 65_536]) {
        let (modulo, hashes) = (Modulo::new(n), edge_hashes(n as u64));
        targets.clear();
        modulo.append_targets(&hashes, &mut targets);
        assert_eq!(targets.len(), hashes.len());
        for (&hash, &target) in hashes.iter().zip(&targets) {
            assert_eq!(u64::from(target), hash % n as u64, "{hash} % {n}");
            assert_eq!(target, modulo.target(hash));
        }
    }
}

fn expect_grouped(index: &RowIndex, targets: &[Target], consumers: usize) {
    assert_eq!(index.targets(), targets);
    assert_eq!(index.offsets().len(), consumers + 1);
    for consumer in 0..consumers {
        let expected: Vec<u32> =
            (0..).zip(targets).filter(|&(_, &t)| usize::from(t) == consumer).map(|(row, _)| row).collect();
        assert_eq!(index.rows_of(consumer).as_slice(), expected);
    }
    assert_eq!(index.rows().len(), targets.len());
    assert!(index.rows_of(consumers).is_empty());
}

proptest! {
    #[test]
    fn modulo_is_remainder(hash: u64, n in 1usize..=MAX_CONSUMERS) {
        prop_assert_eq!(u64::from(Modulo::new(n).target(hash)), hash % n as u64);
    }

    #[test]
    fn rows_are_grouped_in_order(
        batches in prop::collection::vec((1usize..200, prop::collection::vec(any::<u64>(), 0..300)), 1..4),
    ) {
        let mut index = RowIndex::new();
        for (n, hashes) in batches {
            index.fill_from_hashes(&hashes, &Modulo::new(n)).unwrap();
            let targets: Vec<Target> = hashes.iter().map(|hash| (hash % n as u64) as Target).collect();
            expect_grouped(&index, &targets, n);
        }
    }
}

#[test]
fn a_target_beyond_the_consumers_is_an_error_and_leaves_no_rows() {
    let mut index = RowIndex::new();
    let fill = |targets: &mut Vec<Target>| {
        targets.extend([0, 3]);
        Ok::<(), ArrowError>(())
    };
    assert!(index.fill_from_targets(3, fill).is_err());
    assert!(index.rows().is_empty());
    assert!(index.fill_from_targets(4, fill).is_ok());
    expect_grouped(&index, &[0, 3], 4);
}

#[test]
fn a_filled_index_is_filled_again_without_allocating() {
    let hashes: Vec<u64> = (0..8192u64).map(|i| i.wrapping_mul(0x9E37_79B9_7F4A_7C15)).collect();
    let mut index = RowIndex::new();
    index.fill_from_hashes(&hashes, &Modulo::new(1000)).unwrap();
    let before = (index.allocated_bytes(), index.rows().as_slice().as_ptr());
    index.fill_from_hashes(&hashes[..100], &Modulo::new(1000)).unwrap();
    index.fill_from_hashes(&hashes, &Modulo::new(1000)).unwrap();
    assert_eq!(before, (index.allocated_bytes(), index.rows().as_slice().as_ptr()));
}

#[test]
fn range_targets_count_the_split_points_at_or_before_the_key() {
    let descending = SortOptions { descending: true, nulls_first: false };
    let splits: [ArrayRef; 2] =
        [Arc::new(Int64Array::from(vec![30, 10, 10])), Arc::new(StringArray::from(vec!["m", "a", "k"]))];
    let mut range = RangePartitioner::try_new(&splits, &[descending, SortOptions::default()]).unwrap();
    let keys: [ArrayRef; 2] = [
        Arc::new(Int64Array::from(vec![Some(31), Some(30), Some(30), Some(11), Some(10), Some(10), None])),
        Arc::new(StringArray::from(vec!["z", "l", "m", "z", "b", "k", "a"])),
    ];
    let mut index = RowIndex::new();
    index.fill_from_targets(range.consumers(), |targets| range.targets(&keys, targets)).unwrap();
    expect_grouped(&index, &[0, 0, 1, 1, 2, 3, 3], 4);
}

#[test]
fn split_points_that_do_not_ascend_are_refused() {
    let split = |points: Vec<i64>| -> [ArrayRef; 1] { [Arc::new(Int64Array::from(points))] };
    assert!(RangePartitioner::try_new(&split(vec![1, 1]), &[SortOptions::default()]).is_err());
    assert!(RangePartitioner::try_new(&split(vec![2, 1]), &[SortOptions::default()]).is_err());
    assert!(RangePartitioner::try_new(&[], &[]).is_err());
    assert_eq!(RangePartitioner::try_new(&split(vec![]), &[SortOptions::default()]).unwrap().consumers(), 1);
}

#[test]
fn positions_beyond_32_bits_are_refused() {
    let most = u32::MAX as usize;
    assert!(index::positions_fit(most, 1, 0) && !index::positions_fit(most + 1, 1, 0));
    // The gap after the last consumer counts too: its end is an offset.
    assert!(index::positions_fit(most - 8 * 300, 300, 8) && !index::positions_fit(most - 8 * 300 + 1, 300, 8));
    assert!(!index::positions_fit(usize::MAX, 300, 8) && !index::positions_fit(1, usize::MAX, 8));
}

#[test]
fn a_gap_that_leaves_no_room_for_positions_leaves_no_rows() {
    let mut index = RowIndex::new();
    index.add_hashes(&[0, 1, 2], &Modulo::new(2));
    assert!(index.place(u32::MAX / 2).is_err());
    assert!(index.rows().is_empty() && index.targets().is_empty() && index.positions().is_empty());
    index.add_hashes(&[0, 1, 2], &Modulo::new(2));
    index.place(8).unwrap();
    assert_eq!(index.positions(), [0, 10, 1]);
}
