//! A topology in one line.

use std::fmt;

use crate::{
    topology::Topology,
    units::{counted, short_bytes},
};

impl Topology {
    /// Returns one line for the results of measurements: `16 CPUs on 8 cores, 2 last-level caches
    /// of 32 MiB, 1 NUMA node, quota of 1.5 CPUs`. Unknown facts are named as such.
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
