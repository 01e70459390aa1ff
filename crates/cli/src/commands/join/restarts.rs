//! Starts a join again whose worker was lost, on the others.

use annulus_distributed::{WorkerError, WorkerErrorKind, Workers, address_of};
use anyhow::{Error, Result};
use url::Url;

use crate::{cluster::Remote, errors, notes::note};

/// The restarts of a join.
pub struct Restarts {
    /// All workers of the command.
    listed: Vec<Url>,
    /// The number of restarts that are left.
    left: usize,
    first_member: usize,
}

impl Restarts {
    /// Returns the restarts of a join that may start again this often, first on all workers of `remote`.
    pub fn new(retries: usize, remote: Option<&Remote>) -> Self {
        let listed = remote.map(|remote| remote.workers.urls().to_vec()).unwrap_or_default();
        Self { listed, left: retries, first_member: 0 }
    }

    /// Returns the number of the first folder of an attempt. A lost worker may still write to its folder.
    pub fn first_member(&self) -> usize {
        self.first_member
    }

    /// Returns the workers of another attempt, after one on `remote` has failed; `None` for this process.
    ///
    /// # Errors
    /// The error of the attempt, if other workers would fail as well, or if no restart is left.
    pub async fn after(&mut self, remote: Option<Remote>, error: Error) -> Result<Option<Remote>> {
        let Some(remote) = remote else { return Err(error) };
        let answers = remote.connections.survey(&self.listed).await;
        let (live, lost): (Vec<_>, Vec<_>) = self.listed.iter().zip(answers).partition(|(_, answer)| answer.is_ok());
        let found = error.downcast_ref().and_then(WorkerError::find_in);
        let is_named = found.is_some_and(|error| error.kind != WorkerErrorKind::Query);
        if !is_named && lost.iter().all(|(url, _)| !remote.workers.urls().contains(url)) {
            return Err(error);
        }
        if self.left == 0 {
            return Err(error.context("start it again, or let it start again on the other workers (--retries)"));
        }
        self.left -= 1;
        self.first_member += remote.workers.urls().len();
        let (text, all) = (errors::text(&error), self.listed.len());
        let Ok(workers) = Workers::new(live.into_iter().map(|(url, _)| address_of(url))) else {
            note(format_args!("{text}; the join starts again in this process, since no worker answers"));
            return Ok(None);
        };
        note(format_args!("{text}; the join starts again on {} of {all} workers", workers.urls().len()));
        Ok(Some(Remote { workers, ..remote }))
    }
}
