//! Folders that look like `/`, as machines would show them.
#![allow(dead_code, reason = "each test file uses a part")]

use std::{fs, path::Path};

use annulus_topology::{CpuList, Topology};
use tempfile::TempDir;

/// Parses a CPU list.
#[track_caller]
pub fn cpus(text: &str) -> CpuList {
    text.parse().expect(text)
}

/// A folder that looks like `/`.
pub struct Tree(TempDir);

/// One CPU of a machine: its core's CPUs, its socket, and its caches as level, type, size and CPUs.
pub struct Cpu<'a> {
    pub number: usize,
    pub core: &'a str,
    pub package: usize,
    pub caches: &'a [(u32, &'a str, &'a str, &'a str)],
}

impl Tree {
    /// Creates a folder with these CPUs online, and no more.
    pub fn online(cpus: &str) -> Self {
        let tree = Self::empty();
        tree.write("sys/devices/system/cpu/online", cpus);
        tree.write("sys/devices/system/cpu/present", cpus);
        tree
    }

    pub fn empty() -> Self {
        Self(tempfile::tempdir().expect("a folder"))
    }

    pub fn path(&self) -> &Path {
        self.0.path()
    }

    /// Writes a file, with the line end that the kernel's files have.
    pub fn write(&self, path: &str, content: &str) {
        self.write_bytes(path, format!("{content}\n").as_bytes());
    }

    pub fn write_bytes(&self, path: &str, content: &[u8]) {
        let path = self.path().join(path);
        fs::create_dir_all(path.parent().expect("a folder")).expect("a folder");
        fs::write(path, content).expect("written");
    }

    /// Writes the files of a CPU.
    pub fn cpu(&self, Cpu { number, core, package, caches }: Cpu<'_>) {
        let folder = format!("sys/devices/system/cpu/cpu{number}");
        self.write(&format!("{folder}/topology/core_cpus_list"), core);
        self.write(&format!("{folder}/topology/physical_package_id"), &package.to_string());
        for (index, (level, kind, size, cpus)) in caches.iter().enumerate() {
            let folder = format!("{folder}/cache/index{index}");
            self.write(&format!("{folder}/level"), &level.to_string());
            self.write(&format!("{folder}/type"), kind);
            self.write(&format!("{folder}/size"), size);
            self.write(&format!("{folder}/shared_cpu_list"), cpus);
        }
    }

    /// Writes the files of a CPU of a server: a core with these CPUs, L1, L2, and an L3 of 32 MiB
    /// that `shared` have in common.
    pub fn server_cpu(&self, number: usize, core: &str, package: usize, shared: &str) {
        let caches = [
            (1, "Data", "48K", core),
            (1, "Instruction", "32K", core),
            (2, "Unified", "1024K", core),
            (3, "Unified", "32768K", shared),
        ];
        self.cpu(Cpu { number, core, package, caches: &caches });
    }

    /// Writes the NUMA nodes with these CPUs.
    pub fn nodes(&self, nodes: &[&str]) {
        self.write("sys/devices/system/node/online", &format!("0-{}", nodes.len() - 1));
        for (node, cpus) in nodes.iter().enumerate() {
            self.write(&format!("sys/devices/system/node/node{node}/cpulist"), cpus);
        }
    }

    /// Puts this process into a control group of version 2.
    pub fn cgroup_v2(&self, group: &str) {
        self.write("proc/self/cgroup", &format!("0::{group}"));
        let mounts = "22 1 254:0 / / rw - ext4 /dev/vda rw\n\
                      30 22 0:26 / /sys/fs/cgroup rw,nosuid shared:4 - cgroup2 cgroup2 rw,nsdelegate";
        self.write("proc/self/mountinfo", mounts);
    }

    /// Reads the topology of a process with this affinity mask.
    pub fn read(&self, affinity: &str) -> Topology {
        Topology::read(self.path(), Some(cpus(affinity)))
    }
}

/// A socket with `cores` cores of two threads: core c has the CPUs c and c + `cores`.
pub fn one_socket_with_smt(cores: usize) -> Tree {
    let all = format!("0-{}", 2 * cores - 1);
    let tree = Tree::online(&all);
    for number in 0..2 * cores {
        let core = number % cores;
        tree.server_cpu(number, &format!("{core},{}", core + cores), 0, &all);
    }
    tree.nodes(&[&all]);
    tree.cgroup_v2("/");
    tree
}

/// Two sockets, each a NUMA node, of `chiplets` chiplets with 8 cores and an L3 each.
pub fn two_sockets_of_chiplets(chiplets: usize) -> Tree {
    let per_socket = 8 * chiplets;
    let tree = Tree::online(&format!("0-{}", 2 * per_socket - 1));
    for number in 0..2 * per_socket {
        let first = number / 8 * 8;
        tree.server_cpu(number, &number.to_string(), number / per_socket, &format!("{first}-{}", first + 7));
    }
    let nodes = [0, 1].map(|node| format!("{}-{}", node * per_socket, (node + 1) * per_socket - 1));
    tree.nodes(&[&nodes[0], &nodes[1]]);
    tree.cgroup_v2("/");
    tree
}
