//! One thread's writer, which turns pairs into output batches.

use std::sync::Arc;

use annulus_rows::partition;
use arrow::array::{RecordBatch, RecordBatchOptions};

use super::{columns::FilterPlan, gather::PairGather, plan::Output, side::SideRows};
use crate::{error::JoinError, matches::MatchBits, sides::Side, sink::PairSink};

/// Collects the pairs that one thread finds in any number of fragments into output batches of
/// [`OutputSpec::batch_rows`](crate::OutputSpec::batch_rows) rows, and hands them to `emit`.
///
/// ```
/// use std::sync::Arc;
///
/// use annulus_join::{JoinType, Output, OutputSpec, PairSink, Side, Sides, Writer};
/// use arrow::array::{ArrayRef, Int64Array, RecordBatch};
///
/// let side = |name, ids: Vec<i64>| RecordBatch::try_from_iter([(name, Arc::new(Int64Array::from(ids)) as ArrayRef)]);
/// let (left, right) = (side("l", vec![1, 2])?, side("r", vec![7, 8, 9])?);
/// let schemas = Sides { left: left.schema(), right: right.schema() };
/// let output = Arc::new(Output::try_new(OutputSpec::new(JoinType::Inner, Side::Left, schemas))?);
///
/// let mut batches = Vec::new();
/// let mut writer = Writer::new(Arc::clone(&output), |batch| Ok(batches.push(batch)));
/// // A join algorithm finds the pairs: here row 1 of the left side with rows 0 and 2 of the right.
/// writer.sink(&output.build_rows(&left)?, &output.probe_rows(&right)?).pairs(&[1, 1], &[0, 2])?;
/// writer.finish()?;
/// assert_eq!(batches[0].num_rows(), 2);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Writer<F> {
    output: Arc<Output>,
    gather: PairGather,
    /// The filter's columns of the pairs that it has not evaluated yet.
    candidates: Option<PairGather>,
    emit: F,
}

impl<F: FnMut(RecordBatch) -> Result<(), JoinError>> Writer<F> {
    /// Returns a writer. It allocates memory when it gets the first pairs.
    pub fn new(output: Arc<Output>, emit: F) -> Self {
        let candidates = output.filter.as_ref().map(FilterPlan::gather);
        Self { gather: output.gather(), candidates, output, emit }
    }

    /// Returns the sink for a join of these rows.
    pub fn sink<'a>(&'a mut self, build: &'a SideRows, probe: &'a SideRows) -> PairWriter<'a, F> {
        PairWriter { writer: self, build, probe, kept: (Vec::new(), Vec::new()) }
    }

    /// Emits the last batch, which may not be full.
    ///
    /// # Errors
    /// The first error of `emit`, or [`JoinError::Cancelled`].
    pub fn finish(mut self) -> Result<(), JoinError> {
        self.flush()
    }

    fn flush(&mut self) -> Result<(), JoinError> {
        self.output.cancel.check()?;
        let Some((build, probe)) = self.gather.finish()? else { return Ok(()) };
        let rows = probe.num_rows();
        let (left, right) = match self.output.build_side {
            Side::Left => (build, probe),
            Side::Right => (probe, build),
        };
        let columns = left.columns().iter().chain(right.columns()).cloned().collect();
        let options = RecordBatchOptions::new().with_row_count(Some(rows));
        let schema = Arc::clone(self.output.schema());
        (self.emit)(RecordBatch::try_new_with_options(schema, columns, &options)?)
    }
}

/// The sink for the pairs of one build side and one fragment.
pub struct PairWriter<'a, F> {
    writer: &'a mut Writer<F>,
    build: &'a SideRows,
    probe: &'a SideRows,
    /// The pairs that the filter has kept.
    kept: (Vec<u32>, Vec<u32>),
}

impl<F: FnMut(RecordBatch) -> Result<(), JoinError>> PairSink for PairWriter<'_, F> {
    fn pairs(&mut self, build: &[u32], probe: &[u32]) -> Result<(), JoinError> {
        // All algorithms call this with few pairs at a time.
        self.writer.output.cancel.check()?;
        let all = (partition::Rows::new(build), partition::Rows::new(probe));
        if all.0.bound() > self.build.rows || all.1.bound() > self.probe.rows || build.len() != probe.len() {
            return Err(JoinError::Fragment { what: "its pairs name rows that do not exist" });
        }
        if self.writer.candidates.is_none() {
            return self.matches(all);
        }
        let mut kept = std::mem::take(&mut self.kept);
        self.filter(all, &mut kept)?;
        let matches = (partition::Rows::new(&kept.0), partition::Rows::new(&kept.1));
        self.matches(matches)?;
        self.kept = kept;
        Ok(())
    }

    fn is_done(&self, side: Side, row: u32) -> bool {
        let rows = if side == Side::Left { self.build } else { self.probe };
        !self.writer.output.emits.pairs && rows.matched().is_some_and(|matched| matched.get(row))
    }

    fn check(&self) -> Result<(), JoinError> {
        Ok(self.writer.output.cancel.check()?)
    }
}

impl<F: FnMut(RecordBatch) -> Result<(), JoinError>> PairWriter<'_, F> {
    /// Keeps the pairs that satisfy the filter.
    fn filter(&mut self, mut pairs: Pairs<'_>, kept: &mut (Vec<u32>, Vec<u32>)) -> Result<(), JoinError> {
        kept.0.clear();
        kept.1.clear();
        let writer = &mut *self.writer;
        let (Some(plan), Some(candidates)) = (&writer.output.filter, &mut writer.candidates) else { return Ok(()) };
        while !pairs.0.is_empty() {
            // The filter may take long, and few pairs may fit at a time.
            writer.output.cancel.check()?;
            let taken = candidates.append((&self.build.filter, &self.probe.filter), pairs)?;
            let Some((build, probe)) = candidates.finish()? else { return Ok(()) };
            let (now, rest) = split(pairs, taken);
            for pair in plan.keep(&build, &probe)?.set_indices() {
                kept.0.push(now.0.as_slice()[pair]);
                kept.1.push(now.1.as_slice()[pair]);
            }
            pairs = rest;
        }
        Ok(())
    }

    /// Marks the rows of pairs that satisfy the whole condition, and gathers their output columns.
    fn matches(&mut self, mut pairs: Pairs<'_>) -> Result<(), JoinError> {
        mark(self.build.matched(), pairs.0.as_slice());
        mark(self.probe.matched(), pairs.1.as_slice());
        if !self.writer.output.emits.pairs {
            return Ok(());
        }
        while !pairs.0.is_empty() {
            let taken = self.writer.gather.append((&self.build.output, &self.probe.output), pairs)?;
            pairs = split(pairs, taken).1;
            if self.writer.gather.is_full() || !pairs.0.is_empty() {
                self.writer.flush()?;
            }
        }
        Ok(())
    }
}

type Pairs<'a> = (partition::Rows<'a>, partition::Rows<'a>);

fn split(pairs: Pairs<'_>, at: usize) -> (Pairs<'_>, Pairs<'_>) {
    let ((build, build_rest), (probe, probe_rest)) = (pairs.0.split_at(at), pairs.1.split_at(at));
    ((build, probe), (build_rest, probe_rest))
}

pub(super) fn mark(matched: Option<&MatchBits>, rows: &[u32]) {
    if let Some(matched) = matched {
        matched.set_all(rows);
    }
}
