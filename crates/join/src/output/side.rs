//! The rows of one side of a join, and which of them have a match.

use std::sync::Arc;

use annulus_rows::gather::SourceBatch;
use arrow::array::{BooleanArray, RecordBatch};

use super::columns::SideColumns;
use crate::{error::JoinError, matches::MatchBits, types::UnpairedRows};

/// The rows of the build side or of a fragment, and which of them have a match. Pairs refer to the
/// rows by index. Threads may share it.
///
/// A fragment's match bits travel with it from host to host: [`matched`](Self::matched) returns
/// them on one host, and [`mark`](Self::mark) sets them on the next.
#[derive(Debug)]
pub struct SideRows {
    pub(super) rows: usize,
    pub(super) output: SourceBatch,
    pub(super) filter: SourceBatch,
    /// The columns to output, and those that the filter reads.
    pub(super) shown: RecordBatch,
    pub(super) filtered: RecordBatch,
    matched: Option<Arc<MatchBits>>,
}

impl SideRows {
    pub(super) fn try_new(batch: &RecordBatch, columns: &SideColumns, alone: UnpairedRows) -> Result<Self, JoinError> {
        let rows = batch.num_rows();
        Ok(Self {
            rows,
            output: columns.output.source(batch)?,
            filter: columns.filter.source(batch)?,
            shown: columns.output.project(batch)?,
            filtered: columns.filter.project(batch)?,
            matched: (alone != UnpairedRows::None).then(|| Arc::new(MatchBits::new(rows))),
        })
    }

    /// Returns which rows have a match, if the join type depends on it.
    pub fn matched(&self) -> Option<&MatchBits> {
        self.matched.as_deref()
    }

    /// Returns which rows have a match, if the join type depends on it, without the rows.
    pub fn into_matched(self) -> Option<Arc<MatchBits>> {
        self.matched
    }

    /// Goes on with match bits that [`into_matched`](Self::into_matched) or
    /// [`share_matched`](Self::share_matched) returned for the same rows.
    ///
    /// # Errors
    /// [`JoinError::Fragment`] if `matched` has another length.
    pub fn with_matched(self, matched: Arc<MatchBits>) -> Result<Self, JoinError> {
        if matched.rows() != self.rows {
            return Err(OTHER_ROWS);
        }
        Ok(Self { matched: self.matched.map(|_| matched), ..self })
    }

    /// Returns which rows have a match, if the join type depends on it, to be kept longer than the
    /// rows.
    pub fn share_matched(&self) -> Option<Arc<MatchBits>> {
        self.matched.clone()
    }

    /// Notes the matches that another host found, one value per row. Does nothing if the join type
    /// does not depend on them.
    ///
    /// # Errors
    /// [`JoinError::Fragment`] if `matched` has another length.
    pub fn mark(&self, matched: &BooleanArray) -> Result<(), JoinError> {
        if matched.len() != self.rows {
            return Err(OTHER_ROWS);
        }
        if let Some(own) = &self.matched {
            matched.values().set_indices().for_each(|row| own.set(row as u32));
        }
        Ok(())
    }
}

const OTHER_ROWS: JoinError =
    JoinError::Fragment { what: "the number of its match bits differs from that of its rows" };
