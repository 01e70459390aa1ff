//! What a key filter takes beside its keys while it is made. Every allocation of the process is
//! counted.

use std::{
    alloc::{GlobalAlloc, Layout, System},
    sync::Arc,
    sync::atomic::{AtomicUsize, Ordering::Relaxed},
};

use annulus_join::{CancelToken, JoinError, KeyFilterBuilder, KeyFilterKind, Keys};
use arrow::array::{ArrayRef, Int64Array, RecordBatch};

struct Counting;

static HELD: AtomicUsize = AtomicUsize::new(0);
static PEAK: AtomicUsize = AtomicUsize::new(0);

// SAFETY: every call is passed to the system's allocator.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        PEAK.fetch_max(HELD.fetch_add(layout.size(), Relaxed) + layout.size(), Relaxed);
        // SAFETY: the caller's promises.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, ptr: *mut u8, layout: Layout) {
        HELD.fetch_sub(layout.size(), Relaxed);
        // SAFETY: the caller's promises.
        unsafe { System.dealloc(ptr, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// The bytes of the keys of a whole build side would be a second copy of them, and more than an
/// array of Arrow holds if the side is large.
#[test]
fn keys_are_computed_for_a_few_rows_at_a_time() {
    const ROWS: i64 = 1 << 20;
    let ids: ArrayRef = Arc::new(Int64Array::from_iter_values(0..ROWS));
    let build = RecordBatch::try_from_iter([("a", Arc::clone(&ids)), ("b", ids)]).unwrap();
    let keys = Keys::new(&build.schema(), &[0, 1], false).unwrap();
    // The hashes of an exact filter grow by doubling.
    let hashes = 3 * ROWS as usize * size_of::<u64>();
    for (kind, filter) in [(KeyFilterKind::Bloom(1000), 0), (KeyFilterKind::Exact, hashes)] {
        let mut builder = KeyFilterBuilder::new(kind);
        let before = HELD.load(Relaxed);
        PEAK.store(before, Relaxed);
        builder.insert(&keys, &build, &CancelToken::new()).unwrap();
        let most = PEAK.load(Relaxed) - before;
        assert!(most < filter + (8 << 20), "{kind:?}: {most} bytes");
    }
    let cancel = CancelToken::new();
    cancel.cancel();
    let cancelled = KeyFilterBuilder::new(KeyFilterKind::Exact).insert(&keys, &build, &cancel);
    assert!(matches!(cancelled, Err(JoinError::Cancelled)), "{cancelled:?}");
}
