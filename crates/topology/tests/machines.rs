//! Topologies of machines, read from folders that look like theirs.

mod support;

use std::thread::available_parallelism;

use annulus_topology::{Policy, Topology};
use support::{Cpu, Tree, cpus, one_socket_with_smt, two_sockets_of_chiplets};

/// Returns the CPUs of each domain.
fn domains(topology: &Topology) -> Vec<String> {
    topology.domains().iter().map(|domain| domain.cpus().to_string()).collect()
}

#[track_caller]
fn nothing_unknown(topology: &Topology) {
    assert_eq!(topology.unknown(), [""; 0]);
}

#[test]
fn a_socket_with_smt() {
    let topology = one_socket_with_smt(4).read("0-7");
    assert_eq!(topology.describe(), "8 CPUs on 4 cores, 1 last-level cache of 32 MiB, 1 NUMA node");
    nothing_unknown(&topology);
    let domain = &topology.domains()[0];
    let cores: Vec<_> = domain.cores.iter().map(|core| core.cpus.clone()).collect();
    assert_eq!(cores, [[0, 4], [1, 5], [2, 6], [3, 7]]);
    let caches: Vec<_> = domain.cores[1].caches.iter().map(|cache| (cache.level, cache.bytes)).collect();
    assert_eq!(caches, [(1, Some(48 << 10)), (2, Some(1 << 20))]);
    assert_eq!(domain.cache.as_ref().map(|cache| (cache.level, cache.bytes)), Some((3, Some(32 << 20))));
    assert_eq!((domain.package, &domain.nodes[..]), (Some(0), &[0][..]));
    assert_eq!((topology.cores(), topology.nodes(), topology.suggested_threads()), (Some(4), Some(1), 8));
    assert_eq!(topology.effective_cpus(), 8.0);
}

#[test]
fn older_kernels_name_siblings_otherwise() {
    let tree = Tree::online("0-1");
    for cpu in [0, 1] {
        tree.write(&format!("sys/devices/system/cpu/cpu{cpu}/topology/thread_siblings_list"), "0-1");
    }
    assert_eq!(tree.read("0-1").cores(), Some(1));
}

#[test]
fn two_sockets_of_three_chiplets() {
    let topology = two_sockets_of_chiplets(3).read("0-47");
    assert_eq!(topology.describe(), "48 CPUs, 6 last-level caches of 32 MiB, 2 NUMA nodes");
    assert_eq!(domains(&topology), ["0-7", "8-15", "16-23", "24-31", "32-39", "40-47"]);
    let places: Vec<_> = topology.domains().iter().map(|domain| (domain.nodes[0], domain.package)).collect();
    assert_eq!(places, [0, 0, 0, 1, 1, 1].map(|socket| (socket, Some(socket))));
    nothing_unknown(&topology);
}

#[test]
fn a_hybrid_processor() {
    // Two fast cores of two threads and four slow ones share an L3. Two more slow cores, on another
    // die, have an L2 in common and no L3.
    let tree = Tree::online("0-9");
    for number in 0..8 {
        let core = if number < 4 { format!("{}-{}", number / 2 * 2, number / 2 * 2 + 1) } else { number.to_string() };
        tree.server_cpu(number, &core, 0, "0-7");
    }
    for number in [8, 9] {
        let caches = [(1, "Data", "32K", &*number.to_string()), (2, "Unified", "2M", "8-9")];
        tree.cpu(Cpu { number, core: &number.to_string(), package: 0, caches: &caches });
    }
    tree.nodes(&["0-9"]);
    tree.cgroup_v2("/");
    let topology = tree.read("0-9");
    nothing_unknown(&topology);
    assert_eq!(domains(&topology), ["0-7", "8-9"]);
    assert_eq!(topology.describe(), "10 CPUs on 8 cores, 2 last-level caches of 2 MiB to 32 MiB, 1 NUMA node");
    // Every core has a thread before the second thread of a fast core has one.
    let placement = topology.place(8, 0, Policy::Compact);
    let used: Vec<_> = placement.producers().iter().map(|seat| seat.cpu).collect();
    assert_eq!(used, [0, 2, 4, 5, 6, 7, 1, 3]);
}

