//! Files that hold something else than they should.

mod support;

use std::{
    fs,
    sync::{LazyLock, Mutex, PoisonError},
};

use annulus_topology::{Policy, Topology};
use proptest::{collection::vec, prelude::*};
use support::{Tree, cpus, one_socket_with_smt};

/// The files that are read, with those of CPU 0 for all.
const FILES: [&str; 15] = [
    "sys/devices/system/cpu/online",
    "sys/devices/system/cpu/present",
    "sys/devices/system/cpu/cpu0/topology/core_cpus_list",
    "sys/devices/system/cpu/cpu0/topology/physical_package_id",
    "sys/devices/system/cpu/cpu0/cache/index0/level",
    "sys/devices/system/cpu/cpu0/cache/index0/type",
    "sys/devices/system/cpu/cpu0/cache/index3/size",
    "sys/devices/system/cpu/cpu0/cache/index3/level",
    "sys/devices/system/cpu/cpu0/cache/index3/shared_cpu_list",
    "sys/devices/system/node/online",
    "sys/devices/system/node/node0/cpulist",
    "proc/self/cgroup",
    "proc/self/mountinfo",
    "sys/fs/cgroup/job/cpu.max",
    "sys/fs/cgroup/job/cpuset.cpus.effective",
];

/// Returns a machine of four CPUs in a control group, with all files.
fn machine() -> Tree {
    let tree = one_socket_with_smt(2);
    tree.cgroup_v2("/job");
    tree.write("sys/fs/cgroup/job/cpu.max", "150000 100000");
    tree.write("sys/fs/cgroup/job/cpuset.cpus.effective", "0-3");
    tree
}

/// Checks what every topology promises.
fn check(topology: &Topology) {
    let all: Vec<_> = topology.domains().iter().flat_map(|domain| domain.cpus().iter().collect::<Vec<_>>()).collect();
    assert_eq!(all.len(), topology.usable().len(), "each usable CPU is in one domain: {topology:?}");
    assert!(!all.is_empty() && all.iter().all(|&cpu| topology.usable().contains(cpu)), "{topology:?}");
    assert!(topology.domains().iter().all(|domain| domain.cores.iter().all(|core| !core.cpus.is_empty())));
    let threads = topology.suggested_threads();
    assert!((1..=all.len()).contains(&threads), "{topology:?}");
    let placement = topology.place(threads, threads, Policy::Compact);
    assert!(placement.rings() >= 1 && [1, 2].contains(&topology.groups(&placement, None).groups));
    assert!(!topology.describe().is_empty());
}

#[test]
fn a_file_that_makes_no_sense_is_reported() {
    let tree = machine();
    assert_eq!(tree.read("0-3").unknown(), [""; 0]);
    for (path, content) in [
        ("sys/devices/system/cpu/online", "0-3 or so"),
        ("sys/devices/system/cpu/online", "3-0"),
        ("sys/devices/system/cpu/online", "0-99999999999"),
        ("sys/devices/system/cpu/cpu0/topology/core_cpus_list", "-"),
        ("sys/devices/system/cpu/cpu0/topology/physical_package_id", "none"),
        ("sys/devices/system/cpu/cpu0/cache/index3/size", "0K"),
        ("sys/devices/system/cpu/cpu0/cache/index3/size", "large"),
        ("sys/devices/system/cpu/cpu0/cache/index3/level", "three"),
        ("sys/devices/system/node/online", "zero"),
        ("sys/fs/cgroup/job/cpu.max", "150000 a day"),
        ("sys/fs/cgroup/job/cpu.max", "-5 100000"),
        ("sys/fs/cgroup/job/cpuset.cpus.effective", "0-"),
    ] {
        let before = fs::read(tree.path().join(path)).expect(path);
        tree.write(path, content);
        let topology = tree.read("0-3");
        tree.write_bytes(path, &before);
        check(&topology);
        let report = topology.unknown().last().expect(content);
        assert!(report.contains(&format!("'/{path}' holds '")), "{content}: {report}");
    }
    tree.write_bytes("sys/fs/cgroup/job/cpu.max", b"\xff\xfe");
    let topology = tree.read("0-3");
    assert_eq!((topology.quota(), topology.unknown().len()), (None, 1));
    assert!(topology.unknown()[0].ends_with("holds bytes that are not text"), "{:?}", topology.unknown());
}

