//! A topology as tables and as JSON.

use annulus_terminal::{
    plain,
    units::{Shape, counted},
};
use annulus_topology::{Cache, Core, CpuList, Domain, Placement, Policy, Seat, Topology, short_bytes};
use comfy_table::CellAlignment;
use serde::Serialize;

/// What is printed: the fields of the JSON object.
#[derive(Serialize)]
pub struct Report {
    description: String,
    usable_cpus: Vec<usize>,
    /// `None` if not known, as with every `Option` here but those of the cpuset, the quota and the
    /// plan.
    online_cpus: Option<Vec<usize>>,
    offline_cpus: Vec<usize>,
    affinity_cpus: Option<Vec<usize>>,
    cpuset: Option<CpusetReport>,
    quota: Option<QuotaReport>,
    effective_cpus: f64,
    cores: Option<usize>,
    numa_nodes: Option<usize>,
    domains: Vec<DomainReport>,
    suggested: Suggestion,
    #[serde(skip_serializing_if = "Option::is_none")]
    plan: Option<Plan>,
    unknown: Vec<String>,
}

/// The CPUs of a control group.
#[derive(Serialize)]
struct CpusetReport {
    cpus: Vec<usize>,
    cgroup: String,
}

/// The CPU time of a control group.
#[derive(Serialize)]
struct QuotaReport {
    cpus: f64,
    cgroup: String,
    #[serde(skip)]
    shown: String,
}

/// The usable CPUs that share a last-level cache.
#[derive(Serialize)]
struct DomainReport {
    cpus: Vec<usize>,
    cores: Vec<CoreReport>,
    cache: Option<CacheReport>,
    numa_nodes: Vec<usize>,
    socket: Option<usize>,
}

/// A core, and its caches below the last level.
#[derive(Serialize)]
struct CoreReport {
    cpus: Vec<usize>,
    caches: Vec<CacheReport>,
}

/// A cache.
#[derive(Serialize)]
struct CacheReport {
    level: u32,
    bytes: Option<u64>,
    cpus: Vec<usize>,
}

/// Numbers of threads, and of the rings and groups for them.
#[derive(Serialize)]
struct Suggestion {
    producers: usize,
    consumers: usize,
    rings: usize,
    groups: usize,
    groups_reason: String,
}

/// The places of the threads that were asked for.
#[derive(Serialize)]
pub struct Plan {
    policy: &'static str,
    rings: usize,
    groups: usize,
    groups_reason: String,
    producers: Vec<SeatReport>,
    consumers: Vec<SeatReport>,
}

/// The place of a thread.
#[derive(Clone, Copy, Serialize)]
struct SeatReport {
    cpu: usize,
    domain: usize,
}

impl Plan {
    /// Plans the places of the threads of `shape`.
    pub fn new(topology: &Topology, shape: Shape, policy: Policy, batch_bytes: Option<u64>) -> Self {
        let placement = topology.place(shape.inputs, shape.outputs, policy);
        let Suggestion { rings, groups, groups_reason, .. } = Suggestion::new(topology, &placement, batch_bytes);
        let seats =
            |seats: &[Seat]| seats.iter().map(|seat| SeatReport { cpu: seat.cpu, domain: seat.domain }).collect();
        Self {
            policy: if policy == Policy::Spread { "spread" } else { "compact" },
            rings,
            groups,
            groups_reason,
            producers: seats(placement.producers()),
            consumers: seats(placement.consumers()),
        }
    }

    /// Returns a line about the rings, and a table with a line for each pair of threads.
    fn text(&self) -> String {
        let mut table = plain::list();
        table.set_header(["", "producer on CPU", "consumer on CPU", "domain"]);
        for thread in 0..self.producers.len().max(self.consumers.len()) {
            let [producer, consumer] = [&self.producers, &self.consumers].map(|seats| seats.get(thread));
            let cpu = |seat: Option<&SeatReport>| seat.map_or(String::new(), |seat| seat.cpu.to_string());
            let domain = producer.or(consumer).map_or(0, |seat| seat.domain);
            table.add_row([thread.to_string(), cpu(producer), cpu(consumer), domain.to_string()]);
        }
        table.column_iter_mut().for_each(|column| column.set_cell_alignment(CellAlignment::Right));
        let Self { policy, groups, groups_reason, .. } = self;
        let shape = Shape { inputs: self.producers.len(), outputs: self.consumers.len() };
        let rings = counted(self.rings as u64, "ring");
        format!("Plan {shape}, {policy}: {rings}, K = {groups} ({groups_reason})\n{}", table.trim_fmt())
    }
}

impl Suggestion {
    fn new(topology: &Topology, placement: &Placement, batch_bytes: Option<u64>) -> Self {
        let groups = topology.groups(placement, batch_bytes);
        Self {
            producers: placement.producers().len(),
            consumers: placement.consumers().len(),
            rings: placement.rings(),
            groups: groups.groups,
            groups_reason: groups.reason,
        }
    }
}

