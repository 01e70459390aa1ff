//! Shows the progress of each host on a terminal.

use std::time::Duration;

use annulus_cluster::{HostProgress, Observe, Phase, Planned};
use annulus_terminal::progress;
use indicatif::{HumanCount, MultiProgress, ProgressBar};

/// A progress bar for each host.
pub struct Shown {
    all: MultiProgress,
    hosts: Vec<ProgressBar>,
    /// The number of revolutions, unless a single host joins without a ring.
    revolutions: Option<usize>,
    wait: Duration,
}

impl Shown {
    pub fn new(planned: &Planned, wait: Duration) -> Self {
        let all = MultiProgress::new();
        let each = planned.work_bytes / planned.hosts as u64;
        let hosts = (0..planned.hosts).map(|_| all.add(progress::bytes(each))).collect();
        let revolutions = (!planned.is_single).then_some(planned.revolutions);
        Self { all, hosts, revolutions, wait }
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
        bar.set_position(progress.bytes_done);
        bar.set_message(match self.revolutions {
            Some(revolutions) => format!("host {host}: {}", message(&progress, revolutions)),
            None => alone(&progress),
        });
    }
}

/// Returns what a single host does, as text.
fn alone(progress: &HostProgress) -> String {
    let (read, out) = (HumanCount(progress.rows_read), HumanCount(progress.rows_out));
    match progress.phase {
        Phase::Writing => format!("finishing its files, {out} rows"),
        _ => format!("{read} rows read, {out} rows out"),
    }
}

/// Returns what a host does, as text. The join has `revolutions`.
fn message(progress: &HostProgress, revolutions: usize) -> String {
    let (read, out) = (HumanCount(progress.rows_read), HumanCount(progress.rows_out));
    match progress.phase {
        Phase::Loading => format!("{read} rows read"),
        Phase::Preparing => format!("preparing {read} rows"),
        Phase::Turning => {
            let (fragments, waited) = (HumanCount(progress.fragments), progress.waiting_ms as f64 / 1e3);
            // After the last revolution, rows are still being written.
            let revolution = (progress.revolutions + 1).min(revolutions as u64);
            format!(
                "revolution {revolution} of {revolutions}, {fragments} fragments, {out} rows out, waited {waited:.1} s"
            )
        }
        Phase::Writing => format!("finishing its files, {out} rows"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn revolutions_are_counted() {
        let mut progress = HostProgress::default();
        (progress.phase, progress.fragments, progress.rows_out) = (Phase::Turning, 1200, 3);
        for (done, shown) in [(0, "revolution 1 of 7"), (5, "revolution 6 of 7"), (7, "revolution 7 of 7")] {
            progress.revolutions = done;
            let message = message(&progress, 7);
            assert_eq!(message, format!("{shown}, 1,200 fragments, 3 rows out, waited 0.0 s"));
        }
    }
}
