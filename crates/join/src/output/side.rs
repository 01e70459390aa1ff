//! The rows of one side of a join.

use annulus_rows::gather::SourceBatch;
use arrow::array::{BooleanArray, RecordBatch};

use super::columns::SideColumns;
use crate::{error::JoinError, matched::Matched, types::Alone};

/// The rows of the build side or of a fragment, as pairs name them, and which of them have a match.
/// Any thread may use it.
///
/// What a fragment's rows have met goes with the fragment from host to host:
/// [`matched`](Self::matched) here, [`mark`](Self::mark) there.
#[derive(Debug)]
pub struct SideRows {
    pub(super) rows: usize,
    pub(super) output: SourceBatch,
    pub(super) filter: SourceBatch,
    matched: Option<Matched>,
}

impl SideRows {
    pub(super) fn try_new(batch: &RecordBatch, columns: &SideColumns, alone: Alone) -> Result<Self, JoinError> {
        let rows = batch.num_rows();
        Ok(Self {
            rows,
            output: columns.output.source(batch)?,
            filter: columns.filter.source(batch)?,
            matched: (alone != Alone::None).then(|| Matched::new(rows)),
        })
    }

    /// Which rows have a match so far, if the join has to know.
    pub fn matched(&self) -> Option<&Matched> {
        self.matched.as_ref()
    }

    /// These rows have a match, as was found elsewhere: one answer a row. Does nothing if the join
    /// does not have to know.
    ///
    /// # Errors
    /// [`JoinError::Fragment`] if there are not as many answers as rows.
    pub fn mark(&self, matched: &BooleanArray) -> Result<(), JoinError> {
        if matched.len() != self.rows {
            return Err(JoinError::Fragment { what: "its match bits are not as many as its rows" });
        }
        if let Some(own) = &self.matched {
            matched.values().set_indices().for_each(|row| own.set(row as u32));
        }
        Ok(())
    }
}
