//! Figure 11 over links of a limited rate: the joins, and the model of their waiting time.

use annulus_terminal::machine::cores;
use serde::{Deserialize, Serialize};

use crate::join::{Line, Transfer};

/// The bytes of a full Ethernet frame, and of TCP's payload in it (1500 less two headers of 20 and
/// 12 for time stamps).
const FRAME: f64 = 1514.0;
const PAYLOAD: f64 = 1448.0;
/// The largest difference from the model that counts as agreement, as a share of the prediction.
pub(super) const AGREES: f64 = 0.1;
/// Shares of waiting below this one count as none.
const NONE: f64 = 0.005;

/// The prediction for a ring, from its joins and its transfers, each measured without the other.
/// `docs/papers.md` explains it.
///
/// 1. A revolution takes as long as the transfer, or as the work of all joins and transfers on the
///    cores, or as the joins of a host, whichever is the longest.
/// 2. Transfers take their time on cores first, because their threads run only for moments. The
///    rest is free for joins.
/// 3. A host injects its own fragments when it has none to forward, and joins them then, beside
///    those that it receives. So for a part of the revolution there are twice as many joins. Those
///    for which the cores have no time are done later.
/// 4. Otherwise, hosts join at independent times. If more of them join than there are free cores,
///    each takes longer.
///
/// A host waits when it has no fragment to join.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct Model {
    /// Seconds on a core for the joins of one host.
    pub(super) model_join_s: f64,
    /// Seconds of the revolution.
    pub(super) model_revolution_s: f64,
    pub(super) model_waiting_share: f64,
}

impl Model {
    /// Predicts a ring of `hosts` hosts on `cores` cores. The joins of each take `join_s` seconds
    /// on a core. There are at least two hosts.
    pub(super) fn new(hosts: u16, join_s: f64, transfer: &Transfer, cores: usize) -> Self {
        let cores = cores as f64;
        let work = join_s * f64::from(hosts) + transfer.transfer_cpu_s;
        let revolution = transfer.transfer_s.max(work / cores).max(join_s);
        let free = cores - transfer.transfer_cpu_s / revolution;
        Self {
            model_join_s: join_s,
            model_revolution_s: revolution,
            model_waiting_share: 1.0 - joining_share(hosts, join_s / revolution, free),
        }
    }

    /// Returns the difference of a measured share of waiting from the prediction, as a part of the
    /// prediction. `None` if next to no waiting is predicted.
    fn difference(&self, waiting_share: f64) -> Option<f64> {
        let predicted = self.model_waiting_share;
        (predicted >= NONE).then(|| (waiting_share - predicted) / predicted)
    }
}

/// Returns the share of the revolution in which a host has a fragment to join. Its joins would take
/// the share `alone` on a core of their own, and all hosts share the `free` cores.
fn joining_share(hosts: u16, alone: f64, free: f64) -> f64 {
    let hosts_f = f64::from(hosts);
    // The most that a host can join if all do.
    let most = (free / hosts_f).min(1.0);
    // Received fragments keep the host busy for this share. A host's own are one for hosts - 1 of
    // those, and it injects them at the same rate.
    let (received, injecting) = (alone * (hosts_f - 1.0) / hosts_f, 1.0 / (hosts_f - 1.0));
    let slowed = |alone| slowed(hosts, alone, free);
    if received >= most {
        return 1.0;
    }
    if 2.0 * received < most {
        return injecting * slowed(2.0 * received) + (1.0 - injecting) * slowed(received);
    }
    // While hosts inject, `2 received - most` is left over. It is done later, at `most - received`.
    let full = (injecting * received / (most - received)).min(1.0);
    full + (1.0 - full) * slowed(received)
}

