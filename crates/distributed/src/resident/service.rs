//! What processes ask about the shares of a worker, and rows in Arrow's stream format.

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
use futures::{StreamExt, stream, stream::BoxStream};
use http::Response;
use http_body::Frame;
use http_body_util::{BodyStream, StreamBody};
use serde::{Deserialize, Serialize};
use tonic::body::Body;

use super::store::{ResidentStore, ShareInfo, TableInfo};

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
    /// The rows of a part of its share, which come as a stream of Arrow.
    Read(PartOfShare),
}

/// One of several parts of a share.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct PartOfShare {
    pub(crate) name: String,
    pub(crate) id: String,
    pub(crate) part: usize,
    pub(crate) parts: usize,
}

impl Request {
    /// Returns whether it changes what the worker has.
    pub(crate) fn changes(&self) -> bool {
        !matches!(self, Self::List | Self::Read(_))
    }
}

/// Does what a request without rows asks. The answer to [`Request::List`] is what the worker has.
///
/// # Errors
/// If the worker refuses.
pub(crate) fn apply(store: &ResidentStore, request: Request) -> Result<Vec<ShareInfo>> {
    match request {
        Request::Publish { table, replaces } => store.publish(table, replaces)?,
        Request::Forget { id } => store.forget(&id),
        Request::Remove { name, id } => store.remove(&name, id.as_deref()),
        Request::List | Request::Read(_) => return Ok(store.list()),
    }
    Ok(Vec::new())
}

/// Returns a part of a share as a stream of Arrow.
///
/// # Errors
/// If the worker does not have it.
pub(crate) fn encoded(store: &ResidentStore, part: &PartOfShare) -> Result<Response<Body>> {
    let share = store.share(&part.name, &part.id)?;
    let mut writer = StreamWriter::try_new(Vec::new(), share.info().table.schema()?.as_ref())?;
    let batches: Vec<RecordBatch> = share.part(part.part, part.parts).cloned().collect();
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
