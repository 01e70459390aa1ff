//! Requests to workers beside queries: JSON on the connections of their queries.

use annulus_roundabout::secure::Role;
use bytes::Bytes;
use datafusion::{
    common::exec_err,
    error::{DataFusionError, Result},
};
use http::StatusCode;
use http_body_util::{BodyExt, Full, Limited};
use serde::{Serialize, de::DeserializeOwned};
use tonic::{Status, body::Body, server::NamedService};
use tower::{Service, ServiceExt};
use url::Url;

use super::{Connections, ask_service::AskService};

/// The most bytes of a request, and of an answer without rows.
pub(super) const MOST_BYTES: usize = 64 << 20;

/// A request that a service of a worker answers.
pub(crate) trait Ask: Serialize + DeserializeOwned + Send + Sync + 'static {
    /// The last part of the path of the request.
    const NAME: &'static str;
    /// The answer; `()` if it is a body of rows.
    type Answer: Serialize + DeserializeOwned + Send;

    /// Returns the role that a member needs to ask this, and the name of what it asks for; `None` if every
    /// member may ask.
    fn needed_role(&self) -> Option<(Role, &'static str)>;
}

/// Returns the path of the requests of this name.
pub(super) fn path_of(name: &str) -> String {
    format!("/{}/{name}", AskService::NAME)
}

impl Connections {
    /// Asks the worker at `url`.
    ///
    /// # Errors
    /// If it cannot be reached, or refuses. The error names it.
    pub(crate) async fn ask<A: Ask>(&self, url: &Url, ask: &A) -> Result<A::Answer> {
        let answer = async {
            let body = self.post(url, ask).await?;
            let body = Limited::new(body, MOST_BYTES).collect().await.map_err(DataFusionError::External)?;
            serde_json::from_slice(&body.to_bytes()).map_err(external)
        };
        answer.await.map_err(|error| self.name_worker(url, error))
    }

    /// Asks the worker at `url` for rows, and returns the body of the answer.
    ///
    /// # Errors
    /// If it cannot be reached, or refuses. The error names it.
    pub(crate) async fn ask_for_body<A: Ask>(&self, url: &Url, ask: &A) -> Result<Body> {
        self.post(url, ask).await.map_err(|error| self.name_worker(url, error))
    }

    async fn post<A: Ask>(&self, url: &Url, ask: &A) -> Result<Body> {
        let text = serde_json::to_vec(ask).map_err(external)?;
        let request = http::Request::post(path_of(A::NAME)).body(Body::new(Full::from(text))).map_err(external)?;
        let mut channel = self.channel(url)?;
        let channel = channel.ready().await.map_err(external)?;
        let response = channel.call(request).await.map_err(external)?;
        if let Some(status) = Status::from_header_map(response.headers()) {
            // Of the server itself: it does not know the service, or has failed.
            return exec_err!("{}: run the same version of Annulus on all hosts", status.message());
        }
        if response.status() == StatusCode::OK {
            return Ok(response.into_body());
        }
        let body = Limited::new(response.into_body(), MOST_BYTES).collect().await.map_err(DataFusionError::External)?;
        let body: Bytes = body.to_bytes();
        exec_err!("{}", String::from_utf8_lossy(&body))
    }
}

fn external(error: impl std::error::Error + Send + Sync + 'static) -> DataFusionError {
    DataFusionError::External(Box::new(error))
}
