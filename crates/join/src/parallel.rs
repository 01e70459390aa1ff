//! Work spread over threads. Joins of one process that ask for the same number of threads share a
//! pool of them.

use std::{cmp::Ordering, collections::BTreeMap, sync::Arc};

use parking_lot::Mutex;
use rayon::{ThreadPool, ThreadPoolBuilder, prelude::*};

/// Fewer items than this are processed by one thread.
const MIN_PARALLEL: usize = 1 << 14;

/// Calls `work` with each item on up to `threads` threads, each of which takes the next item when
/// it is done with one. The results are in the items' order.
pub(crate) fn map<T: Send, R: Send>(threads: usize, items: Vec<T>, work: impl Fn(T) -> R + Sync) -> Vec<R> {
    if threads.min(items.len()) <= 1 {
        return items.into_iter().map(work).collect();
    }
    pool(threads).install(|| items.into_par_iter().with_max_len(1).map(&work).collect())
}

/// Calls `fill` with equal parts of the items, and the index of each part's first item.
pub(crate) fn fill<T: Send>(threads: usize, items: &mut [T], fill: impl Fn(usize, &mut [T]) + Sync) {
    let part = part(items.len(), threads);
    if part == items.len() {
        return fill(0, items);
    }
    let parts = items.chunks_mut(part).enumerate().collect();
    map(threads, parts, |(index, items)| fill(index * part, items));
}

/// Returns the number of items per thread.
pub(crate) fn part(items: usize, threads: usize) -> usize {
    if items < MIN_PARALLEL { items } else { items.div_ceil(threads.max(1)) }
}

/// Merges equal parts that are in order, one for each thread, so that equal items keep their order.
/// Takes the items' memory a second time.
pub(crate) fn merge<T: Send>(threads: usize, items: &mut [T], compare: impl Fn(&T, &T) -> Ordering + Sync) {
    if part(items.len(), threads) < items.len() {
        // This sort finds runs that are in order, and merges on all threads. To sort the parts as well, it
        // would take longer than the standard library's.
        pool(threads).install(|| items.par_sort_by(&compare));
    }
}

/// Returns the pool of this many threads. It is kept while the process runs: a join asks for one
/// many times, and starting threads takes longer than most of its steps.
fn pool(threads: usize) -> Arc<ThreadPool> {
    static POOLS: Mutex<BTreeMap<usize, Arc<ThreadPool>>> = Mutex::new(BTreeMap::new());
    let start = || {
        let builder = ThreadPoolBuilder::new().num_threads(threads).thread_name(|index| format!("join-{index}"));
        Arc::new(builder.build().expect("the system starts threads"))
    };
    Arc::clone(POOLS.lock().entry(threads).or_insert_with(start))
}