/// Returns the share of the time in which a host joins, if its joins took the share `alone` on a
/// core of their own and hosts join at independent times.
///
/// The number of other hosts that join is binomially distributed. `k` joins on fewer than `k` cores
/// share them equally and take `k / free` times as long. This changes the share from which it is
/// computed, so it is repeated to the fixed point.
fn slowed(hosts: u16, alone: f64, free: f64) -> f64 {
    /// More than enough: near a full load, the steps are smallest.
    const STEPS: usize = 1000;
    let others = i32::from(hosts) - 1;
    let times = |share: f64| {
        let (mut times, mut ways) = (0.0, 1.0);
        for joining in 0..=others {
            let probability = ways * share.powi(joining) * (1.0 - share).powi(others - joining);
            times += probability * (f64::from(joining + 1) / free).max(1.0);
            ways *= f64::from(others - joining) / f64::from(joining + 1);
        }
        times
    };
    (0..STEPS).fold(alone, |share, _| (alone * times(share)).min(1.0))
}

/// Returns a rate in bits per second at which the transfer takes `times` as long as the joins of
/// all hosts take on this machine's cores, from hosts that joined one at a time.
pub(super) fn rate(alone: &Line, times: u8) -> f64 {
    let hosts = f64::from(alone.hosts);
    let on_cores = join_s(alone) * hosts / hosts.min(cores() as f64);
    (link_gb(alone) * 8e9 / (f64::from(times) * on_cores)).max(1e6).round()
}

/// Returns the seconds on a core for the joins of one host.
pub(super) fn join_s(alone: &Line) -> f64 {
    alone.join_cpu_s.unwrap_or_else(|| alone.joining_s())
}

/// Returns the 1e9 bytes that cross each link, headers included: the fragments of all hosts but
/// one.
fn link_gb(alone: &Line) -> f64 {
    let others = f64::from(alone.hosts - 1) / f64::from(alone.hosts);
    alone.fragments_mb * f64::from(1 << 20) / 1e9 * others * FRAME / PAYLOAD
}

/// A ring over links of a limited rate, beside its prediction.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Limited {
    pub(super) hosts: u16,
    pub(super) rows: u64,
    /// How many times as long the transfer takes at the rate as the joins on the cores.
    pub(super) limit: u8,
    /// The rate of each link in 1e9 bits per second.
    pub(super) gbit_per_s: f64,
    /// The 1e9 bytes that cross each link, headers included.
    pub(super) link_gb: f64,
    /// Seconds for these bytes at the rate.
    pub(super) link_s: f64,
    #[serde(flatten)]
    pub(super) transfer: Transfer,
    #[serde(flatten)]
    pub(super) model: Model,
    pub(super) join_s: f64,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) join_cpu_s: Option<f64>,
    pub(super) waiting_share: f64,
    pub(super) waiting_least_share: f64,
    pub(super) waiting_most_share: f64,
    pub(super) waiting_first_share: f64,
    pub(super) waiting_last_share: f64,
    /// The difference of the measured share from the predicted one, as a part of the latter.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) difference: Option<f64>,
    /// Whether the difference is at most [`AGREES`].
    pub(super) agrees: bool,
    pub(super) too_short: bool,
}

