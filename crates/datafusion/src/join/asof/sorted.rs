//! Sides that are sorted by key and time, on disk where they do not fit in memory.
//!
//! Both sides get two columns behind their own, which the sorts and the merge compare: the equal keys and the
//! time, each as bytes that sort like them (Arrow's row format). Times descend if partners are later rows. Rows
//! of the right side with equal keys and times ascend by all their columns, so the last one is the greatest.

use std::{fmt, sync::Arc};

use annulus_join::Side;
use arrow::{
    array::{Array, ArrayRef, BooleanArray, RecordBatch, UInt64Array},
    compute::filter_record_batch,
    datatypes::{DataType, Field, Schema, SchemaRef},
    row::{RowConverter, SortField},
};
use datafusion::{
    error::Result,
    execution::{SendableRecordBatchStream, TaskContext, spill_file::SpillFile},
    physical_plan::{EmptyRecordBatchStream, SpillManager, stream::RecordBatchStreamAdapter},
};
use futures::{StreamExt, stream};

use super::{
    condition::AsOfCondition,
    metrics::Metrics,
    sort::{column, in_own_memory, in_pieces, one_zero, sorted},
};
use crate::error::from_join;

/// The names of the columns of keys and times as bytes.
pub(super) const KEY: &str = "annulus as-of key";
pub(super) const TIME: &str = "annulus as-of time";

/// A side to be sorted.
pub(super) struct Rows {
    pub(super) side: Side,
    pub(super) schema: SchemaRef,
    pub(super) condition: Arc<AsOfCondition>,
    pub(super) context: Arc<TaskContext>,
}

/// The sorted rows of the right side, on disk.
#[derive(Clone)]
pub(super) struct SortedRows {
    /// None without rows.
    file: Option<Arc<dyn SpillFile>>,
    manager: Arc<SpillManager>,
}

impl Rows {
    /// Returns the columns of the side, then the key and the time as bytes, and the number of the row if
    /// rows are numbered.
    fn sorted_schema(&self, is_numbered: bool) -> SchemaRef {
        let bytes = [KEY, TIME].map(|name| Arc::new(Field::new(name, DataType::Binary, true)));
        let number = is_numbered.then(number_field);
        let fields = self.schema.fields().iter().cloned().chain(bytes).chain(number);
        Arc::new(Schema::new(fields.collect::<Vec<_>>()))
    }

    /// Sorts the rows of the right side, and writes them to disk.
    ///
    /// # Errors
    /// If an input fails, the sort gets too little memory, or the disk is full.
    pub(super) async fn write(&self, inputs: Vec<SendableRecordBatchStream>, metrics: &Metrics) -> Result<SortedRows> {
        let schema = self.sorted_schema(false);
        let input = RecordBatchStreamAdapter::new(Arc::clone(&self.schema), stream::select_all(inputs));
        let mut sorted = self.sort(Box::pin(input), false)?;
        let manager = SpillManager::new(self.context.runtime_env(), metrics.files.clone(), schema)
            .with_compression_type(self.context.session_config().spill_compression());
        let mut file = manager.create_in_progress_file("an as-of join")?;
        while let Some(batch) = sorted.next().await.transpose()? {
            metrics.build.rows.add(batch.num_rows());
            file.append_batch(&batch)?;
        }
        Ok(SortedRows { file: file.finish()?, manager: Arc::new(manager) })
    }

    /// Returns the rows sorted by key and time. Those of the right side that have no partner are left out.
    ///
    /// # Errors
    /// If the sort cannot be planned.
    pub(super) fn sort(
        &self,
        input: SendableRecordBatchStream,
        is_numbered: bool,
    ) -> Result<SendableRecordBatchStream> {
        let schema = self.sorted_schema(is_numbered);
        let encoder = self.condition.bytes(&self.schema, self.side)?;
        let (condition, side, with_bytes) = (Arc::clone(&self.condition), self.side, Arc::clone(&schema));
        let mut first = 0;
        let rows = in_pieces(input).map(move |batch| {
            let batch = batch?;
            let number = is_numbered.then(|| UInt64Array::from_iter_values(first..first + batch.num_rows() as u64));
            first += batch.num_rows() as u64;
            let [key, time] = encoder.encode(&condition.columns(side, &batch)?).map_err(from_join)?;
            let is_valid = key.nulls().map(|nulls| BooleanArray::new(nulls.inner().clone(), None));
            let bytes = [Arc::new(key) as ArrayRef, Arc::new(time)];
            let batch = in_own_memory(batch)?;
            let columns = batch.columns().iter().cloned().chain(bytes);
            let columns = columns.chain(number.map(|number| Arc::new(number) as ArrayRef)).collect();
            let batch = RecordBatch::try_new(Arc::clone(&with_bytes), columns)?;
            match is_valid {
                Some(is_valid) if side == Side::Right => Ok(filter_record_batch(&batch, &is_valid)?),
                _ => Ok(batch),
            }
        });
        let own = self.schema.fields().len();
        let mut by = vec![column(&schema, own), column(&schema, own + 1)];
        if side == Side::Right {
            let is_sortable = |&index: &usize| {
                RowConverter::supports_fields(&[SortField::new(schema.field(index).data_type().clone())])
            };
            let columns = || (0..own).filter(is_sortable);
            by.extend(columns().map(|index| one_zero(&schema, index)).collect::<Result<Vec<_>>>()?);
            by.extend(
                columns()
                    .filter(|&index| schema.field(index).data_type().is_floating())
                    .map(|index| column(&schema, index)),
            );
        }
        sorted(Box::pin(RecordBatchStreamAdapter::new(schema, rows)), by, &self.context)
    }
}

impl SortedRows {
    /// Returns the rows in their order.
    ///
    /// # Errors
    /// If the file cannot be opened.
    pub(super) fn read(&self) -> Result<SendableRecordBatchStream> {
        match &self.file {
            Some(file) => self.manager.read_spill_as_stream(Arc::clone(file), None),
            None => Ok(Box::pin(EmptyRecordBatchStream::new(Arc::clone(self.manager.schema())))),
        }
    }
}

impl fmt::Debug for SortedRows {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SortedRows").finish_non_exhaustive()
    }
}

/// Returns the field of the numbers of rows.
pub(super) fn number_field() -> Arc<Field> {
    Arc::new(Field::new("annulus as-of row", DataType::UInt64, false))
}