impl Report {
    /// Collects what is printed about a topology. K is suggested for batches of `batch_bytes`.
    pub fn new(topology: &Topology, batch_bytes: Option<u64>, plan: Option<Plan>) -> Self {
        let threads = topology.suggested_threads();
        let placement = topology.place(threads, threads, Policy::Compact);
        Self {
            description: topology.describe(),
            usable_cpus: numbers(topology.usable()),
            online_cpus: topology.online().map(numbers),
            offline_cpus: numbers(topology.offline()),
            affinity_cpus: topology.affinity().map(numbers),
            cpuset: topology
                .cpuset()
                .map(|cpuset| CpusetReport { cpus: numbers(&cpuset.cpus), cgroup: cpuset.cgroup.clone() }),
            quota: topology.quota().map(|quota| QuotaReport {
                cpus: quota.cpus,
                cgroup: quota.cgroup.clone(),
                shown: quota.to_string(),
            }),
            effective_cpus: topology.effective_cpus(),
            cores: topology.cores(),
            numa_nodes: topology.nodes(),
            domains: topology.domains().iter().map(DomainReport::new).collect(),
            suggested: Suggestion::new(topology, &placement, batch_bytes),
            plan,
            unknown: topology.unknown().to_vec(),
        }
    }

    /// Returns a list of facts, a table of the domains, and the plan.
    pub fn text(&self) -> String {
        let mut table = plain::list();
        let mut row = |name: &str, value: String| {
            table.add_row([name, &value]);
        };
        let online = self.online_cpus.as_ref().map_or(String::new(), |online| format!(" of {} online", online.len()));
        row("CPUs", format!("{} usable{online}: {}", self.usable_cpus.len(), list(&self.usable_cpus)));
        if !self.offline_cpus.is_empty() {
            row("offline", list(&self.offline_cpus));
        }
        row("cores", self.cores.map_or("not known".to_owned(), |cores| cores.to_string()));
        row("NUMA nodes", self.numa_nodes.map_or("not known".to_owned(), |nodes| nodes.to_string()));
        row("limits", self.limits());
        let Suggestion { producers, consumers, rings, groups, groups_reason } = &self.suggested;
        let [producers, consumers] =
            [(producers, "producer"), (consumers, "consumer")].map(|(&count, noun)| counted(count as u64, noun));
        let rings = counted(*rings as u64, "ring");
        row("suggested", format!("{producers} and {consumers}\n{rings}\nK = {groups}: {groups_reason}"));
        if !self.unknown.is_empty() {
            row("not known", self.unknown.join("\n"));
        }
        let plan = self.plan.as_ref().map_or(String::new(), |plan| format!("\n\n{}", plan.text()));
        format!("{}\n\n{}{plan}", table.trim_fmt(), self.domains_text())
    }

    /// Returns what keeps CPUs or CPU time from this process, one line each.
    fn limits(&self) -> String {
        let mut limits = Vec::new();
        let excludes = |cpus: &[usize]| {
            self.online_cpus.as_ref().is_none_or(|online| online.iter().any(|cpu| !cpus.contains(cpu)))
        };
        if let Some(cpus) = self.affinity_cpus.as_deref().filter(|cpus| excludes(cpus)) {
            limits.push(format!("affinity mask: CPUs {}", list(cpus)));
        }
        if let Some(CpusetReport { cpus, cgroup }) = self.cpuset.as_ref().filter(|cpuset| excludes(&cpuset.cpus)) {
            limits.push(format!("cpuset of '{cgroup}': CPUs {}", list(cpus)));
        }
        let is_less = |quota: &&QuotaReport| quota.cpus < self.usable_cpus.len() as f64;
        if let Some(QuotaReport { cgroup, shown, .. }) = self.quota.as_ref().filter(is_less) {
            limits.push(format!("quota of '{cgroup}': {shown}"));
        }
        if limits.is_empty() { "none".to_owned() } else { limits.join("\n") }
    }

    fn domains_text(&self) -> String {
        let mut table = plain::list();
        table.set_header(["domain", "CPUs", "cores", "last-level cache", "caches of a core", "NUMA node", "socket"]);
        for (index, domain) in self.domains.iter().enumerate() {
            let cache = domain.cache.as_ref().map_or("not known".to_owned(), CacheReport::text);
            let nodes = if domain.numa_nodes.is_empty() { "not known".to_owned() } else { list(&domain.numa_nodes) };
            let socket = domain.socket.map_or("not known".to_owned(), |socket| socket.to_string());
            let cores = domain.cores.len().to_string();
            table.add_row([
                index.to_string(),
                list(&domain.cpus),
                cores,
                cache,
                domain.caches_of_cores(),
                nodes,
                socket,
            ]);
        }
        table.trim_fmt()
    }
}

impl DomainReport {
    fn new(domain: &Domain) -> Self {
        Self {
            cpus: numbers(&domain.cpus()),
            cores: domain.cores.iter().map(CoreReport::new).collect(),
            cache: domain.cache.as_ref().map(CacheReport::new),
            numa_nodes: domain.nodes.clone(),
            socket: domain.package,
        }
    }

