//! The places of threads, and what follows for rings and groups.

mod support;

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::LazyLock,
};

use annulus_topology::{Core, Placement, Policy, Seat, Topology};
use proptest::prelude::*;
use support::{Cpu, Tree, one_socket_with_smt, two_sockets_of_chiplets};

fn cpus(seats: &[Seat]) -> Vec<usize> {
    seats.iter().map(|seat| seat.cpu).collect()
}

/// Returns the number of threads in each domain that has any.
fn threads_by_domain(placement: &Placement) -> BTreeMap<usize, usize> {
    let mut threads = BTreeMap::new();
    placement
        .producers()
        .iter()
        .chain(placement.consumers())
        .for_each(|seat| *threads.entry(seat.domain).or_default() += 1);
    threads
}

/// Returns the number of threads on each usable CPU.
fn threads_by_cpu(topology: &Topology, placement: &Placement) -> BTreeMap<usize, usize> {
    let mut threads: BTreeMap<_, _> = topology.usable().iter().map(|cpu| (cpu, 0)).collect();
    for seat in placement.producers().iter().chain(placement.consumers()) {
        *threads.get_mut(&seat.cpu).expect("a usable CPU") += 1;
    }
    threads
}

#[test]
fn as_in_the_paper_a_pair_shares_a_core() {
    let topology = one_socket_with_smt(4).read("0-7");
    // A pair for each CPU: producer p and consumer p on the same one.
    let placement = topology.place(8, 8, Policy::Compact);
    assert_eq!(cpus(placement.producers()), [0, 1, 2, 3, 4, 5, 6, 7]);
    assert_eq!(placement.producers(), placement.consumers());
    // A pair for each core: on its two hardware threads.
    let placement = topology.place(4, 4, Policy::Compact);
    assert_eq!((cpus(placement.producers()), cpus(placement.consumers())), (vec![0, 1, 2, 3], vec![4, 5, 6, 7]));
    // Fewer pairs: a core for each thread.
    let placement = topology.place(2, 2, Policy::Compact);
    assert_eq!((cpus(placement.producers()), cpus(placement.consumers())), (vec![0, 1], vec![2, 3]));
    // Not as many producers as consumers.
    let placement = topology.place(1, 5, Policy::Compact);
    assert_eq!((cpus(placement.producers()), cpus(placement.consumers())), (vec![0], vec![1, 2, 3, 4, 5]));
}

#[test]
fn compact_fills_a_domain_before_the_next() {
    let topology = two_sockets_of_chiplets(2).read("0-31");
    let by_domain = |pairs| threads_by_domain(&topology.place(pairs, pairs, Policy::Compact));
    assert_eq!(by_domain(4), BTreeMap::from([(0, 8)]));
    assert_eq!(by_domain(5), BTreeMap::from([(0, 8), (1, 2)]));
    assert_eq!(by_domain(16), BTreeMap::from([(0, 8), (1, 8), (2, 8), (3, 8)]));
    assert_eq!(by_domain(32), BTreeMap::from([(0, 16), (1, 16), (2, 16), (3, 16)]));
    assert_eq!(topology.place(4, 4, Policy::Compact).rings(), 1);
    assert_eq!(topology.place(32, 32, Policy::Compact).rings(), 4);
}

#[test]
fn spread_takes_nodes_and_domains_in_turn() {
    let topology = two_sockets_of_chiplets(2).read("0-31");
    let placement = topology.place(5, 5, Policy::Spread);
    let domains: Vec<_> = placement.producers().iter().map(|seat| seat.domain).collect();
    assert_eq!(domains, [0, 2, 1, 3, 0]);
    assert_eq!(cpus(placement.producers()), [0, 16, 8, 24, 1]);
    assert_eq!((placement.rings(), placement.domains()), (4, BTreeSet::from([0, 1, 2, 3])));
}

#[test]
fn domains_of_unequal_sizes() {
    let topology = machine(&[(2, 1), (1, 1), (4, 1)]);
    let domains = |policy| {
        let placement = topology.place(4, 4, policy);
        placement.producers().iter().map(|seat| seat.domain).collect::<Vec<_>>()
    };
    // The largest is filled first. The one of a single CPU has no room for a pair until all are full.
    assert_eq!(domains(Policy::Compact), [2, 2, 0, 1]);
    assert_eq!(domains(Policy::Spread), [0, 2, 2, 1]);
}

#[test]
fn a_ring_for_each_domain_with_producers() {
    let topology = two_sockets_of_chiplets(1).read("0-15");
    let placement = topology.place(2, 12, Policy::Compact);
    assert_eq!((placement.rings(), placement.domains().len()), (1, 2));
    for (producers, consumers) in [(0, 0), (0, 3)] {
        assert_eq!(topology.place(producers, consumers, Policy::Compact).rings(), 1);
    }
}

