//! Looks rows of the left side up.

use arrow::array::{ArrayRef, UInt32Array};

use super::{
    AsOfComparison,
    groups::NONE,
    index::{AsOfIndex, GroupedTimes, TimeWord, Times},
};
use crate::error::JoinError;

/// A batch in which more than one row of this number has an earlier time than the row before is not searched
/// from the last places on.
const FALLS: usize = 4;
/// The number of rows that are searched for at once.
const BLOCK: usize = 32;

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
    /// the number of a row of the right side, or null if there is none. O(rows) if times ascend, else
    /// O(rows * log(rows of the group)).
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
        let row = |group: u32, place: usize| {
            let (place, is_in_group) = if takes_last_before {
                (place.wrapping_sub(1), place > index.start(group))
            } else {
                (place, place < index.start(group + 1))
            };
            if is_in_group { index.rows[place] } else { NONE }
        };
        let falls = times.windows(2).filter(|pair| pair[1] < pair[0]).count();
        if falls * FALLS > times.len() {
            return search_blocks(index, groups, times, is_before, row);
        }
        let one = |(&group, &time): (&u32, &W)| {
            if group == NONE {
                return NONE;
            }
            let start = index.start(group);
            let hint = &mut self.places[group as usize];
            let of_group = &index.times[start..index.start(group + 1)];
            let place = partition_point_near(of_group, *hint as usize, |right| is_before(right, time));
            *hint = place as u32;
            row(group, start + place)
        };
        groups.iter().zip(times).map(one).collect()
    }
}

/// Searches for the times of a block of rows at once, each by halving its group: the processor waits for many
/// cache misses at a time.
fn search_blocks<W: TimeWord>(
    index: &GroupedTimes<W>,
    groups: &[u32],
    times: &[W],
    is_before: impl Fn(W, W) -> bool,
    row: impl Fn(u32, usize) -> u32,
) -> Vec<u32> {
    let mut found = Vec::with_capacity(groups.len());
    for (groups, times) in groups.chunks(BLOCK).zip(times.chunks(BLOCK)) {
        let (mut places, mut lens, mut most) = ([0; BLOCK], [0; BLOCK], 0);
        for (lane, &group) in groups.iter().enumerate().filter(|(_, group)| **group != NONE) {
            places[lane] = index.start(group);
            lens[lane] = index.start(group + 1) - places[lane];
            most = most.max(lens[lane]);
        }
        while most > 0 {
            for (lane, &time) in times.iter().enumerate() {
                // The last step of one value decides about that one.
                let half = lens[lane].div_ceil(2);
                let Some(&middle) = index.times.get((places[lane] + half).wrapping_sub(1)) else { continue };
                // Without a branch: it would be mispredicted.
                places[lane] += half * usize::from(half > 0 && is_before(middle, time));
                lens[lane] -= half;
            }
            most /= 2;
        }
        found.extend(groups.iter().zip(places).map(
            |(&group, place)| {
                if group == NONE { NONE } else { row(group, place) }
            },
        ));
    }
    found
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
