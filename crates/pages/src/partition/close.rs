//! The end of a shuffle: incomplete pages are merged into full pages and a last one. It runs in the
//! last writer, alone.
//!
//! A page is incomplete if it is the partition's current one, or if a writer left part of a claim
//! unwritten. The fullest pages are kept, and tuples of the others fill them (the idea of the
//! paper's merge, section 3.3.4).

use std::{cmp::Reverse, collections::BTreeSet, ops::Range};

use super::{
    shared::{Hole, PageSink, PartitionState, Shared},
    state::PageId,
};
use crate::page::{HEADER_BYTES, PageLayout, PayloadSize, SLOT_BYTES};

/// A page that is not complete, and its written tuples.
struct IncompletePage {
    page: PageId,
    live: Vec<Range<u32>>,
    tuples: u32,
}

/// A range of slots of one page, either filled or free.
struct Slots {
    page: PageId,
    tuples: Range<u32>,
}

/// Hands on the last pages of all partitions, unless the shuffle has failed. Pages that are not
/// handed on go back to the pool, even if the sink panics.
pub(super) fn close_all<S: PageSink>(shared: &Shared<S>) {
    let mut open = OpenPartitions { shared, partitions: 0..shared.partition_count() };
    while !shared.has_failed()
        && let Some(partition) = open.partitions.next()
    {
        close(shared, partition);
    }
}

/// The partitions that are neither closed nor discarded.
struct OpenPartitions<'a, S: PageSink> {
    shared: &'a Shared<S>,
    partitions: Range<usize>,
}

impl<S: PageSink> Drop for OpenPartitions<'_, S> {
    fn drop(&mut self) {
        self.partitions.by_ref().for_each(|partition| discard(self.shared, partition));
    }
}

/// Hands on the last pages of a partition.
fn close<S: PageSink>(shared: &Shared<S>, partition: usize) {
    let partition_state = &mut shared.partition(partition);
    let parts = incomplete(shared, partition, partition_state);
    settle(shared, partition, partition_state, parts);
}

/// Closes the `holes` of a complete page. Its tuples keep their order. Returns the number of tuples
/// and the bytes of their payloads.
pub(super) fn close_up<S: PageSink>(shared: &Shared<S>, page: PageId, mut holes: Vec<Hole>) -> (u32, u32) {
    let PayloadSize::Fixed(size) = shared.shape.payload() else { unreachable!("tuples of any size leave no holes") };
    holes.sort_by_key(|hole| hole.start);
    let mut end = 0;
    for live in part(shared, page, &holes).live {
        let tuples = end..end + (live.end - live.start);
        end = tuples.end;
        let (from, to) = (Slots { page, tuples: live }, Slots { page, tuples });
        // SAFETY: the page is complete, so this thread owns it alone.
        unsafe { copy_tuples(shared, size as usize, &from, &to, to.tuples.len()) };
    }
    (end, end * size)
}

/// Fills the fullest of the pages with the tuples of the others, and hands them on.
fn settle<S: PageSink>(
    shared: &Shared<S>,
    partition: usize,
    partition_state: &mut PartitionState,
    mut parts: Vec<IncompletePage>,
) {
    let PayloadSize::Fixed(size) = shared.shape.payload() else {
        // Claims of tuples of any size are written at once, so they leave no holes.
        for IncompletePage { page, tuples, .. } in parts {
            shared.number(
                partition,
                partition_state,
                shared.pool.block(page),
                tuples,
                shared.state.claimed(page).bytes(),
            );
        }
        return;
    };
    parts.sort_by_key(|part| Reverse(part.tuples));
    let capacity = shared.shape.capacity() as u32;
    let mut rest: u32 = parts.iter().map(|part| part.tuples).sum();
    let (mut room, mut movable) = (Vec::new(), Vec::new());
    let mut kept = Vec::new();
    for part in parts {
        // The number of tuples that this page will hold, from its first slot on.
        let target = rest.min(capacity);
        rest -= target;
        let beyond = part.live.iter().map(|live| live.start.max(target)..live.end).filter(|run| !run.is_empty());
        movable.extend(beyond.map(|tuples| Slots { page: part.page, tuples }));
        let mut next = 0;
        for (start, end) in part.live.iter().map(|live| (live.start, live.end)).chain([(target, target)]) {
            let gap = next..start.min(target);
            if !gap.is_empty() {
                room.push(Slots { page: part.page, tuples: gap });
            }
            next = end;
        }
        kept.push((part.page, target));
    }
    fill(shared, size as usize, room, movable);
    // As blocks, so that they go back to the pool if the sink panics before it gets them.
    let blocks: Vec<_> = kept.into_iter().map(|(page, tuples)| (shared.pool.block(page), tuples)).collect();
    for (block, tuples) in blocks {
        shared.number(partition, partition_state, block, tuples, tuples * size);
    }
}

