//! What a host says that it holds.

use std::{num::NonZeroUsize, sync::Arc};

use annulus_cyclo::{Condition, JoinSpec, Share};
use annulus_join::{
    hash::Partitions,
    merge::{KeyPair, MergeCondition},
    output::OutputSpec,
    types::{JoinType, Side},
};
use annulus_roundabout::{config::Config, host::Host, link::alone::Alone, ring::Place};
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
    let output = OutputSpec {
        join: JoinType::LeftSemi,
        build: Side::Left,
        left: schema(),
        right: schema(),
        left_columns: vec![0],
        right_columns: vec![],
        filter: None,
    };
    JoinSpec { output, condition, fragment_bytes: 64 << 10, threads: 1 }
}

fn hash() -> Condition {
    Condition::Hash { build: vec![0], probe: vec![0], nulls_equal: false, partitions: Partitions::at_least(8) }
}

/// The bytes are those of the rows and of what the local join says that it takes besides.
#[test]
fn rows_and_what_finds_them() {
    let merge = MergeCondition { equal: vec![KeyPair { build: 0, probe: 0 }], ..MergeCondition::default() };
    for (condition, besides) in [(hash(), 12..=20), (Condition::Merge(merge), 8..=8), (Condition::Any, 0..=0)] {
        let memory = Share::prepare(&spec(condition.clone()), rows(ROWS), rows(ROWS)).unwrap().memory();
        let (least, most) = (ROWS * (KEY + besides.start()), ROWS * (KEY + besides.end()));
        // Arrow's own structures, and capacities that are rounded up.
        assert!((least..most + (16 << 10)).contains(&memory.build), "{condition:?}: {memory:?}");
        // Headings, and a match bit a row.
        let most = ROWS * KEY + ROWS / 4 + (16 << 10);
        assert!((ROWS * KEY..most).contains(&memory.fragments), "{condition:?}: {memory:?}");
    }
}

#[test]
fn the_largest_part_counts() {
    let parts = [ROWS / 10, ROWS / 2, ROWS / 10];
    let config = Config { fragment_bytes: 64 << 10, ..Config::default() };
    let mut host = Host::start(Place::new(0, 1).unwrap(), config, |_| Alone::open(&config)).unwrap();
    let share = Share::prepare(&spec(hash()), rows(parts[0]), rows(ROWS)).unwrap();
    let (first, number) = (share.memory(), NonZeroUsize::new(parts.len()).unwrap());
    let turn = share.turn_parts(&mut host, number, |part| Ok(rows(parts[part])), &|_, _| Ok(())).unwrap();
    let alone = Share::prepare(&spec(hash()), rows(parts[1]), vec![]).unwrap().memory();
    assert_eq!((turn.memory.build, turn.memory.fragments), (alone.build, first.fragments));
}
