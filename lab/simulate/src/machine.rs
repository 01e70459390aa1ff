//! Machines: cores, cache domains, sockets, and what a cache line costs between them.

use serde::Serialize;

use crate::{Error, Parameter};

/// The largest number of cores of a simulated machine.
pub const MAX_CORES: usize = 1024;
/// From this number of domains on, a machine is one of chiplets.
const CHIPLET_DOMAINS: usize = 3;

/// A machine: its cores, their cache domains (each with a last-level cache of its own), and the
/// cost of moving a cache line between them.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Machine {
    /// The name.
    pub name: String,
    /// Hardware threads. Each runs one producer and one consumer.
    pub cores: usize,
    /// Hardware threads of one core: thread `t` and thread `t + cores / smt` share one.
    pub smt: usize,
    /// Last-level caches.
    pub domains: usize,
    /// Sockets. Domains are divided evenly among them.
    pub sockets: usize,
    /// A line from another core of the same domain, in ns.
    pub near_ns: f64,
    /// A line from another domain of the same socket, in ns.
    pub far_ns: f64,
    /// A line from another socket, in ns.
    pub socket_ns: f64,
    /// The last-level cache of one domain, in bytes.
    pub cache_bytes: f64,
    /// The memory bandwidth of all sockets, in GB/s.
    pub memory_gb_s: f64,
    /// Clock cycles a ns, or none if the speed of a hardware thread is a fitted parameter.
    pub clock_ghz: Option<f64>,
}

impl Machine {
    /// The 72-core machine of the paper, one domain.
    pub fn grace() -> Self {
        Self {
            name: "grace".to_owned(),
            cores: 72,
            smt: 1,
            domains: 1,
            sockets: 1,
            near_ns: 45.0,
            far_ns: 45.0,
            socket_ns: 45.0,
            cache_bytes: 117e6,
            memory_gb_s: 546.0,
            clock_ghz: Some(3.44),
        }
    }

    /// The 192-core machine of the paper, two sockets of one domain each.
    pub fn graviton4() -> Self {
        Self {
            name: "graviton4".to_owned(),
            cores: 192,
            smt: 1,
            domains: 2,
            sockets: 2,
            near_ns: 45.0,
            far_ns: 45.0,
            socket_ns: 138.6,
            cache_bytes: 36e6,
            memory_gb_s: 1075.0,
            clock_ghz: Some(2.8),
        }
    }

    /// The 96-core machine of the paper, with 192 hardware threads and 12 domains on two sockets.
    pub fn epyc() -> Self {
        Self {
            name: "epyc".to_owned(),
            cores: 192,
            smt: 2,
            domains: 12,
            sockets: 2,
            near_ns: 23.0,
            far_ns: 107.0,
            socket_ns: 197.0,
            cache_bytes: 32e6,
            memory_gb_s: 410.0,
            clock_ghz: None,
        }
    }

    /// Returns the machine of the paper with this name.
    pub fn named(name: &str) -> Option<Self> {
        [Self::grace(), Self::graviton4(), Self::epyc()].into_iter().find(|machine| machine.name == name)
    }

    /// Returns a machine that was not measured: `cores` divided evenly among `domains`. One domain
    /// costs what Grace does, two are sockets as in Graviton4, and more are chiplets on two sockets
    /// as in the EPYC. Memory bandwidth and caches grow as they do there: bandwidth by core, cache
    /// by domain.
    ///
    /// # Errors
    /// If there are more than [`MAX_CORES`], none, or fewer cores than domains.
    pub fn scaled(cores: usize, domains: usize) -> Result<Self, Error> {
        if !(1..=MAX_CORES).contains(&cores) {
            return Err(Error::Range { what: "number of cores", value: cores, least: 1, most: MAX_CORES });
        }
        if domains == 0 || domains > cores {
            return Err(Error::Domains { cores, domains });
        }
        let model = match domains {
            1 => Self::grace(),
            2 => Self::graviton4(),
            _ => Self::epyc(),
        };
        let sockets = if domains < CHIPLET_DOMAINS { domains } else { 2 };
        let memory_gb_s = model.memory_gb_s * cores as f64 / model.cores as f64;
        Ok(Self {
            name: format!("{cores} cores, {domains} domains"),
            cores,
            smt: 1,
            domains,
            sockets,
            memory_gb_s,
            ..model
        })
    }

