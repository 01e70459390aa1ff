//! Tests of all strategies: every batch reaches every consumer once, and the operations that it
//! costs.

use std::collections::HashSet;

use proptest::prelude::*;

use crate::{FittedParameters, Machine, RowSizes, StrategyKind, Workload, simulate, simulation::run};

const SMALL: Workload = Workload { rows: 1024, row_bytes: 16, sizes: RowSizes::Uniform };

fn strategies() -> impl Strategy<Value = StrategyKind> {
    proptest::sample::select(&StrategyKind::ALL[..])
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn every_batch_reaches_every_consumer_once(
        strategy in strategies(),
        threads in 1usize..24,
        domains in 1usize..6,
        rounds in 1usize..6,
        rows in 1usize..3000,
        row_bytes in 1usize..600,
        normal: bool,
        seed: u64,
        wake_ns in 1.0..5000.0f64,
    ) {
        let machine = Machine::scaled(threads.max(domains), domains).unwrap();
        let sizes = if normal { RowSizes::Normal } else { RowSizes::Uniform };
        let workload = Workload { rows, row_bytes, sizes };
        let fitted = FittedParameters { wake_ns, ..FittedParameters::STORED };
        let world = run(&machine, threads, strategy, workload, &fitted, seed, rounds).unwrap();
        prop_assert!(world.is_complete());
        if strategy != StrategyKind::Reserve {
            let distinct: HashSet<_> = world.visits.iter().collect();
            prop_assert_eq!(world.visits.len(), threads * threads * rounds);
            prop_assert_eq!(distinct.len(), world.visits.len());
        }
    }

    #[test]
    fn the_same_seed_gives_the_same_result(strategy in strategies(), threads in 1usize..9, seed: u64) {
        let outcome = || simulate(&Machine::epyc(), threads, strategy, SMALL, &FittedParameters::STORED, seed).unwrap();
        prop_assert_eq!(outcome(), outcome());
    }
}

/// Returns the operations and locks of producers for a batch, with this many threads.
fn operations(strategy: StrategyKind, threads: usize) -> (f64, f64) {
    let outcome = simulate(&Machine::grace(), threads, strategy, SMALL, &FittedParameters::STORED, 1).unwrap();
    (outcome.operations_a_batch, outcome.locks_a_batch)
}

#[test]
fn operations_a_batch_do_not_grow_with_rings() {
    for threads in [2, 8, 32, 64] {
        // A ticket and a sequence number.
        assert_eq!(operations(StrategyKind::Ring, threads), (2.0, 0.0), "{threads}");
        // The producer's own container, two counters and one container of the publisher's round; a
        // mutex once a group.
        let (operations, locks) = operations(StrategyKind::PaperRing, threads);
        assert!((4.0..=4.0 + 2.0 / threads as f64).contains(&operations), "{threads}: {operations}");
        assert!((1.0..=2.0).contains(&(locks * threads as f64)), "{threads}: {locks}");
    }
}

#[test]
fn threads_of_a_ring_wake_one_another() {
    let threads = 64;
    let fitted = FittedParameters { wake_ns: 50_000.0, ..FittedParameters::STORED };
    let outcome = simulate(&Machine::grace(), threads, StrategyKind::Ring, SMALL, &fitted, 1).unwrap();
    let group_ns = (threads * SMALL.rows * SMALL.row_bytes) as f64 / outcome.gb_s;
    // One thread that woke all consumers would take longer than this.
    assert!(group_ns < threads as f64 * fitted.wake_ns / 2.0, "{group_ns} ns");
}

#[test]
fn operations_a_batch_grow_with_channels_and_queues() {
    for threads in [2, 8, 32, 64] {
        let (operations, locks) = operations(StrategyKind::MutexChannel, threads);
        assert!(locks >= threads as f64 && operations >= 2.0 * threads as f64, "{threads}: {operations} {locks}");
        assert_eq!(self::operations(StrategyKind::Spsc, threads), (threads as f64, 0.0), "{threads}");
        let (operations, locks) = self::operations(StrategyKind::Channel, threads);
        assert!(locks == 0.0 && operations >= 3.0 * threads as f64, "{threads}: {operations} {locks}");
    }
}

#[test]
fn batch_partitioning_needs_no_operation() {
    assert_eq!(operations(StrategyKind::Batch, 16), (0.0, 0.0));
}

#[test]
fn one_domain_has_one_ring() {
    let gb_s = |strategy| simulate(&Machine::grace(), 16, strategy, SMALL, &FittedParameters::STORED, 1).unwrap().gb_s;
    assert_eq!(gb_s(StrategyKind::Ring), gb_s(StrategyKind::RingPerDomain));
}

#[test]
fn more_work_is_never_faster() {
    for strategy in [StrategyKind::Batch, StrategyKind::PaperRing, StrategyKind::Ring] {
        let gb_s = |factor: f64| {
            let fitted =
                FittedParameters { byte_cycles: 8.0 * factor, row_cycles: 60.0 * factor, ..FittedParameters::STORED };
            simulate(&Machine::grace(), 8, strategy, SMALL, &fitted, 1).unwrap().gb_s
        };
        assert!(gb_s(1.0) > gb_s(2.0) && gb_s(2.0) > gb_s(4.0), "{strategy}");
    }
}

#[test]
fn throughput_stays_below_the_bandwidth_of_memory() {
    let machine = Machine { memory_gb_s: 7.0, ..Machine::grace() };
    for strategy in StrategyKind::ALL {
        let gb_s = simulate(&machine, 16, strategy, SMALL, &FittedParameters::STORED, 1).unwrap().gb_s;
        assert!(gb_s <= 1.2, "{strategy}: 7 bytes move for each, so about 1 GB/s at most, and not {gb_s}");
    }
}

#[test]
fn counts_out_of_range_are_errors() {
    let simulate = |threads, rows, row_bytes| {
        let workload = Workload { rows, row_bytes, sizes: RowSizes::Uniform };
        simulate(&Machine::grace(), threads, StrategyKind::Ring, workload, &FittedParameters::STORED, 1)
            .unwrap_err()
            .to_string()
    };
    assert_eq!(simulate(0, 1, 1), "invalid number of threads 0: expected 1 to 72");
    assert_eq!(simulate(73, 1, 1), "invalid number of threads 73: expected 1 to 72");
    assert_eq!(simulate(1, 0, 1), "invalid rows of a batch 0: expected 1 to 1048576");
    assert_eq!(simulate(1, 1, 0), "invalid bytes of a row 0: expected 1 to 1048576");
}

#[test]
fn names_are_read_back() {
    for kind in StrategyKind::ALL {
        assert_eq!(kind.name().parse(), Ok(kind));
    }
    let error = "rings".parse::<StrategyKind>().unwrap_err();
    assert!(error.starts_with("invalid strategy 'rings': expected one of ring, paper-ring"), "{error}");
}
