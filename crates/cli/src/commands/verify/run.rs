//! Checks the files.

use std::io::{Write, stdout};

use annulus_dataset::{MANIFEST_NAME, Manifest, Verification, can_resume};
use annulus_terminal::{progress, units::counted};
use anyhow::{Context, Result, bail};
use indicatif::HumanBytes;
use tokio::task::spawn_blocking;

use super::VerifyArgs;
use crate::{interrupt::until_interrupted, outcome::Outcome, runtime};

/// Reads every file of the dataset, and lists those that differ from the manifest.
pub fn run(args: VerifyArgs) -> Result<Outcome> {
    if !args.dir.is_dir() {
        bail!("no folder '{}': give the folder of a dataset", args.dir.display());
    }
    if !Manifest::path_in(&args.dir).exists() && !can_resume(&args.dir) {
        bail!("'{}' is not a dataset that partition or join wrote: it has no {MANIFEST_NAME}", args.dir.display());
    }
    runtime::run(until_interrupted(async move {
        let dir = args.dir.clone();
        let verify = move || {
            let verification = Verification::begin(&dir)?;
            let bar = progress::bytes(verification.bytes());
            let found = verification.run(|bytes| bar.inc(bytes));
            bar.finish_and_clear();
            found
        };
        let found = spawn_blocking(verify).await.context("the check panicked")??;
        let mut out = stdout().lock();
        if args.json {
            writeln!(out, "{}", serde_json::to_string(&found)?).context("cannot print")?;
        } else {
            for file in &found.bad {
                writeln!(out, "'{}' {}", args.dir.join(&file.name).display(), file.reason).context("cannot print")?;
            }
            let (bytes, bad) = (HumanBytes(found.bytes), found.bad.len());
            let files = counted(found.files as u64, "file");
            let result = if bad == 0 { "all match the manifest".to_owned() } else { format!("{bad} bad") };
            writeln!(out, "{files} of '{}', {bytes}: {result}", args.dir.display()).context("cannot print")?;
        }
        Ok(if found.bad.is_empty() { Outcome::Done } else { Outcome::Differs })
    }))
}
