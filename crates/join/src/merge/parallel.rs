//! Work spread over threads: independent tasks, and stable sorts.

use std::{
    ops::Range,
    sync::atomic::{AtomicUsize, Ordering::Relaxed},
    thread,
};

/// Fewer items than this are sorted by the calling thread.
const MIN_PARALLEL: usize = 1 << 14;

/// The results of `task(0)`, `task(1)` and so on, in this order, by up to `threads` threads; or one of the errors.
pub(super) fn map<T: Send, E: Send>(
    threads: usize,
    tasks: usize,
    task: impl Fn(usize) -> Result<T, E> + Sync,
) -> Result<Vec<T>, E> {
    if threads.min(tasks) <= 1 {
        return (0..tasks).map(task).collect();
    }
    let next = AtomicUsize::new(0);
    let work = || -> Result<Vec<(usize, T)>, E> {
        std::iter::from_fn(|| Some(next.fetch_add(1, Relaxed)).filter(|&index| index < tasks))
            .map(|index| Ok((index, task(index)?)))
            .collect()
    };
    let mut done = Vec::with_capacity(tasks);
    thread::scope(|scope| {
        let workers: Vec<_> = (0..threads.min(tasks)).map(|_| scope.spawn(work)).collect();
        for worker in workers {
            done.extend(worker.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))?);
        }
        Ok(())
    })?;
    done.sort_unstable_by_key(|&(index, _)| index);
    Ok(done.into_iter().map(|(_, result)| result).collect())
}

/// Calls `fill` with equal parts of the items, and the number of the first of each.
pub(super) fn fill<T: Send>(threads: usize, items: &mut [T], fill: impl Fn(usize, &mut [T]) + Sync) {
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

/// How many of so many items each thread gets.
pub(super) fn part(items: usize, threads: usize) -> usize {
    if items < MIN_PARALLEL { items } else { items.div_ceil(threads.max(1)) }
}

/// Sorts `rows` items stably on up to `threads` threads: each fills its part with `fill`, which is given the number of the first
/// item, and sorts it with `sort`, which may use as much scratch memory; then all of them merge by `less`. Takes the items' memory
/// twice.
pub(super) fn sort<T: Copy + Default + Send + Sync>(
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

/// Merges each two neighbouring runs of `run` items, all but the last of which have as many. Each thread writes an equal share.
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

/// Writes those items of the merged runs that come at `places`.
fn merge<T: Copy>(left: &[T], right: &[T], places: Range<usize>, to: &mut [T], less: &impl Fn(&T, &T) -> bool) {
    let (mut l, mut r) = cut(left, right, places.start, less);
    let mut slots = to.iter_mut();
    while l < left.len() && r < right.len() {
        let Some(slot) = slots.next() else { return };
        // Without a branch, which nobody could predict.
        let from_right = less(&right[r], &left[l]);
        *slot = if from_right { right[r] } else { left[l] };
        r += usize::from(from_right);
        l += usize::from(!from_right);
    }
    slots.zip(left[l..].iter().chain(&right[r..])).for_each(|(slot, item)| *slot = *item);
}

/// How many items of either run are among the first `place` of both.
fn cut<T>(left: &[T], right: &[T], place: usize, less: &impl Fn(&T, &T) -> bool) -> (usize, usize) {
    let (mut low, mut high) = (place.saturating_sub(right.len()), place.min(left.len()));
    while low < high {
        let l = low + (high - low) / 2;
        // Left items go first among equals, so this one is among them unless the right one at the cut is less.
        if less(&right[place - l - 1], &left[l]) { high = l } else { low = l + 1 }
    }
    (low, place - low)
}
