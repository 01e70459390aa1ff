//! The requests about the shares of a worker.

use annulus_roundabout::secure::Role;
use datafusion::error::Result;
use serde::{Deserialize, Serialize};

use super::rows::{RowsRequest, encoded};
use crate::{
    net::{Ask, AskService},
    state::{ResidentStore, ShareInfo, TableInfo},
};

/// A request about the shares of a worker. The answer to [`List`](Self::List) is the shares.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) enum TableRequest {
    /// To list its shares.
    List,
    /// To make a table visible.
    Publish { table: TableInfo, replaces: bool },
    /// To drop the rows that were added to a table that is not visible.
    Forget { id: String },
    /// To drop the table of this name, or only if it has this id.
    Remove { name: String, id: Option<String> },
}

impl Ask for TableRequest {
    const NAME: &'static str = "Resident";
    type Answer = Vec<ShareInfo>;

    fn needed_role(&self) -> Option<(Role, &'static str)> {
        match self {
            Self::List => None,
            Self::Publish { .. } | Self::Forget { .. } | Self::Remove { .. } => {
                Some((Role::Submitter, "change tables"))
            }
        }
    }
}

/// Lets a worker answer requests about its shares.
pub(crate) fn serve(asks: AskService, store: &ResidentStore) -> AskService {
    let (tables, rows) = (store.clone(), store.clone());
    asks.with(move |request, _| std::future::ready(apply(&tables, request)))
        .with_body(move |request: RowsRequest, _| std::future::ready(encoded(&rows, &request)))
}

fn apply(store: &ResidentStore, request: TableRequest) -> Result<Vec<ShareInfo>> {
    match request {
        TableRequest::Publish { table, replaces } => store.publish(table, replaces)?,
        TableRequest::Forget { id } => store.forget(&id),
        TableRequest::Remove { name, id } => store.remove(&name, id.as_deref()),
        TableRequest::List => return Ok(store.list()),
    }
    Ok(Vec::new())
}
