//! Gives threads their CPUs.

use std::{cmp::Reverse, collections::BTreeSet};

use crate::{Domain, Topology};

/// The rule that divides threads among the domains.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Policy {
    /// Few domains: a domain gets threads until each of its CPUs has one; then the next domain
    /// does. The domains with the most usable CPUs come first.
    #[default]
    Compact,
    /// All domains, and all NUMA nodes, as evenly as possible: more cache and memory bandwidth for
    /// few threads, at the price of traffic between domains.
    Spread,
}

/// The place of one thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Seat {
    /// The CPU, for [`pin_current_thread`](crate::pin_current_thread).
    pub cpu: usize,
    /// The index of its domain in [`Topology::domains`].
    pub domain: usize,
}

/// The places of M producers and N consumers. [`Topology::place`] creates it.
///
/// - Producer p and consumer p are in the same domain.
/// - Within a domain, threads take a CPU of each core before the second CPU of any core, and loads
///   differ by at most one thread. With M = N and a pair of threads for each CPU, producer p and
///   consumer p share one, as in the paper (section 5.3): when one of them waits, the other runs.
/// - Domains have threads in proportion to their CPUs, as far as pairs allow, once there are more
///   threads than CPUs, and always with [`Policy::Spread`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Placement {
    producers: Vec<Seat>,
    consumers: Vec<Seat>,
}

impl Placement {
    /// Returns the places of the producers.
    pub fn producers(&self) -> &[Seat] {
        &self.producers
    }

    /// Returns the index of each producer's domain: with more threads than CPUs, the domains take
    /// turns.
    pub fn producer_domains(&self) -> Vec<usize> {
        self.producers.iter().map(|seat| seat.domain).collect()
    }

    /// Returns the places of the consumers.
    pub fn consumers(&self) -> &[Seat] {
        &self.consumers
    }

    /// Returns the indices of the domains that have threads.
    pub fn domains(&self) -> BTreeSet<usize> {
        self.producers.iter().chain(&self.consumers).map(|seat| seat.domain).collect()
    }

    /// Returns the number of rings for these threads: one for each domain with producers, which
    /// fill it, and at least one.
    ///
    /// One ring for each last-level cache is what the paper proposes for chiplets and has not
    /// measured (section 6). With a single ring, it measured a clear gain over channels on one and
    /// two domains, and hardly any on twelve (section 4.3).
    pub fn rings(&self) -> usize {
        BTreeSet::from_iter(self.producer_domains()).len().max(1)
    }
}

/// The threads of a domain, while they are being divided.
struct Share {
    domain: usize,
    cpus: usize,
    producers: Vec<usize>,
    consumers: Vec<usize>,
}

impl Share {
    fn threads(&self) -> usize {
        self.producers.len() + self.consumers.len()
    }

    /// Returns the number of threads on the busiest CPU with `new` more of them.
    fn busiest_with(&self, new: usize) -> usize {
        (self.threads() + new).div_ceil(self.cpus)
    }
}

impl Topology {
    /// Returns places for this many producers and consumers. There may be more threads than CPUs;
    /// then they share. Takes time in proportion to the threads times the domains.
    ///
    /// ```
    /// use annulus_topology::{Policy, Topology};
    ///
    /// let topology = Topology::detect();
    /// let placement = topology.place(2, 2, Policy::Compact);
    /// assert_eq!(placement.producers()[1].domain, placement.consumers()[1].domain);
    /// ```
    pub fn place(&self, producers: usize, consumers: usize, policy: Policy) -> Placement {
        let mut shares = self.shares(policy);
        for thread in 0..producers.max(consumers) {
            let new = usize::from(thread < producers) + usize::from(thread < consumers);
            let chosen = choose(&shares, new, policy);
            let share = &mut shares[chosen];
            if thread < producers {
                share.producers.push(thread);
            }
            if thread < consumers {
                share.consumers.push(thread);
            }
        }
        let empty = Seat { cpu: 0, domain: 0 };
        let mut placement = Placement { producers: vec![empty; producers], consumers: vec![empty; consumers] };
        shares.iter().for_each(|share| self.seat(share, &mut placement));
        placement
    }

    /// Returns a share without threads for each domain, the one that gets the first thread in
    /// front.
    fn shares(&self, policy: Policy) -> Vec<Share> {
        let share = |domain: usize| {
            let cpus = self.domains[domain].cpus().len();
            Share { domain, cpus, producers: Vec::new(), consumers: Vec::new() }
        };
        let mut shares: Vec<_> = (0..self.domains.len()).map(share).collect();
        match policy {
            Policy::Compact => shares.sort_by_key(|share| Reverse(share.cpus)),
            // The first domain of each node, then the second of each, and so on.
            Policy::Spread => shares.sort_by_cached_key(|share| {
                let nodes = |domain: &Domain| domain.nodes.clone();
                let node = nodes(&self.domains[share.domain]);
                self.domains[..share.domain].iter().filter(|domain| nodes(domain) == node).count()
            }),
        }
        shares
    }

    /// Gives the threads of a domain its CPUs, in turn: the producers, then the consumers.
    fn seat(&self, share: &Share, placement: &mut Placement) {
        let cpus = self.domains[share.domain].cpus_by_use();
        let mut seats = cpus.iter().map(|&cpu| Seat { cpu, domain: share.domain }).cycle();
        for (threads, places) in
            [(&share.producers, &mut placement.producers), (&share.consumers, &mut placement.consumers)]
        {
            for (&thread, seat) in threads.iter().zip(&mut seats) {
                places[thread] = seat;
            }
        }
    }
}

/// Returns the index of the share that gets `new` more threads: with [`Policy::Compact`] the first
/// with a free CPU for each, otherwise the least loaded.
fn choose(shares: &[Share], new: usize, policy: Policy) -> usize {
    let free = shares.iter().position(|share| policy == Policy::Compact && share.busiest_with(new) == 1);
    let load = |share: &Share| (share.busiest_with(new), share.threads() as f64 / share.cpus as f64);
    let least = || {
        let order = |a: &usize, b: &usize| {
            let [a, b] = [a, b].map(|&index| load(&shares[index]));
            a.0.cmp(&b.0).then(a.1.total_cmp(&b.1))
        };
        (0..shares.len()).min_by(order).unwrap_or(0)
    };
    free.unwrap_or_else(least)
}
