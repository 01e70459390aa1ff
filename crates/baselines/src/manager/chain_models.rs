//! Models of the chain. Loom runs them through every interleaving up to a number of preemptions.
//! The places of a page are cells that loom watches. So a page that is used before it was created,
//! or read before it was written, fails the model.

use std::sync::Arc;

use annulus_pages::page::write::Extent;
use loom::{cell::UnsafeCell, thread};

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
    // SAFETY: the page is whole, so all claims on it were completed.
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

/// Writes `value` to `tuples` places. Returns the content of the pages that this completed.
fn insert<F: Fn(Extent) -> (Extent, bool)>(
    chain: &TestChain,
    mut tuples: usize,
    value: u32,
    fit: impl Fn(usize) -> F,
) -> Vec<u32> {
    let mut whole = Vec::new();
    while tuples > 0 {
        let claim = chain.claim(fit(tuples)).expect("nothing fails here");
        let closed = claim.closer.is_some();
        if let Some(closer) = claim.closer {
            closer.install(page());
        }
        for place in &claim.node.page.0[claim.at.tuples..claim.at.tuples + claim.room.tuples] {
            // SAFETY: the place was claimed.
            place.with_mut(|place| unsafe { *place = value });
        }
        if claim.node.complete(claim.room.tuples, closed) {
            whole.extend(read(&claim.node.page));
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

/// Inserts these numbers of tuples on two threads. Checks that every closed page was completed
/// once, and that with the last page no tuple is missing.
fn two_threads<F: Fn(Extent) -> (Extent, bool)>(tuples: [usize; 2], fit: fn(usize) -> F)
where
    F: 'static,
{
    model(move || {
        let chain: TestChain = Arc::new(Chain::new(page()));
        let other = {
            let chain = Arc::clone(&chain);
            thread::spawn(move || insert(&chain, tuples[1], 2, fit))
        };
        let mut all = insert(&chain, tuples[0], 1, fit);
        all.extend(other.join().unwrap());
        let pages = Arc::into_inner(chain).expect("the other has ended").into_pages();
        assert!(pages.iter().all(|page| page.completed == page.taken.tuples && page.taken.bytes == page.taken.tuples));
        let (last, closed) = pages.split_last().expect("there is a page");
        assert!(closed.iter().all(|page| page.taken.tuples == CAPACITY));
        assert_eq!(all.len(), closed.len() * CAPACITY, "each closed page was whole once");
        all.extend(&read(&last.page)[..last.taken.tuples]);
        all.sort_unstable();
        assert_eq!(all, [vec![1; tuples[0]], vec![2; tuples[1]]].concat());
    });
}

#[test]
fn tuples_of_one_size() {
    two_threads([1, 2], fixed);
}

#[test]
fn pages_are_added_by_both() {
    two_threads([3, 2], fixed);
}

#[test]
fn tuples_of_any_size() {
    two_threads([2, 2], variable);
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
