//! The memory that a host reports.

use std::{num::NonZeroUsize, ops::Bound, sync::Arc};

use annulus_cyclo::{Condition, JoinSpec, RowSink, Share, Supply};
use annulus_join::{Band, JoinType, KeyPair, MergeCondition, Offset, OutputSpec, Partitions, Side, Sides};
use annulus_roundabout::{Host, RingConfig};
use arrow::{
    array::{Int32Array, RecordBatch},
    datatypes::{DataType, Field, Schema, SchemaRef},
};

const ROWS: usize = 100_000;
const KEY: usize = size_of::<i32>();

fn schema() -> SchemaRef {
    Arc::new(Schema::new(vec![Field::new("key", DataType::Int32, false)]))
}

fn rows(count: usize) -> Vec<RecordBatch> {
    let keys: Int32Array = (0..count as i32).map(Some).collect();
    vec![RecordBatch::try_new(schema(), vec![Arc::new(keys)]).unwrap()]
}

fn spec(condition: Condition) -> JoinSpec {
    let schemas = Sides { left: schema(), right: schema() };
    let output =
        OutputSpec::new(JoinType::LeftSemi, Side::Left, schemas).with_columns(Sides { left: vec![0], right: vec![] });
    JoinSpec::new(output, condition, 64 << 10)
}

fn hash() -> Condition {
    Condition::Hash { build: vec![0], probe: vec![0], nulls_equal: false, partitions: Partitions::at_least(8) }
}

/// The reported bytes are those of the rows and of the additional memory that the local join
/// reports, so hosts share them.
#[test]
fn rows_and_what_finds_them() {
    let keys = KeyPair { build: 0, probe: 0 };
    let merge = MergeCondition { equal: vec![keys], ..MergeCondition::default() };
    let offset = |keys: i64| Bound::Included(Offset::Int(keys.into()));
    let band = Some(Band { keys, low: offset(-2), high: offset(2) });
    let band = MergeCondition { band, ..MergeCondition::default() };
    let merges = [merge, band].map(|merge| (Condition::Merge(Box::new(merge)), 8..=8));
    let conditions = [(hash(), 12..=20), (Condition::Any(None), 0..=0)].into_iter().chain(merges);
    for ((condition, besides), hosts) in conditions.flat_map(|each| [1, 3].map(|hosts| (each.clone(), hosts))) {
        let count = ROWS / hosts;
        let memory = Share::prepare(&spec(condition.clone()), rows(count), rows(count)).unwrap().memory();
        let (least, most) = (count * (KEY + besides.start()), count * (KEY + besides.end()));
        // Arrow's own structures, and capacities that are rounded up.
        assert!((least..most + (16 << 10)).contains(&memory.build), "{condition:?}: {memory:?}");
        // Headings, and a match bit for each row.
        let most = count * KEY + count / 4 + (16 << 10);
        assert!((count * KEY..most).contains(&memory.fragments), "{condition:?}: {memory:?}");
    }
}

#[test]
fn the_largest_part_counts() {
    let parts = [ROWS / 10, ROWS / 2, ROWS / 10];
    let mut host = Host::single_host(&RingConfig::default().with_fragment_bytes(64 << 10)).unwrap();
    let share = Share::prepare(&spec(hash()), rows(parts[0]), rows(ROWS)).unwrap();
    let (first, number) = (share.memory(), NonZeroUsize::new(parts.len()).unwrap());
    let supply = Supply::new().with_parts(number, |part| Ok(rows(parts[part])));
    let stats = share.revolve_with(&mut host, supply, &|_, _| Ok(())).unwrap();
    let alone = Share::prepare(&spec(hash()), rows(parts[1]), vec![]).unwrap().memory();
    assert_eq!((stats.memory.build, stats.memory.fragments), (alone.build, first.fragments));
}

/// Fed rows are never in memory all at once.
#[test]
fn the_largest_wave_counts() {
    let mut host = Host::single_host(&RingConfig::default().with_fragment_bytes(64 << 10)).unwrap();
    let share = Share::prepare(&spec(hash()), rows(ROWS), vec![]).unwrap();
    let waves = [ROWS / 10, ROWS / 2, 0, ROWS / 10];
    let feed = |give: &mut RowSink<'_>| waves.into_iter().try_for_each(|count| give(rows(count)));
    let stats = share.revolve_with(&mut host, Supply::new().with_probe(&feed), &|_, _| Ok(())).unwrap();
    let alone = Share::prepare(&spec(hash()), vec![], rows(ROWS / 2)).unwrap().memory();
    assert_eq!((stats.memory.fragments, stats.probed), (alone.fragments, waves.iter().sum::<usize>() as u64));
}
