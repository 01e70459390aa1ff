//! Reads CPUs, caches and NUMA nodes from Linux's sysfs.
//!
//! Sources: the kernel's `Documentation/admin-guide/cputopology.rst` and
//! `Documentation/ABI/testing/sysfs-devices-system-cpu`.

use std::{collections::BTreeMap, str::FromStr};

use crate::{CpuList, files::Files};

const CPU: &str = "/sys/devices/system/cpu";
const NODE: &str = "/sys/devices/system/node";
/// The number of caches of a CPU that are looked at; x86 has four.
const CACHES_MAX: usize = 16;

/// A cache, as one CPU sees it.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Cache {
    /// The level: 1 is the closest to the CPU.
    pub level: u32,
    /// The size in bytes. `None` if the system does not report it.
    pub bytes: Option<u64>,
    /// The CPUs that share the cache, whether this process may use them or not.
    pub cpus: CpuList,
}

/// The facts that sysfs reports about one CPU.
#[derive(Debug, Default)]
pub(crate) struct Cpu {
    /// The CPUs of its core, itself included.
    pub(crate) siblings: Option<CpuList>,
    pub(crate) package: Option<usize>,
    /// Its data and unified caches, the smallest level first.
    pub(crate) caches: Vec<Cache>,
}

/// Returns the CPUs in a list of all CPUs: `online` or `present`.
pub(crate) fn list(files: &mut Files<'_>, name: &str) -> Option<CpuList> {
    files.value(&format!("{CPU}/{name}")).filter(|cpus: &CpuList| !cpus.is_empty())
}

/// Reads the files of one CPU. A list that leaves out the CPU itself is not believed.
pub(crate) fn cpu(files: &mut Files<'_>, cpu: usize) -> Cpu {
    let topology = format!("{CPU}/cpu{cpu}/topology");
    // The second name is that of kernels before 5.3.
    let siblings = files
        .value(&format!("{topology}/core_cpus_list"))
        .or_else(|| files.value(&format!("{topology}/thread_siblings_list")))
        .filter(|siblings: &CpuList| siblings.contains(cpu));
    // A package of -1 is Linux's word for "not known".
    let package = files.value::<i64>(&format!("{topology}/physical_package_id"));
    let package = package.and_then(|package| usize::try_from(package).ok());
    let mut caches: Vec<_> = (0..CACHES_MAX).map_while(|index| cache(files, cpu, index)).flatten().collect();
    caches.sort_by_key(|cache| cache.level);
    Cpu { siblings, package, caches }
}

/// Reads a cache of a CPU. The outer `None`: there is no cache of this index. The inner one: it is
/// for instructions, or its files make no sense.
fn cache(files: &mut Files<'_>, cpu: usize, index: usize) -> Option<Option<Cache>> {
    let folder = format!("{CPU}/cpu{cpu}/cache/index{index}");
    let kind = files.text(&format!("{folder}/type"))?;
    if kind == "Instruction" {
        return Some(None);
    }
    let level = files.value(&format!("{folder}/level"));
    let cpus: Option<CpuList> = files.value(&format!("{folder}/shared_cpu_list"));
    let bytes = files.value::<CacheSize>(&format!("{folder}/size")).map(|size| size.0);
    let cache = level.zip(cpus).map(|(level, cpus)| Cache { level, bytes, cpus });
    Some(cache.filter(|cache| cache.cpus.contains(cpu)))
}

/// The size of a cache: `48K`.
struct CacheSize(u64);

impl FromStr for CacheSize {
    type Err = ();

    fn from_str(text: &str) -> Result<Self, ()> {
        let (digits, shift) = match text.as_bytes().last() {
            Some(b'K') => (&text[..text.len() - 1], 10),
            Some(b'M') => (&text[..text.len() - 1], 20),
            _ => (text, 0),
        };
        let number = digits.parse::<u32>().map_err(|_| ())?;
        if number == 0 { Err(()) } else { Ok(Self(u64::from(number) << shift)) }
    }
}

/// Returns the NUMA node of each CPU. `None` if the system has no files of nodes.
pub(crate) fn nodes(files: &mut Files<'_>) -> Option<BTreeMap<usize, usize>> {
    let nodes: CpuList = files.value(&format!("{NODE}/online"))?;
    let mut node_of = BTreeMap::new();
    for node in nodes.iter() {
        let cpus: CpuList = files.value(&format!("{NODE}/node{node}/cpulist")).unwrap_or_default();
        node_of.extend(cpus.iter().map(|cpu| (cpu, node)));
    }
    Some(node_of).filter(|node_of| !node_of.is_empty())
}
