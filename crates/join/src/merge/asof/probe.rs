//! Looks rows of the left side up.

use arrow::array::{ArrayRef, UInt32Array};

use super::{
    AsOfComparison,
    groups::NONE,
    index::{AsOfIndex, GroupedTimes, TimeWord, Times},
};
use crate::error::JoinError;

/// Looks up rows of the left side of an as-of join, batch by batch. It remembers the last place in each
/// group, which takes 4 bytes for each.
#[derive(Debug)]
pub struct AsOfProbe {
    comparison: AsOfComparison,
    places: Vec<u32>,
}

impl AsOfProbe {
    /// Returns a probe of this index.
    pub fn new(index: &AsOfIndex, comparison: AsOfComparison) -> Self {
        Self { comparison, places: vec![0; index.groups()] }
    }

    /// Returns the partner of each row of the left side, whose equal keys and time are in `columns`:
    /// the number of a row of the right side, or null if there is none. O(rows) if times ascend or
    /// descend slowly, else O(rows * log(rows of the group)).
    ///
    /// # Errors
    /// [`JoinError::Arrow`] if the columns have other types than those of the index or other lengths.
    pub fn find(&mut self, index: &AsOfIndex, columns: &[ArrayRef]) -> Result<UInt32Array, JoinError> {
        let batch = index.keys.batch(columns)?;
        let keys = index.keys.encode(&batch)?;
        let groups = index.groups.find(&keys, batch.num_rows());
        let found = match &index.times {
            Times::Narrow(times) => self.nearest(times, &groups, TimeWord::words(&keys)),
            Times::Wide(times) => self.nearest(times, &groups, TimeWord::words(&keys)),
        };
        Ok(found.into_iter().map(|row| (row != NONE).then_some(row)).collect())
    }

    fn nearest<W: TimeWord>(&mut self, index: &GroupedTimes<W>, groups: &[u32], times: &[W]) -> Vec<u32> {
        match self.comparison {
            AsOfComparison::AtOrAfter => self.search(index, groups, times, |right, left| right <= left, true),
            AsOfComparison::After => self.search(index, groups, times, |right, left| right < left, true),
            AsOfComparison::AtOrBefore => self.search(index, groups, times, |right, left| right < left, false),
            AsOfComparison::Before => self.search(index, groups, times, |right, left| right <= left, false),
        }
    }

    /// Returns the row before the first time for which `is_before` is false, or the row of that time.
    fn search<W: TimeWord>(
        &mut self,
        index: &GroupedTimes<W>,
        groups: &[u32],
        times: &[W],
        is_before: impl Fn(W, W) -> bool,
        takes_last_before: bool,
    ) -> Vec<u32> {
        let one = |(&group, &time): (&u32, &W)| {
            if group == NONE {
                return NONE;
            }
            let (start, end) = (index.starts[group as usize] as usize, index.starts[group as usize + 1] as usize);
            let of_group = &index.times[start..end];
            let hint = &mut self.places[group as usize];
            let place = partition_point_near(of_group, *hint as usize, |right| is_before(right, time));
            *hint = place as u32;
            let place = if takes_last_before { place.checked_sub(1) } else { Some(place) };
            place.and_then(|place| index.rows[start..end].get(place).copied()).unwrap_or(NONE)
        };
        groups.iter().zip(times).map(one).collect()
    }
}

/// Returns the number of values for which `is_before` is true, which come first. Searches from `hint` on in
/// steps that double.
fn partition_point_near<W: Copy>(values: &[W], hint: usize, is_before: impl Fn(W) -> bool) -> usize {
    let hint = hint.min(values.len());
    let mut step = 1;
    let (mut low, mut high);
    if hint < values.len() && is_before(values[hint]) {
        (low, high) = (hint + 1, values.len());
        while low + step <= values.len() && is_before(values[low + step - 1]) {
            low += step;
            step *= 2;
        }
        high = high.min(low + step - 1);
    } else {
        (low, high) = (0, hint);
        while high >= step && !is_before(values[high - step]) {
            high -= step;
            step *= 2;
        }
        low = low.max((high + 1).saturating_sub(step));
    }
    low + values[low..high].partition_point(|&value| is_before(value))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_place_does_not_depend_on_the_hint() {
        let values: Vec<u64> = vec![1, 1, 2, 3, 5, 8, 8, 8, 13, 21, 34, 55];
        for count in 0..=values.len() {
            for hint in 0..=values.len() + 1 {
                for time in 0..60 {
                    let values = &values[..count];
                    let expected = values.partition_point(|&value| value < time);
                    assert_eq!(partition_point_near(values, hint, |value| value < time), expected, "{hint} {time}");
                }
            }
        }
    }
}