#[test]
fn a_quota_of_a_parent() {
    let tree = one_socket_with_smt(4);
    tree.cgroup_v2("/pod/container");
    tree.write("sys/fs/cgroup/pod/container/cpu.max", "max 100000");
    tree.write("sys/fs/cgroup/pod/cpu.max", "150000 100000");
    let topology = tree.read("0-7");
    let quota = topology.quota().expect("a quota");
    assert_eq!((quota.cpus, &*quota.cgroup), (1.5, "/sys/fs/cgroup/pod"));
    assert_eq!((topology.effective_cpus(), topology.suggested_threads()), (1.5, 2));
    assert!(topology.describe().ends_with("1 NUMA node, quota of 1.5 CPUs"), "{topology}");
    nothing_unknown(&topology);

    tree.write("sys/fs/cgroup/pod/container/cpu.max", "50000 100000");
    assert_eq!(tree.read("0-7").quota().map(|quota| quota.cpus), Some(0.5));
    assert_eq!(tree.read("0-7").suggested_threads(), 1);
    for (time, shown) in [("100000", "1 CPU"), ("33333", "0.33 CPUs")] {
        tree.write("sys/fs/cgroup/pod/container/cpu.max", &format!("{time} 100000"));
        assert_eq!(tree.read("0-7").quota().map(ToString::to_string).as_deref(), Some(shown));
    }
    // One beyond the CPUs limits nothing.
    for group in ["pod", "pod/container"] {
        tree.write(&format!("sys/fs/cgroup/{group}/cpu.max"), "1600000 100000");
    }
    let topology = tree.read("0-7");
    assert_eq!(topology.effective_cpus(), 8.0);
    assert!(!topology.describe().contains("quota"), "{topology}");
}

#[test]
fn a_container_sees_its_own_groups_as_all() {
    let tree = one_socket_with_smt(1);
    // The process is outside of what is mounted: the mounted folder is the nearest.
    tree.write("proc/self/cgroup", "0::/../../other");
    tree.write("sys/fs/cgroup/cpu.max", "20000 100000");
    // This is where the path would lead, and no control group.
    tree.write("sys/other/cpu.max", "1 100000");
    tree.write("sys/fs/cgroup/other/cpu.max", "1 100000");
    assert_eq!(tree.read("0-1").quota().map(|quota| quota.cpus), Some(0.2));
    // What is mounted is a group of the machine, and the process is in it, or in one whose name only
    // begins alike.
    tree.write("proc/self/mountinfo", "30 22 0:26 /docker/ab /sys/fs/cgroup rw - cgroup2 cgroup2 rw");
    tree.write("sys/fs/cgroup/c/cpu.max", "10000 100000");
    for (group, quota) in [("/docker/ab", 0.2), ("/docker/ab/c", 0.1), ("/docker/abc", 0.2)] {
        tree.write("proc/self/cgroup", &format!("0::{group}"));
        assert_eq!(tree.read("0-1").quota().map(|quota| quota.cpus), Some(quota), "{group}");
    }
}

