//! The shares of a worker, for other processes: requests with JSON, and rows in Arrow's stream format.

use std::{
    convert::Infallible,
    sync::Arc,
    task::{Context, Poll},
};

use annulus_roundabout::secure::Role;
use bytes::Bytes;
use datafusion::{
    arrow::{
        array::RecordBatch,
        buffer::Buffer,
        ipc::{reader::StreamDecoder, writer::StreamWriter},
    },
    common::exec_datafusion_err,
    error::{DataFusionError, Result},
};
use futures::{FutureExt, StreamExt, future::BoxFuture, stream, stream::BoxStream};
use http::{Response, StatusCode};
use http_body::Frame;
use http_body_util::{BodyExt, BodyStream, Full, Limited, StreamBody};
use serde::{Deserialize, Serialize};
use tonic::{body::Body, server::NamedService};
use tower::Service;

use super::store::{ResidentStore, Share, TableInfo};
use crate::members::Peer;

/// The most bytes of a request, and of an answer without rows.
pub(crate) const MOST_BYTES: usize = 64 << 20;

/// What a process asks of a worker.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) enum Request {
    /// Which shares it has.
    List,
    /// To make a table visible.
    Publish { table: TableInfo, replaces: bool },
    /// To drop what was added to a table that is not visible.
    Forget { id: String },
    /// To drop the table of this name, or only if it has this id.
    Remove { name: String, id: Option<String> },
    /// The rows of a part of its share.
    Read { name: String, id: String, part: usize, parts: usize },
}

impl Request {
    /// Returns whether it changes what the worker has.
    fn changes(&self) -> bool {
        !matches!(self, Self::List | Self::Read { .. })
    }
}

/// Serves the shares of a worker.
#[derive(Clone)]
pub(crate) struct ResidentService {
    pub(crate) store: ResidentStore,
}

impl NamedService for ResidentService {
    const NAME: &'static str = "annulus.Resident";
}

impl Service<http::Request<Body>> for ResidentService {
    type Response = Response<Body>;
    type Error = Infallible;
    type Future = BoxFuture<'static, Result<Response<Body>, Infallible>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: http::Request<Body>) -> Self::Future {
        let store = self.store.clone();
        async move {
            Ok(answer(&store, request).await.unwrap_or_else(|(status, text)| {
                let mut response = Response::new(Body::new(Full::new(Bytes::from(text))));
                *response.status_mut() = status;
                response
            }))
        }
        .boxed()
    }
}

async fn answer(store: &ResidentStore, request: http::Request<Body>) -> Result<Response<Body>, (StatusCode, String)> {
    let bad = |error: &dyn ToString| (StatusCode::BAD_REQUEST, error.to_string());
    let member = request.extensions().get::<Peer>().and_then(Peer::member).cloned();
    let body = Limited::new(request.into_body(), MOST_BYTES).collect().await.map_err(|error| bad(&error))?;
    let request: Request = serde_json::from_slice(&body.to_bytes()).map_err(|error| bad(&error))?;
    if let Some(member) = member.filter(|member| request.changes() && member.role != Role::Submitter) {
        let text = format!("{member} may not change tables: a submitter's certificate is needed");
        return Err((StatusCode::FORBIDDEN, text));
    }
    let refused = |error: DataFusionError| (StatusCode::CONFLICT, error.strip_backtrace());
    if let Request::Read { name, id, part, parts } = &request {
        let share = store.share(name, id).map_err(refused)?;
        return encoded(&share, (*part, *parts)).map_err(refused);
    }
    let listed = apply(store, request).map_err(refused)?;
    Ok(Response::new(Body::new(Full::new(Bytes::from(listed)))))
}

/// Does what a request without rows asks, and returns the answer as JSON.
///
/// # Errors
/// If the worker refuses.
pub(crate) fn apply(store: &ResidentStore, request: Request) -> Result<String> {
    match request {
        Request::Publish { table, replaces } => store.publish(table, replaces)?,
        Request::Forget { id } => store.forget(&id),
        Request::Remove { name, id } => store.remove(&name, id.as_deref()),
        Request::List | Request::Read { .. } => {
            return serde_json::to_string(&store.list()).map_err(|error| DataFusionError::External(error.into()));
        }
    }
    Ok("[]".to_owned())
}

/// Returns a part of a share as a stream of Arrow.
fn encoded(share: &Arc<Share>, (part, parts): (usize, usize)) -> Result<Response<Body>> {
    let mut writer = StreamWriter::try_new(Vec::new(), share.info().table.schema()?.as_ref())?;
    let batches: Vec<RecordBatch> = share.part(part, parts).cloned().collect();
    let last = batches.len();
    let frames = stream::iter((0..=last).map(move |number| {
        match batches.get(number) {
            Some(batch) => writer.write(batch)?,
            None => writer.finish()?,
        }
        Ok::<_, DataFusionError>(Frame::data(Bytes::from(std::mem::take(writer.get_mut()))))
    }));
    Ok(Response::new(Body::new(StreamBody::new(frames))))
}

/// Returns the rows of such a stream.
pub(crate) fn decoded(body: Body) -> BoxStream<'static, Result<RecordBatch>> {
    let state = (BodyStream::new(body), StreamDecoder::new(), Buffer::from(Vec::<u8>::new()));
    let batches = stream::try_unfold(state, |(mut body, mut decoder, mut buffer)| async move {
        loop {
            if let Some(batch) = decoder.decode(&mut buffer)? {
                return Ok(Some((batch, (body, decoder, buffer))));
            }
            let Some(frame) = body.next().await else {
                decoder.finish().map_err(|_| exec_datafusion_err!("rows of a resident table are missing"))?;
                return Ok(None);
            };
            let frame = frame.map_err(|error| DataFusionError::External(error.into()))?;
            if let Ok(data) = frame.into_data() {
                buffer = Buffer::from(data);
            }
        }
    });
    batches.boxed()
}
