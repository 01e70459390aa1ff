//! Pages written in a simple way, for tests of their readers.
#![allow(dead_code, reason = "each test program uses its part")]

use annulus_pages::{
    memory::{Heap, PageMemory},
    page::{HEADER_BYTES, Header, MIN_PAGE_BYTES, Page, PageLayout, PageShape, PayloadSize},
};
use proptest::prelude::*;

/// The tuples of a page: key and payload of each.
pub type Rows = Vec<(u32, Vec<u8>)>;

/// Returns a page of `rows`, which fit, over memory full of `stale`.
pub fn page_of(shape: &PageShape, rows: &[(u32, Vec<u8>)], stale: u8) -> Page {
    let mut block = Heap::new(shape.page_bytes()).take().unwrap();
    let bytes = block.as_mut_slice();
    bytes.fill(stale);
    let mut end = shape.page_bytes();
    for (i, (key, payload)) in rows.iter().enumerate() {
        end -= payload.len();
        bytes[end..end + payload.len()].copy_from_slice(payload);
        let slot = HEADER_BYTES + i * shape.slot_bytes();
        let words = [*key, end as u32, payload.len() as u32];
        for (to, word) in bytes[slot..slot + shape.slot_bytes()].chunks_exact_mut(4).zip(words) {
            to.copy_from_slice(&word.to_le_bytes());
        }
    }
    let payload_bytes = shape.page_bytes() - end;
    assert!(shape.fits(rows.len(), payload_bytes));
    Page::complete(block, &Header::complete(shape, 7, 3, rows.len() as u32, payload_bytes as u32))
}

/// Generates a shape and tuples that fit on a page of it.
pub fn any_page() -> impl Strategy<Value = (PageShape, Rows)> {
    let shape = prop_oneof![
        (prop_oneof![Just(PageLayout::Slotted), Just(PageLayout::Compact)], 0_u32..70)
            .prop_map(|(layout, size)| (layout, PayloadSize::Fixed(size))),
        Just((PageLayout::Slotted, PayloadSize::Variable)),
    ];
    (shape, 1_usize..3, 0_usize..200).prop_flat_map(|((layout, payload), units, tuples)| {
        let shape = PageShape::new(units * MIN_PAGE_BYTES, layout, payload).unwrap();
        let length = match payload {
            PayloadSize::Fixed(size) => size as usize..=size as usize,
            PayloadSize::Variable => 0..=50,
        };
        let tuple = (any::<u32>(), prop::collection::vec(any::<u8>(), length));
        let fitting = move |mut rows: Rows| {
            while !shape.fits(rows.len(), rows.iter().map(|(_, payload)| payload.len()).sum()) {
                rows.pop();
            }
            (shape, rows)
        };
        prop::collection::vec(tuple, 0..=tuples).prop_map(fitting)
    })
}
