//! Divides rows among the folders of their values.

use std::{
    collections::HashMap,
    hash::{BuildHasher, Hasher, RandomState},
};

use annulus_dataset::folder_name;
use arrow::{
    array::{Array, ArrayRef, RecordBatch, UInt32Array},
    compute::take_record_batch,
    row::{RowConverter, SortField},
};
use datafusion::{
    common::{exec_datafusion_err, exec_err},
    error::{DataFusionError, Result},
    execution::SendableRecordBatchStream,
    object_store::path::Path,
};
use futures::StreamExt;
use tokio::sync::mpsc::{Receiver, Sender, UnboundedSender, channel};

/// The path of a file and the receiver of its rows.
pub(super) type NewFile = (Path, Receiver<RecordBatch>);

/// What divides rows among folders.
pub(super) struct Demux {
    /// The path that has the folders.
    pub(super) base: Path,
    /// The key columns, whose values name the folders, the outermost first.
    pub(super) keys: Vec<String>,
    /// Whether the files keep the key columns.
    pub(super) keeps_keys: bool,
    /// Whether a null key is refused, because the table's reader would not take it for null.
    pub(super) refuses_nulls: bool,
    pub(super) extension: String,
    /// The number of batches that wait for the writer of a file.
    pub(super) buffered: usize,
}

/// The folders that have a file.
struct Folders {
    files: UnboundedSender<NewFile>,
    converter: RowConverter,
    /// The folders by the keys' values, in the form that rows are compared in.
    by_key: HashMap<Box<[u8]>, usize>,
    by_name: HashMap<String, usize>,
    senders: Vec<Sender<RecordBatch>>,
    /// The rows of the current batch for each folder.
    rows: Vec<Vec<u32>>,
    file_name: String,
}

impl Demux {
    /// Sends each row of `data` to the file of its folder, in their order. A folder's first row opens
    /// its file.
    pub(super) async fn run(self, mut data: SendableRecordBatchStream, files: UnboundedSender<NewFile>) -> Result<()> {
        let schema = data.schema();
        let keys = self.keys.iter().map(|key| schema.index_of(key)).collect::<Result<Vec<_>, _>>()?;
        let kept: Vec<usize> =
            (0..schema.fields().len()).filter(|column| self.keeps_keys || !keys.contains(column)).collect();
        let sort = keys.iter().map(|&key| SortField::new(schema.field(key).data_type().clone())).collect();
        let mut folders = Folders {
            files,
            converter: RowConverter::new(sort)?,
            by_key: HashMap::new(),
            by_name: HashMap::new(),
            senders: Vec::new(),
            rows: Vec::new(),
            // Another copy to the same place must not replace the file.
            file_name: format!("{:016x}.{}", RandomState::new().build_hasher().finish(), self.extension),
        };
        while let Some(batch) = data.next().await.transpose()? {
            let columns: Vec<ArrayRef> = keys.iter().map(|&key| batch.column(key).clone()).collect();
            let touched = self.divide(&columns, &mut folders)?;
            let batch = batch.project(&kept)?;
            for folder in touched {
                let rows = UInt32Array::from(std::mem::take(&mut folders.rows[folder]));
                let rows =
                    if rows.len() == batch.num_rows() { batch.clone() } else { take_record_batch(&batch, &rows)? };
                let sent = folders.senders[folder].send(rows).await;
                // The writer has failed, and its error is the one that is reported.
                sent.map_err(|_| exec_datafusion_err!("a file cannot be written"))?;
            }
        }
        Ok(())
    }

    /// Notes for each folder the rows of the keys `columns`. Returns the folders that have any.
    fn divide(&self, columns: &[ArrayRef], folders: &mut Folders) -> Result<Vec<usize>> {
        let mut touched = Vec::new();
        let converted = folders.converter.convert_columns(columns)?;
        for (row, key) in converted.iter().enumerate() {
            let folder = match folders.by_key.get(key.as_ref()) {
                Some(&folder) => folder,
                None => {
                    let folder = self.folder(columns, row, folders)?;
                    folders.by_key.insert(key.as_ref().into(), folder);
                    folder
                }
            };
            if folders.rows[folder].is_empty() {
                touched.push(folder);
            }
            folders.rows[folder].push(row as u32);
        }
        Ok(touched)
    }

    /// Returns the folder of a row, whose key is new. Another key may have it: null in a dictionary's
    /// keys or in its values.
    fn folder(&self, columns: &[ArrayRef], row: usize, folders: &mut Folders) -> Result<usize> {
        let key_values: Vec<ArrayRef> = columns.iter().map(|column| column.slice(row, 1)).collect();
        if self.refuses_nulls
            && let Some(null) = key_values.iter().position(|value| value.logical_null_count() > 0)
        {
            return exec_err!(
                "cannot insert null as '{}', which names folders: the table would not read it as null; filter such \
                 rows out, or write them with COPY",
                self.keys[null]
            );
        }
        let name = folder_name(self.keys.iter().map(String::as_str).zip(&key_values));
        if let Some(&folder) = folders.by_name.get(&name) {
            return Ok(folder);
        }
        let (sender, receiver) = channel(self.buffered);
        let base = self.base.as_ref();
        let path = if base.is_empty() { String::new() } else { format!("{base}/") };
        let path = Path::parse(format!("{path}{name}/{}", folders.file_name))
            .map_err(|error| DataFusionError::External(error.into()))?;
        folders.files.send((path, receiver)).map_err(|_| exec_datafusion_err!("a file cannot be written"))?;
        folders.senders.push(sender);
        folders.rows.push(Vec::new());
        folders.by_name.insert(name, folders.senders.len() - 1);
        Ok(folders.senders.len() - 1)
    }
}
