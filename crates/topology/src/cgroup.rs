//! Reads the limits that control groups set for this process, of both versions.
//!
//! Sources: the kernel's `Documentation/admin-guide/cgroup-v2.rst`,
//! `Documentation/scheduler/sched-bwc.rst` (version 1), and the manual pages `cgroups(7)` and
//! `proc_pid_mountinfo(5)`.

use std::fmt;

use crate::{CpuList, files::Files, units::hundredths};

/// The CPUs that a control group leaves to this process.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Cpuset {
    /// The CPUs.
    pub cpus: CpuList,
    /// The folder of the control group.
    pub cgroup: String,
}

/// The CPU time that a control group leaves to this process and to the others in it.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Quota {
    /// The time in CPUs: 1.5 is 1.5 seconds of CPU time a second.
    pub cpus: f64,
    /// The folder of the control group, which may be a parent of this process's own.
    pub cgroup: String,
}

impl fmt::Display for Quota {
    /// Writes the time, rounded to hundredths: `1.5 CPUs`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let cpus = hundredths(self.cpus);
        write!(f, "{cpus} CPU{}", if cpus == 1.0 { "" } else { "s" })
    }
}

/// The limits of all control groups of this process.
#[derive(Debug, Default)]
pub(crate) struct Limits {
    pub(crate) cpuset: Option<Cpuset>,
    /// The smallest quota.
    pub(crate) quota: Option<Quota>,
}

/// Reads the limits. `None` if the system has no control groups, or does not show them.
pub(crate) fn limits(files: &mut Files<'_>) -> Option<Limits> {
    let own = files.text("/proc/self/cgroup")?;
    let mounts = files.text("/proc/self/mountinfo")?;
    let mut limits = Limits::default();
    let mut is_mounted = false;
    for mount in mounts.lines().filter_map(Mount::parse) {
        let Some(path) = own.lines().find_map(|line| mount.path_of(line)) else { continue };
        is_mounted = true;
        for folder in mount.folders(path) {
            if mount.has("cpu") {
                limits.narrow(quota(files, &folder, mount.is_v2));
            }
            if mount.has("cpuset") && limits.cpuset.is_none() {
                limits.cpuset = cpuset(files, &folder, mount.is_v2);
            }
        }
    }
    is_mounted.then_some(limits)
}

impl Limits {
    /// Keeps the smaller quota.
    fn narrow(&mut self, quota: Option<Quota>) {
        let least = self.quota.as_ref().map_or(f64::INFINITY, |quota| quota.cpus);
        if let Some(quota) = quota.filter(|quota| quota.cpus < least) {
            self.quota = Some(quota);
        }
    }
}

/// A mounted hierarchy of control groups.
struct Mount<'a> {
    /// The folder of the hierarchy that is mounted.
    root: &'a str,
    /// The mount point.
    point: &'a str,
    is_v2: bool,
    /// Its controllers are among these words. Empty for version 2, which has all.
    options: &'a str,
}

impl<'a> Mount<'a> {
    /// Parses a line of `mountinfo`. `None` if it is not about control groups.
    fn parse(line: &'a str) -> Option<Self> {
        let (place, system) = line.split_once(" - ")?;
        let mut place = place.split(' ').skip(3);
        let mut system = system.split(' ');
        let (root, point) = (place.next()?, place.next()?);
        let is_v2 = match system.next()? {
            "cgroup2" => true,
            "cgroup" => false,
            _ => return None,
        };
        Some(Self { root, point, is_v2, options: system.nth(1).unwrap_or_default() })
    }

    fn has(&self, controller: &str) -> bool {
        self.is_v2 || self.options.split(',').any(|option| option == controller)
    }

    /// Returns this process's path in the hierarchy, if `line` of `/proc/self/cgroup` is about it.
    fn path_of(&self, line: &'a str) -> Option<&'a str> {
        let (_, line) = line.split_once(':')?;
        let (controllers, path) = line.split_once(':')?;
        let is_ours = match self.is_v2 {
            true => controllers.is_empty(),
            false => controllers.split(',').any(|controller| controller.starts_with("cpu") && self.has(controller)),
        };
        is_ours.then_some(path)
    }

    /// Returns the folders of the group at `path` and of its parents, up to the mount. A group that
    /// the mount does not show, as in some containers, has the mount's folder alone.
    fn folders(&self, path: &str) -> Vec<String> {
        let below = match path.strip_prefix(self.root.trim_end_matches('/')) {
            Some(below) if below.starts_with('/') && !below.split('/').any(|part| part == "..") => below,
            _ => "",
        };
        let parts: Vec<_> = below.split('/').filter(|part| !part.is_empty()).collect();
        let point = self.point.trim_end_matches('/');
        (0..=parts.len())
            .rev()
            .map(|depth| parts[..depth].iter().fold(point.to_owned(), |folder, part| folder + "/" + part))
            .collect()
    }
}

/// Reads the quota of one group. `None` if it has none.
fn quota(files: &mut Files<'_>, folder: &str, is_v2: bool) -> Option<Quota> {
    let (quota, period) = if is_v2 {
        let path = format!("{folder}/cpu.max");
        let text = files.text(&path)?;
        let (quota, period) = text.split_once(' ').unwrap_or((&text, "100000"));
        if quota == "max" {
            return None;
        }
        (files.parsed::<u64>(&path, quota)?, files.parsed::<u64>(&path, period)?)
    } else {
        // -1 means that there is no limit.
        let quota = files.value::<i64>(&format!("{folder}/cpu.cfs_quota_us"))?;
        (u64::try_from(quota).ok()?, files.value(&format!("{folder}/cpu.cfs_period_us"))?)
    };
    let cgroup = folder.to_owned();
    (quota > 0 && period > 0).then(|| Quota { cpus: quota as f64 / period as f64, cgroup })
}

/// Reads the CPUs of one group. `None` if its parent decides.
fn cpuset(files: &mut Files<'_>, folder: &str, is_v2: bool) -> Option<Cpuset> {
    let names: &[_] = if is_v2 { &["cpuset.cpus.effective"] } else { &["cpuset.effective_cpus", "cpuset.cpus"] };
    let cpus = names.iter().find_map(|name| files.value::<CpuList>(&format!("{folder}/{name}")))?;
    (!cpus.is_empty()).then(|| Cpuset { cpus, cgroup: folder.to_owned() })
}