/// Gives back the pages of a partition that are incomplete or wait for such pages.
fn discard<S: PageSink>(shared: &Shared<S>, partition: usize) {
    let partition_state = &mut shared.partition(partition);
    let incomplete = incomplete(shared, partition, partition_state).into_iter().map(|part| part.page);
    // Waiting pages may also have holes.
    let pages: BTreeSet<PageId> = incomplete.chain(partition_state.take_parked()).collect();
    pages.into_iter().for_each(|page| shared.pool.give_back_number(page));
}

fn incomplete<S: PageSink>(
    shared: &Shared<S>,
    partition: usize,
    partition_state: &mut PartitionState,
) -> Vec<IncompletePage> {
    let mut holes = std::mem::take(&mut partition_state.holes);
    holes.sort_by_key(|hole| (hole.page, hole.start));
    let last = shared.state.last(partition);
    let mut parts: Vec<IncompletePage> =
        holes.chunk_by(|a, b| a.page == b.page).map(|holes| part(shared, holes[0].page, holes)).collect();
    if let Some((page, _)) = last
        && parts.iter().all(|part| part.page != page)
    {
        parts.push(part(shared, page, &[]));
    }
    parts
}

fn part<S: PageSink>(shared: &Shared<S>, page: PageId, holes: &[Hole]) -> IncompletePage {
    let claimed = shared.state.claimed(page).tuples();
    let mut live = Vec::new();
    let mut next = 0;
    for (start, end) in holes.iter().map(|hole| (hole.start, hole.start + hole.tuples)).chain([(claimed, claimed)]) {
        if next < start {
            live.push(next..start);
        }
        next = end;
    }
    let tuples = live.iter().map(|run| run.end - run.start).sum();
    IncompletePage { page, live, tuples }
}

/// Moves tuples into the free slots. There are as many tuples as free slots.
fn fill<S: PageSink>(shared: &Shared<S>, size: usize, room: Vec<Slots>, movable: Vec<Slots>) {
    let mut movable = movable.into_iter();
    let mut from = Slots { page: 0, tuples: 0..0 };
    for mut to in room {
        while !to.tuples.is_empty() {
            if from.tuples.is_empty() {
                let Some(next) = movable.next() else {
                    debug_assert!(false, "fewer tuples than room");
                    return;
                };
                from = next;
            }
            let count = to.tuples.len().min(from.tuples.len()) as u32;
            // SAFETY: both ranges are on pages of this partition that no other thread uses any more.
            unsafe { copy_tuples(shared, size, &from, &to, count as usize) };
            from.tuples.start += count;
            to.tuples.start += count;
        }
    }
}

/// Copies the first `count` tuples of a range to another range.
///
/// # Safety
/// Both ranges are on pages of this shuffle, have `count` slots, and belong to the caller alone.
unsafe fn copy_tuples<S: PageSink>(shared: &Shared<S>, size: usize, from: &Slots, to: &Slots, count: usize) {
    let shape = &shared.shape;
    let slot = shape.slot_bytes();
    let place = |run: &Slots| {
        let first = run.tuples.start as usize;
        (shared.address(run.page).as_ptr(), HEADER_BYTES + first * slot, shape.page_bytes() - (first + count) * size)
    };
    let (from, from_slot, from_data) = place(from);
    let (to, to_slot, to_data) = place(to);
    // SAFETY: the caller's promises, and slots and data are where the shape has them.
    unsafe {
        to.add(to_slot).copy_from(from.add(from_slot), count * slot);
        to.add(to_data).copy_from(from.add(from_data), count * size);
        if shape.layout() == PageLayout::Slotted {
            for index in 0..count {
                let offset = (to_data + (count - 1 - index) * size) as u32;
                to.add(to_slot + index * SLOT_BYTES + 4).cast::<[u8; 4]>().write(offset.to_le_bytes());
            }
        }
    }
}
