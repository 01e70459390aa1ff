//! The service of a worker that answers requests beside queries. The services of the worker register their
//! requests with it.

use std::{
    collections::HashMap,
    convert::Infallible,
    fmt,
    sync::Arc,
    task::{Context, Poll},
};

use annulus_roundabout::secure::Member;
use bytes::Bytes;
use datafusion::error::{DataFusionError, Result};
use futures::{FutureExt, future::BoxFuture};
use http::{Request, Response, StatusCode};
use http_body_util::{BodyExt, Full, Limited};
use tonic::{body::Body, server::NamedService};
use tower::Service;

use super::{
    asks::{Ask, MOST_BYTES},
    tls::Peer,
};
use crate::error::message_of;

/// The answer to a request that is refused: a status, and the reason.
type Refusal = (StatusCode, String);
/// Reads a request of a member, and answers it.
type Handler = Arc<dyn Fn(Bytes, Option<Member>) -> BoxFuture<'static, Result<Body, Refusal>> + Send + Sync>;

/// Answers the requests that services have registered.
#[derive(Clone, Default)]
pub(crate) struct AskService {
    /// By the names of the requests.
    handlers: HashMap<&'static str, Handler>,
}

impl fmt::Debug for AskService {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.handlers.keys()).finish()
    }
}

impl AskService {
    /// Registers a service that answers requests of a type. It gets the member who asks, if connections are
    /// encrypted.
    #[must_use]
    pub(crate) fn with<A, F>(self, answer: impl Fn(A, Option<Member>) -> F + Clone + Send + Sync + 'static) -> Self
    where
        A: Ask,
        F: Future<Output = Result<A::Answer>> + Send + 'static,
    {
        self.with_body(move |ask: A, member| {
            let answer = answer(ask, member);
            async move {
                let text = serde_json::to_string(&answer.await?);
                let text = text.map_err(|error| DataFusionError::External(error.into()))?;
                Ok(Body::new(Full::new(Bytes::from(text))))
            }
        })
    }

    /// Registers a service that answers requests of a type with a body of its own.
    #[must_use]
    pub(crate) fn with_body<A, F>(
        mut self,
        answer: impl Fn(A, Option<Member>) -> F + Clone + Send + Sync + 'static,
    ) -> Self
    where
        A: Ask,
        F: Future<Output = Result<Body>> + Send + 'static,
    {
        let handler = move |body: Bytes, member: Option<Member>| {
            let answer = answer.clone();
            async move {
                let ask: A =
                    serde_json::from_slice(&body).map_err(|error| (StatusCode::BAD_REQUEST, error.to_string()))?;
                if let Some(refusal) = member.as_ref().and_then(|member| refusal(&ask, member)) {
                    return Err((StatusCode::FORBIDDEN, refusal));
                }
                answer(ask, member).await.map_err(|error| (StatusCode::CONFLICT, message_of(&error)))
            }
            .boxed()
        };
        self.handlers.insert(A::NAME, Arc::new(handler));
        self
    }

    async fn answer(&self, request: Request<Body>) -> Result<Body, Refusal> {
        let name = request.uri().path().rsplit('/').next().unwrap_or_default();
        let Some(handler) = self.handlers.get(name).cloned() else {
            return Err((
                StatusCode::NOT_FOUND,
                format!("unknown request '{name}': run the same version of Annulus on all hosts"),
            ));
        };
        let member = request.extensions().get::<Peer>().and_then(Peer::member).cloned();
        let body = Limited::new(request.into_body(), MOST_BYTES).collect().await;
        let body = body.map_err(|error| (StatusCode::BAD_REQUEST, error.to_string()))?;
        handler(body.to_bytes(), member).await
    }
}

/// Returns why a member may not ask this.
fn refusal<A: Ask>(ask: &A, member: &Member) -> Option<String> {
    let (needed, what) = ask.needed_role()?;
    let is_refused = member.role != needed;
    is_refused.then(|| format!("{member} may not {what}: a {}'s certificate is needed", needed.name()))
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
            Ok(match service.answer(request).await {
                Ok(body) => Response::new(body),
                Err((status, text)) => {
                    let mut response = Response::new(Body::new(Full::new(Bytes::from(text))));
                    *response.status_mut() = status;
                    response
                }
            })
        }
        .boxed()
    }
}
