//! The time on cores of a transfer, by what it was for: figure 3 of the Data Roundabout's paper.

use std::{hint::black_box, sync::Arc};

use annulus_roundabout::RingConfig;
use annulus_terminal::statistics::median;
use anyhow::{Context, Result};
use indicatif::ProgressBar;
use serde::{Deserialize, Serialize};

use super::{PATIENCE, args::Transport, meter::Meter, run::Run};
use crate::Stop;

/// The name of the copies that tell copying from the rest of the kernel's work: of elements within
/// the memory of one thread.
pub(crate) const MEMCPY: &str = "memcpy";
/// The memory to which these copies go, about what is on its way in a stream's buffers.
const COPIES_BYTES: usize = 4 << 20;
/// The shortest time on cores that counts as measured, in seconds. The system tells user from
/// system time by samples, a hundred or more a second.
const SHORTEST_ON_CORES_S: f64 = 0.1;

/// The costs of one way. All are for 1e9 bytes of elements.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Cost {
    pub(crate) way: String,
    pub(crate) element_bytes: u32,
    pub(crate) elements: u64,
    /// Seconds on cores in which the application wrote and checked every byte.
    pub(crate) application_s: f64,
    /// All other seconds on cores outside the kernel.
    pub(crate) user_s: f64,
    /// Seconds on cores in the kernel.
    pub(crate) system_s: f64,
    /// Seconds on cores in the link's calls to sockets that send.
    pub(crate) sending_s: f64,
    /// Seconds on cores in the link's calls to sockets that receive.
    pub(crate) receiving_s: f64,
    /// Bytes that these calls moved, for each byte of an element.
    pub(crate) moved: f64,
    pub(crate) switches: f64,
    /// Whether the median round was shorter than [`SHORTEST_ON_CORES_S`].
    pub(crate) too_short: bool,
}

/// The transfers to measure.
pub(crate) struct Costs<'a> {
    pub(crate) ways: &'a [Transport],
    pub(crate) element_bytes: u32,
    /// The bytes that each run sends.
    pub(crate) bytes: u64,
    pub(crate) rounds: usize,
    pub(crate) bar: &'a ProgressBar,
    pub(crate) stop: &'a Stop,
}

impl Costs<'_> {
    /// Returns how often [`measure`](Self::measure) advances its bar.
    pub(crate) fn runs(&self) -> u64 {
        (self.ways.len() as u64 + 1) * (self.rounds as u64 + 1)
    }

    /// Measures all ways in turn, and copies in memory. The first round warms up.
    ///
    /// # Errors
    /// If an element is damaged, a host fails, or the measurement is stopped.
    pub(crate) fn measure(&self) -> Result<Vec<Cost>> {
        let ways: Vec<Option<Transport>> = self.ways.iter().copied().map(Some).chain([None]).collect();
        let mut meters = vec![Vec::new(); ways.len()];
        for round in 0..=self.rounds {
            for turn in 0..ways.len() {
                let at = (round + turn) % ways.len();
                let meter = self.run(ways[at]).context(name(ways[at]))?;
                self.bar.inc(1);
                if round > 0 {
                    meters[at].push(meter);
                }
            }
        }
        Ok(ways.iter().zip(&meters).map(|(&way, meters)| self.cost(way, meters)).collect())
    }

    fn elements(&self) -> u64 {
        (self.bytes / u64::from(self.element_bytes)).max(20)
    }

    fn run(&self, way: Option<Transport>) -> Result<Arc<Meter>> {
        self.bar.set_message(format!("figure 3, {}", name(way)));
        let meter = Arc::new(Meter::default());
        let config = RingConfig::default().with_fragment_bytes(self.element_bytes).with_buffers(10);
        let run = Run {
            way: way.unwrap_or(Transport::Plain),
            config: config.with_timeout(PATIENCE).with_connect_timeout(PATIENCE),
            elements: self.elements(),
            checked: true,
            stop: self.stop,
            meter: Some(&meter),
            #[cfg(feature = "ofi")]
            fabric: "",
        };
        match way {
            None => self.copy(&run, &meter)?,
            Some(_) => run.seconds().map(drop)?,
        }
        Ok(meter)
    }

    /// Copies elements within memory. The meter counts it as sending.
    fn copy(&self, run: &Run<'_>, meter: &Meter) -> Result<()> {
        let mut element = vec![0; self.element_bytes as usize];
        let mut copies = vec![0_u8; COPIES_BYTES.max(element.len())];
        for (number, at) in (0..run.elements).zip((0..copies.len() / element.len()).cycle()) {
            self.stop.check()?;
            run.write(&mut element, number);
            let copy = &mut copies[at * element.len()..][..element.len()];
            meter.send(|| {
                copy.copy_from_slice(black_box(&element));
                Ok(element.len())
            })?;
            black_box(&copy);
        }
        meter.end();
        Ok(())
    }

    fn cost(&self, way: Option<Transport>, meters: &[Arc<Meter>]) -> Cost {
        let bytes = self.elements() as f64 * f64::from(self.element_bytes);
        let of = |value: &dyn Fn(&Meter) -> f64| median(&meters.iter().map(|meter| value(meter)).collect::<Vec<_>>());
        let for_gb = |value: &dyn Fn(&Meter) -> f64| of(value) / bytes * 1e9;
        Cost {
            way: name(way).to_owned(),
            element_bytes: self.element_bytes,
            elements: self.elements(),
            application_s: for_gb(&|meter| meter.application_s()),
            user_s: for_gb(&|meter| (meter.spent().user_s - meter.application_s()).max(0.0)),
            system_s: for_gb(&|meter| meter.spent().system_s),
            sending_s: for_gb(&|meter| meter.sending_s()),
            receiving_s: for_gb(&|meter| meter.receiving_s()),
            moved: of(&|meter| meter.bytes() as f64) / bytes,
            switches: for_gb(&|meter| meter.spent().switches as f64),
            too_short: of(&|meter| meter.spent().user_s + meter.spent().system_s) < SHORTEST_ON_CORES_S,
        }
    }
}

fn name(way: Option<Transport>) -> &'static str {
    way.map_or(MEMCPY, Transport::name)
}