    /// Returns the caches of the cores; those of a hybrid processor differ.
    fn caches_of_cores(&self) -> String {
        let mut kinds: Vec<String> = Vec::new();
        for core in &self.cores {
            let caches: Vec<_> = core.caches.iter().map(CacheReport::text).collect();
            let kind = if caches.is_empty() { "not known".to_owned() } else { caches.join(", ") };
            if !kinds.contains(&kind) {
                kinds.push(kind);
            }
        }
        kinds.join(" or ")
    }
}

impl CoreReport {
    fn new(core: &Core) -> Self {
        Self { cpus: core.cpus.clone(), caches: core.caches.iter().map(CacheReport::new).collect() }
    }
}

impl CacheReport {
    fn new(cache: &Cache) -> Self {
        Self { level: cache.level, bytes: cache.bytes, cpus: numbers(&cache.cpus) }
    }

    fn text(&self) -> String {
        let size = self.bytes.map_or("size not known".to_owned(), short_bytes);
        format!("L{} {size}", self.level)
    }
}

fn numbers(cpus: &CpuList) -> Vec<usize> {
    cpus.iter().collect()
}

/// Returns numbers in Linux's notation for lists of CPUs.
fn list(numbers: &[usize]) -> String {
    numbers.iter().copied().collect::<CpuList>().to_string()
}

#[cfg(test)]
mod tests {
    use std::{fs, path::Path};

    use super::*;

    /// Writes a file below `root`.
    fn write(root: &Path, path: &str, content: &str) {
        let path = root.join(path);
        fs::create_dir_all(path.parent().expect("a folder")).expect("a folder");
        fs::write(path, content).expect("written");
    }

    /// Returns the report of eight CPUs, two of them offline, in two domains of different caches. A
    /// control group allows CPUs 0 to 4 and one and a half of their time.
    fn report(plan: Option<(Shape, Policy)>) -> Report {
        let root = tempfile::tempdir().expect("a folder");
        let root = root.path();
        write(root, "sys/devices/system/cpu/online", "0-5");
        write(root, "sys/devices/system/cpu/present", "0-7");
        write(root, "proc/self/cgroup", "0::/job");
        write(root, "proc/self/mountinfo", "30 22 0:26 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw");
        write(root, "sys/fs/cgroup/job/cpu.max", "150000 100000");
        write(root, "sys/fs/cgroup/job/cpuset.cpus.effective", "0-4");
        for cpu in 0..6 {
            let folder = format!("sys/devices/system/cpu/cpu{cpu}");
            let (shared, size, core) = if cpu < 4 { ("0-3", "32M", cpu / 2 * 2) } else { ("4-5", "4M", 4) };
            let siblings = format!("{core}-{}", core + 1);
            write(root, &format!("{folder}/topology/core_cpus_list"), &siblings);
            for (index, level, size, cpus) in [(0, "1", "48K", &*siblings), (1, "3", size, shared)] {
                let folder = format!("{folder}/cache/index{index}");
                write(root, &format!("{folder}/level"), level);
                write(root, &format!("{folder}/type"), "Unified");
                write(root, &format!("{folder}/size"), size);
                write(root, &format!("{folder}/shared_cpu_list"), cpus);
            }
        }
        let topology = Topology::read(root, Some("0-5".parse().expect("a list")));
        let plan = plan.map(|(shape, policy)| Plan::new(&topology, shape, policy, None));
        Report::new(&topology, None, plan)
    }

    /// Returns the lines of a text without the spaces that align its columns.
    fn lines(text: &str) -> Vec<String> {
        text.lines().map(|line| line.split_whitespace().collect::<Vec<_>>().join(" ")).collect()
    }

    #[test]
    fn limits_and_what_is_not_known_are_named() {
        let expected = [
            "CPUs 5 usable of 6 online: 0-4",
            "offline 6-7",
            "cores 3",
            "NUMA nodes not known",
            "limits cpuset of '/sys/fs/cgroup/job': CPUs 0-4",
            "quota of '/sys/fs/cgroup/job': 1.5 CPUs",
            "suggested 2 producers and 2 consumers",
            "1 ring",
            "K = 2: the threads share a last-level cache; 1 suits batches of more than 128 KiB",
            "not known NUMA nodes",
            "",
            "domain CPUs cores last-level cache caches of a core NUMA node socket",
            "0 0-3 2 L3 32 MiB L1 48 KiB not known not known",
            "1 4 1 L3 4 MiB L1 48 KiB not known not known",
        ];
        assert_eq!(lines(&report(None).text()), expected);
    }

    #[test]
    fn a_plan_has_a_line_for_each_pair() {
        let expected = [
            "Plan 3x1, spread: 2 rings, K = 1 (the threads span 2 last-level caches)",
            "producer on CPU consumer on CPU domain",
            "0 0 1 0",
            "1 4 1",
            "2 2 0",
        ];
        let text = report(Some((Shape { inputs: 3, outputs: 1 }, Policy::Spread))).text();
        assert_eq!(lines(text.rsplit("\n\n").next().expect("a plan")), expected);
    }
}
