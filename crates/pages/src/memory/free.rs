//! A lock-free stack of the numbers of free pages (Treiber's stack). Each number has its own link,
//! so nothing is allocated. The head carries a count of its changes, so that a head that has
//! changed and changed back is detected.

use annulus_sync::atomic::{AtomicU32, AtomicU64, Ordering::Relaxed};

use super::order;

const NONE: u32 = u32::MAX;

/// A stack of free numbers.
#[derive(Debug)]
pub(crate) struct FreeList {
    /// The number of changes (32 bits) and the top number (32 bits).
    head: AtomicU64,
    links: Box<[AtomicU32]>,
}

impl FreeList {
    /// Creates an empty list for numbers below `numbers`.
    pub(crate) fn new(numbers: usize) -> Self {
        Self { head: AtomicU64::new(u64::from(NONE)), links: (0..numbers).map(|_| AtomicU32::new(NONE)).collect() }
    }

    /// Takes the number that was pushed last.
    pub(crate) fn pop(&self) -> Option<u32> {
        let mut head = self.head.load(order::pop());
        loop {
            let top = head as u32;
            if top == NONE {
                return None;
            }
            // Another thread may pop `top` meanwhile and push it again. Then the head has changed,
            // and this link is not used.
            let below = self.links[top as usize].load(Relaxed);
            match self.head.compare_exchange_weak(head, next(head, below), order::pop(), order::pop()) {
                Ok(_) => return Some(top),
                Err(other) => head = other,
            }
        }
    }

    /// Pushes a number, which must not be in the list.
    pub(crate) fn push(&self, number: u32) {
        let mut head = self.head.load(Relaxed);
        loop {
            self.links[number as usize].store(head as u32, Relaxed);
            match self.head.compare_exchange_weak(head, next(head, number), order::push(), Relaxed) {
                Ok(_) => return,
                Err(other) => head = other,
            }
        }
    }
}

fn next(head: u64, top: u32) -> u64 {
    ((head >> 32).wrapping_add(1) << 32) | u64::from(top)
}
