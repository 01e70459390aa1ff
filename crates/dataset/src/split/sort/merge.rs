//! Merges several sorted runs into one.

use arrow::{
    array::RecordBatch,
    compute::interleave_record_batch,
    row::{Row, Rows},
};

use super::{
    Order, Take,
    run::{Run, RunReader},
};
use crate::error::DatasetError;

/// A run, and the merge's position in it.
struct Cursor {
    reader: RunReader,
    keys: Rows,
    /// The current row of `keys`.
    row: usize,
    /// The index of its batch in [`ChosenRows::batches`].
    batch: usize,
}

/// The rows chosen since the last handover, and the batches that hold them.
struct ChosenRows {
    batches: Vec<RecordBatch>,
    rows: Vec<(usize, usize)>,
}

/// Hands the rows of all runs to `take` in sorted order, in batches of at most `batch_rows` rows.
/// Holds about two batches of each run.
pub(super) fn merge(order: &Order, runs: &[Run], batch_rows: usize, take: &mut Take<'_>) -> Result<(), DatasetError> {
    let mut chosen = ChosenRows { batches: Vec::new(), rows: Vec::new() };
    let mut cursors = Vec::new();
    for run in runs {
        let mut reader = run.reader()?;
        if let Some(batch) = reader.next()? {
            cursors.push(Cursor { reader, keys: order.keys(&batch)?, row: 0, batch: chosen.batches.len() });
            chosen.batches.push(batch);
        }
    }
    (0..cursors.len() / 2).rev().for_each(|place| sift_down(&mut cursors, place));
    while let Some(least) = cursors.first_mut() {
        chosen.rows.push((least.batch, least.row));
        least.row += 1;
        if least.row == least.keys.num_rows() {
            match least.reader.next()? {
                Some(batch) => {
                    (least.keys, least.row, least.batch) = (order.keys(&batch)?, 0, chosen.batches.len());
                    chosen.batches.push(batch);
                }
                None => {
                    cursors.swap_remove(0);
                }
            }
        }
        sift_down(&mut cursors, 0);
        if chosen.rows.len() >= batch_rows || chosen.batches.len() > 2 * runs.len() {
            chosen.hand_over(&mut cursors, take)?;
        }
    }
    chosen.hand_over(&mut cursors, take)
}

impl Cursor {
    fn key(&self) -> Row<'_> {
        self.keys.row(self.row)
    }
}

impl ChosenRows {
    /// Hands the rows over, and keeps only the cursors' current batches.
    fn hand_over(&mut self, cursors: &mut [Cursor], take: &mut Take<'_>) -> Result<(), DatasetError> {
        if !self.rows.is_empty() {
            let batches: Vec<&RecordBatch> = self.batches.iter().collect();
            take(interleave_record_batch(&batches, &self.rows)?)?;
            self.rows.clear();
        }
        let current = cursors.iter().map(|cursor| self.batches[cursor.batch].clone()).collect();
        cursors.iter_mut().enumerate().for_each(|(number, cursor)| cursor.batch = number);
        self.batches = current;
        Ok(())
    }
}

/// Moves the cursor at `place` of a heap down until no child has a smaller key.
fn sift_down(cursors: &mut [Cursor], mut place: usize) {
    loop {
        let below = (2 * place + 1..2 * place + 3).filter(|&child| child < cursors.len());
        let Some(least) = below.min_by(|&a, &b| cursors[a].key().cmp(&cursors[b].key())) else { return };
        if cursors[place].key() <= cursors[least].key() {
            return;
        }
        cursors.swap(place, least);
        place = least;
    }
}
