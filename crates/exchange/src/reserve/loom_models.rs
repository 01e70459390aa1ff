//! Models of the claim word. Loom runs them through every interleaving up to a number of
//! preemptions. The rows are cells that loom watches, so a chunk that is handed over before its
//! rows are visible fails the model. `tests/loom_reserve.rs` models the handles.

use std::sync::Arc;

use loom::{cell::UnsafeCell, thread};

use super::claim::{Claim, ClaimWord, CountedChunk};

const CAPACITY: u32 = 2;

/// The rows of the smallest chunk that has two rows.
struct Rows([UnsafeCell<u32>; CAPACITY as usize]);

// SAFETY: each row is written under its claim, and read by the owner of the whole chunk.
unsafe impl Sync for Rows {}

type TestWord = Arc<ClaimWord<Rows>>;

fn fresh() -> Box<CountedChunk<Rows>> {
    CountedChunk::new(Rows(std::array::from_fn(|_| UnsafeCell::new(0))), CAPACITY)
}

fn claim(word: &TestWord, rows: u32) -> Vec<Claim<Rows>> {
    let mut claims = Vec::new();
    word.claim(rows, fresh, drop, &mut claims);
    assert_eq!(claims.iter().map(|claim| claim.len).sum::<u32>(), rows);
    claims
}

/// Writes the claimed rows and completes them. Returns the rows of the chunks that this completed.
fn write(claims: Vec<Claim<Rows>>, value: u32) -> Vec<u32> {
    let mut whole = Vec::new();
    for claim in claims {
        for row in claim.start..claim.start + claim.len {
            // SAFETY: the claim's rows are this thread's.
            claim.chunk().0[row as usize].with_mut(|cell| unsafe { *cell = value });
        }
        whole.extend(claim.complete(CAPACITY).map(rows).unwrap_or_default());
    }
    whole
}

fn rows(open: Box<CountedChunk<Rows>>) -> Vec<u32> {
    // SAFETY: the chunk is whole, so no claim on it is left.
    (0..open.rows()).map(|row| open.chunk.0[row].with(|cell| unsafe { *cell })).collect()
}

fn sealed(word: &TestWord) -> Vec<u32> {
    word.seal().map(rows).unwrap_or_default()
}

fn model(body: impl Fn() + Send + Sync + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = builder.preemption_bound.or(Some(6));
    builder.check(body);
}

fn assert_rows(parts: impl IntoIterator<Item = Vec<u32>>, expected: &[u32]) {
    let mut all = parts.into_iter().flatten().collect::<Vec<_>>();
    all.sort_unstable();
    assert_eq!(all, expected);
}

/// Two producers claim across the end of a chunk. Its rows and those of the next chunk are handed
/// over once, all written.
#[test]
fn claims_cross_a_chunk() {
    model(|| {
        let word: TestWord = Arc::new(ClaimWord::new(CAPACITY));
        let first = write(claim(&word, 1), 1);
        let other = Arc::clone(&word);
        let two = thread::spawn(move || write(claim(&other, 2), 2));
        let three = write(claim(&word, 2), 3);
        assert_rows([first, two.join().unwrap(), three, sealed(&word)], &[1, 2, 2, 3, 3]);
    });
}

/// Claims of the same chunk complete in any order. The last one gets the whole chunk.
#[test]
fn last_completion_has_all_rows() {
    model(|| {
        let word: TestWord = Arc::new(ClaimWord::new(CAPACITY));
        let other = Arc::clone(&word);
        let one = thread::spawn(move || write(claim(&other, 1), 1));
        let two = write(claim(&word, 1), 2);
        assert_rows([one.join().unwrap(), two], &[1, 2]);
    });
}

/// A seal gives up the unclaimed rows while claims are incomplete. Every claimed row is handed over
/// once.
#[test]
fn seal_meets_claims() {
    model(|| {
        let word: TestWord = Arc::new(ClaimWord::new(CAPACITY));
        let other = Arc::clone(&word);
        let one = thread::spawn(move || [write(claim(&other, 1), 1), write(claim(&other, 1), 2)].concat());
        let two = sealed(&word);
        assert_rows([one.join().unwrap(), two, sealed(&word)], &[1, 2]);
    });
}

/// Two seals meet a claim that is not complete. One of the three hands the chunk over.
#[test]
fn seals_meet_each_other() {
    model(|| {
        let word: TestWord = Arc::new(ClaimWord::new(CAPACITY));
        let pending = claim(&word, 1);
        let other = Arc::clone(&word);
        let one = thread::spawn(move || sealed(&other));
        let other = Arc::clone(&word);
        let two = thread::spawn(move || sealed(&other));
        let three = write(pending, 3);
        assert_rows([one.join().unwrap(), two.join().unwrap(), three, sealed(&word)], &[3]);
    });
}

/// A claim word that is dropped with an open chunk frees it.
#[test]
fn claim_word_dropped_with_rows() {
    model(|| {
        let word: TestWord = Arc::new(ClaimWord::new(CAPACITY));
        let other = Arc::clone(&word);
        let one = thread::spawn(move || write(claim(&other, 1), 1));
        drop(word);
        assert_rows([one.join().unwrap()], &[]);
    });
}
