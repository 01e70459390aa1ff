//! The topology of a machine, as far as it concerns this process.

use std::{
    collections::{BTreeMap, BTreeSet},
    num::NonZeroUsize,
    path::Path,
    thread,
};

use crate::{
    CpuList, Cpuset, Quota, cgroup,
    files::Files,
    pin,
    sysfs::{self, Cache, Cpu},
};

/// The CPUs that this process may use, by core and last-level cache, and what limits it.
///
/// ```
/// use annulus_topology::{Policy, Topology};
///
/// let topology = Topology::detect();
/// let threads = topology.suggested_threads();
/// let placement = topology.place(threads, threads, Policy::Compact);
/// println!("{topology}: {} rings, K = {}", placement.rings(), topology.groups(&placement, None).groups);
/// ```
#[derive(Clone, Debug)]
pub struct Topology {
    pub(crate) domains: Vec<Domain>,
    usable: CpuList,
    online: Option<CpuList>,
    offline: CpuList,
    affinity: Option<CpuList>,
    cpuset: Option<Cpuset>,
    quota: Option<Quota>,
    is_smt_known: bool,
    unknown: Vec<String>,
}

/// The usable CPUs that share a last-level cache.
///
/// Where the cache is not known, all usable CPUs of a NUMA node count as one domain.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Domain {
    /// The cores with usable CPUs, in the order of their CPUs. There is at least one.
    pub cores: Vec<Core>,
    /// The last-level cache. `None` if it is not known.
    pub cache: Option<Cache>,
    /// The NUMA nodes, in ascending order: one, or several where nodes divide a cache (Intel's
    /// sub-NUMA clusters). Empty if they are not known.
    pub nodes: Vec<usize>,
    /// The socket. `None` if it is not known.
    pub package: Option<usize>,
}

/// A physical core.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Core {
    /// Its usable CPUs, in ascending order: the hardware threads of the core. There is at least
    /// one.
    pub cpus: Vec<usize>,
    /// Its caches below the last level, the first level first.
    pub caches: Vec<Cache>,
}

/// The identity of a domain.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
enum DomainKey {
    /// Its last-level cache, by level and CPUs.
    Cache(u32, CpuList),
    /// Its node, if the cache is not known.
    Node(Option<usize>),
}

impl Domain {
    /// Returns the usable CPUs.
    pub fn cpus(&self) -> CpuList {
        self.cores.iter().flat_map(|core| core.cpus.iter().copied()).collect()
    }

    /// Returns the usable CPUs in the order in which threads take them: one of each core, then the
    /// second of each core that has two, and so on.
    pub(crate) fn cpus_by_use(&self) -> Vec<usize> {
        let threads_max = self.cores.iter().map(|core| core.cpus.len()).max().unwrap_or(0);
        (0..threads_max)
            .flat_map(|thread| self.cores.iter().filter_map(move |core| core.cpus.get(thread).copied()))
            .collect()
    }
}

impl Topology {
    /// Returns the topology of this machine for the calling thread: its affinity mask counts as
    /// that of the process. Reads up to about 25 small files for each CPU.
    ///
    /// Facts that the system does not report are listed in [`unknown`](Self::unknown). On other systems
    /// than Linux that is everything but the number of CPUs.
    pub fn detect() -> Self {
        Self::read(Path::new("/"), pin::affinity())
    }

    /// Returns the topology in the files below `root`, a folder that looks like `/`. `affinity` are
    /// the CPUs that the process may run on, if they are known.
    ///
    /// Any content of the files gives a topology, with at least one CPU. Without files and without
    /// `affinity`, it has [`thread::available_parallelism`] CPUs.
    pub fn read(root: &Path, affinity: Option<CpuList>) -> Self {
        let mut files = Files::new(root);
        let mut unknown = Vec::new();
        let online = sysfs::list(&mut files, "online");
        let present = sysfs::list(&mut files, "present");
        let limits = cgroup::limits(&mut files);
        if online.is_none() {
            unknown.push("CPUs that are online".to_owned());
        }
        if affinity.is_none() {
            unknown.push("affinity mask".to_owned());
        }
        if limits.is_none() {
            unknown.push("limits of control groups".to_owned());
        }
        let limits = limits.unwrap_or_default();
        let usable = usable(&online, &affinity, &limits.cpuset);
        let nodes = sysfs::nodes(&mut files);
        if nodes.is_none() {
            unknown.push("NUMA nodes".to_owned());
        }
        let cpus: BTreeMap<_, _> = usable.iter().map(|cpu| (cpu, sysfs::cpu(&mut files, cpu))).collect();
        let is_smt_known = cpus.values().all(|cpu| cpu.siblings.is_some());
        if !is_smt_known {
            unknown.push("which CPUs share a core; such a CPU counts as a core".to_owned());
        }
        let domains = domains(cpus, &nodes.unwrap_or_default());
        if domains.iter().any(|domain| domain.cache.is_none()) {
            unknown.push("last-level caches; the CPUs of a NUMA node without one count as one domain".to_owned());
        }
        unknown.extend(files.garbage());
        let offline = online.as_ref().zip(present).map(|(online, present)| present.difference(online));
        Self {
            domains,
            usable,
            online,
            offline: offline.unwrap_or_default(),
            affinity,
            cpuset: limits.cpuset,
            quota: limits.quota,
            is_smt_known,
            unknown,
        }
    }

    /// Returns the domains, in the order of their NUMA nodes and CPUs. There is at least one.
    pub fn domains(&self) -> &[Domain] {
        &self.domains
    }

