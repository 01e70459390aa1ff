//! What is asked of workers beside queries.

use bytes::Bytes;
use datafusion::{
    arrow::array::RecordBatch,
    common::exec_err,
    error::{DataFusionError, Result},
};
use futures::stream::BoxStream;
use http::StatusCode;
use http_body_util::{BodyExt, Full, Limited};
use serde::de::DeserializeOwned;
use tonic::{Status, body::Body, server::NamedService};
use tower::{Service, ServiceExt};
use url::Url;

use super::{Channels, named, named_stream};
use crate::{
    asks::{Ask, AskService, MOST_BYTES, Reads, here},
    cyclo::{Met, Present},
    resident::{PartOfShare, Request, TableInfo, decoded},
    status::WorkerReport,
};

impl Channels {
    /// Returns what the worker at `url` does. With certificates, submitters alone may ask.
    ///
    /// # Errors
    /// If it cannot be reached, or refuses. The error names it.
    pub async fn report_of(&self, url: &Url) -> Result<WorkerReport> {
        self.ask(url, Ask::Report).await
    }

    /// Asks the worker at `url`.
    ///
    /// # Errors
    /// If it cannot be reached, or refuses. The error names it.
    pub(crate) async fn ask<T: DeserializeOwned>(&self, url: &Url, ask: Ask) -> Result<T> {
        let answer = async {
            let answer = if self.is_own(url) {
                let member = self.identity.as_ref().map(|identity| identity.member().host.to_string());
                Bytes::from(here(self, ask, member).await?)
            } else {
                let body = self.post(url, &ask).await?;
                Limited::new(body, MOST_BYTES).collect().await.map_err(DataFusionError::External)?.to_bytes()
            };
            serde_json::from_slice(&answer).map_err(|error| DataFusionError::External(error.into()))
        };
        answer.await.map_err(|error| named(url, error))
    }

    /// Reads one of several parts of the share that the worker at `url` has.
    ///
    /// # Errors
    /// If it cannot be reached, or does not have it. The error names it, also those of the stream.
    pub(crate) async fn read_share(
        &self,
        url: &Url,
        table: &TableInfo,
        (part, parts): (usize, usize),
    ) -> Result<BoxStream<'static, Result<RecordBatch>>> {
        let part = PartOfShare { name: table.name.clone(), id: table.id.clone(), part, parts };
        let ask = Ask::Resident(Request::Read(part));
        let body = self.post(url, &ask).await.map_err(|error| named(url, error))?;
        Ok(named_stream(url, decoded(body)))
    }

    /// Asks the worker at `url` in another process, and returns the body of the answer.
    async fn post(&self, url: &Url, ask: &Ask) -> Result<Body> {
        let external = |error| DataFusionError::External(error);
        let text = serde_json::to_vec(ask).map_err(|error| external(error.into()))?;
        let request = http::Request::post(format!("/{}/Ask", AskService::NAME)).body(Body::new(Full::from(text)));
        let request = request.map_err(|error| external(error.into()))?;
        let mut channel = self.channel(url)?;
        let channel = channel.ready().await.map_err(|error| external(error.into()))?;
        let response = channel.call(request).await.map_err(|error| external(error.into()))?;
        if let Some(status) = Status::from_header_map(response.headers()) {
            // Of the server itself: it does not know the service, or has failed.
            return exec_err!("{}: run the same version of Annulus on all hosts", status.message());
        }
        if response.status() == StatusCode::OK {
            return Ok(response.into_body());
        }
        let body = Limited::new(response.into_body(), MOST_BYTES).collect().await.map_err(external)?.to_bytes();
        exec_err!("{}", String::from_utf8_lossy(&body))
    }

    /// Asks the worker at `url` whether it may read what a query reads.
    ///
    /// # Errors
    /// If it may not, or cannot be reached. The error names it.
    pub(crate) async fn may_read(&self, url: &Url, reads: &Reads) -> Result<()> {
        self.ask(url, Ask::Read(reads.clone())).await
    }

    /// Waits for the other tasks of a join, at the worker at `url`.
    ///
    /// # Errors
    /// If it cannot be reached, or the tasks do not come. The error names it.
    pub(crate) async fn meet(&self, url: &Url, present: Present) -> Result<Met> {
        self.ask(url, Ask::Meet(present)).await
    }
}
