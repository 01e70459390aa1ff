//! The rows of a part of a share, as a stream of Arrow between workers.

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
use futures::{StreamExt, TryStreamExt, stream, stream::BoxStream};
use http_body::Frame;
use http_body_util::{BodyStream, StreamBody};
use serde::{Deserialize, Serialize};
use tonic::body::Body;
use url::Url;

use annulus_roundabout::secure::Role;

use crate::{
    net::{Ask, Connections},
    state::{ResidentStore, SharePart},
};

/// A request for the rows of a part of a share.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct RowsRequest {
    /// The name of the table.
    pub(super) name: String,
    /// The id of the table.
    pub(super) id: String,
    pub(super) part: SharePart,
}

impl Ask for RowsRequest {
    const NAME: &'static str = "ResidentRows";
    type Answer = ();

    fn needed_role(&self) -> Option<(Role, &'static str)> {
        None
    }
}

/// Reads a part of the share of the worker at `url`.
///
/// # Errors
/// If it cannot be reached, or does not have the share. The error names it, also if the stream fails.
pub(super) async fn read_from(
    connections: &Connections,
    url: &Url,
    request: &RowsRequest,
) -> Result<BoxStream<'static, Result<RecordBatch>>> {
    let body = connections.ask_for_body(url, request).await?;
    let (connections, url) = (connections.clone(), url.clone());
    Ok(decoded(body).map_err(move |error| connections.name_worker(&url, error)).boxed())
}

/// Returns a part of a share as a stream of Arrow.
///
/// # Errors
/// If the worker does not have it.
pub(super) fn encoded(store: &ResidentStore, request: &RowsRequest) -> Result<Body> {
    let share = store.share(&request.name, &request.id)?;
    let mut writer = StreamWriter::try_new(Vec::new(), share.info().table.schema()?.as_ref())?;
    let batches: Vec<RecordBatch> = share.part(request.part).cloned().collect();
    let last = batches.len();
    let frames = stream::iter((0..=last).map(move |number| {
        match batches.get(number) {
            Some(batch) => writer.write(batch)?,
            None => writer.finish()?,
        }
        Ok::<_, DataFusionError>(Frame::data(Bytes::from(std::mem::take(writer.get_mut()))))
    }));
    Ok(Body::new(StreamBody::new(frames)))
}

/// Returns the rows of a stream of Arrow.
fn decoded(body: Body) -> BoxStream<'static, Result<RecordBatch>> {
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