    /// Returns the CPUs that this process may use. There is at least one.
    pub fn usable(&self) -> &CpuList {
        &self.usable
    }

    /// Returns the CPUs that are online. `None` if the system does not report them.
    pub fn online(&self) -> Option<&CpuList> {
        self.online.as_ref()
    }

    /// Returns the CPUs that are present but offline. Empty if the system does not report them.
    pub fn offline(&self) -> &CpuList {
        &self.offline
    }

    /// Returns the affinity mask. `None` if it is not known.
    pub fn affinity(&self) -> Option<&CpuList> {
        self.affinity.as_ref()
    }

    /// Returns the CPUs that a control group leaves to this process. `None` if no group names any.
    pub fn cpuset(&self) -> Option<&Cpuset> {
        self.cpuset.as_ref()
    }

    /// Returns the smallest CPU quota of this process's control group and its parents. `None` if
    /// there is none.
    pub fn quota(&self) -> Option<&Quota> {
        self.quota.as_ref()
    }

    /// Returns the number of physical cores with usable CPUs. `None` if the system does not report
    /// which CPUs share a core.
    pub fn cores(&self) -> Option<usize> {
        self.is_smt_known.then(|| self.domains.iter().map(|domain| domain.cores.len()).sum())
    }

    /// Returns the number of NUMA nodes with usable CPUs. `None` if the system does not report
    /// them.
    pub fn nodes(&self) -> Option<usize> {
        let nodes: BTreeSet<_> = self.domains.iter().flat_map(|domain| &domain.nodes).collect();
        Some(nodes.len()).filter(|&count| count > 0)
    }

    /// Returns the unknown facts about this machine, one item each.
    pub fn unknown(&self) -> &[String] {
        &self.unknown
    }

    /// Returns the CPU time that this process can get, in CPUs: the number of usable CPUs, or the
    /// quota if that is smaller.
    pub fn effective_cpus(&self) -> f64 {
        let usable = self.usable.len() as f64;
        self.quota.as_ref().map_or(usable, |quota| quota.cpus.min(usable))
    }
}

/// Returns the CPUs that nothing forbids. Lists that exclude each other are garbage; the affinity
/// mask, which the system enforces, is the last to be doubted.
fn usable(online: &Option<CpuList>, affinity: &Option<CpuList>, cpuset: &Option<Cpuset>) -> CpuList {
    let lists = [affinity.as_ref(), online.as_ref(), cpuset.as_ref().map(|cpuset| &cpuset.cpus)];
    let usable = lists.into_iter().flatten().fold(CpuList::default(), |usable, list| {
        let both = if usable.is_empty() { list.clone() } else { usable.intersection(list) };
        if both.is_empty() { usable } else { both }
    });
    match usable.is_empty() {
        true => (0..thread::available_parallelism().map_or(1, NonZeroUsize::get)).collect(),
        false => usable,
    }
}

/// Groups CPUs by their last-level caches, or by their NUMA nodes where these are not known.
fn domains(cpus: BTreeMap<usize, Cpu>, nodes: &BTreeMap<usize, usize>) -> Vec<Domain> {
    let mut groups: BTreeMap<DomainKey, Vec<(usize, Cpu)>> = BTreeMap::new();
    for (number, cpu) in cpus {
        let key = match last_level(&cpu) {
            Some(cache) => DomainKey::Cache(cache.level, cache.cpus.clone()),
            None => DomainKey::Node(nodes.get(&number).copied()),
        };
        groups.entry(key).or_default().push((number, cpu));
    }
    let domain = |(key, cpus)| domain(matches!(key, DomainKey::Cache(..)), cpus, nodes);
    let mut domains: Vec<_> = groups.into_iter().map(domain).collect();
    domains.sort_by_key(|domain| (domain.nodes.first().copied(), domain.cpus()));
    domains
}

/// Returns the last-level cache of a CPU. A cache of level 1 or 2 that one core has to itself is
/// not one: processors with such caches share a further one that the system does not report, as on
/// many virtual machines and some Arm servers.
fn last_level(cpu: &Cpu) -> Option<&Cache> {
    let cache = cpu.caches.last()?;
    let is_core = cpu.siblings.as_ref().is_none_or(|siblings| *siblings == cache.cpus);
    let is_private = cache.cpus.len() == 1 || is_core;
    (cache.level > 2 || !is_private).then_some(cache)
}

/// Builds the domain of these CPUs. If it has a cache, that is the last one of each CPU.
fn domain(has_cache: bool, cpus: Vec<(usize, Cpu)>, nodes: &BTreeMap<usize, usize>) -> Domain {
    let node_of: BTreeSet<_> = cpus.iter().filter_map(|(number, _)| nodes.get(number).copied()).collect();
    let package = cpus.iter().find_map(|(_, cpu)| cpu.package);
    let mut cache = None;
    let mut cores: BTreeMap<CpuList, Core> = BTreeMap::new();
    for (number, mut cpu) in cpus {
        let siblings = cpu.siblings.unwrap_or_else(|| [number].into_iter().collect());
        if has_cache {
            cache = cpu.caches.pop();
        }
        cores.entry(siblings).or_insert(Core { cpus: Vec::new(), caches: cpu.caches }).cpus.push(number);
    }
    let mut cores: Vec<_> = cores.into_values().collect();
    cores.sort_by(|a, b| a.cpus.cmp(&b.cpus));
    Domain { cores, cache, nodes: node_of.into_iter().collect(), package }
}
