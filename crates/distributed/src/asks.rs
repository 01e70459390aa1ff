//! What processes ask of a worker beside queries: requests with JSON, on the connections of its queries.

use std::{
    convert::Infallible,
    path::PathBuf,
    sync::Arc,
    task::{Context, Poll},
};

use annulus_datafusion::ReadAccess;
use annulus_roundabout::secure::{Member, Role};
use bytes::Bytes;
use datafusion::{
    common::internal_err,
    error::{DataFusionError, Result},
};
use futures::{FutureExt, future::BoxFuture};
use http::{Request, Response, StatusCode};
use http_body_util::{BodyExt, Full, Limited};
use serde::{Deserialize, Serialize};
use tonic::{body::Body, server::NamedService};
use tower::Service;

use crate::{channels::Channels, cyclo::Present, members::Peer, resident, results, roots::WorkerFiles, status::Shown};

/// The most bytes of a request, and of an answer without rows.
pub(crate) const MOST_BYTES: usize = 64 << 20;

/// A request.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) enum Ask {
    /// To meet the other tasks of a join.
    Meet(Present),
    /// About resident tables.
    Resident(resident::Request),
    /// About datasets that queries write.
    Results(results::Request),
    /// What the worker does.
    Report,
    /// Whether the worker may read what a query reads.
    Read(Reads),
}

/// What a query reads.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Reads {
    /// Files, folders and globs that a worker opens as a dataset.
    pub(crate) inputs: Vec<String>,
    /// Files that it reads one by one.
    pub(crate) files: Vec<PathBuf>,
}

impl Ask {
    /// Returns why a member may not ask this.
    fn refusal(&self, member: &Member) -> Option<String> {
        let (needed, what) = match self {
            Self::Meet(_) => (Role::Host, "join"),
            Self::Resident(request) if request.changes() => (Role::Submitter, "change tables"),
            Self::Resident(_) => return None,
            Self::Results(_) => (Role::Submitter, "write results"),
            Self::Report => (Role::Submitter, "see queries"),
            Self::Read(_) => (Role::Submitter, "ask for files"),
        };
        let is_refused = member.role != needed;
        is_refused.then(|| format!("{member} may not {what}: a {}'s certificate is needed", needed.name()))
    }
}

impl Reads {
    /// Returns whether nothing is read.
    pub(crate) fn is_empty(&self) -> bool {
        self.inputs.is_empty() && self.files.is_empty()
    }

    fn check(&self, access: &WorkerFiles) -> Result<()> {
        access.check_inputs(&self.inputs)?;
        // Without folders of its own, a worker leaves files that are no dataset to its object stores.
        match access.read.is_empty() {
            true => Ok(()),
            false => self.files.iter().try_for_each(|file| access.check_file(file)),
        }
    }
}

/// Answers what others ask of a worker.
#[derive(Clone, Debug)]
pub(crate) struct AskService {
    pub(crate) channels: Channels,
    pub(crate) shown: Shown,
    pub(crate) files: Arc<WorkerFiles>,
}

impl NamedService for AskService {
    const NAME: &'static str = "annulus.Worker";
}

impl Service<Request<Body>> for AskService {
    type Response = Response<Body>;
    type Error = Infallible;
    type Future = BoxFuture<'static, Result<Response<Body>, Infallible>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        let service = self.clone();
        async move {
            Ok(answer(&service, request).await.unwrap_or_else(|(status, text)| {
                let mut response = Response::new(Body::new(Full::new(Bytes::from(text))));
                *response.status_mut() = status;
                response
            }))
        }
        .boxed()
    }
}

async fn answer(
    AskService { channels, shown, files }: &AskService,
    request: Request<Body>,
) -> Result<Response<Body>, (StatusCode, String)> {
    let bad = |error: &dyn ToString| (StatusCode::BAD_REQUEST, error.to_string());
    let refused = |error: DataFusionError| {
        let text = error.strip_backtrace();
        (StatusCode::CONFLICT, text.trim_start_matches("Execution error: ").to_owned())
    };
    let member = request.extensions().get::<Peer>().and_then(Peer::member).cloned();
    let body = Limited::new(request.into_body(), MOST_BYTES).collect().await.map_err(|error| bad(&error))?;
    let ask: Ask = serde_json::from_slice(&body.to_bytes()).map_err(|error| bad(&error))?;
    if let Some(refusal) = member.as_ref().and_then(|member| ask.refusal(member)) {
        return Err((StatusCode::FORBIDDEN, refusal));
    }
    if let Ask::Resident(resident::Request::Read(part)) = &ask {
        return resident::encoded(channels.resident(), part).map_err(refused);
    }
    let answer = match ask {
        Ask::Report => json(&shown.report()),
        Ask::Read(reads) => {
            let files = Arc::clone(files);
            // Paths are looked up on disk.
            let checked = tokio::task::spawn_blocking(move || reads.check(&files)).await;
            checked.map_err(|error| DataFusionError::ExecutionJoin(Box::new(error))).flatten().and_then(|()| json(&()))
        }
        ask => here(channels, ask, member.map(|member| member.host.to_string())).await,
    };
    let answer = answer.map_err(refused)?;
    Ok(Response::new(Body::new(Full::new(Bytes::from(answer)))))
}

/// Answers in this process, as JSON. `member` is the name in the certificate of who asks.
///
/// # Errors
/// If the worker refuses.
pub(crate) async fn here(channels: &Channels, ask: Ask, member: Option<String>) -> Result<String> {
    match ask {
        Ask::Meet(present) => {
            json(&channels.meetings().meet(present, member).await.map_err(DataFusionError::Execution)?)
        }
        Ask::Resident(request) => json(&resident::apply(channels.resident(), request)?),
        Ask::Results(request) => json(&channels.results().apply(request).await?),
        Ask::Report | Ask::Read(_) => internal_err!("a worker asked itself about itself"),
    }
}

fn json(answer: &impl Serialize) -> Result<String> {
    serde_json::to_string(answer).map_err(|error| DataFusionError::External(error.into()))
}
