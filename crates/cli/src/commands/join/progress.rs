//! Shows the progress of a join on a terminal.

use std::{future::pending, time::Duration};

use annulus_terminal::progress;
use indicatif::{HumanCount, ProgressBar};
use tokio::time::interval;

use super::counts::Counts;
use crate::cluster::Remote;

/// The time between two looks at the counters.
const TICK: Duration = Duration::from_millis(200);

/// What a terminal shows of a join.
pub struct ProgressDisplay<'a> {
    bar: ProgressBar,
    counts: Option<&'a Counts>,
}

/// Shows what has been read, if a join in this process counts it, and else that it runs.
pub fn show<'a>(counts: Option<&'a Counts>, remote: Option<&Remote>) -> ProgressDisplay<'a> {
    let bar = match (counts, remote) {
        (Some(counts), _) => progress::bytes(counts.bytes()),
        (None, remote) => {
            let workers = remote.map_or(0, |remote| remote.workers.urls().len());
            progress::working(format!("joining on {workers} workers"))
        }
    };
    ProgressDisplay { bar, counts }
}

impl ProgressDisplay<'_> {
    /// Follows the counters for ever.
    pub async fn follow(&self) -> std::convert::Infallible {
        let Some(counts) = self.counts else { return pending().await };
        let mut ticks = interval(TICK);
        loop {
            ticks.tick().await;
            let counted = counts.now();
            self.bar.set_position(counted.bytes_of_files());
            let (read, out) = (HumanCount(counted.rows_read()), HumanCount(counted.rows_out));
            self.bar.set_message(format!("{read} rows read, {out} rows out"));
        }
    }

    pub fn clear(&self) {
        self.bar.finish_and_clear();
    }
}
