//! A topology in one line.

use std::fmt;

use crate::Topology;

impl Topology {
    /// Returns one line for the results of measurements: `16 CPUs on 8 cores, 2 last-level caches
    /// of 32 MiB, 1 NUMA node, quota of 1.5 CPUs`. What is not known is called so.
    pub fn describe(&self) -> String {
        let cpus = counted(self.usable().len(), "CPU");
        let cores = self.cores().filter(|&cores| cores < self.usable().len());
        let cores = cores.map_or_else(String::new, |cores| format!(" on {}", counted(cores, "core")));
        let nodes = self.nodes().map_or("NUMA not known".to_owned(), |nodes| counted(nodes, "NUMA node"));
        let quota = self.quota().filter(|quota| quota.cpus < self.usable().len() as f64);
        let quota = quota.map_or_else(String::new, |quota| format!(", quota of {quota}"));
        format!("{cpus}{cores}, {}, {nodes}{quota}", self.caches())
    }

    /// Describes the last-level caches.
    fn caches(&self) -> String {
        let caches: Option<Vec<_>> = self.domains().iter().map(|domain| domain.cache.as_ref()).collect();
        let Some(caches) = caches else { return "last-level cache not known".to_owned() };
        let count = counted(caches.len(), "last-level cache");
        let sizes: Option<Vec<_>> = caches.iter().map(|cache| cache.bytes).collect();
        let sizes = sizes.unwrap_or_default();
        match (sizes.iter().min(), sizes.iter().max()) {
            (Some(&least), Some(&most)) if least < most => {
                format!("{count} of {} to {}", short_bytes(least), short_bytes(most))
            }
            (Some(&size), _) => format!("{count} of {}", short_bytes(size)),
            _ => format!("{count} of unknown size"),
        }
    }
}

impl fmt::Display for Topology {
    /// Writes [`describe`](Topology::describe).
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.describe())
    }
}

fn counted(count: usize, noun: &str) -> String {
    format!("{count} {noun}{}", if count == 1 { "" } else { "s" })
}

/// Rounds to at most two digits after the point, and leaves out those that are 0.
pub(crate) fn hundredths(value: f64) -> f64 {
    (value * 100.0).round() / 100.0
}

/// Returns a number of bytes in its largest binary unit, with at most two digits after the point:
/// `48 KiB`, `1.25 MiB`.
///
/// ```
/// assert_eq!(annulus_topology::short_bytes(32 << 20), "32 MiB");
/// assert_eq!(annulus_topology::short_bytes(1280 << 10), "1.25 MiB");
/// ```
pub fn short_bytes(bytes: u64) -> String {
    let units = [(30, "GiB"), (20, "MiB"), (10, "KiB")];
    match units.into_iter().find(|&(shift, _)| bytes >= 1 << shift) {
        Some((shift, unit)) => format!("{} {unit}", hundredths(bytes as f64 / (1u64 << shift) as f64)),
        None => format!("{bytes} B"),
    }
}
