//! Looks rows of the left side up.

use std::ops::Range;

use arrow::array::{ArrayRef, UInt32Array};

use super::{
    AsOfComparison,
    groups::NONE,
    index::{AsOfIndex, GroupedTimes, STRIDE, TimeWord, Times},
};
use crate::error::JoinError;

/// A batch in which more than one row of this number has an earlier time than the row before is not searched
/// from the last places on.
const FALLS: usize = 4;
/// The most groups of which a probe remembers the last place: with more, each has few rows.
const REMEMBERED: usize = 1 << 16;
/// The number of rows that are searched for at once.
const BLOCK: usize = 32;

/// Looks up rows of the left side of an as-of join, batch by batch. It remembers the last place in each
/// group, which takes 4 bytes for each, unless there are many.
#[derive(Debug)]
pub struct AsOfProbe {
    comparison: AsOfComparison,
    places: Vec<u32>,
}

impl AsOfProbe {
    /// Returns a probe of this index.
    pub fn new(index: &AsOfIndex, comparison: AsOfComparison) -> Self {
        let groups = index.groups();
        Self { comparison, places: if groups > REMEMBERED { Vec::new() } else { vec![0; groups] } }
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
            Times::Narrow(times) => self.nearest(times, &groups, &TimeWord::words(keys.times)),
            Times::Wide(times) => self.nearest(times, &groups, &TimeWord::words(keys.times)),
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
        if self.places.is_empty() || falls * FALLS > times.len() {
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

/// Searches for the times of a block of rows at once, level by level: the processor waits for the cache misses
/// of many rows at a time.
fn search_blocks<W: TimeWord>(
    index: &GroupedTimes<W>,
    groups: &[u32],
    times: &[W],
    is_before: impl Fn(W, W) -> bool,
    row: impl Fn(u32, usize) -> u32,
) -> Vec<u32> {
    let mut found = Vec::with_capacity(groups.len());
    let (mut lanes, mut firsts) = ([const { 0..0 }; BLOCK], [W::default(); BLOCK]);
    for (groups, times) in groups.chunks(BLOCK).zip(times.chunks(BLOCK)) {
        let lanes = &mut lanes[..groups.len()];
        for (lane, &group) in lanes.iter_mut().zip(groups) {
            *lane = if group == NONE { 0..0 } else { index.start(group)..index.start(group + 1) };
        }
        for level in (0..=index.levels.len()).rev() {
            let values = level.checked_sub(1).map_or(&index.times[..], |level| &index.levels[level]);
            let scale = STRIDE.pow(level as u32);
            // The values of this level whose blocks end within the lane.
            let ends_in = |lane: &Range<usize>| lane.start / scale..lane.end.saturating_sub(1).max(lane.start) / scale;
            for (first, lane) in firsts.iter_mut().zip(&*lanes) {
                *first = values.get(ends_in(lane).start).copied().unwrap_or_default();
            }
            for ((lane, &time), &first) in lanes.iter_mut().zip(times).zip(&firsts) {
                let candidates = if level == 0 { lane.clone() } else { ends_in(lane) };
                if candidates.is_empty() {
                    continue;
                }
                let before = match is_before(first, time) {
                    false => 0,
                    true if candidates.len() <= STRIDE => {
                        values[candidates.clone()].iter().map(|&value| usize::from(is_before(value, time))).sum()
                    }
                    true => values[candidates.clone()].partition_point(|&value| is_before(value, time)),
                };
                let place = candidates.start + before;
                *lane = lane.start.max(place * scale)..lane.end.min((place + 1) * scale);
                if level == 0 {
                    *lane = place..place;
                }
            }
        }
        found.extend(groups.iter().zip(&*lanes).map(
            |(&group, lane)| {
                if group == NONE { NONE } else { row(group, lane.start) }
            },
        ));
    }
    found
}

/// Returns the number of values for which `is_before` is true, which come first. Searches from `hint` on in
/// steps that double.
pub(crate) fn partition_point_near<W: Copy>(values: &[W], hint: usize, is_before: impl Fn(W) -> bool) -> usize {
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
