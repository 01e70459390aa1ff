use std::{fs, path::Path, sync::Arc};

use arrow::datatypes::{DataType, Field, Schema};
use datafusion::{
    physical_expr::expressions::Column,
    physical_plan::{Partitioning, displayable, empty::EmptyExec, repartition::RepartitionExec},
};

use super::*;
use crate::{
    choice::{Basis, Position},
    config::{AnnulusConfig, ExchangeStrategy, ExchangeTuning, Strategy},
    exec::RingRepartitionExec,
};

/// Returns a machine of `caches` last-level caches of 32 MiB, with four CPUs each.
fn machine_of(caches: usize) -> Topology {
    let folder = tempfile::tempdir().unwrap();
    let write = |path: &str, content: &str| {
        let path = folder.path().join("sys/devices/system/cpu").join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, content).unwrap();
    };
    let cpus = format!("0-{}", 4 * caches - 1);
    write("online", &cpus);
    for cpu in 0..4 * caches {
        let first = cpu / 4 * 4;
        write(&format!("cpu{cpu}/topology/core_cpus_list"), &cpu.to_string());
        write(&format!("cpu{cpu}/cache/index0/level"), "3");
        write(&format!("cpu{cpu}/cache/index0/type"), "Unified");
        write(&format!("cpu{cpu}/cache/index0/size"), "32768K");
        write(&format!("cpu{cpu}/cache/index0/shared_cpu_list"), &format!("{first}-{}", first + 3));
    }
    Topology::read(folder.path(), Some(cpus.parse().unwrap()))
}

/// Returns what `EXPLAIN` prints of the exchange on such a machine, for 4 inputs of rows with
/// `columns` integers.
fn shown(caches: usize, outputs: usize, columns: usize, options: AnnulusConfig) -> String {
    shown_with(caches, outputs, columns, (options, ExchangeTuning::default()))
}

/// Returns the same with these bounds of the exchange.
fn shown_with(
    caches: usize,
    outputs: usize,
    columns: usize,
    (options, tuning): (AnnulusConfig, ExchangeTuning),
) -> String {
    let fields: Vec<_> = (0..columns).map(|column| Field::new(column.to_string(), DataType::Int64, false)).collect();
    let input = EmptyExec::new(Arc::new(Schema::new(fields))).with_partitions(4);
    let hash = Partitioning::Hash(vec![Arc::new(Column::new("0", 0))], outputs);
    let stock = RepartitionExec::try_new(Arc::new(input), hash).unwrap();
    let (topology, options) = (machine_of(caches), AnnulusConfig { profile: "none".to_owned(), ..options });
    let basis = Basis { topology: &topology, ..Basis::new(&options, tuning, 8192) };
    let exec = RingRepartitionExec::with_basis(stock, &basis, Position::default()).unwrap();
    let text = displayable(&exec).one_line().to_string();
    let (_, facts) = text.trim().split_once("input_partitions=4, ").unwrap();
    facts.split_once(", why=").unwrap().0.to_owned()
}

fn with(strategy: ExchangeStrategy) -> AnnulusConfig {
    AnnulusConfig { strategy: Strategy::Exchange(strategy).into(), ..AnnulusConfig::default() }
}

#[test]
fn k_follows_the_caches_and_is_shown() {
    // On one cache, 4 inputs and 2 columns make batches of 128 KiB, and 16 for each fill a quarter.
    for (columns, groups) in [(1, 16), (2, 15), (3, 9), (8, 3), (16, 1)] {
        let expected = format!("strategy=reserve, groups={groups}");
        assert_eq!(shown(1, 4, columns, AnnulusConfig::default()), expected, "{columns}");
    }
    // With many partitions, it is what the paper suggests.
    assert_eq!(shown(1, 64, 2, with(ExchangeStrategy::Reserve)), "strategy=reserve, groups=2");
    // 4 inputs and 2 outputs need more than the 4 CPUs of a cache.
    for (caches, outputs, groups) in [(1, 2, 15), (1, 6, 9), (2, 2, 1), (2, 6, 1)] {
        let expected = format!("strategy=ring, path=gather, groups={groups}");
        assert_eq!(shown(caches, outputs, 2, with(ExchangeStrategy::Ring)), expected, "{caches}, {outputs}");
    }
}

#[test]
fn what_was_set_is_shown_in_place_of_the_caches_choice() {
    for groups in [1, 4] {
        let tuning = ExchangeTuning { groups, ..ExchangeTuning::default() };
        assert_eq!(
            shown_with(1, 4, 2, (AnnulusConfig::default(), tuning)),
            format!("strategy=reserve, groups={groups}")
        );
    }
    let set = (with(ExchangeStrategy::Channel), ExchangeTuning { groups: 3, slots: 2, domains: 0 });
    assert_eq!(shown_with(1, 4, 2, set), "strategy=channel, path=gather, groups=3, slots=2");
}

#[test]
fn rows_that_may_be_long_have_the_paper_s_k() {
    let of =
        |column| groups(&machine_of(1), &Demand::new(2, 2, &Schema::new(vec![Field::new("v", column, true)])), 2048);
    assert_eq!([DataType::Int32, DataType::Utf8View, DataType::Utf8].map(of), [16, 2, 2]);
}

#[test]
fn rings_follow_the_caches_and_are_shown() {
    let of = |caches, domains| {
        let tuning = ExchangeTuning { domains, ..ExchangeTuning::default() };
        shown_with(caches, 4, 2, (with(ExchangeStrategy::RingPerDomain), tuning))
    };
    assert_eq!(of(1, 0), "strategy=ring-per-domain, path=gather, groups=15, domains=1");
    assert_eq!(of(3, 0), "strategy=ring-per-domain, path=gather, groups=1, domains=3");
    assert_eq!(of(3, 2), "strategy=ring-per-domain, path=gather, groups=1, domains=2");
    // At most one for each input.
    assert_eq!(of(5, 0), "strategy=ring-per-domain, path=gather, groups=1, domains=4");
}

#[test]
fn a_machine_without_known_caches_has_one_group() {
    let folder = tempfile::tempdir().unwrap();
    let topology = Topology::read(Path::new(folder.path()), None);
    let demand = Demand::new(4, 4, &Schema::new(vec![Field::new("k", DataType::Int64, false)]));
    assert_eq!((groups(&topology, &demand, 8192), domains_of(&topology)), (1, 1));
}
