//! Work spread over threads: independent tasks and stable sorts.

use std::{
    ops::Range,
    panic::resume_unwind,
    sync::{Mutex, PoisonError},
    thread,
};

/// Fewer items than this are processed by one thread.
const MIN_PARALLEL: usize = 1 << 14;

/// Calls `work` with each item on up to `threads` threads, each of which takes the next item when
/// it is done with one. The results are in the items' order.
pub(crate) fn map<T: Send, R: Send>(threads: usize, items: Vec<T>, work: impl Fn(T) -> R + Sync) -> Vec<R> {
    let threads = threads.clamp(1, items.len().max(1));
    if threads == 1 {
        return items.into_iter().map(work).collect();
    }
    let queue = Mutex::new(items.into_iter().enumerate());
    let next = || queue.lock().unwrap_or_else(PoisonError::into_inner).next();
    let run = || {
        let mut done = Vec::new();
        while let Some((index, item)) = next() {
            done.push((index, work(item)));
        }
        done
    };
    let mut results: Vec<(usize, R)> = thread::scope(|scope| {
        let others: Vec<_> = (1..threads).map(|_| scope.spawn(run)).collect();
        let own = run();
        let others = others.into_iter().map(|other| other.join().unwrap_or_else(|panic| resume_unwind(panic)));
        own.into_iter().chain(others.flatten()).collect()
    });
    results.sort_unstable_by_key(|&(index, _)| index);
    results.into_iter().map(|(_, result)| result).collect()
}

/// Calls `fill` with equal parts of the items, and the index of each part's first item.
pub(crate) fn fill<T: Send>(threads: usize, items: &mut [T], fill: impl Fn(usize, &mut [T]) + Sync) {
    let part = part(items.len(), threads);
    if part == items.len() {
        return fill(0, items);
    }
    thread::scope(|scope| {
        for (index, items) in items.chunks_mut(part).enumerate() {
            let fill = &fill;
            scope.spawn(move || fill(index * part, items));
        }
    });
}

/// Returns the number of items per thread.
pub(crate) fn part(items: usize, threads: usize) -> usize {
    if items < MIN_PARALLEL { items } else { items.div_ceil(threads.max(1)) }
}

/// Sorts `rows` items stably on up to `threads` threads. Each fills its part with `fill`, which
/// gets the index of the part's first item. It sorts the part with `sort`, which may use scratch
/// memory of the same size. Then all threads merge the parts by `less`. Takes the items' memory
/// twice.
pub(crate) fn sort<T: Copy + Default + Send + Sync>(
    rows: usize,
    threads: usize,
    fill: impl Fn(usize, &mut [T]) + Sync,
    sort: impl Fn(&mut [T], &mut [T]) + Sync,
    less: impl Fn(&T, &T) -> bool + Sync,
) -> Vec<T> {
    let (mut items, mut scratch) = (vec![T::default(); rows], vec![T::default(); rows]);
    let mut run = part(rows, threads);
    let first_run = |start: usize, items: &mut [T], scratch: &mut [T]| {
        fill(start, items);
        sort(items, scratch);
    };
    if run == rows {
        first_run(0, &mut items, &mut scratch);
        return items;
    }
    thread::scope(|scope| {
        for (index, (items, scratch)) in items.chunks_mut(run).zip(scratch.chunks_mut(run)).enumerate() {
            let first_run = &first_run;
            scope.spawn(move || first_run(index * run, items, scratch));
        }
    });
    while run < rows {
        merge_runs(&items, &mut scratch, run, threads, &less);
        std::mem::swap(&mut items, &mut scratch);
        run *= 2;
    }
    items
}

/// Merges each pair of neighbouring runs of `run` items; the last run may be shorter. Each thread
/// writes an equal share.
fn merge_runs<T: Copy + Send + Sync>(
    from: &[T],
    to: &mut [T],
    run: usize,
    threads: usize,
    less: &(impl Fn(&T, &T) -> bool + Sync),
) {
    let pairs = from.chunks(2 * run).zip(to.chunks_mut(2 * run));
    let share = from.len().div_ceil(threads);
    thread::scope(|scope| {
        for (pair, to) in pairs {
            let (left, right) = pair.split_at(run.min(pair.len()));
            for (index, to) in to.chunks_mut(share).enumerate() {
                let places = index * share..index * share + to.len();
                scope.spawn(move || merge(left, right, places, to, less));
            }
        }
    });
}

/// Writes those items of the merged runs whose place is in `places`.
fn merge<T: Copy>(left: &[T], right: &[T], places: Range<usize>, to: &mut [T], less: &impl Fn(&T, &T) -> bool) {
    let (mut l, mut r) = cut(left, right, places.start, less);
    let mut slots = to.iter_mut();
    while l < left.len() && r < right.len() {
        let Some(slot) = slots.next() else { return };
        // Without a branch: it would be mispredicted.
        let from_right = less(&right[r], &left[l]);
        *slot = if from_right { right[r] } else { left[l] };
        r += usize::from(from_right);
        l += usize::from(!from_right);
    }
    slots.zip(left[l..].iter().chain(&right[r..])).for_each(|(slot, item)| *slot = *item);
}

/// Returns how many items of each run are among the first `place` items of the merged runs.
fn cut<T>(left: &[T], right: &[T], place: usize, less: &impl Fn(&T, &T) -> bool) -> (usize, usize) {
    let (mut low, mut high) = (place.saturating_sub(right.len()), place.min(left.len()));
    while low < high {
        let l = low + (high - low) / 2;
        // Among equals left items come first. So this one is among them unless the right item at
        // the cut is less.
        if less(&right[place - l - 1], &left[l]) { high = l } else { low = l + 1 }
    }
    (low, place - low)
}
