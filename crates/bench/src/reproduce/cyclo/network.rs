//! Figure 11 bound by the network: the joins over links of a chosen rate, and the model of their
//! waiting time.

use annulus_terminal::machine::cores;
use serde::{Deserialize, Serialize};

use crate::join::Line;

/// How many times as long the transfer takes as the joins of all hosts take on this machine's
/// cores. The network is the bound, by a factor that leaves cores for the transfer itself, whose
/// work in the kernel is of the size of the joins.
const BOUND: f64 = 4.0;
/// The bytes of a full Ethernet frame, and of TCP's payload in it (1500 less two headers of 20 and
/// 12 for time stamps).
const FRAME: f64 = 1514.0;
const PAYLOAD: f64 = 1448.0;
/// The largest difference from the model that counts as agreement, as a share of the prediction.
pub(super) const AGREES: f64 = 0.1;

/// The prediction for a ring whose links have a rate: a revolution takes the longer of the join of
/// all fragments on a host and the transfer of the other hosts' fragments over a link. A host waits
/// for the rest of the time.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct Model {
    /// The rate of each link in 1e9 bits per second.
    pub(super) gbit_per_s: f64,
    /// The fragments that cross each link.
    pub(super) link_fragments: f64,
    /// The 1e9 bytes that cross each link, headers included.
    pub(super) link_gb: f64,
    /// Seconds to join a fragment.
    pub(super) fragment_join_s: f64,
    /// Seconds to transfer a fragment.
    pub(super) fragment_transfer_s: f64,
    /// Seconds to join all fragments.
    pub(super) model_join_s: f64,
    /// Seconds to transfer the fragments of all other hosts.
    pub(super) model_transfer_s: f64,
    pub(super) model_waiting_share: f64,
}

impl Model {
    /// Predicts a ring with the joins of `alone`, whose hosts ran one at a time, over links of
    /// `rate` bits per second.
    pub(super) fn new(alone: &Line, rate: f64) -> Self {
        let others = f64::from(alone.hosts - 1) / f64::from(alone.hosts);
        let link_gb = wire_gb(alone);
        let (join, transfer) = (alone.joining_s(), link_gb * 8e9 / rate);
        let fragments = alone.fragments as f64;
        Self {
            gbit_per_s: rate / 1e9,
            link_fragments: fragments * others,
            link_gb,
            fragment_join_s: join / fragments,
            fragment_transfer_s: transfer / (fragments * others),
            model_join_s: join,
            model_transfer_s: transfer,
            model_waiting_share: (1.0 - join / transfer).max(0.0),
        }
    }

    /// Returns whether a measured share of waiting is as predicted.
    pub(super) fn agrees(&self, waiting_share: f64) -> bool {
        (waiting_share - self.model_waiting_share).abs() <= AGREES * self.model_waiting_share
    }
}

/// Returns a rate in bits per second at which the network is the bound of the ring of `alone`, on
/// this machine's cores.
pub(super) fn rate(alone: &Line) -> f64 {
    let hosts = f64::from(alone.hosts);
    let on_cores = alone.joining_s() * hosts / hosts.min(cores() as f64);
    (wire_gb(alone) * 8e9 / (BOUND * on_cores)).max(1e6).round()
}

/// Returns the 1e9 bytes of the fragments that cross each link: those of all hosts but one.
fn wire_gb(alone: &Line) -> f64 {
    let others = f64::from(alone.hosts - 1) / f64::from(alone.hosts);
    alone.fragments_mb * f64::from(1 << 20) / 1e9 * others * FRAME / PAYLOAD
}

/// A ring over links of a chosen rate, beside its prediction.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Shaped {
    pub(super) hosts: u16,
    pub(super) rows: u64,
    pub(super) join_s: f64,
    pub(super) waiting_share: f64,
    pub(super) waiting_first_share: f64,
    pub(super) waiting_last_share: f64,
    #[serde(flatten)]
    pub(super) model: Model,
    /// Whether the measured share is within [`AGREES`] of the predicted one.
    pub(super) agrees: bool,
    pub(super) too_short: bool,
}

impl Shaped {
    pub(super) fn new(line: &Line, model: Model) -> Self {
        Self {
            hosts: line.hosts,
            rows: line.rows,
            join_s: line.join_s,
            waiting_share: line.waiting_share,
            waiting_first_share: line.waiting_first_share,
            waiting_last_share: line.waiting_last_share,
            model,
            agrees: model.agrees(line.waiting_share),
            too_short: line.too_short,
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// Returns the paper's largest ring, whose hosts join 6.4 s and receive 9.6 GB in a revolution.
    fn paper() -> Line {
        let mut line = json!({ "data": "even", "by": "sort", "link": "shared", "sum": 0 });
        let fragments_mb = 9.6e9 / f64::from(1 << 20) * 6.0 / 5.0 * PAYLOAD / FRAME;
        for name in ["setup_s", "waiting_first_share", "waiting_last_share", "total_s", "host_mb"] {
            line[name] = 0.0.into();
        }
        for name in ["threads", "buffers", "rows", "probe_rows", "matches", "host_probed", "host_compared"] {
            line[name] = 1.into();
        }
        line["join_s"] = 8.0.into();
        line["waiting_share"] = 0.2.into();
        line["hosts"] = 6.into();
        line["fragments"] = 600.into();
        line["fragments_mb"] = fragments_mb.into();
        line["one_at_a_time"] = true.into();
        line["too_short"] = false.into();
        serde_json::from_value(line).unwrap()
    }

    #[test]
    fn the_papers_ring_waits_as_predicted() {
        // 8.7 s for 9.6 GB.
        let model = Model::new(&paper(), 9.6e9 / 8.7 * 8.0);
        assert!((model.model_join_s - 6.4).abs() < 1e-9 && (model.model_transfer_s - 8.7).abs() < 1e-9, "{model:?}");
        assert!((model.model_waiting_share - 2.3 / 8.7).abs() < 1e-9, "{model:?}");
        assert!((model.link_fragments - 500.0).abs() < 1e-9, "{model:?}");
        assert!(model.agrees(0.25) && model.agrees(0.29) && !model.agrees(0.23) && !model.agrees(0.3));
    }

    #[test]
    fn a_fast_network_hides_its_transfers() {
        assert_eq!(Model::new(&paper(), 1e12).model_waiting_share, 0.0);
        let model = Model::new(&paper(), rate(&paper()));
        let on_cores = 6.4 * 6.0 / (cores() as f64).min(6.0);
        assert!((model.model_transfer_s - BOUND * on_cores).abs() < 1e-3, "{model:?}");
    }
}