#[test]
fn groups_follow_the_paper() {
    let groups = |topology: &Topology, pairs, batch_kib: Option<u64>| {
        topology.groups(&topology.place(pairs, pairs, Policy::Compact), batch_kib.map(|kib| kib << 10)).groups
    };
    let reason = |topology: &Topology, pairs, batch_kib: Option<u64>| {
        topology.groups(&topology.place(pairs, pairs, Policy::Compact), batch_kib.map(|kib| kib << 10)).reason
    };
    // One domain: figure 7, and section 5.2 where the batch is not known.
    let one = one_socket_with_smt(4).read("0-7");
    assert_eq!([None, Some(64), Some(128), Some(129), Some(2048)].map(|batch| groups(&one, 8, batch)), [2, 2, 2, 1, 1]);
    // 3 groups of 85 batches of 128 KiB fit in 32 MiB; of 86, they do not.
    assert_eq!([85, 86].map(|pairs| groups(&one, pairs, Some(128))), [2, 1]);
    // Several.
    let two = two_sockets_of_chiplets(1).read("0-15");
    assert_eq!([4, 5].map(|pairs| groups(&two, pairs, Some(64))), [2, 1]);
    // Not known.
    let tree = Tree::online("0-1");
    tree.nodes(&["0", "1"]);
    let unknown = "the last-level cache is not known, and 1 is the safe default";
    assert_eq!((groups(&tree.read("0-1"), 2, Some(64)), &*reason(&tree.read("0-1"), 2, None)), (1, unknown));
    // The reasons name the numbers.
    assert_eq!(reason(&two, 16, None), "the threads span 2 last-level caches");
    assert_eq!(
        reason(&one, 86, Some(128)),
        "with 2, batches of 32.25 MiB would be in flight, and the cache has 32 MiB"
    );
}

/// Blocks of producers with successive numbers are not domains, so an exchange with a ring for each
/// domain must ask for those of the threads.
#[test]
fn domains_of_producers_are_no_blocks_once_threads_share_cpus() {
    let of = |topology: &Topology, pairs| topology.place(pairs, pairs, Policy::Compact).producer_domains();
    let two_chiplets = two_sockets_of_chiplets(1).read("0-15");
    assert_eq!(of(&two_chiplets, 8), [0, 0, 0, 0, 1, 1, 1, 1]);
    assert_eq!(of(&two_chiplets, 16), [0, 0, 0, 0, 1, 1, 1, 1, 0, 1, 0, 1, 0, 1, 0, 1]);
    // Nor are they of equal size.
    let unequal = machine(&[(2, 1), (1, 1), (4, 1)]);
    let producers = of(&unequal, 8);
    assert_eq!(producers, [2, 2, 0, 1, 2, 0, 2, 2]);
}

#[test]
fn huge_batches_do_not_overflow() {
    let topology = one_socket_with_smt(1).read("0-1");
    let placement = topology.place(2, 2, Policy::Compact);
    assert_eq!(topology.groups(&placement, Some(u64::MAX)).groups, 1);
}

/// Returns a machine whose domains have these numbers of cores, and of hardware threads a core.
fn machine(domains: &[(usize, usize)]) -> Topology {
    let total: usize = domains.iter().map(|(cores, threads)| cores * threads).sum();
    let tree = Tree::online(&format!("0-{}", total - 1));
    let mut first = 0;
    for (cores, threads) in domains {
        let shared = format!("{first}-{}", first + cores * threads - 1);
        for number in first..first + cores * threads {
            let core = (number - first) / threads * threads + first;
            let core = format!("{core}-{}", core + threads - 1);
            tree.cpu(Cpu { number, core: &core, package: 0, caches: &[(3, "Unified", "32M", &shared)] });
        }
        first += cores * threads;
    }
    tree.read(&format!("0-{}", total - 1))
}

/// Machines of equal and unequal domains, with and without SMT.
static MACHINES: LazyLock<Vec<Topology>> = LazyLock::new(|| {
    let machines: [&[(usize, usize)]; 10] = [
        &[(1, 1)],
        &[(1, 1), (1, 1)],
        &[(3, 1), (3, 1)],
        &[(1, 1), (4, 2)],
        &[(4, 2), (1, 1), (2, 1)],
        &[(2, 2); 3],
        &[(1, 1), (1, 2), (2, 1), (3, 2)],
        &[(5, 1), (1, 1), (3, 1)],
        &[(1, 1); 5],
        &[(3, 2), (3, 1)],
    ];
    machines.map(machine).into()
});

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn promises_hold(
        machine in 0..10usize,
        producers in 0..40usize,
        consumers in 0..40usize,
        policy in prop_oneof![Just(Policy::Compact), Just(Policy::Spread)],
    ) {
        let topology = &MACHINES[machine];
        let placement = topology.place(producers, consumers, policy);
        prop_assert_eq!((placement.producers().len(), placement.consumers().len()), (producers, consumers));
        for (producer, consumer) in placement.producers().iter().zip(placement.consumers()) {
            prop_assert_eq!(producer.domain, consumer.domain);
        }
        let threads = threads_by_cpu(topology, &placement);
        for (index, domain) in topology.domains().iter().enumerate() {
            let loads: Vec<_> = domain.cpus().iter().map(|cpu| threads[&cpu]).collect();
            let (least, most) = (loads.iter().min(), loads.iter().max());
            prop_assert!(most.zip(least).is_some_and(|(most, least)| most - least <= 1), "{:?}", loads);
            // A core has its second thread only when every core has one.
            let on_core = |core: &Core| core.cpus.iter().map(|cpu| threads[cpu]).sum::<usize>();
            let cores: Vec<_> = domain.cores.iter().map(on_core).collect();
            prop_assert!(cores.iter().all(|&core| core <= 1) || cores.iter().all(|&core| core >= 1), "{:?}", cores);
            // Each seat is in the domain that it names.
            let seats = placement.producers().iter().chain(placement.consumers());
            prop_assert!(seats.filter(|seat| seat.domain == index).all(|seat| domain.cpus().contains(seat.cpu)));
        }
        // Over all CPUs, pairs leave a difference of at most one more.
        let (least, most) = (threads.values().min(), threads.values().max());
        let difference = most.zip(least).map_or(0, |(most, least)| most - least);
        let total = producers + consumers;
        prop_assert!(total <= topology.usable().len() || difference <= 2, "{:?}", threads);
        prop_assert!(most <= Some(&(total.div_ceil(topology.usable().len()) + 1)), "{:?}", threads);
    }
}
