use annulus_exchange::Strategy as Exchange;
use arrow::datatypes::{DataType, Field};

use super::{
    profile::{Layout, Profile},
    *,
};

fn schema(types: &[DataType]) -> Schema {
    Schema::new(types.iter().map(|of| Field::new("c", of.clone(), true)).collect::<Vec<_>>())
}

fn cost(variant: &str, open_ns: f64, row_ns: f64) -> Cost {
    Cost { variant: variant.parse().unwrap(), open_ns, row_ns, spread: 0.0, open_spread: 0.0 }
}

fn cell(costs: &[Cost]) -> Cell {
    let (layout, costs) = (Layout::Fixed, costs.to_vec());
    Cell { inputs: 4, outputs: 4, layout, row_bytes: 8, reads: true, rows: 1000, rounds: 3, costs }
}

/// Decides for 4 x 4 partitions of `types`, with a profile of `cells`.
fn decide_by(cells: Vec<Cell>, types: &[DataType], position: Position) -> Decision {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("profile.json");
    std::fs::write(&file, serde_json::to_vec(&Profile::new(2, cells)).unwrap()).unwrap();
    let options = AnnulusConfig { profile: file.to_str().unwrap().to_owned(), ..AnnulusConfig::default() };
    let schema = schema(types);
    let demand = Demand::new(4, 4, &schema).with_position(position);
    decide(
        &Basis::new(&options, ExchangeTuning::default(), BATCH_ROWS),
        &ExchangeConfig::new(4, 4),
        &schema,
        &demand,
        false,
    )
    .unwrap()
}

#[test]
fn the_cheapest_is_taken_and_the_reason_names_what_was_compared() {
    let costs = [cost("stock", 1.0, 1.0), cost("reserve", 1e3, 4.0), cost("ring+cluster", 2e3, 3.0)];
    let decision = decide_by(vec![cell(&costs)], &[DataType::Int64], Position::default());
    assert_eq!(decision.choice.strategy, Exchange::Ring);
    assert_eq!(decision.choice.path, Some(DataPath::Cluster));
    assert_eq!(decision.why, "measured ring+cluster 3.0 ns/row, reserve 4.0 ns/row (nearest kind: 8 B a row, 4x4)");
}

/// Decides between two strategies, by their costs for `rows`. The first one is that of the rules.
fn between(costs: [Cost; 2], rows: Precision<usize>) -> Decision {
    decide_by(vec![cell(&costs)], &[DataType::Int64], Position { reads: true, rows })
}

#[test]
fn few_rows_go_to_the_strategy_that_opens_cheaply() {
    let of = |rows| between([cost("reserve", 90e3, 1.0), cost("ring+gather", 20e3, 3.0)], rows);
    assert_eq!(of(Precision::Absent).choice.strategy, Exchange::Reserve);
    assert_eq!(of(Precision::Exact(1_000_000)).choice.strategy, Exchange::Reserve);
    let few = of(Precision::Exact(10));
    assert_eq!(few.choice.strategy, Exchange::Ring);
    assert_eq!(few.why, "measured ring+gather 20 us, reserve 90 us for 10 rows (nearest kind: 8 B a row, 4x4)");
}

#[test]
fn an_estimate_of_few_rows_does_not_name_a_strategy_that_is_slow_for_many() {
    let of = |row_ns| between([cost("reserve", 90e3, 1.0), cost("ring+gather", 20e3, row_ns)], Precision::Inexact(10));
    let slow = of(3.0);
    assert_eq!(slow.choice.strategy, Exchange::Reserve);
    let why = "measured reserve 90 us, ring+gather 20 us for about 10 rows, but slower with more rows (nearest kind: \
               8 B a row, 4x4)";
    assert_eq!(slow.why, why);
    assert_eq!(of(1.04).choice.strategy, Exchange::Ring);
}

#[test]
fn a_lead_within_the_noise_does_not_overrule_the_rule() {
    let lead = |row_ns| between([cost("reserve", 0.0, 1.0), cost("channel+gather", 0.0, row_ns)], Precision::Absent);
    let within = lead(0.96);
    assert_eq!(within.choice.strategy, Exchange::Reserve);
    let why = "measured reserve 1.0 ns/row, channel+gather 1.0 ns/row, within noise (nearest kind: 8 B a row, 4x4)";
    assert_eq!(within.why, why);
    assert_eq!(lead(0.90).choice.strategy, Exchange::Channel);
}

