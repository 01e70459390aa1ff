//! The rights of the members of a ring, and the admission of queries.

use std::{
    future::ready,
    pin::Pin,
    task::{Context, Poll},
};

use annulus_roundabout::secure::Role;
use bytes::Bytes;
use futures::{FutureExt, future::BoxFuture};
use http::{Request, Response};
use tokio::runtime::Handle;
use tokio_util::task::AbortOnDropHandle;
use tonic::{Status, body::Body};
use tower::Service;

use crate::{
    net::{Peer, execution},
    state::{QueryTask, Refusal, WorkerQueries},
};

/// The method by which a coordinator sends a plan.
const SUBMIT: &str = "/CoordinatorChannel";

/// The answers to a coordinator, which end with the query.
struct Answers {
    body: Body,
    _task: QueryTask,
}

impl http_body::Body for Answers {
    type Data = Bytes;
    type Error = Status;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<http_body::Frame<Bytes>, Status>>> {
        Pin::new(&mut self.body).poll_frame(context)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }
}

/// Refuses requests that a member may not send: only submitters send plans. Hosts read each other's rows. A
/// request runs on `compute`, and ends if nobody waits for its answer.
#[derive(Clone, Debug)]
pub(super) struct Guard<S> {
    pub(super) inner: S,
    pub(super) compute: Handle,
    pub(super) queries: WorkerQueries,
}

impl<S, B> Service<Request<B>> for Guard<S>
where
    S: Service<Request<B>, Response = Response<Body>, Future: Send + 'static, Error: Send + 'static>,
{
    type Response = Response<Body>;
    type Error = S::Error;
    type Future = BoxFuture<'static, Result<Self::Response, S::Error>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.inner.poll_ready(context)
    }

    fn call(&mut self, request: Request<B>) -> Self::Future {
        let submits = request.uri().path().ends_with(SUBMIT);
        let peer = request.extensions().get::<Peer>().and_then(Peer::member);
        if let Some(peer) = peer.filter(|peer| submits && peer.role != Role::Submitter) {
            let text = format!("{peer} may not send queries: a submitter's certificate is needed");
            return ready(Ok(Status::permission_denied(text).into_http())).boxed();
        }
        let task = match submits.then(|| self.queries.begin(execution(request.headers()), peer)) {
            Some(Err(refusal)) => {
                let text = refusal.to_string();
                let status = match refusal {
                    Refusal::Ending => Status::unavailable(text),
                    Refusal::Full(_) => Status::resource_exhausted(text),
                };
                return ready(Ok(status.into_http())).boxed();
            }
            Some(Ok(task)) => Some(task),
            None => None,
        };
        let answering = AbortOnDropHandle::new(self.compute.spawn(self.inner.call(request)));
        async {
            let answer = match answering.await {
                Ok(answer) => answer?,
                Err(error) => Status::internal(format!("the worker failed: {error}")).into_http(),
            };
            Ok(match task {
                Some(task) => answer.map(|body| Body::new(Answers { body, _task: task })),
                None => answer,
            })
        }
        .boxed()
    }
}
