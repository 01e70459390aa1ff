//! Shows the progress of each host on a terminal.

use std::time::Duration;

use annulus_cluster::{HostProgress, Observe, Phase, Planned};
use annulus_terminal::progress;
use indicatif::{HumanCount, MultiProgress, ProgressBar};

/// A progress bar for each host.
pub struct Shown {
    all: MultiProgress,
    hosts: Vec<ProgressBar>,
    revolutions: usize,
    wait: Duration,
}

impl Shown {
    pub fn new(planned: &Planned, wait: Duration) -> Self {
        let all = MultiProgress::new();
        let each = planned.input_bytes / planned.hosts as u64;
        let hosts = (0..planned.hosts).map(|_| all.add(progress::bytes(each))).collect();
        Self { all, hosts, revolutions: planned.revolutions, wait }
    }

    pub fn clear(&self) {
        self.hosts.iter().for_each(ProgressBar::finish_and_clear);
        // Without a terminal there is nothing to clear.
        self.all.clear().ok();
    }
}

impl Observe for Shown {
    fn queued(&self, name: &str, ahead: usize) {
        let joins = if ahead == 1 { "another join".to_owned() } else { format!("{ahead} other joins") };
        eprintln!("{name} is busy with {joins}; waiting for up to {} s", self.wait.as_secs_f64());
    }

    fn host(&self, host: usize, progress: HostProgress) {
        let Some(bar) = self.hosts.get(host) else { return };
        bar.set_position(progress.bytes_read);
        let read = HumanCount(progress.rows_read);
        bar.set_message(match progress.phase {
            Phase::Loading => format!("host {host}: {read} rows read"),
            Phase::Preparing => format!("host {host}: preparing {read} rows"),
            Phase::Turning => {
                let (fragments, out) = (HumanCount(progress.fragments), HumanCount(progress.rows_out));
                let (of, waited) = (self.revolutions, progress.waiting_ms as f64 / 1e3);
                // After the last revolution, rows are still being written.
                let revolution = (progress.revolutions + 1).min(of as u64);
                format!(
                    "host {host}: revolution {revolution} of {of}, {fragments} fragments, {out} rows out, \
                     waited {waited:.1} s"
                )
            }
            Phase::Writing => format!("host {host}: finishing its files, {} rows", HumanCount(progress.rows_out)),
        });
    }
}