#[test]
fn a_lead_by_chance_does_not_overrule_the_rule() {
    let [reserve, channel] = [cost("reserve", 0.0, 1.0), cost("channel+gather", 0.0, 0.8)];
    let of = |costs| between(costs, Precision::Absent).choice.strategy;
    assert_eq!(of([reserve, Cost { spread: 0.2, ..channel }]), Exchange::Channel);
    // The greater spread counts, whichever of the two has it.
    assert_eq!(of([reserve, Cost { spread: 0.3, ..channel }]), Exchange::Reserve);
    assert_eq!(of([Cost { spread: 0.3, ..reserve }, channel]), Exchange::Reserve);
    // Where opening takes most of the time, its own spread counts.
    let [reserve, channel] = [cost("reserve", 1e3, 1.0), cost("channel+gather", 800.0, 0.8)];
    let of = |rows, spread, open_spread| {
        between([reserve, Cost { spread, open_spread, ..channel }], Precision::Exact(rows)).choice.strategy
    };
    assert_eq!(of(10, 0.3, 0.2), Exchange::Channel);
    assert_eq!(of(10, 0.2, 0.3), Exchange::Reserve);
    assert_eq!(of(100_000, 0.2, 0.3), Exchange::Channel);
    assert_eq!(of(100_000, 0.3, 0.2), Exchange::Reserve);
}

#[test]
fn the_strongest_strategy_beyond_noise_is_taken() {
    let noisy = Cost { spread: 0.9, ..cost("ring-per-domain+gather", 0.0, 0.7) };
    let costs = [cost("reserve", 0.0, 1.0), noisy, cost("channel+gather", 0.0, 0.8)];
    let decision = decide_by(vec![cell(&costs)], &[DataType::Int64], Position::default());
    assert_eq!(decision.choice.strategy, Exchange::Channel);
}

#[test]
fn costs_of_ways_that_auto_cannot_choose_are_not_read() {
    let costs = [cost("stock", 1.0, 3.0), cost("reserve", 0.0, 1.0), cost("ring+gather", 0.0, 0.1)];
    let profile = serde_json::to_string(&Profile::new(2, vec![cell(&costs)])).unwrap();
    let older: Profile = serde_json::from_str(&profile.replace("ring+gather", "spsc+gather")).unwrap();
    assert_eq!(older.cells[0].costs, costs[..2]);
}

#[test]
fn what_cannot_hold_the_columns_is_not_chosen() {
    let costs = [cost("reserve", 0.0, 1.0), cost("ring+cluster", 0.0, 9.0)];
    let strings = Cell { layout: Layout::Variable, ..cell(&costs) };
    let decision = decide_by(vec![strings], &[DataType::Utf8], Position::default());
    assert_eq!(decision.choice.strategy, Exchange::Ring);
}

#[test]
fn the_nearest_kind_counts() {
    let near = cell(&[cost("channel+gather", 0.0, 1.0)]);
    let wide = Cell { row_bytes: 256, costs: vec![cost("ring-per-domain+cluster", 0.0, 1.0)], ..near.clone() };
    let many = Cell { outputs: 64, costs: vec![cost("ring-per-domain+gather", 0.0, 1.0)], ..near.clone() };
    let passed_on = Cell { reads: false, costs: vec![cost("ring+cluster", 0.0, 1.0)], ..near.clone() };
    let cells = [near, wide, many, passed_on];
    let of = |types: &[DataType], position| decide_by(cells.to_vec(), types, position).choice.strategy;
    assert_eq!(of(&[DataType::Int32], Position::default()), Exchange::Channel);
    assert_eq!(of(&vec![DataType::Int64; 30], Position::default()), Exchange::RingPerDomain);
    assert_eq!(of(&[DataType::Int64], Position { reads: false, rows: Precision::Absent }), Exchange::Ring);
}

#[test]
fn what_is_far_from_all_that_was_measured_goes_by_the_rules() {
    let measured = |cell: Cell| {
        let why = decide_by(vec![cell], &[DataType::Int64], Position::default()).why;
        why.starts_with("measured")
    };
    let near = cell(&[cost("channel+gather", 0.0, 1.0)]);
    assert!(measured(Cell { inputs: 1, outputs: 16, row_bytes: 32, ..near.clone() }));
    assert!(!measured(Cell { inputs: 17, ..near.clone() }));
    assert!(!measured(Cell { outputs: 17, ..near.clone() }));
    assert!(!measured(Cell { row_bytes: 33, ..near.clone() }));
    assert!(!measured(Cell { row_bytes: 1, ..near }));
}

#[test]
fn the_reason_of_the_rules_is_theirs() {
    let options = AnnulusConfig { profile: "none".to_owned(), ..AnnulusConfig::default() };
    let why = |types: &[DataType], batch_rows| {
        let schema = schema(types);
        let config = ExchangeConfig::new(4, 4).with_batch_rows(batch_rows);
        decide(
            &Basis::new(&options, ExchangeTuning::default(), batch_rows),
            &config,
            &schema,
            &Demand::new(4, 4, &schema),
            false,
        )
        .unwrap()
        .why
    };
    assert_eq!(why(&[DataType::Int64], 8192), "columns of fixed width");
    assert_eq!(why(&[DataType::Int64, DataType::Utf8View], 8192), "columns of fixed width and views");
    assert_eq!(why(&[DataType::Int64], 100_000), "long batches");
    for of in [DataType::Utf8, DataType::FixedSizeBinary(20), DataType::Null] {
        assert_eq!(why(&[of], 100_000), "columns that reserve cannot hold");
    }
}

