//! Models of the claims and of the free list. Loom runs them through every interleaving up to a
//! number of preemptions. Slots are cells that loom watches. So a page that is handed on before its
//! tuples are visible fails the model, and so does one that is used again too early.

use std::sync::Arc;

use loom::{cell::UnsafeCell, thread};

use super::state::{Claim, ClaimWord, Outcome, PageId, Part, State, Supply};
use crate::memory::FreeList;

const CAPACITY: u32 = 2;

struct Model {
    state: State,
    free: FreeList,
    pages: Vec<[UnsafeCell<u32>; CAPACITY as usize]>,
    /// The tuples of pages that were taken out: turn of the page, slot and value. They are checked
    /// when the model ends.
    taken: std::sync::Mutex<Vec<(u32, u32, u32)>>,
}

// SAFETY: each slot is written under its claim, and read by the thread that takes the page out.
unsafe impl Sync for Model {}
// SAFETY: as above.
unsafe impl Send for Model {}

impl Supply for Model {
    fn turning(&self) -> impl Sized {}
    fn take(&self) -> Option<PageId> {
        self.free.pop()
    }
    fn give_back(&self, page: PageId) {
        self.free.push(page);
    }
}

impl Model {
    fn new(partitions: usize, pages: u32) -> Arc<Self> {
        let free = FreeList::new(pages as usize);
        (0..pages).for_each(|page| free.push(page));
        let cells = || std::array::from_fn(|_| UnsafeCell::new(0));
        let state = State::new(partitions, pages as usize);
        Arc::new(Self { state, free, pages: (0..pages).map(|_| cells()).collect(), taken: Default::default() })
    }

    fn claim(&self, partition: usize, wanted: u32) -> Claim {
        let plan = |before: ClaimWord| {
            let tuples = wanted.min(CAPACITY - before.tuples());
            Part { tuples, bytes: tuples, closes: before.tuples() + tuples == CAPACITY }
        };
        loop {
            match self.state.claim(partition, self, plan) {
                Some((claim, outcome)) => {
                    assert_eq!(outcome, Outcome::Pending, "the claim is not written");
                    return claim;
                }
                None => thread::yield_now(),
            }
        }
    }

    /// Writes and completes the first `count` tuples of a claim. Takes the page out if that
    /// completes it.
    fn write(&self, claim: Claim, count: u32, value: u32) {
        for slot in claim.before.tuples()..claim.before.tuples() + count {
            // SAFETY: claimed.
            self.pages[claim.page as usize][slot as usize].with_mut(|cell| unsafe { *cell = value });
        }
        if self.state.complete(claim.page, count) == Outcome::Complete {
            self.take_out(claim.page, self.state.claimed(claim.page).tuples());
            self.give_back(claim.page);
        }
    }

    fn take_out(&self, page: PageId, tuples: u32) {
        let turn = self.state.turn_of(page);
        for (slot, cell) in (0..tuples).zip(&self.pages[page as usize]) {
            // SAFETY: the page is complete, so no claim on it is left.
            let value = cell.with(|cell| unsafe { *cell });
            self.taken.lock().unwrap().push((turn, slot, value));
        }
    }

    /// Returns all placed tuples, by page and slot, after every thread has ended.
    fn placed(&self, partitions: usize) -> Vec<u32> {
        for partition in 0..partitions {
            if let Some((page, claimed)) = self.state.last(partition) {
                self.take_out(page, claimed.tuples());
            }
        }
        let mut taken = std::mem::take(&mut *self.taken.lock().unwrap());
        taken.sort_unstable();
        taken.into_iter().map(|(_, _, value)| value).collect()
    }

    /// Returns all placed tuples, sorted by value.
    fn tuples(&self, partitions: usize) -> Vec<u32> {
        let mut tuples = self.placed(partitions);
        tuples.sort_unstable();
        tuples
    }
}

fn model(preemptions: usize, body: impl Fn() + Send + Sync + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = builder.preemption_bound.or(Some(preemptions));
    builder.check(body);
}

/// Pair writers on one partition, with pages that are reused as soon as they were taken out. The
/// turns of the pages keep each writer's order.
#[test]
fn every_tuple_is_taken_out_once() {
    model(3, || {
        let model = Model::new(1, 2);
        let other = {
            let model = Arc::clone(&model);
            thread::spawn(move || (1..3).for_each(|value| model.write(model.claim(0, 1), 1, value)))
        };
        (3..5).for_each(|value| model.write(model.claim(0, 1), 1, value));
        other.join().unwrap();
        let (of_other, own): (Vec<u32>, Vec<u32>) = model.placed(1).into_iter().partition(|value| *value < 3);
        assert_eq!((of_other, own), (vec![1, 2], vec![3, 4]));
    });
}

/// A page that is shut while others write to it is taken out once, with its claimed tuples.
#[test]
fn a_page_is_shut_beside_claims() {
    model(3, || {
        let model = Model::new(1, 3);
        let other = {
            let model = Arc::clone(&model);
            thread::spawn(move || (1..3).for_each(|value| model.write(model.claim(0, 1), 1, value)))
        };
        model.write(model.claim(0, 1), 1, 3);
        if let Some((page, Outcome::Complete)) = model.state.shut(0) {
            model.take_out(page, model.state.claimed(page).tuples());
            model.give_back(page);
        }
        other.join().unwrap();
        assert_eq!(model.tuples(1), [1, 2, 3]);
    });
}

/// Pages go from one partition to another.
#[test]
fn pages_move_between_partitions() {
    model(3, || {
        let model = Model::new(2, 3);
        let other = {
            let model = Arc::clone(&model);
            thread::spawn(move || (1..3).for_each(|value| model.write(model.claim(0, 2), 2, value)))
        };
        (3..5).for_each(|value| model.write(model.claim(1, 2), 2, value));
        other.join().unwrap();
        assert_eq!(model.tuples(2), [1, 1, 2, 2, 3, 3, 4, 4]);
    });
}

/// The tuples that a writer takes back are free for the other, and no others.
#[test]
fn a_claim_is_taken_back_or_stays() {
    model(4, || {
        let model = Model::new(1, 3);
        let other = {
            let model = Arc::clone(&model);
            thread::spawn(move || model.write(model.claim(0, 1), 1, 1))
        };
        let claim = model.claim(0, 1);
        let end = claim.before.tuples() + 1;
        if !model.state.retract(claim.page, end, 1, 1) {
            model.write(claim, 1, 2);
        }
        other.join().unwrap();
        let tuples = model.tuples(1);
        assert!(tuples == [1] || tuples == [1, 2], "{tuples:?}");
    });
}

/// Numbers pass through the free list, and their owners' writes with them.
#[test]
fn a_free_page_is_one_thread_s() {
    model(4, || {
        let model = Model::new(1, 2);
        let use_one = |model: &Model, value| {
            if let Some(page) = model.free.pop() {
                // SAFETY: the page belongs to this thread until it is given back.
                model.pages[page as usize][0].with_mut(|cell| unsafe { *cell = value });
                model.free.push(page);
            }
        };
        let other = {
            let model = Arc::clone(&model);
            thread::spawn(move || (0..2).for_each(|value| use_one(&model, value)))
        };
        (2..4).for_each(|value| use_one(&model, value));
        other.join().unwrap();
        let mut pages: Vec<_> = std::iter::from_fn(|| model.free.pop()).collect();
        pages.sort_unstable();
        assert_eq!(pages, [0, 1]);
    });
}
