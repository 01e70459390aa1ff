//! Asks workers whether they are there.

use std::{
    io::{Write, stdout},
    time::{Duration, Instant},
};

use annulus_distributed::{Connections, address_of};
use anyhow::{Context, Result};
use serde_json::json;
use tokio::time::sleep;
use url::Url;

use super::args::PingArgs;
use crate::{errors, outcome::Outcome};

/// The time between two questions to a worker.
const PAUSE: Duration = Duration::from_millis(50);

/// Prints the version of each worker.
pub async fn run(args: &PingArgs) -> Result<Outcome> {
    let remote = args.asked.remote()?;
    let end = Instant::now() + args.wait.unwrap_or_default();
    let mut missing = 0;
    for url in remote.workers.urls() {
        let found = version_by(&remote.connections, url, end).await;
        missing += usize::from(found.is_err());
        let (worker, version) = (address_of(url), found.as_ref().ok());
        let error = found.as_ref().err().map(errors::text);
        let line = match (args.json, &error) {
            (true, _) => json!({ "worker": worker, "version": version, "error": error }).to_string(),
            (false, None) => format!("{worker}  version {}", version.map_or("", String::as_str)),
            (false, Some(error)) => format!("{worker}  {error}"),
        };
        writeln!(stdout(), "{line}").context("cannot print")?;
    }
    match missing {
        0 => Ok(Outcome::Done),
        _ => Err(errors::silent_workers(missing, remote.workers.urls().len())),
    }
}

/// Asks a worker until it answers, or until `end`.
async fn version_by(connections: &Connections, url: &Url, end: Instant) -> Result<String> {
    loop {
        match connections.version_of(url).await {
            Ok(version) => return Ok(version),
            Err(error) if Instant::now() >= end => return Err(error.into()),
            // A real delay: nothing tells when a process on another machine begins to listen.
            Err(_) => sleep(PAUSE).await,
        }
    }
}
