//! The state that the handles share, and the steps under the mutex. Numbers in comments are the
//! rules of PROTOCOL.md.

use std::{collections::VecDeque, sync::PoisonError};

use annulus_exchange::{
    plug::{AllCalls, HandleStats, LeaseCell, StopReason, WaitList},
    transport::{Parcel, Shape},
};
use annulus_sync::{
    Arc, Mutex, MutexGuard,
    atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering::Relaxed},
};
use crossbeam_utils::CachePadded;

use super::{
    group::{Group, RingEntry},
    news::News,
    order,
};

pub(super) struct PaperCore<T: Parcel> {
    pub(super) stop_reason: StopReason,
    pub(super) open_producers: AtomicUsize,
    /// The number of groups that were put in the ring.
    published: CachePadded<AtomicU64>,
    /// Whether nothing more will be published.
    closed: AtomicBool,
    entries: Box<[RingEntry<T>]>,
    queue: Mutex<Queue<T>>,
    /// Each producer's reference to the group that is being filled.
    references: Box<[CachePadded<Reference<T>>]>,
    pub(super) producers: WaitList,
    pub(super) consumers: WaitList,
    pub(super) readers: Box<[CachePadded<PerConsumer>]>,
    /// K, the number of groups with which the ring is full.
    groups: usize,
    slots: usize,
}

pub(super) struct PerConsumer {
    /// The group that the consumer reads next. Stored under the lease; a hint for others.
    pub(super) at: AtomicU64,
    pub(super) position: LeaseCell<Position>,
}

/// A consumer's position.
#[derive(Default)]
pub(super) struct Position {
    /// The number of the group to read, and its slot.
    pub(super) group: u64,
    pub(super) slot: usize,
    /// The number of published groups as last seen.
    pub(super) published: u64,
    /// Whether a producer has read on since the consumer's last call.
    pub(super) relieved: bool,
}

/// What the mutex protects. Rule 2.
struct Queue<T> {
    /// The number of groups in the ring.
    occupied: usize,
    /// The group to be filled next, while the ring is full: none is being filled then.
    donated: Option<Arc<Group<T>>>,
    /// The group that is being filled, or was last.
    current: Arc<Group<T>>,
    /// The values whose producers found the group full when they came to claim a slot.
    leftovers: VecDeque<T>,
    /// Whether a producer that sends nothing for a while has a value left over.
    hurry: bool,
    live_consumers: usize,
    /// Whether every producer has ended.
    ended: bool,
}

/// A producer's reference to the group that is being filled.
type Reference<T> = Mutex<Arc<Group<T>>>;

impl<T: Parcel> PaperCore<T> {
    pub(super) fn new(shape: Shape, producers: WaitList, consumers: WaitList) -> Self {
        let current = Arc::new(Group::new(shape.slots));
        let queue = Queue {
            occupied: 0,
            donated: None,
            current: Arc::clone(&current),
            leftovers: VecDeque::new(),
            hurry: false,
            live_consumers: shape.consumers,
            ended: false,
        };
        let reader =
            |_| CachePadded::new(PerConsumer { at: AtomicU64::new(0), position: LeaseCell::new(Position::default()) });
        Self {
            stop_reason: StopReason::new(shape.consumers),
            open_producers: AtomicUsize::new(shape.producers),
            published: CachePadded::new(AtomicU64::new(0)),
            closed: AtomicBool::new(false),
            // Rule 3.
            entries: (0..shape.groups + 2 + shape.producers).map(|_| RingEntry::new()).collect(),
            queue: Mutex::new(queue),
            references: (0..shape.producers).map(|_| CachePadded::new(Mutex::new(Arc::clone(&current)))).collect(),
            producers,
            consumers,
            readers: (0..shape.consumers).map(reader).collect(),
            groups: shape.groups,
            slots: shape.slots,
        }
    }

    pub(super) fn fresh(&self) -> Arc<Group<T>> {
        Arc::new(Group::new(self.slots))
    }

