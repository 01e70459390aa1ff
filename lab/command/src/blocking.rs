//! Runs benchmarks that compute without yielding.

use std::sync::Arc;

use annulus_bench::Stop;
use anyhow::{Context, Result};
use tokio::task::spawn_blocking;

use crate::{interrupt::until_interrupted, outcome::Outcome};

/// Runs `work` on its own thread. On a signal it cancels `work`, which removes its unfinished
/// files.
pub async fn run(work: impl FnOnce(&Stop) -> Result<()> + Send + 'static) -> Result<Outcome> {
    let stop = Arc::new(Stop::default());
    let at_drop = StopAtDrop(Arc::clone(&stop));
    until_interrupted(async move {
        let _at_drop = at_drop;
        spawn_blocking(move || work(&stop)).await.context("the benchmark failed")??;
        Ok(Outcome::Done)
    })
    .await
}

struct StopAtDrop(Arc<Stop>);

impl Drop for StopAtDrop {
    fn drop(&mut self) {
        self.0.cancel();
    }
}