#[test]
fn a_kind_that_was_not_measured_goes_by_the_rules() {
    let decision =
        decide_by(vec![cell(&[cost("channel+gather", 0.0, 1.0)])], &[DataType::Utf8View], Position::default());
    assert_eq!(decision.choice.strategy, Exchange::Reserve);
    assert_eq!(decision.why, "columns of fixed width and views");
}

#[test]
fn a_named_file_that_is_not_a_profile_is_an_error() {
    let folder = tempfile::tempdir().unwrap();
    let [missing, broken, old] = ["missing", "broken", "old"].map(|name| folder.path().join(name));
    std::fs::write(&broken, "{").unwrap();
    std::fs::write(&old, r#"{ "format": 1, "cells": "elsewhere" }"#).unwrap();
    for (file, expected) in [(&missing, "cannot read profile"), (&broken, "is not a profile"), (&old, "has format 1")] {
        let file = file.to_str().unwrap();
        let error = profile::known(file).unwrap_err().to_string();
        let remedy = format!("write one with annulus calibrate, to '{file}'");
        assert!(error.contains(expected) && error.contains(&remedy), "{error}");
    }
}

#[test]
fn the_variable_names_a_file_unless_the_option_does() {
    let named = |option, variable: Option<&str>| profile::named(option, variable.map(str::to_owned));
    for option in ["auto", ""] {
        assert_eq!(named(option, Some("p.json")).as_deref(), Some("p.json"));
        for unset in [None, Some(""), Some("auto")] {
            assert_eq!(named(option, unset), None);
        }
    }
    assert_eq!(named("none", Some("p.json")).as_deref(), Some("none"));
}

#[test]
fn a_profile_of_another_machine_version_or_build_is_not_used() {
    let known = |profile: &Profile| {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(&file, serde_json::to_vec(profile).unwrap()).unwrap();
        profile::known(file.path().to_str().unwrap()).unwrap()
    };
    let ours = Profile::new(2, Vec::new());
    assert!(matches!(known(&ours), Known::Profile(profile) if *profile == ours));
    let (minor, _) = ours.annulus.rsplit_once('.').unwrap();
    let patch = Profile { annulus: format!("{minor}.999"), ..ours.clone() };
    assert!(matches!(known(&patch), Known::Profile(_)));

    let machine = Profile { machine: "another".to_owned(), ..ours.clone() };
    assert!(matches!(known(&machine), Known::Unusable("the profile is of another machine")));
    let version = Profile { annulus: "0.0.1".to_owned(), ..ours.clone() };
    assert!(matches!(known(&version), Known::Unusable("the profile is of another version")));
    let build = Profile { optimized: !ours.optimized, ..ours };
    assert!(matches!(known(&build), Known::Unusable("the profile is of a build with other optimization")));
}

#[test]
fn a_changed_file_is_read_again() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("profile.json");
    // The time stays: a file system's clock may be coarse.
    let write = |threads| {
        std::fs::write(&file, serde_json::to_vec(&Profile::new(threads, Vec::new())).unwrap()).unwrap();
        std::fs::File::options().write(true).open(&file).unwrap().set_modified(std::time::UNIX_EPOCH).unwrap();
    };
    let threads = || match profile::known(file.to_str().unwrap()).unwrap() {
        Known::Profile(profile) => profile.threads,
        other => panic!("{other:?}"),
    };
    write(2);
    assert_eq!(threads(), 2);
    write(16);
    assert_eq!(threads(), 16, "another length");
    #[cfg(unix)]
    {
        let old = folder.path().join("old.json");
        std::fs::rename(&file, old).unwrap();
        write(17);
        assert_eq!(threads(), 17, "another file");
    }
}

#[test]
fn what_was_set_counts_more_than_the_profile() {
    let file = tempfile::NamedTempFile::new().unwrap();
    let profile = Profile::new(2, vec![cell(&[cost("channel+gather", 0.0, 1.0)])]);
    std::fs::write(&file, serde_json::to_vec(&profile).unwrap()).unwrap();
    let options = AnnulusConfig { profile: file.path().to_str().unwrap().to_owned(), ..AnnulusConfig::default() };
    let of = |options: &AnnulusConfig, unbounded| {
        let schema = schema(&[DataType::Int64]);
        let demand = Demand::new(4, 4, &schema);
        let basis = Basis::new(options, ExchangeTuning::default(), BATCH_ROWS);
        let decision = decide(&basis, &ExchangeConfig::new(4, 4), &schema, &demand, unbounded).unwrap();
        (decision.choice.strategy, decision.why)
    };
    assert_eq!(of(&options, false).0, Exchange::Channel);
    assert_eq!(of(&options, true), (Exchange::Ring, "unbounded input".to_owned()));
    let set = AnnulusConfig { strategy: Strategy::Exchange(Exchange::RingPerDomain).into(), ..options.clone() };
    for unbounded in [false, true] {
        assert_eq!(of(&set, unbounded), (Exchange::RingPerDomain, "annulus.strategy".to_owned()));
    }
    let path = AnnulusConfig { strategy: Variant::new(Strategy::AUTO, DataPath::Cluster), ..options };
    assert_eq!(of(&path, false), (Exchange::Ring, "annulus.strategy".to_owned()));
}
