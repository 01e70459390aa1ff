//! `annulus calibrate`: measures what is cheapest on this machine, for SQL to choose by.

pub use annulus_calibrate::CalibrateArgs;
use annulus_calibrate::run as measure;
use anyhow::Result;

use crate::{interrupt::until_interrupted, outcome::Outcome, runtime};

/// Runs the command.
pub fn run(args: CalibrateArgs) -> Result<Outcome> {
    runtime::run_on(args.threads, until_interrupted(async { measure(&args).await.map(|()| Outcome::Done) }))
}
