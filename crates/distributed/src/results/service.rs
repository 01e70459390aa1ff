//! The requests about the parts of datasets that a process has written.

use annulus_roundabout::secure::Role;
use datafusion::error::Result;
use serde::{Deserialize, Serialize};

use crate::{
    net::{Ask, AskService},
    state::{PublishedPart, ResultStore},
};

/// A request of a coordinator about the parts of a run. The answer has the parts that it concerns.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) enum PartsRequest {
    /// To give the files of its parts their names.
    Publish { id: String },
    /// To let its parts stay, unless they are removed after all.
    Keep { id: String },
    /// To remove its parts, and those that become complete later. The answer comes when no task writes any
    /// more.
    Remove { id: String },
}

impl Ask for PartsRequest {
    const NAME: &'static str = "Results";
    type Answer = Vec<PublishedPart>;

    fn needed_role(&self) -> Option<(Role, &'static str)> {
        Some((Role::Submitter, "write results"))
    }
}

impl PartsRequest {
    /// Does what a coordinator asks of the process with this store.
    ///
    /// # Errors
    /// If files cannot get their names. The files of that part are removed.
    pub(super) async fn apply(&self, results: &ResultStore) -> Result<Vec<PublishedPart>> {
        match self {
            Self::Publish { id } => results.publish(id).await,
            Self::Keep { id } => Ok(results.keep(id)),
            Self::Remove { id } => results.remove(id).await.map(|()| Vec::new()),
        }
    }
}

/// Lets a worker answer requests about the parts that it has written.
pub(crate) fn serve(asks: AskService, results: &ResultStore) -> AskService {
    let results = results.clone();
    asks.with(move |request: PartsRequest, _| {
        let results = results.clone();
        async move { request.apply(&results).await }
    })
}
