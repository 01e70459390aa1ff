//! The rows of a column in a window, as places in the values that they refer to.

use std::{ops::Range, sync::Arc};

use arrow::{array::BooleanBufferBuilder, buffer::NullBuffer};

use crate::source::Source;

/// Consecutive rows of a column.
#[derive(Debug)]
pub(crate) struct Window {
    /// The parts, in order.
    segments: Vec<Segment>,
    /// For each row its place in the values of its segment. Segments of consecutive values do without.
    pub codes: Vec<u32>,
    valid: BooleanBufferBuilder,
    has_nulls: bool,
}

/// The rows of a window up to `end` that refer to the same values.
#[derive(Debug)]
pub(crate) struct Segment {
    pub end: usize,
    pub source: Arc<Source>,
    /// The place of the first row's value, if the others follow it.
    pub consecutive: Option<usize>,
}

impl Default for Window {
    fn default() -> Self {
        Self { segments: Vec::new(), codes: Vec::new(), valid: BooleanBufferBuilder::new(0), has_nulls: false }
    }
}

impl Window {
    pub fn clear(&mut self) {
        self.segments.clear();
        self.codes.clear();
        self.valid.truncate(0);
        self.has_nulls = false;
    }

    /// Returns the number of rows.
    pub fn len(&self) -> usize {
        self.segments.last().map_or(0, |segment| segment.end)
    }

    /// Returns the segments with their rows.
    pub fn segments(&self) -> impl Iterator<Item = (Range<usize>, &Segment)> {
        let starts = std::iter::once(0).chain(self.segments.iter().map(|segment| segment.end));
        starts.zip(&self.segments).map(|(start, segment)| (start..segment.end, segment))
    }

    /// Adds rows whose values follow each other from `first` on, and which are all valid.
    pub fn push_consecutive(&mut self, source: &Arc<Source>, first: usize, count: usize) {
        let end = self.len() + count;
        self.codes.resize(end, 0);
        if self.has_nulls {
            self.valid.append_n(count, true);
        }
        self.segments.push(Segment { end, source: Arc::clone(source), consecutive: Some(first) });
    }

    /// Adds rows, all valid, whose codes `fill` writes.
    ///
    /// # Errors
    /// Those of `fill`; the window is of no use after that.
    pub fn push_codes<E>(
        &mut self,
        source: &Arc<Source>,
        count: usize,
        fill: impl FnOnce(&mut [u32]) -> Result<(), E>,
    ) -> Result<(), E> {
        let start = self.len();
        self.codes.resize(start + count, 0);
        fill(&mut self.codes[start..])?;
        if self.has_nulls {
            self.valid.append_n(count, true);
        }
        self.extend(source, start + count);
        Ok(())
    }

    /// Adds rows of which `valid` have a value; `values` are the codes of these.
    pub fn push_nullable(&mut self, source: &Arc<Source>, valid: &NullBuffer, values: &[u32]) {
        let start = self.len();
        let end = start + valid.len();
        if !self.has_nulls {
            self.has_nulls = true;
            self.valid.append_n(start, true);
        }
        self.valid.append_buffer(valid.inner());
        self.codes.resize(end, 0);
        for (row, code) in valid.valid_indices().zip(values) {
            self.codes[start + row] = *code;
        }
        self.extend(source, end);
    }

    /// Adds the rows up to `end` to the last segment, if it refers to the same values.
    fn extend(&mut self, source: &Arc<Source>, end: usize) {
        match self.segments.last_mut() {
            Some(last) if last.consecutive.is_none() && Arc::ptr_eq(&last.source, source) => last.end = end,
            _ => self.segments.push(Segment { end, source: Arc::clone(source), consecutive: None }),
        }
    }

    /// Returns which rows are valid, or `None` if all are.
    pub fn valid(&self) -> Option<&BooleanBufferBuilder> {
        self.has_nulls.then_some(&self.valid)
    }
}