    /// Returns the domain of a core. Domains are filled one after the other.
    pub fn domain(&self, core: usize) -> usize {
        let physical = (self.cores / self.smt).max(1);
        core % physical * self.domains / physical
    }

    /// Returns the socket of a domain.
    pub fn socket(&self, domain: usize) -> usize {
        domain * self.sockets / self.domains
    }

    /// Returns the cost of a line that moves from one domain to another, in ns.
    pub fn between_ns(&self, from: usize, to: usize) -> f64 {
        if from == to {
            self.near_ns
        } else if self.socket(from) == self.socket(to) {
            self.far_ns
        } else {
            self.socket_ns
        }
    }
}

/// Returns the facts about the paper's machines, each with its source.
pub fn facts() -> Vec<Parameter> {
    let mut facts = Vec::new();
    for machine in [Machine::grace(), Machine::graviton4(), Machine::epyc()] {
        let latency = match machine.name.as_str() {
            "epyc" => "core-to-core-latency by nviennot (GitHub), AMD EPYC 7R13 on c6a.metal: one and two sockets",
            "grace" => "Chips and Cheese, Grace Hopper (2024-07-31): like Graviton4's, 30 to 60 ns; the middle",
            _ => "Chips and Cheese, Arm's Neoverse V2 in Graviton 4 (2024-07-22): 30 to 60 ns, the middle; 138.6 ns",
        };
        let clock = match machine.name.as_str() {
            "grace" => "Chips and Cheese, Grace Hopper (2024-07-31)",
            _ => "The Next Platform, AWS Charges a High Premium for Graviton 4 Instances (2024-07-10)",
        };
        let mut fact = |what: &str, value: f64, unit: &'static str, source: &'static str| {
            facts.push(Parameter { name: format!("{} {what}", machine.name), value, unit, fitted: false, source });
        };
        fact("line from the same domain", machine.near_ns, "ns", latency);
        if machine.domains > machine.sockets {
            fact("line from another domain", machine.far_ns, "ns", latency);
        }
        if machine.sockets > 1 {
            fact("line from another socket", machine.socket_ns, "ns", latency);
        }
        fact("cache of a domain", machine.cache_bytes / 1e6, "MB", "the paper, sections 4 and 4.3");
        fact("memory bandwidth", machine.memory_gb_s, "GB/s", "the paper, section 4.3");
        if let Some(ghz) = machine.clock_ghz {
            fact("clock", ghz, "GHz", clock);
        }
    }
    facts
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn domains_are_filled_in_order_and_hyperthreads_share_one() {
        let epyc = Machine::epyc();
        assert_eq!((epyc.domain(0), epyc.domain(7), epyc.domain(8), epyc.domain(95)), (0, 0, 1, 11));
        assert_eq!((epyc.domain(96), epyc.domain(191)), (0, 11));
        assert_eq!((epyc.socket(5), epyc.socket(6)), (0, 1));
        assert_eq!((Machine::graviton4().domain(95), Machine::graviton4().domain(96)), (0, 1));
    }

    #[test]
    fn distance_decides_the_cost() {
        let epyc = Machine::epyc();
        assert_eq!((epyc.between_ns(3, 3), epyc.between_ns(3, 4), epyc.between_ns(3, 9)), (23.0, 107.0, 197.0));
    }

    #[test]
    fn unmeasured_machines_have_bounds() {
        assert!(Machine::scaled(0, 1).is_err() && Machine::scaled(MAX_CORES + 1, 1).is_err());
        assert!(Machine::scaled(4, 5).is_err() && Machine::scaled(4, 0).is_err());
        let machine = Machine::scaled(512, 24).unwrap();
        assert_eq!((machine.domain(511), machine.sockets), (23, 2));
        assert_eq!(Machine::scaled(72, 1).unwrap().memory_gb_s, 546.0);
    }
}
