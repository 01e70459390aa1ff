//! The values of one type in ascending order, and the search for those near a value.

use arrow::array::Array;

use super::coordinate::Coordinate;
use crate::{
    error::JoinError,
    merge::partition_point_near,
    nearest::{NearestLists, ties::TieTree},
    pace::Pace,
    parallel,
};

/// Right values in ascending order; NaNs are last.
#[derive(Debug)]
pub(super) struct SortedValues<T> {
    values: Vec<T>,
    /// The number of values before the first NaN.
    numbers: usize,
    ties: TieTree,
}

impl<T: Coordinate> SortedValues<T> {
    /// Sorts the values of right rows that are not null.
    pub(super) fn new(array: &dyn Array, ties: &[u64], first_row: u32, threads: usize) -> Self {
        let values = T::read(array);
        let entries = (first_row..).zip(values.iter().zip(ties)).enumerate().filter(|(row, _)| array.is_valid(*row));
        let mut entries: Vec<(u64, u64, u32)> =
            entries.map(|(_, (row, (value, &tie)))| (value.word(), tie, row)).collect();
        drop(values);
        parallel::fill(threads, &mut entries, |_, part| part.sort_unstable());
        let entries = parallel::merge(threads, entries, Ord::cmp);
        let values: Vec<T> = entries.iter().map(|entry| T::from_word(entry.0)).collect();
        // Only a NaN has no order to itself.
        let numbers = values.partition_point(|value| value.partial_cmp(value).is_some());
        let ties =
            TieTree::new(entries.iter().map(|entry| entry.1).collect(), entries.iter().map(|entry| entry.2).collect());
        Self { values, numbers, ties }
    }

    pub(super) fn memory_bytes(&self) -> usize {
        size_of_val(&self.values[..]) + self.ties.memory_bytes()
    }

    /// Offers the right rows that may be among the nearest to the lists of left rows.
    pub(super) fn nearest(
        &self,
        left: &dyn Array,
        lists: &mut NearestLists<u64>,
        pace: &mut Pace<'_>,
    ) -> Result<(), JoinError> {
        let values = T::read(left).into_iter().enumerate().filter(|(row, _)| left.is_valid(*row));
        let mut order: Vec<(u64, usize)> = values.map(|(row, value)| (value.word(), row)).collect();
        // In the order of the right values, the next place is a few steps away.
        if !order.is_sorted() {
            order.sort_unstable();
        }
        let mut place = 0;
        for (word, row) in order {
            pace.step(1)?;
            let value = T::from_word(word);
            match value.distance_to_numbers() {
                Some(distance) => self.offer_to_special(value, distance, row, lists, pace)?,
                None => {
                    place = partition_point_near(&self.values[..self.numbers], place, |right| right < value);
                    self.offer_near(value, place, row, lists, pace)?;
                }
            }
        }
        Ok(())
    }

    /// Offers rows on both sides of `place`, the first value that is not less than the left row's.
    fn offer_near(
        &self,
        value: T,
        place: usize,
        row: usize,
        lists: &mut NearestLists<u64>,
        pace: &mut Pace<'_>,
    ) -> Result<(), JoinError> {
        let numbers = &self.values[..self.numbers];
        let distance = |place: usize| numbers.get(place).map(|&right| value.distance(right));
        let (mut start, mut end) = (place, place);
        let mut before = distance(start.wrapping_sub(1));
        let mut after = distance(end);
        // The rows of `start..end` are in, from the nearest on, until the list has none that is farther.
        loop {
            let is_before = before.is_some_and(|before| after.is_none_or(|after| before < after));
            let Some(nearest) = (if is_before { before } else { after }) else { break };
            if lists.farthest(row).is_some_and(|farthest| farthest.distance <= nearest) {
                break;
            }
            let at = if is_before { start - 1 } else { end };
            if !lists.offer(row, self.ties.tie(at).with_distance(nearest)) {
                return Ok(());
            }
            if is_before {
                start -= 1;
                before = distance(start.wrapping_sub(1));
            } else {
                end += 1;
                after = distance(end);
            }
            pace.step(1)?;
        }
        let last = lists.farthest(row).map(|farthest| farthest.distance);
        // Rounding makes many values equally far. Of these the ties decide.
        if before.is_some() && before == last {
            let first =
                start - 1 - partition_point_back(&numbers[..start - 1], |right| Some(value.distance(right)) == last);
            self.ties.offer_equal(first..start, before.unwrap_or_default(), row, lists, pace)?;
        }
        if after.is_some() && after == last {
            let more = partition_point_near(&numbers[end..], 0, |right| Some(value.distance(right)) == last);
            self.ties.offer_equal(end..end + more, after.unwrap_or_default(), row, lists, pace)?;
        }
        self.ties.offer_equal(self.numbers..self.values.len(), T::NAN, row, lists, pace)
    }

    /// Offers rows to a left row that is infinite or not a number; all finite ones are at `distance`.
    fn offer_to_special(
        &self,
        value: T,
        distance: u64,
        row: usize,
        lists: &mut NearestLists<u64>,
        pace: &mut Pace<'_>,
    ) -> Result<(), JoinError> {
        if distance == T::NAN {
            return self.ties.offer_equal(0..self.values.len(), distance, row, lists, pace);
        }
        // An infinity is infinitely far from all numbers but itself.
        let numbers = &self.values[..self.numbers];
        let same = numbers.partition_point(|right| *right < value)..numbers.partition_point(|right| *right <= value);
        for (range, distance) in [
            (0..same.start, distance),
            (same.end..self.numbers, distance),
            (same, T::NAN),
            (self.numbers..self.values.len(), T::NAN),
        ] {
            self.ties.offer_equal(range, distance, row, lists, pace)?;
        }
        Ok(())
    }
}

/// Returns the number of values at the end for which `is_within` is true. Searches in steps that double.
fn partition_point_back<T: Copy>(values: &[T], is_within: impl Fn(T) -> bool) -> usize {
    values.len() - partition_point_near(values, values.len(), |value| !is_within(value))
}