    fn lock(&self, stats: &mut HandleStats) -> MutexGuard<'_, Queue<T>> {
        stats.counts.locks += 1;
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the producer's reference.
    pub(super) fn reference(&self, producer: usize, stats: &mut HandleStats) -> Arc<Group<T>> {
        stats.counts.locks += 1;
        Arc::clone(&self.references[producer].lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Returns the number of published groups.
    pub(super) fn published(&self) -> u64 {
        self.published.load(order::observe())
    }

    /// Returns whether nothing more will be published. Call it before looking for a group.
    pub(super) fn is_closed(&self) -> bool {
        self.closed.load(order::closed())
    }

    /// Returns the entry of a group.
    pub(super) fn entry(&self, group: u64) -> &RingEntry<T> {
        &self.entries[(group % self.entries.len() as u64) as usize]
    }

    /// Publishes a group that is complete, and installs its replacement unless the ring is full.
    pub(super) fn publish(&self, group: Arc<Group<T>>, replacement: Arc<Group<T>>, stats: &mut HandleStats) {
        self.step(stats, |shared, queue, stats, news| {
            shared.put(queue, group, stats, news);
            queue.donated = Some(replacement);
            shared.install(queue, shared.groups, stats, news);
        });
    }

    /// Runs a step under the mutex, then wakes whom it concerns.
    fn step<R>(
        &self,
        stats: &mut HandleStats,
        f: impl FnOnce(&Self, &mut Queue<T>, &mut HandleStats, &mut News) -> R,
    ) -> R {
        let mut news = News::default();
        let result = f(self, &mut self.lock(stats), stats, &mut news);
        self.tell(news, stats);
        result
    }

    /// Keeps a value whose producer found no slot in `group`, unless the group was replaced since:
    /// then returns it. Rule 4.
    pub(super) fn leave_over(
        &self,
        producer: usize,
        group: &Arc<Group<T>>,
        value: T,
        stats: &mut HandleStats,
    ) -> Option<T> {
        let mut queue = self.lock(stats);
        if !Arc::ptr_eq(&self.reference(producer, stats), group) {
            return Some(value);
        }
        queue.leftovers.push_back(value);
        None
    }

    /// Publishes the leftovers even if the ring is full, on behalf of a producer with a value among
    /// them. Returns false if `group` was replaced since.
    pub(super) fn hurry(&self, producer: usize, group: &Arc<Group<T>>, stats: &mut HandleStats) -> bool {
        self.step(stats, |shared, queue, stats, news| {
            let waits = Arc::ptr_eq(&shared.reference(producer, stats), group);
            if waits {
                queue.hurry = true;
                shared.install(queue, shared.groups, stats, news);
            }
            waits
        })
    }

    /// Ends the input after the last producer has ended. Each has closed the group that had its
    /// last value, so only leftovers are not in the ring.
    pub(super) fn end(&self, stats: &mut HandleStats) {
        self.step(stats, |shared, queue, stats, news| {
            queue.ended = true;
            queue.hurry = true;
            shared.install(queue, shared.groups, stats, news);
            shared.closed.store(true, order::close());
            news.consumers = true;
        });
    }

    /// Frees the entry of a group that every consumer has left. Producers go on when the ring is
    /// half empty.
    pub(super) fn free(&self, group: u64, stats: &mut HandleStats) {
        self.free_those(stats, |shared, _, _, freed| freed.extend(shared.take(group)));
    }

    /// Leaves, for a consumer that is gone, the groups that it has not read. In one step: no group
    /// is published in between, so that entries are freed in order.
    pub(super) fn retire(&self, position: &Position, stats: &mut HandleStats) {
        self.free_those(stats, |shared, queue, stats, freed| {
            queue.live_consumers -= 1;
            for group in position.group..shared.published.load(Relaxed) {
                if shared.entry(group).leave(&mut stats.counts) {
                    freed.extend(shared.take(group));
                }
            }
        });
    }

    /// Takes a group out of its entry. The caller holds the mutex, and every consumer has left it.
    fn take(&self, group: u64) -> Option<Arc<Group<T>>> {
        // SAFETY: as the caller promises.
        unsafe { self.entry(group).take() }
    }

    /// Takes groups out of the ring in a step under the mutex, and drops their values after it.
    fn free_those(
        &self,
        stats: &mut HandleStats,
        f: impl FnOnce(&Self, &mut Queue<T>, &mut HandleStats, &mut Vec<Arc<Group<T>>>),
    ) {
        let (mut calls, mut freed) = (AllCalls::default(), Vec::new());
        calls.call(|| {
            self.step(stats, |shared, queue, stats, news| {
                f(shared, queue, stats, &mut freed);
                queue.occupied -= freed.len();
                shared.install(queue, shared.groups / 2 + 1, stats, news);
            });
        });
        for group in freed {
            // SAFETY: every consumer has left the group, and this thread has taken it out.
            calls.call(|| unsafe { group.clear() });
        }
        calls.finish();
    }

    /// Leaves a group on behalf of a consumer that has not left it, and frees it if that was the
    /// last one.
    pub(super) fn pass(&self, group: u64, stats: &mut HandleStats) {
        if self.entry(group).leave(&mut stats.counts) {
            self.free(group, stats);
        }
    }

    /// Puts a complete group in the ring. There is an entry for it: Rule 3.
    fn put(&self, queue: &mut Queue<T>, group: Arc<Group<T>>, stats: &mut HandleStats, news: &mut News) {
        group.set_full();
        let published = self.published.load(Relaxed);
        // SAFETY: the mutex is held.
        unsafe { self.entry(published).put(group, queue.live_consumers) };
        queue.occupied += 1;
        stats.counts.handoffs += 1;
        self.published.store(published + 1, order::publish());
        news.consumers = true;
    }

    /// Makes the donated group the one that is filled, if at most `most` groups are in the ring, or
    /// a leftover is in a hurry. Leftovers come first, then what producers send.
    fn install(&self, queue: &mut Queue<T>, most: usize, stats: &mut HandleStats, news: &mut News) {
        loop {
            queue.hurry &= !queue.leftovers.is_empty();
            let may = queue.hurry || (!queue.ended && queue.occupied <= most);
            let Some(group) = queue.donated.take_if(|_| may) else { return };
            let mut complete = false;
            while !complete && let Some(value) = queue.leftovers.pop_front() {
                let slot = group.claim(&mut stats.counts).expect("producers cannot claim its slots yet");
                // SAFETY: the slot was just claimed.
                unsafe { group.write(slot, value) };
                complete = group.complete(1, &mut stats.counts);
            }
            if queue.hurry && !complete {
                let rest = group.close(&mut stats.counts);
                complete = group.complete(rest, &mut stats.counts);
            }
            queue.current = Arc::clone(&group);
            if complete {
                self.put(queue, group, stats, news);
                queue.donated = Some(self.fresh());
                continue;
            }
            for reference in &self.references {
                stats.counts.locks += 1;
                *reference.lock().unwrap_or_else(PoisonError::into_inner) = Arc::clone(&group);
            }
            news.producers = true;
            return;
        }
    }

    /// Returns the oldest group in the ring, if producers wait for a free slot.
    pub(super) fn oldest_if_full(&self, stats: &mut HandleStats) -> Option<u64> {
        let queue = self.lock(stats);
        queue.donated.as_ref().map(|_| self.published.load(Relaxed) - queue.occupied as u64)
    }
}
