//! The meetings of a worker, for other workers: a request with JSON beside the worker's own ones.

use std::{
    convert::Infallible,
    task::{Context, Poll},
};

use annulus_roundabout::secure::Role;
use bytes::Bytes;
use futures::{FutureExt, future::BoxFuture};
use http::{Request, Response, StatusCode};
use http_body_util::{BodyExt, Full, Limited};
use tonic::{body::Body, server::NamedService};
use tower::Service;

use super::meeting::{Meetings, Present};
use crate::members::Peer;

/// The most bytes of a message: an address for each of many workers.
const MOST_BYTES: usize = 1 << 20;

/// Serves the meetings at a worker.
#[derive(Clone, Debug)]
pub(crate) struct MeetingService {
    pub(crate) meetings: Meetings,
}

impl NamedService for MeetingService {
    const NAME: &'static str = "annulus.Meetings";
}

impl Service<Request<Body>> for MeetingService {
    type Response = Response<Body>;
    type Error = Infallible;
    type Future = BoxFuture<'static, Result<Response<Body>, Infallible>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        let meetings = self.meetings.clone();
        async move {
            let (status, text) = match meet(&meetings, request).await {
                Ok(text) => (StatusCode::OK, text),
                Err(refused) => refused,
            };
            let mut response = Response::new(Body::new(Full::new(Bytes::from(text))));
            *response.status_mut() = status;
            Ok(response)
        }
        .boxed()
    }
}

/// Answers a task. The text is the answer, or why there is none.
async fn meet(meetings: &Meetings, request: Request<Body>) -> Result<String, (StatusCode, String)> {
    let member = match request.extensions().get::<Peer>().and_then(Peer::member) {
        Some(member) if member.role != Role::Host => {
            return Err((StatusCode::FORBIDDEN, format!("{member} may not join: a host's certificate is needed")));
        }
        member => member.map(|member| member.host.to_string()),
    };
    let bad = |error: &dyn ToString| (StatusCode::BAD_REQUEST, error.to_string());
    let body = Limited::new(request.into_body(), MOST_BYTES).collect().await.map_err(|error| bad(&error))?;
    let present: Present = serde_json::from_slice(&body.to_bytes()).map_err(|error| bad(&error))?;
    let met = meetings.meet(present, member).await.map_err(|error| (StatusCode::CONFLICT, error))?;
    serde_json::to_string(&met).map_err(|error| bad(&error))
}