#[test]
fn control_groups_of_version_1() {
    let tree = one_socket_with_smt(4);
    let own = "5:cpuset:/jobs\n4:cpu,cpuacct:/jobs/mine\n3:memory:/x\n1:name=systemd:/jobs\n0::/";
    tree.write("proc/self/cgroup", own);
    let mounts = "31 22 0:28 / /sys/fs/cgroup rw - tmpfs tmpfs rw\n\
                  32 31 0:29 / /sys/fs/cgroup/cpu,cpuacct rw - cgroup cgroup rw,cpu,cpuacct\n\
                  33 31 0:30 / /sys/fs/cgroup/cpuset rw - cgroup cgroup rw,cpuset\n\
                  34 31 0:31 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw";
    tree.write("proc/self/mountinfo", mounts);
    for (group, quota) in [("", "-1"), ("/jobs", "250000"), ("/jobs/mine", "-1")] {
        tree.write(&format!("sys/fs/cgroup/cpu,cpuacct{group}/cpu.cfs_quota_us"), quota);
        tree.write(&format!("sys/fs/cgroup/cpu,cpuacct{group}/cpu.cfs_period_us"), "100000");
    }
    tree.write("sys/fs/cgroup/cpuset/cpuset.cpus", "0-7");
    tree.write("sys/fs/cgroup/cpuset/jobs/cpuset.cpus", "0-3");
    let topology = tree.read("0-7");
    assert_eq!(topology.quota().map(|quota| quota.cpus), Some(2.5));
    assert_eq!(topology.cpuset().map(|cpuset| cpuset.cpus.clone()), Some(cpus("0-3")));
    assert_eq!((topology.usable(), topology.suggested_threads()), (&cpus("0-3"), 3));
    nothing_unknown(&topology);
}

#[test]
fn a_cpuset_of_three_cpus_in_two_domains() {
    let tree = Tree::online("0-7");
    for number in 0..8 {
        tree.server_cpu(number, &number.to_string(), 0, if number < 4 { "0-3" } else { "4-7" });
    }
    tree.nodes(&["0-7"]);
    tree.cgroup_v2("/job");
    tree.write("sys/fs/cgroup/cpuset.cpus.effective", "0-7");
    tree.write("sys/fs/cgroup/job/cpuset.cpus.effective", "3,6-7");
    for affinity in ["0-7", "3,6-7"] {
        let topology = tree.read(affinity);
        assert_eq!(domains(&topology), ["3", "6-7"]);
        assert_eq!(topology.cpuset().map(|cpuset| &*cpuset.cgroup), Some("/sys/fs/cgroup/job"));
        let shared: Vec<_> = topology.domains().iter().flat_map(|domain| &domain.cache).collect();
        assert_eq!((&shared[0].cpus, &shared[1].cpus), (&cpus("0-3"), &cpus("4-7")));
        // The larger domain comes first.
        let placement = topology.place(1, 1, Policy::Compact);
        assert_eq!((placement.producers()[0].cpu, placement.consumers()[0].cpu), (6, 7));
    }
}

#[test]
fn an_affinity_mask() {
    let topology = two_sockets_of_chiplets(1).read("2,9-10");
    assert_eq!(domains(&topology), ["2", "9-10"]);
    assert_eq!(topology.affinity(), Some(&cpus("2,9-10")));
    assert_eq!(topology.online(), Some(&cpus("0-15")));
}

#[test]
fn offline_cpus() {
    let tree = one_socket_with_smt(4);
    tree.write("sys/devices/system/cpu/online", "0-3,6");
    for number in [0, 1, 3] {
        tree.write(&format!("sys/devices/system/cpu/cpu{number}/topology/core_cpus_list"), &number.to_string());
    }
    // The kernel keeps offline CPUs out of the mask, but they may be in one that was read before.
    for affinity in ["0-3,6", "0-7"] {
        let topology = tree.read(affinity);
        assert_eq!((topology.usable(), topology.offline()), (&cpus("0-3,6"), &cpus("4-5,7")));
        assert_eq!(topology.cores(), Some(4));
    }
}

#[test]
fn no_cache_files() {
    let tree = Tree::online("0-3");
    for number in 0..4 {
        tree.cpu(Cpu { number, core: &number.to_string(), package: number, caches: &[] });
    }
    tree.cgroup_v2("/");
    tree.nodes(&["0-3"]);
    let topology = tree.read("0-3");
    // Virtual machines often claim a socket for each CPU: that makes no domains.
    assert_eq!(domains(&topology), ["0-3"]);
    assert_eq!(topology.describe(), "4 CPUs, last-level cache not known, 1 NUMA node");
    assert!(topology.unknown()[0].starts_with("last-level caches"), "{:?}", topology.unknown());
    tree.nodes(&["0-1", "2-3"]);
    assert_eq!(domains(&tree.read("0-3")), ["0-1", "2-3"]);
}

