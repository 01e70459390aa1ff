//! From how many cores on the ring is predicted to lead.

use annulus_simulate::StrategyKind;
use serde::Serialize;

use super::report::Line;

/// Those that a ring should beat: the paper's ring, and what needs none.
const RIVALS: [(&str, &[StrategyKind]); 2] = [
    ("paper-ring", &[StrategyKind::PaperRing]),
    (
        "fastest of channel, mutex-channel, spsc, batch",
        &[StrategyKind::Channel, StrategyKind::MutexChannel, StrategyKind::Spsc, StrategyKind::Batch],
    ),
];

/// Where the ring leads a rival, for one size of rows and one number of domains.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Lead {
    pub row_bytes: usize,
    pub domains: usize,
    pub rival: &'static str,
    /// The fewest of the simulated cores from which the ring is always faster. `None` if it is
    /// slower with the most cores.
    pub from_cores: Option<usize>,
    /// The ring's throughput divided by the rival's with the fewest of all simulated cores, and
    /// with the most.
    pub ratio_fewest: f64,
    pub ratio_most: f64,
}

impl Lead {
    /// Returns the leads in `predictions`. There are none without the ring, or without a rival.
    pub fn all(predictions: &[Line]) -> Vec<Self> {
        let same = |a: &Line, b: &Line| (a.row_bytes, a.domains) == (b.row_bytes, b.domains);
        let chunks = predictions.chunk_by(same);
        chunks.flat_map(|lines| RIVALS.into_iter().filter_map(|rival| Self::new(lines, rival))).collect()
    }

    fn new(lines: &[Line], (name, rivals): (&'static str, &[StrategyKind])) -> Option<Self> {
        let mut ratios = Vec::new();
        for machine in lines.chunk_by(|a, b| a.cores == b.cores) {
            let ring = machine.iter().find(|line| line.strategy == StrategyKind::Ring)?;
            let of = machine.iter().filter(|line| rivals.contains(&line.strategy));
            let fastest = of.map(|line| line.gb_s).max_by(f64::total_cmp)?;
            ratios.push((ring.cores, ring.gb_s / fastest));
        }
        ratios.sort_by_key(|(cores, _)| *cores);
        let ahead = ratios.iter().rev().take_while(|(_, ratio)| *ratio > 1.0);
        Some(Self {
            row_bytes: lines.first()?.row_bytes,
            domains: lines.first()?.domains,
            rival: name,
            from_cores: ahead.last().map(|(cores, _)| *cores),
            ratio_fewest: ratios.first()?.1,
            ratio_most: ratios.last()?.1,
        })
    }

    /// Returns the cells of [`HEADER`].
    pub fn cells(&self) -> Vec<String> {
        let from = self.from_cores.map_or("none of these".to_owned(), |cores| cores.to_string());
        vec![
            self.row_bytes.to_string(),
            self.domains.to_string(),
            self.rival.to_owned(),
            from,
            format!("{:.2}", self.ratio_fewest),
            format!("{:.2}", self.ratio_most),
        ]
    }
}

/// The columns of the leads.
pub const HEADER: [&str; 6] =
    ["row bytes", "domains", "rival", "ring leads from cores", "ratio with the fewest", "ratio with the most"];

#[cfg(test)]
mod tests {
    use super::*;

    fn machine(cores: usize, speeds: [f64; 3]) -> Vec<Line> {
        let strategies = [StrategyKind::Ring, StrategyKind::Spsc, StrategyKind::MutexChannel];
        let line = |(strategy, gb_s)| Line {
            cores,
            domains: 2,
            row_bytes: 8,
            strategy,
            gb_s,
            operations_a_batch: 0.0,
            locks_a_batch: 0.0,
            wakes_a_batch: 0.0,
            winner: false,
        };
        strategies.into_iter().zip(speeds).map(line).collect()
    }

    #[test]
    fn a_lead_is_kept_up_to_the_most_cores() {
        // In any order: ahead with 2, behind with 4, ahead with 8 and 16.
        let lines = [
            machine(16, [6.0, 2.0, 3.0]),
            machine(2, [2.0, 1.0, 1.0]),
            machine(8, [3.0, 2.0, 1.0]),
            machine(4, [1.0, 2.0, 1.0]),
        ];
        let leads = Lead::all(&lines.concat());
        assert_eq!(leads.len(), 1, "there is no paper-ring: {leads:?}");
        let Lead { from_cores, ratio_fewest, ratio_most, .. } = leads[0];
        assert_eq!((from_cores, ratio_fewest, ratio_most), (Some(8), 2.0, 2.0));
        assert_eq!(Lead::all(&machine(4, [1.0, 2.0, 1.0]))[0].from_cores, None);
        assert!(Lead::all(&machine(4, [1.0, 2.0, 1.0])[1..]).is_empty());
    }
}
