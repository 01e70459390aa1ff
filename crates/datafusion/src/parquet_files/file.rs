//! One Parquet file: its row groups one after the other, the columns of each at the same time.

use std::sync::Arc;

use annulus_parquet::{ColumnWriter, ColumnWriters, EncodedColumn, FileEncoding};
use arrow::array::{ArrayRef, RecordBatch};
use datafusion::{
    common::{internal_datafusion_err, runtime::SpawnedTask},
    datasource::file_format::write::SharedBuffer,
    error::{DataFusionError, Result},
    execution::memory_pool::{MemoryConsumer, MemoryPool, MemoryReservation},
    parquet::file::{metadata::ParquetMetaData, writer::SerializedFileWriter},
};
use futures::{Stream, StreamExt};
use tokio::{
    io::{AsyncWrite, AsyncWriteExt},
    sync::mpsc::{Sender, channel},
};

/// The batches that wait for the writer of a column, at most.
const WAITING_BATCHES: usize = 2;
/// The bytes of a file that are written at once, about.
const WRITE_BYTES: usize = 1 << 20;

/// Writes rows to a Parquet file, and returns its metadata. The file is complete then, but `out` is not yet shut down.
/// Rows have the columns of `encoding`, or views of such texts and bytes. The columns of a row group are written by a
/// task each; they are compressed while the next row group begins. Memory in use is that of two row groups as they are
/// encoded, all of which is reserved.
///
/// # Errors
/// Those of the rows and of `out`, and if the memory is not there. Then `out` has part of a file.
pub async fn write_parquet(
    rows: impl Stream<Item = Result<RecordBatch>>,
    encoding: &Arc<FileEncoding>,
    without_arrow_schema: bool,
    out: &mut (impl AsyncWrite + Unpin),
    pool: &Arc<dyn MemoryPool>,
) -> Result<ParquetMetaData> {
    let bytes = SharedBuffer::new(WRITE_BYTES);
    let (file, writers) = encoding.begin(bytes.clone(), without_arrow_schema)?;
    let reservation = MemoryConsumer::new("ParquetSink").register(pool);
    let mut file = File { file, writers, bytes, out, reservation, pool: Arc::clone(pool) };
    let most = encoding.properties().max_row_group_row_count().unwrap_or(usize::MAX).max(1);
    let mut rows = std::pin::pin!(rows);
    let (mut open, mut ending): (Option<RowGroup>, Option<RowGroup>) = (None, None);
    while let Some(batch) = rows.next().await.transpose()? {
        let mut first = 0;
        while first < batch.num_rows() {
            let mut group = open.take().map_or_else(|| file.begin_group(), Ok)?;
            let count = (most - group.rows).min(batch.num_rows() - first);
            group.write(&batch.slice(first, count)).await?;
            first += count;
            if group.rows < most {
                open = Some(group);
                continue;
            }
            group.end();
            if let Some(ended) = ending.replace(group) {
                file.append(ended).await?;
            }
        }
    }
    if let Some(group) = &mut open {
        group.end();
    }
    for group in ending.into_iter().chain(open) {
        file.append(group).await?;
    }
    file.finish().await
}

struct File<'a, W> {
    file: SerializedFileWriter<SharedBuffer>,
    writers: ColumnWriters,
    /// What is not yet in `out`.
    bytes: SharedBuffer,
    out: &'a mut W,
    /// The memory of `bytes`.
    reservation: MemoryReservation,
    pool: Arc<dyn MemoryPool>,
}

/// A row group, whose columns are being written.
struct RowGroup {
    rows: usize,
    /// To the tasks; none when all rows have been sent.
    columns: Vec<Sender<ArrayRef>>,
    tasks: Vec<SpawnedTask<Result<(EncodedColumn, MemoryReservation)>>>,
}

impl<W: AsyncWrite + Unpin> File<'_, W> {
    fn begin_group(&mut self) -> Result<RowGroup> {
        let mut group = RowGroup { rows: 0, columns: Vec::new(), tasks: Vec::new() };
        for writer in self.writers.begin_group()? {
            let (sender, mut arrays) = channel::<ArrayRef>(WAITING_BATCHES);
            let reservation = MemoryConsumer::new("ParquetSink(column)").register(&self.pool);
            group.columns.push(sender);
            group.tasks.push(SpawnedTask::spawn(async move {
                let mut writer: ColumnWriter = writer;
                while let Some(array) = arrays.recv().await {
                    writer.write(&array)?;
                    reservation.try_resize(writer.memory())?;
                }
                Ok((writer.finish()?, reservation))
            }));
        }
        Ok(group)
    }

    /// Appends a row group that has ended.
    async fn append(&mut self, group: RowGroup) -> Result<()> {
        let mut out = self.file.next_row_group()?;
        for (number, task) in group.tasks.into_iter().enumerate() {
            let column = task.join_unwind().await.map_err(|error| DataFusionError::ExecutionJoin(Box::new(error)))?;
            let (column, reservation) = column?;
            self.writers.note(number, &column);
            column.append_to(&mut out)?;
            drop(reservation);
            write_out(&self.bytes, &self.reservation, self.out, WRITE_BYTES).await?;
        }
        out.close()?;
        Ok(())
    }

    async fn finish(mut self) -> Result<ParquetMetaData> {
        let metadata = self.file.finish()?;
        write_out(&self.bytes, &self.reservation, self.out, 0).await?;
        Ok(metadata)
    }
}

/// Writes out what is buffered, if it is as many bytes as `least`.
async fn write_out(
    bytes: &SharedBuffer,
    reservation: &MemoryReservation,
    out: &mut (impl AsyncWrite + Unpin),
    least: usize,
) -> Result<()> {
    let mut bytes = bytes.buffer.lock().await;
    reservation.try_resize(bytes.capacity())?;
    if bytes.len() >= least {
        out.write_all(&bytes).await?;
        bytes.clear();
        bytes.shrink_to(WRITE_BYTES);
        reservation.try_resize(bytes.capacity())?;
    }
    Ok(())
}

impl RowGroup {
    /// Sends rows to the columns.
    async fn write(&mut self, batch: &RecordBatch) -> Result<()> {
        for (column, (sender, array)) in self.columns.iter().zip(batch.columns()).enumerate() {
            if sender.send(Arc::clone(array)).await.is_err() {
                return Err(self.error_of(column).await);
            }
        }
        self.rows += batch.num_rows();
        Ok(())
    }

    /// Returns the error of a column that takes no more rows.
    async fn error_of(&mut self, column: usize) -> DataFusionError {
        let joined = self.tasks.swap_remove(column).join_unwind().await;
        match joined.map_err(|error| DataFusionError::ExecutionJoin(Box::new(error))) {
            Ok(Err(error)) | Err(error) => error,
            Ok(Ok(_)) => internal_datafusion_err!("the writer of column {column} has ended before its rows"),
        }
    }

    /// Ends the columns: no more rows follow.
    fn end(&mut self) {
        self.columns.clear();
    }
}
