//! The end of a shuffle: pages that are not complete become full ones and a last one. Runs in the
//! last writer, alone.
//!
//! A page is incomplete because it is the lane's current one, or because a writer left part of a
//! claim unwritten. The fullest pages are kept, and tuples of the others fill them (the idea of the
//! paper's merge, section 3.3.4).

use std::{cmp::Reverse, collections::BTreeSet, ops::Range};

use super::{
    shared::{Hole, Lane, PageSink, Shared},
    state::PageId,
};
use crate::page::{HEADER_BYTES, Layout, PayloadSize, SLOT_BYTES};

/// A page that is not complete, and which of its tuples are written.
struct Part {
    page: PageId,
    live: Vec<Range<u32>>,
    tuples: u32,
}

/// Tuples of one page, or room for them.
struct Run {
    page: PageId,
    tuples: Range<u32>,
}

/// Hands on the last pages of all lanes, unless the shuffle has failed. What is not handed on goes
/// back, if the sink panics, too.
pub(super) fn close_all<S: PageSink>(shared: &Shared<S>) {
    let mut open = OpenLanes { shared, lanes: 0..shared.lanes() };
    while !shared.has_failed()
        && let Some(lane) = open.lanes.next()
    {
        close(shared, lane);
    }
}

/// Lanes that are neither closed nor discarded.
struct OpenLanes<'a, S: PageSink> {
    shared: &'a Shared<S>,
    lanes: Range<usize>,
}

impl<S: PageSink> Drop for OpenLanes<'_, S> {
    fn drop(&mut self) {
        self.lanes.by_ref().for_each(|lane| discard(self.shared, lane));
    }
}

/// Hands on the lane's last pages.
fn close<S: PageSink>(shared: &Shared<S>, lane: usize) {
    let lane_state = &mut shared.lane(lane);
    let parts = incomplete(shared, lane, lane_state);
    settle(shared, lane, lane_state, parts);
}

/// Closes up the `holes` of a complete page; its tuples keep their order. Returns their number and
/// their payloads' bytes.
pub(super) fn close_up<S: PageSink>(shared: &Shared<S>, page: PageId, mut holes: Vec<Hole>) -> (u32, u32) {
    let PayloadSize::Fixed(size) = shared.shape.payload() else { unreachable!("tuples of any size leave no holes") };
    holes.sort_by_key(|hole| hole.start);
    let mut end = 0;
    for live in part(shared, page, &holes).live {
        let tuples = end..end + (live.end - live.start);
        end = tuples.end;
        let (from, to) = (Run { page, tuples: live }, Run { page, tuples });
        // SAFETY: the page is complete, and so this thread's alone.
        unsafe { copy_tuples(shared, size as usize, &from, &to, to.tuples.len()) };
    }
    (end, end * size)
}

/// Fills the fullest of the pages with the tuples of the others, and hands them on.
fn settle<S: PageSink>(shared: &Shared<S>, lane: usize, lane_state: &mut Lane, mut parts: Vec<Part>) {
    let PayloadSize::Fixed(size) = shared.shape.payload() else {
        // Claims of tuples of any size are written at once, so that there are no holes.
        for Part { page, tuples, .. } in parts {
            shared.number(lane, lane_state, shared.pool.block(page), tuples, shared.state.claimed(page).bytes());
        }
        return;
    };
    parts.sort_by_key(|part| Reverse(part.tuples));
    let capacity = shared.shape.capacity() as u32;
    let mut rest: u32 = parts.iter().map(|part| part.tuples).sum();
    let (mut room, mut movable) = (Vec::new(), Vec::new());
    let mut kept = Vec::new();
    for part in parts {
        // What this page will hold, from its first slot on.
        let target = rest.min(capacity);
        rest -= target;
        let beyond = part.live.iter().map(|live| live.start.max(target)..live.end).filter(|run| !run.is_empty());
        movable.extend(beyond.map(|tuples| Run { page: part.page, tuples }));
        let mut next = 0;
        for (start, end) in part.live.iter().map(|live| (live.start, live.end)).chain([(target, target)]) {
            let gap = next..start.min(target);
            if !gap.is_empty() {
                room.push(Run { page: part.page, tuples: gap });
            }
            next = end;
        }
        kept.push((part.page, target));
    }
    fill(shared, size as usize, room, movable);
    // Blocks, so that those behind one at which the sink panics go back.
    let blocks: Vec<_> = kept.into_iter().map(|(page, tuples)| (shared.pool.block(page), tuples)).collect();
    for (block, tuples) in blocks {
        shared.number(lane, lane_state, block, tuples, tuples * size);
    }
}

/// Gives back the pages of a lane that are not complete, or wait for such.
fn discard<S: PageSink>(shared: &Shared<S>, lane: usize) {
    let lane_state = &mut shared.lane(lane);
    let incomplete = incomplete(shared, lane, lane_state).into_iter().map(|part| part.page);
    // Pages that wait may have holes, too.
    let pages: BTreeSet<PageId> = incomplete.chain(lane_state.take_parked()).collect();
    pages.into_iter().for_each(|page| shared.pool.give_back_number(page));
}

fn incomplete<S: PageSink>(shared: &Shared<S>, lane: usize, lane_state: &mut Lane) -> Vec<Part> {
    let mut holes = std::mem::take(&mut lane_state.holes);
    holes.sort_by_key(|hole| (hole.page, hole.start));
    let last = shared.state.last(lane);
    let mut parts: Vec<Part> =
        holes.chunk_by(|a, b| a.page == b.page).map(|holes| part(shared, holes[0].page, holes)).collect();
    if let Some((page, _)) = last
        && parts.iter().all(|part| part.page != page)
    {
        parts.push(part(shared, page, &[]));
    }
    parts
}

fn part<S: PageSink>(shared: &Shared<S>, page: PageId, holes: &[Hole]) -> Part {
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
    Part { page, live, tuples }
}

/// Moves tuples into the room; there are as many as there is room for.
fn fill<S: PageSink>(shared: &Shared<S>, size: usize, room: Vec<Run>, movable: Vec<Run>) {
    let mut movable = movable.into_iter();
    let mut from = Run { page: 0, tuples: 0..0 };
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
            // SAFETY: both runs are on pages of this lane that nobody else uses any more.
            unsafe { copy_tuples(shared, size, &from, &to, count as usize) };
            from.tuples.start += count;
            to.tuples.start += count;
        }
    }
}

/// Copies the first `count` tuples of a run over those of another.
///
/// # Safety
/// Both runs are on pages of this shuffle, have so many tuples, and are the caller's alone.
unsafe fn copy_tuples<S: PageSink>(shared: &Shared<S>, size: usize, from: &Run, to: &Run, count: usize) {
    let shape = &shared.shape;
    let slot = shape.slot_bytes();
    let place = |run: &Run| {
        let first = run.tuples.start as usize;
        (shared.address(run.page).as_ptr(), HEADER_BYTES + first * slot, shape.page_bytes() - (first + count) * size)
    };
    let (from, from_slot, from_data) = place(from);
    let (to, to_slot, to_data) = place(to);
    // SAFETY: the caller's promises; slots and data are where the shape has them.
    unsafe {
        to.add(to_slot).copy_from(from.add(from_slot), count * slot);
        to.add(to_data).copy_from(from.add(from_data), count * size);
        if shape.layout() == Layout::Slotted {
            for index in 0..count {
                let offset = (to_data + (count - 1 - index) * size) as u32;
                to.add(to_slot + index * SLOT_BYTES + 4).cast::<[u8; 4]>().write(offset.to_le_bytes());
            }
        }
    }
}