impl Limited {
    pub(super) fn new(limit: u8, alone: &Line, transfer: Transfer, line: &Line) -> Self {
        let (gbit_per_s, link_gb) = (rate(alone, limit) / 1e9, link_gb(alone));
        let model = Model::new(line.hosts, join_s(alone), &transfer, cores());
        let difference = model.difference(line.waiting_share);
        Self {
            hosts: line.hosts,
            rows: line.rows,
            limit,
            gbit_per_s,
            link_gb,
            link_s: link_gb * 8.0 / gbit_per_s,
            transfer,
            model,
            join_s: line.join_s,
            join_cpu_s: line.join_cpu_s,
            waiting_share: line.waiting_share,
            waiting_least_share: line.waiting_least_share,
            waiting_most_share: line.waiting_most_share,
            waiting_first_share: line.waiting_first_share,
            waiting_last_share: line.waiting_last_share,
            difference,
            agrees: difference.is_some_and(|difference| difference.abs() <= AGREES),
            too_short: line.too_short,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn transfer(transfer_s: f64, transfer_cpu_s: f64) -> Transfer {
        Transfer { transfer_s, transfer_cpu_s }
    }

    fn near(value: f64, expected: f64) -> bool {
        (value - expected).abs() < 1e-6
    }

    #[test]
    fn the_papers_ring_waits_as_in_the_paper() {
        // Six hosts with four cores each, 9.6 GB in 8.7 s, and RDMA that takes no time on cores.
        let model = Model::new(6, 6.4, &transfer(8.7, 0.0), 24);
        assert!(near(model.model_revolution_s, 8.7), "{model:?}");
        assert!(near(model.model_waiting_share, 2.3 / 8.7), "{model:?}");
        assert!(near(model.difference(0.25).unwrap(), 0.25 / (2.3 / 8.7) - 1.0), "{model:?}");
    }

    #[test]
    fn a_fast_network_hides_its_transfers() {
        let model = Model::new(6, 6.4, &transfer(5.0, 0.0), 24);
        assert!(near(model.model_revolution_s, 6.4) && near(model.model_waiting_share, 0.0), "{model:?}");
        assert_eq!(model.difference(0.01), None);
    }

    #[test]
    fn nobody_waits_for_data_if_the_cores_are_the_bound() {
        // 6 x 1 s of joins and 2 s for the transfer: 4 s on two cores, longer than the transfer.
        let model = Model::new(6, 1.0, &transfer(3.0, 2.0), 2);
        assert!(near(model.model_revolution_s, 4.0) && near(model.model_waiting_share, 0.0), "{model:?}");
    }

    #[test]
    fn hosts_that_join_at_once_share_the_free_cores() {
        // One core is free. Two hosts each join for a quarter of the time if they are alone, and
        // twice as long while the other does: b = (1 + b) / 4.
        assert!(near(slowed(2, 0.25, 1.0), 1.0 / 3.0));
        // With a core for each, they do not slow each other down.
        assert!(near(slowed(2, 0.25, 2.0), 0.25));
        // Three hosts on two cores: all three join at once with probability b^2.
        let share = slowed(3, 0.25, 2.0);
        assert!(near(share, (1.0 + share * share / 2.0) / 4.0), "{share}");
        assert!(near(slowed(3, 2.0 / 3.0, 2.0), 1.0), "no core is idle");
    }

    #[test]
    fn own_fragments_are_joined_beside_those_received() {
        // Two hosts inject all the time.
        assert!(near(joining_share(2, 0.25, 1.0), slowed(2, 0.25, 1.0)));
        // Three hosts inject half of the time. They need 2 x 0.2 of 0.5 cores then, and 0.2 later.
        let share = joining_share(3, 0.3, 1.5);
        assert!(near(share, (slowed(3, 0.4, 1.5) + slowed(3, 0.2, 1.5)) / 2.0), "{share}");
        // They need 2 x 0.3 of 0.5 cores. 0.05 of a revolution is left, done at 0.5 - 0.3 of a core.
        let share = joining_share(3, 0.45, 1.5);
        assert!(near(share, 0.75 + 0.25 * slowed(3, 0.3, 1.5)), "{share}");
        // With cores for all, it does not matter when.
        assert!(near(joining_share(3, 0.45, 3.0), 0.45) && near(joining_share(3, 0.9, 3.0), 0.9));
    }

    #[test]
    fn the_model_is_continuous_up_to_a_full_load() {
        let shares: Vec<_> = (1..=1000).map(|step| joining_share(6, 0.25 * f64::from(step) / 1e3, 1.5)).collect();
        assert!(shares.windows(2).all(|pair| (0.0..0.02).contains(&(pair[1] - pair[0]))), "{shares:?}");
        assert!(near(shares[999], 1.0), "{shares:?}");
    }

    #[test]
    fn more_hosts_wait_less_on_the_same_cores() {
        let waiting = |hosts| Model::new(hosts, 1.0, &transfer(10.0, 2.0), 2).model_waiting_share;
        let shares: Vec<_> = (2..=12).map(waiting).collect();
        assert!(shares.is_sorted_by(|a, b| a > b), "{shares:?}");
    }
}