#[test]
fn caches_of_single_cores_are_not_the_last() {
    // An Arm server whose system-level cache is not reported.
    let tree = Tree::online("0-3");
    for number in 0..4 {
        let own = &*number.to_string();
        let caches = [(1, "Data", "64K", own), (1, "Instruction", "64K", own), (2, "Unified", "1024K", own)];
        tree.cpu(Cpu { number, core: own, package: 0, caches: &caches });
    }
    tree.nodes(&["0-3"]);
    let topology = tree.read("0-3");
    assert_eq!(domains(&topology), ["0-3"]);
    assert_eq!(topology.domains()[0].cache, None);
    assert_eq!(topology.domains()[0].cores[0].caches.len(), 2);
    // With two threads a core, the core's cache is no more shared.
    let tree = Tree::online("0-3");
    for number in 0..4 {
        let own = if number < 2 { "0-1" } else { "2-3" };
        tree.cpu(Cpu { number, core: own, package: 0, caches: &[(2, "Unified", "1024K", own)] });
    }
    assert_eq!(domains(&tree.read("0-3")), ["0-3"]);
    // Some EPYCs have an L3 for each core.
    let tree = Tree::online("0-1");
    tree.server_cpu(0, "0", 0, "0");
    tree.server_cpu(1, "1", 0, "1");
    assert_eq!(domains(&tree.read("0-1")), ["0", "1"]);
}

#[test]
fn no_numa() {
    let tree = Tree::online("0-1");
    tree.server_cpu(0, "0", 0, "0-1");
    tree.server_cpu(1, "1", 0, "0-1");
    tree.cgroup_v2("/");
    let topology = tree.read("0-1");
    assert_eq!(topology.describe(), "2 CPUs, 1 last-level cache of 32 MiB, NUMA not known");
    assert_eq!((topology.nodes(), topology.unknown()), (None, &["NUMA nodes".to_owned()][..]));
}

#[test]
fn nodes_within_a_cache_do_not_divide_it() {
    let tree = Tree::online("0-3");
    (0..4).for_each(|number| tree.server_cpu(number, &number.to_string(), 0, "0-3"));
    tree.nodes(&["0-1", "2-3", ""]);
    let topology = tree.read("0-3");
    assert_eq!(domains(&topology), ["0-3"]);
    assert_eq!((&topology.domains()[0].nodes[..], topology.nodes()), (&[0, 1][..], Some(2)));
}

#[test]
fn nothing_at_all() {
    let tree = Tree::empty();
    let cpus = available_parallelism().map_or(1, usize::from);
    let topology = Topology::read(tree.path(), None);
    assert_eq!((topology.usable().len(), topology.domains().len()), (cpus, 1));
    assert_eq!((topology.cores(), topology.nodes(), topology.online()), (None, None, None));
    assert_eq!(topology.unknown().len(), 6, "{:?}", topology.unknown());
    assert!(topology.describe().ends_with(", last-level cache not known, NUMA not known"), "{topology}");
    // Nor if `/` is a file, or is not there.
    tree.write("file", "");
    for root in ["file", "missing"] {
        assert_eq!(Topology::read(&tree.path().join(root), None).usable().len(), cpus);
    }
}

#[test]
fn this_machine() {
    let topology = Topology::detect();
    // The standard library rounds a quota down.
    let threads = available_parallelism().expect("a number").get();
    assert!(topology.suggested_threads() >= threads, "{topology}");
    assert!(topology.usable().len() >= threads, "{topology}");
}
