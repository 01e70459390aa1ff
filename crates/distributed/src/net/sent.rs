//! The form of rows between stages: packed if their types allow it, and without lists that do not arrive.

use datafusion::{
    arrow::{
        array::RecordBatch,
        datatypes::{Schema, SchemaRef},
    },
    error::Result,
};

use super::{large_lists, packed};

/// The form in which a task sends its rows, if it is not their own.
#[derive(Clone, Debug)]
pub(crate) struct SentForm {
    /// The schema of the batches that are sent.
    pub(crate) schema: SchemaRef,
    is_packed: bool,
}

impl SentForm {
    /// Returns the form of rows of `schema`; `None` if they are sent as they are.
    ///
    /// # Errors
    /// If a large list is in a type whose fields cannot be marked.
    pub(crate) fn for_schema(schema: &Schema) -> Result<Option<Self>> {
        if let Some(schema) = packed::packed_schema(schema)? {
            return Ok(Some(Self { schema, is_packed: true }));
        }
        Self::for_lists(schema)
    }

    /// Returns the form of rows of `schema` that are not packed.
    ///
    /// # Errors
    /// If a large list is in a type whose fields cannot be marked.
    pub(crate) fn for_lists(schema: &Schema) -> Result<Option<Self>> {
        Ok(large_lists::sent_schema(schema)?.map(|schema| Self { schema, is_packed: false }))
    }

    /// Returns a batch that a task sends.
    ///
    /// # Errors
    /// If a list has more items than offsets of 32 bits can count.
    pub(crate) fn sent(&self, batch: &RecordBatch) -> Result<RecordBatch> {
        match self.is_packed {
            true => packed::pack(batch, &self.schema),
            false => large_lists::narrowed(batch, &self.schema),
        }
    }
}

/// Restores received batches of one stream.
#[derive(Debug, Default)]
pub(super) struct Restorer {
    /// The schema of the received batches, and the one of those that are packed in them.
    schemas: Option<(SchemaRef, Option<SchemaRef>)>,
}

impl Restorer {
    /// Returns a received batch as the task had it.
    ///
    /// # Errors
    /// If [`SentForm`] has not made it.
    pub(super) fn restored(&mut self, batch: RecordBatch) -> Result<RecordBatch> {
        let schemas = self.schemas.take().filter(|(received, _)| received == batch.schema_ref());
        let (received, unpacked) = match schemas {
            Some(schemas) => schemas,
            None => (batch.schema(), packed::unpacked_schema(batch.schema_ref())?),
        };
        let (_, unpacked) = self.schemas.insert((received, unpacked));
        match unpacked {
            Some(schema) => packed::unpack(&batch, schema),
            None => large_lists::restored(batch),
        }
    }
}
