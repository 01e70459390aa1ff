//! Runs of rows with equal keys that stand next to each other.

use std::{iter::repeat_n, ops::Range};

use arrow::{
    array::{Array, ArrayRef, UInt32Array},
    buffer::BooleanBuffer,
    compute::{kernels::cmp::distinct, take},
    datatypes::DataType,
    error::ArrowError,
};

/// The share of a batch's rows that may begin a run. With more, the search costs what it saves.
pub(super) const MOST_STARTS: f64 = 0.75;
/// The most batches that are left out after one without runs.
const LONGEST_PAUSE: usize = 16;

/// Looks for runs in batch after batch, and less often where there are none.
#[derive(Debug)]
pub(super) struct RunFinder {
    /// The key columns, those that are compared fastest first.
    columns: Vec<usize>,
    /// The number of batches that are left out, after the last one without runs.
    pause: usize,
    /// The number of them that are still to come.
    left: usize,
}

/// The runs of a batch.
#[derive(Debug, PartialEq)]
pub(super) struct Runs {
    /// The first row of each run.
    starts: Vec<u32>,
    rows: usize,
}

impl RunFinder {
    /// Creates a finder for keys of these types.
    pub(super) fn new<'a>(types: impl Iterator<Item = &'a DataType>) -> Self {
        let mut columns: Vec<_> = types.map(|of| of.primitive_width().unwrap_or(usize::MAX)).enumerate().collect();
        columns.sort_by_key(|&(_, width)| width);
        Self { columns: columns.into_iter().map(|(column, _)| column).collect(), pause: 0, left: 0 }
    }

    /// Returns the runs of a batch with these keys, or nothing if too few rows are in runs, or if
    /// it did not look. Time is linear in the rows.
    pub(super) fn find(&mut self, keys: &[ArrayRef]) -> Option<Runs> {
        if self.left > 0 {
            self.left -= 1;
            return None;
        }
        // Keys that cannot be compared, such as lists, have no runs.
        let runs = self.compare(keys).ok().flatten();
        self.pause = if runs.is_some() { 0 } else { (self.pause * 2).clamp(1, LONGEST_PAUSE) };
        self.left = self.pause;
        runs
    }

    fn compare(&self, keys: &[ArrayRef]) -> Result<Option<Runs>, ArrowError> {
        let rows = keys.first().map_or(0, |key| key.len());
        if rows < 2 || u32::try_from(rows).is_err() {
            return Ok(None);
        }
        let most = (MOST_STARTS * rows as f64) as usize;
        let mut changes: Option<BooleanBuffer> = None;
        for &column in &self.columns {
            let key = &keys[column];
            let (before, after) = (key.slice(0, rows - 1), key.slice(1, rows - 1));
            let found = distinct(&before, &after)?.values().clone();
            let all = changes.map_or_else(|| found.clone(), |known| &known | &found);
            if all.count_set_bits() >= most {
                return Ok(None);
            }
            changes = Some(all);
        }
        Ok(changes.map(|changes| {
            let mut starts = Vec::with_capacity(changes.count_set_bits() + 1);
            starts.push(0);
            starts.extend(changes.set_indices_u32().map(|before| before + 1));
            Runs { starts, rows }
        }))
    }
}

impl Runs {
    /// Returns the number of runs, at least one.
    pub(super) fn len(&self) -> usize {
        self.starts.len()
    }

    /// Returns the keys of each run.
    pub(super) fn keys(&self, keys: &[ArrayRef]) -> Result<Vec<ArrayRef>, ArrowError> {
        let starts = UInt32Array::from(self.starts.clone());
        keys.iter().map(|key| take(key, &starts, None)).collect()
    }

    /// Sets `of_rows` to the group of each row, if `of_runs` are those of the runs.
    pub(super) fn spread(&self, of_runs: impl Iterator<Item = usize>, of_rows: &mut Vec<usize>) {
        of_rows.clear();
        of_rows.reserve(self.rows);
        of_runs.zip(self.ranges()).for_each(|(group, rows)| of_rows.extend(repeat_n(group, rows.len())));
    }

    fn ranges(&self) -> impl Iterator<Item = Range<usize>> {
        let starts = self.starts.iter().map(|&start| start as usize);
        let ends = starts.clone().skip(1).chain([self.rows]);
        starts.zip(ends).map(|(start, end)| start..end)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow::array::{Int32Array, Int64Array, ListArray, StringViewArray, types::Int32Type};

    use super::*;

    fn finder(keys: &[ArrayRef]) -> RunFinder {
        RunFinder::new(keys.iter().map(|key| key.data_type()))
    }

    #[test]
    fn runs_end_where_any_key_changes() {
        let text: ArrayRef = Arc::new(StringViewArray::from(vec!["a", "a", "a", "b", "b", "b", "b", "b"]));
        let number = Int64Array::from(vec![Some(1), Some(1), Some(2), Some(2), None, None, None, Some(0)]);
        let keys = [text, Arc::new(number)];
        let runs = finder(&keys).find(&keys).unwrap();
        assert_eq!(runs.starts, [0, 2, 3, 4, 7]);
        let mut of_rows = vec![9];
        runs.spread(10..15, &mut of_rows);
        assert_eq!(of_rows, [10, 10, 11, 12, 13, 13, 13, 14]);
        let of_runs = runs.keys(&keys).unwrap();
        assert_eq!(of_runs[1].as_ref(), &Int64Array::from(vec![Some(1), Some(2), Some(2), None, Some(0)]));
    }

    #[test]
    fn a_batch_without_runs_makes_it_look_less_often() {
        let apart: [ArrayRef; 1] = [Arc::new(Int32Array::from_iter_values(0..100))];
        let together: [ArrayRef; 1] = [Arc::new(Int32Array::from(vec![7; 100]))];
        let mut finder = finder(&apart);
        for pause in [1, 2, 4, 8, 16, 16] {
            assert_eq!(finder.find(&apart), None);
            assert!((0..pause).all(|_| finder.find(&together).is_none()), "pause {pause}");
        }
        assert_eq!(finder.find(&together).map(|runs| runs.len()), Some(1));
        assert_eq!(finder.find(&together).map(|runs| runs.len()), Some(1));
    }

    #[test]
    fn keys_that_cannot_be_compared_have_no_runs() {
        let lists = ListArray::from_iter_primitive::<Int32Type, _, _>(vec![Some(vec![Some(1)]); 9]);
        let keys: [ArrayRef; 1] = [Arc::new(lists)];
        assert_eq!(finder(&keys).find(&keys), None);
        let empty: [ArrayRef; 1] = [Arc::new(Int32Array::from(Vec::<i32>::new()))];
        assert_eq!(finder(&empty).find(&empty), None);
    }
}
