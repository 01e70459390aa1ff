//! A coordinator asks a worker whether it may read the files of a query.

use std::{path::PathBuf, sync::Arc};

use annulus_datafusion::ReadAccess;
use annulus_roundabout::secure::Role;
use datafusion::error::{DataFusionError, Result};
use serde::{Deserialize, Serialize};
use tokio::task::spawn_blocking;

use super::access::WorkerFiles;
use crate::net::{Ask, AskService};

/// The files that a query reads.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Reads {
    /// Files, folders and globs that a worker opens as a dataset.
    pub(crate) inputs: Vec<String>,
    /// Files that it reads one by one.
    pub(crate) files: Vec<PathBuf>,
}

impl Ask for Reads {
    const NAME: &'static str = "Reads";
    type Answer = ();

    fn needed_role(&self) -> Option<(Role, &'static str)> {
        Some((Role::Submitter, "ask for files"))
    }
}

impl Reads {
    /// Returns whether the query reads no files.
    pub(crate) fn is_empty(&self) -> bool {
        self.inputs.is_empty() && self.files.is_empty()
    }

    fn check(&self, access: &WorkerFiles) -> Result<()> {
        access.check_inputs(&self.inputs)?;
        // Without folders of its own, a worker leaves files that are not in a dataset to its object stores.
        match access.read.is_empty() {
            true => Ok(()),
            false => self.files.iter().try_for_each(|file| access.check_file(file)),
        }
    }
}

/// Lets a worker answer whether it may read files.
pub(crate) fn serve(asks: AskService, files: Arc<WorkerFiles>) -> AskService {
    asks.with(move |reads: Reads, _| {
        let files = Arc::clone(&files);
        async move {
            // Paths are looked up on disk.
            let checked = spawn_blocking(move || reads.check(&files)).await;
            checked.map_err(|error| DataFusionError::ExecutionJoin(Box::new(error))).flatten()
        }
    })
}