#[test]
fn many_files_that_make_no_sense_are_one_line() {
    let tree = machine();
    for cpu in 0..4 {
        tree.write(&format!("sys/devices/system/cpu/cpu{cpu}/cache/index3/size"), "\u{1b}[31m");
    }
    let topology = tree.read("0-3");
    assert_eq!(topology.unknown().len(), 1);
    let report = &topology.unknown()[0];
    assert!(report.starts_with("4 files could not be understood; the first, '/sys/"), "{report}");
    assert!(!report.contains('\u{1b}'), "{report:?}");
    assert_eq!(
        topology.describe(),
        "4 CPUs on 2 cores, 1 last-level cache of unknown size, 1 NUMA node, quota of 1.5 CPUs"
    );
}

#[test]
fn a_quota_without_time_or_period_limits_nothing() {
    let tree = machine();
    for content in ["0 100000", "100000 0", "max", "max 100000"] {
        tree.write("sys/fs/cgroup/job/cpu.max", content);
        assert_eq!(tree.read("0-3").quota(), None, "{content}");
    }
    tree.write("sys/fs/cgroup/job/cpu.max", "200000");
    assert_eq!(tree.read("0-3").quota().map(|quota| quota.cpus), Some(2.0), "the default period");
}

#[test]
fn lists_that_exclude_each_other() {
    let tree = machine();
    tree.write("sys/fs/cgroup/job/cpuset.cpus.effective", "8-9");
    assert_eq!(tree.read("0-1").usable(), &cpus("0-1"));
    assert_eq!(tree.read("6").usable(), &cpus("6"));
}

#[test]
fn lists_that_leave_out_their_own_cpu() {
    let tree = machine();
    tree.write("sys/devices/system/cpu/cpu0/topology/core_cpus_list", "1,3");
    tree.write("sys/devices/system/cpu/cpu0/cache/index3/shared_cpu_list", "1-3");
    let topology = tree.read("0-3");
    check(&topology);
    // CPU 0 is a core of its own, in a domain without a known cache.
    assert_eq!(topology.cores(), None);
    let zero = topology.domains().iter().find(|domain| domain.cpus() == cpus("0")).expect("a domain");
    assert_eq!((zero.cores.len(), &zero.cache), (1, &None));
    let rest = topology.domains().iter().find(|domain| domain.cpus() == cpus("1-3")).expect("a domain");
    assert_eq!(rest.cores.len(), 2);
}

#[test]
fn folders_where_files_should_be() {
    let tree = machine();
    for path in FILES {
        let place = tree.path().join(path);
        let before = fs::read(&place).expect(path);
        fs::remove_file(&place).expect("removed");
        check(&tree.read("0-3"));
        fs::create_dir(&place).expect("a folder");
        check(&tree.read("0-3"));
        fs::remove_dir(&place).expect("removed");
        tree.write_bytes(path, &before);
    }
}

/// The machine that each case changes and then restores.
static MACHINE: LazyLock<Mutex<Tree>> = LazyLock::new(|| Mutex::new(machine()));

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn any_content_gives_a_topology(
        changes in vec((0..FILES.len(), prop_oneof![
            vec(any::<u8>(), 0..20),
            "[0-9a-zK, :/.-]{0,12}".prop_map(String::into_bytes),
            "[0-9]{1,5}(-[0-9]{1,5})?(,[0-9]{1,4}){0,3}".prop_map(String::into_bytes),
        ]), 1..4),
        has_affinity in any::<bool>(),
    ) {
        let tree = MACHINE.lock().unwrap_or_else(PoisonError::into_inner);
        let before = FILES.map(|path| fs::read(tree.path().join(path)).expect(path));
        for (file, content) in &changes {
            tree.write_bytes(FILES[*file], content);
        }
        let topology = Topology::read(tree.path(), has_affinity.then(|| cpus("0-3")));
        for (file, _) in changes {
            tree.write_bytes(FILES[file], &before[file]);
        }
        check(&topology);
    }
}
