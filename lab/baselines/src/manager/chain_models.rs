//! Models of the chain. Loom runs them through every interleaving up to a number of preemptions.
//! The places of a page are cells that loom watches. So a page that is used before it was created,
//! or read before it was written, fails the model.

use std::sync::Arc;

use annulus_pages::page::write::Extent;
use loom::{cell::UnsafeCell, sync::Mutex, thread};

use super::chain::Chain;

const CAPACITY: usize = 2;

/// The smallest page that has two places.
struct Places([UnsafeCell<u32>; CAPACITY]);

// SAFETY: each place is written under its claim, and read when the page is whole.
unsafe impl Sync for Places {}
// SAFETY: as above.
unsafe impl Send for Places {}

type TestChain = Arc<Chain<Places>>;

fn page() -> Places {
    let places = Places(std::array::from_fn(|_| UnsafeCell::new(0)));
    // SAFETY: no other thread has the page yet.
    places.0.iter().for_each(|place| place.with_mut(|place| unsafe { *place = 0 }));
    places
}

fn read(page: &Places) -> Vec<u32> {
    // SAFETY: the page was taken out of the chain, so it belongs to the caller.
    page.0.iter().map(|place| place.with(|place| unsafe { *place })).collect()
}

/// Returns the fit of tuples of one size: the claim that takes the last place closes the page.
fn fixed(tuples: usize) -> impl Fn(Extent) -> (Extent, bool) {
    move |at| {
        let room = tuples.min(CAPACITY - at.tuples);
        (Extent { tuples: room, bytes: room }, at.tuples + room == CAPACITY)
    }
}

/// Returns the fit of tuples of any size: the claim for which a tuple does not fit closes the page.
fn variable(tuples: usize) -> impl Fn(Extent) -> (Extent, bool) {
    move |at| {
        let room = tuples.min(CAPACITY - at.tuples);
        (Extent { tuples: room, bytes: room }, room < tuples)
    }
}

/// The pages that can be used again. Without any, a new one is created.
type FreePages = Arc<Mutex<Vec<Places>>>;

fn next_page(spare: &FreePages) -> Places {
    spare.lock().unwrap().pop().unwrap_or_else(page)
}

/// Writes `value` to `tuples` places, up to `most` with each claim. Returns the content of the
/// pages that this completed. These pages are used again.
fn insert<F: Fn(Extent) -> (Extent, bool)>(
    (chain, spare): &(TestChain, FreePages),
    mut tuples: usize,
    most: usize,
    value: u32,
    fit: impl Fn(usize) -> F,
) -> Vec<u32> {
    let mut whole = Vec::new();
    while tuples > 0 {
        let claim = chain.claim(fit(tuples.min(most))).expect("nothing fails here");
        let closed = claim.closer.is_some();
        if let Some(closer) = claim.closer {
            closer.install(next_page(spare));
        }
        // SAFETY: the claim is not completed.
        let places = &unsafe { claim.node.page() }.0;
        for place in &places[claim.at.tuples..claim.at.tuples + claim.room.tuples] {
            // SAFETY: the place was claimed.
            place.with_mut(|place| unsafe { *place = value });
        }
        // SAFETY: its places are written, and it is completed once.
        if let Some((page, end)) = unsafe { claim.node.complete(claim.room.tuples, closed) } {
            assert_eq!((end.tuples, end.bytes), (CAPACITY, CAPACITY));
            whole.extend(read(&page));
            spare.lock().unwrap().push(page);
        }
        tuples -= claim.room.tuples;
    }
    whole
}

fn model(body: impl Fn() + Send + Sync + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = builder.preemption_bound.or(Some(4));
    builder.check(body);
}

/// Inserts these numbers of tuples on two threads. Checks that every closed page was handed on
/// once, and that with the last page no tuple is missing.
fn two_threads<F: Fn(Extent) -> (Extent, bool)>(tuples: [usize; 2], most: usize, fit: fn(usize) -> F)
where
    F: 'static,
{
    model(move || {
        let shared: (TestChain, FreePages) = (Arc::new(Chain::new(page())), Arc::default());
        let other = {
            let shared = shared.clone();
            thread::spawn(move || insert(&shared, tuples[1], most, 2, fit))
        };
        let mut all = insert(&shared, tuples[0], most, 1, fit);
        all.extend(other.join().unwrap());
        let pages = Arc::into_inner(shared.0).expect("the other has ended").into_pages();
        let [last] = &pages[..] else { panic!("only the open page is left: {}", pages.len()) };
        assert_eq!((last.completed, last.taken.bytes), (last.taken.tuples, last.taken.tuples));
        assert!(all.len().is_multiple_of(CAPACITY), "closed pages are full");
        all.extend(&read(&last.page)[..last.taken.tuples]);
        all.sort_unstable();
        assert_eq!(all, [vec![1; tuples[0]], vec![2; tuples[1]]].concat());
    });
}

#[test]
fn tuples_of_one_size() {
    two_threads([1, 2], CAPACITY, fixed);
}

#[test]
fn pages_are_added_by_both() {
    two_threads([3, 2], CAPACITY, fixed);
}

#[test]
fn tuples_of_any_size() {
    two_threads([2, 2], CAPACITY, variable);
}

/// On-demand partitioning claims a place for each tuple.
#[test]
fn tuples_one_by_one() {
    two_threads([2, 2], 1, fixed);
}

#[test]
fn tuples_of_any_size_one_by_one() {
    two_threads([2, 1], 1, variable);
}

#[test]
fn a_page_that_does_not_come_ends_the_wait() {
    model(|| {
        let chain: TestChain = Arc::new(Chain::new(page()));
        let error = Arc::new(Places(std::array::from_fn(|_| UnsafeCell::new(0))));
        let closer = {
            let (chain, error) = (Arc::clone(&chain), Arc::clone(&error));
            thread::spawn(move || {
                let claim = chain.claim(fixed(CAPACITY)).expect("the page is empty");
                // SAFETY: read by others only after the chain has failed.
                error.0[0].with_mut(|error| unsafe { *error = 7 });
                drop(claim.closer);
            })
        };
        // As no place is wanted, this waits for the page to be closed.
        while let Some(claim) = chain.claim(|_| (Extent::default(), false)) {
            assert!(claim.closer.is_none());
            thread::yield_now();
        }
        // SAFETY: the chain has failed.
        assert_eq!(error.0[0].with(|error| unsafe { *error }), 7);
        closer.join().unwrap();
    });
}
