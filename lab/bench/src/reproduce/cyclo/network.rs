//! Figure 11 over links of a limited rate: the joins, and the model of their waiting time.

use annulus_terminal::machine::cores;
use serde::{Deserialize, Serialize};

use super::simulation::Simulation;
use crate::join::{Line, Ring, Transfer};

/// The bytes of a full Ethernet frame, and of TCP's payload in it (1500 less two headers of 20 and
/// 12 for time stamps).
const FRAME: f64 = 1514.0;
const PAYLOAD: f64 = 1448.0;
/// The largest difference from the prediction that counts as agreement, as a part of it.
pub(super) const AGREES: f64 = 0.1;
/// Shares of waiting below this one count as none.
const NONE: f64 = 0.005;
/// The shortest revolution over limited links, in seconds: so that its beginning and end, and the
/// burst that a link may send, are a small part.
const LONG_S: f64 = 2.0;

/// The prediction for a ring, from its joins and its transfers, each measured without the other.
/// `lab/docs/papers.md` explains it.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct Model {
    /// Seconds for the joins of one host.
    pub(super) model_join_s: f64,
    /// Seconds of the revolution.
    pub(super) model_revolution_s: f64,
    pub(super) model_waiting_share: f64,
}

impl Model {
    /// Predicts `ring`, in which each host injects `fragments` fragments. The joins of each last
    /// `join_s` seconds.
    pub(super) fn new(ring: &Ring<'_>, fragments: u32, join_s: f64, transfer: &Transfer) -> Self {
        let (hosts, own) = (f64::from(ring.hosts), f64::from(fragments));
        let simulation = Simulation {
            hosts: ring.hosts,
            fragments,
            join_s: join_s / (hosts * own),
            link_s: transfer.transfer_s / ((hosts - 1.0) * own),
            config: ring.config,
        };
        let of = simulation.average();
        Self { model_join_s: join_s, model_revolution_s: of.revolution_s, model_waiting_share: of.waiting_share }
    }

    /// Returns the difference of a measured share of waiting from the prediction, as a part of the
    /// prediction. `None` if next to no waiting is predicted.
    fn difference(&self, waiting_share: f64) -> Option<f64> {
        let predicted = self.model_waiting_share;
        (predicted >= NONE).then(|| (waiting_share - predicted) / predicted)
    }

    /// Returns whether a measured share of waiting agrees with the prediction.
    fn agrees(&self, waiting_share: f64) -> bool {
        self.difference(waiting_share).map_or(waiting_share < NONE, |part| part.abs() <= AGREES)
    }
}

/// Returns how many times a host sends its fragments so that a revolution is [long
/// enough](LONG_S), if the transfer takes `limit` times as long as the joins.
pub(super) fn times(alone: &Line, limit: f64) -> usize {
    (LONG_S / (limit * slow_join_s(alone))).ceil().max(1.0) as usize
}

/// Returns how many times as long as on a core the joins of each of `hosts` last, so that the joins
/// of all take half of this machine's cores. The transfers have the rest.
pub(super) fn slowness(hosts: u16) -> f64 {
    (2.0 * f64::from(hosts) / cores() as f64).max(1.0)
}

/// Returns the seconds that the joins of a host last, each fragment once.
fn slow_join_s(alone: &Line) -> f64 {
    slowness(alone.hosts) * join_s(alone)
}

/// Returns a rate in bits per second at which the transfer takes `times` as long as the joins of a
/// host, from hosts that joined one at a time.
pub(super) fn rate(alone: &Line, times: f64) -> f64 {
    (link_gb(alone) * 8e9 / (times * slow_join_s(alone))).max(1e6).round()
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
pub(super) struct LimitedRing {
    pub(super) hosts: u16,
    pub(super) rows: u64,
    /// The ratio of the transfer time at the rate to the time of the joins of a host.
    pub(super) limit: f64,
    /// The number of times that each host sent its fragments.
    pub(super) times: usize,
    /// The ratio of the time of the joins to their time on a core.
    pub(super) slowness: f64,
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
    /// Whether the difference is at most [`AGREES`], or next to no waiting is predicted and measured.
    pub(super) agrees: bool,
    /// The part of the cores' time that other processes used, in the most disturbed round.
    pub(super) others_share: f64,
    pub(super) too_short: bool,
}

impl LimitedRing {
    /// Compares a measured ring with the prediction. `alone` is of hosts one at a time with each
    /// fragment once, and `join_s` are the seconds that the joins of a host then last in the ring.
    pub(super) fn new(limit: f64, ring: &Ring<'_>, alone: &Line, join_s: f64, transfer: Transfer, line: &Line) -> Self {
        let times = ring.times as f64;
        let (gbit_per_s, link_gb) = (rate(alone, limit) / 1e9, times * link_gb(alone));
        let fragments = ring.times as u32 * (alone.fragments / u64::from(alone.hosts)).max(1) as u32;
        let model = Model::new(ring, fragments, times * join_s, &transfer);
        Self {
            hosts: line.hosts,
            rows: line.rows,
            limit,
            times: ring.times,
            slowness: slowness(ring.hosts),
            gbit_per_s,
            link_gb,
            link_s: link_gb * 8.0 / gbit_per_s,
            others_share: transfer.others_share.max(line.others_share),
            transfer,
            model,
            join_s: line.join_s,
            join_cpu_s: line.join_cpu_s,
            waiting_share: line.waiting_share,
            waiting_least_share: line.waiting_least_share,
            waiting_most_share: line.waiting_most_share,
            waiting_first_share: line.waiting_first_share,
            waiting_last_share: line.waiting_last_share,
            difference: model.difference(line.waiting_share),
            agrees: model.agrees(line.waiting_share),
            too_short: line.too_short,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn predictions_agree_within_a_tenth() {
        let model = |model_waiting_share| Model { model_join_s: 1.0, model_revolution_s: 1.0, model_waiting_share };
        assert!(model(0.8).agrees(0.721) && model(0.8).agrees(0.879));
        assert!(!model(0.8).agrees(0.71) && !model(0.8).agrees(0.89));
        assert!(model(0.0).agrees(0.004) && !model(0.0).agrees(0.006));
        assert_eq!(model(0.5).difference(0.45).map(|part| (part * 1e6).round()), Some(-1e5));
        assert_eq!(model(0.001).difference(0.01), None);
    }
}
