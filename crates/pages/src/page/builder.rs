//! A builder for a page that one thread fills alone.

use super::{Block, HEADER_BYTES, Header, Page, PageLayout, PageShape, PayloadSize};
use crate::error::PagesError;

/// A page that one thread fills with tuples one by one, without any protocol. The example of the
/// [module](super) uses it.
#[derive(Debug)]
pub struct PageBuilder {
    block: Block,
    shape: PageShape,
    tuples: usize,
    payload_bytes: usize,
}

impl PageBuilder {
    /// Begins a page of this shape in `block`.
    ///
    /// # Errors
    /// [`PagesError::Shape`] if the block has another size.
    pub fn new(block: Block, shape: PageShape) -> Result<Self, PagesError> {
        if block.len() != shape.page_bytes() {
            let reason = "its memory has another size; take it from a source of such pages";
            return Err(PagesError::Shape { page_bytes: shape.page_bytes(), reason });
        }
        Ok(Self { block, shape, tuples: 0, payload_bytes: 0 })
    }

    /// Adds a tuple. Returns false if the page has no room for it.
    ///
    /// # Errors
    /// [`PagesError::TupleTooLarge`] if it would not fit on an empty page, and
    /// [`PagesError::Batch`] if the shape has tuples of one size and this one has another.
    pub fn push(&mut self, key: u32, payload: &[u8]) -> Result<bool, PagesError> {
        if let PayloadSize::Fixed(bytes) = self.shape.payload()
            && bytes as usize != payload.len()
        {
            return Err(PagesError::Batch { what: "a payload of another size than the page's" });
        }
        let payload_bytes = self.payload_bytes + payload.len();
        if !self.shape.fits(self.tuples + 1, payload_bytes) {
            let most = self.shape.most_payload();
            let too_large = PagesError::TupleTooLarge { payload_bytes: payload.len(), most };
            return if payload.len() > most { Err(too_large) } else { Ok(false) };
        }
        let page = self.block.as_mut_slice();
        let offset = page.len() - payload_bytes;
        page[offset..offset + payload.len()].copy_from_slice(payload);
        let slot = HEADER_BYTES + self.tuples * self.shape.slot_bytes();
        page[slot..slot + 4].copy_from_slice(&key.to_le_bytes());
        if self.shape.layout() == PageLayout::Slotted {
            page[slot + 4..slot + 8].copy_from_slice(&(offset as u32).to_le_bytes());
            page[slot + 8..slot + 12].copy_from_slice(&(payload.len() as u32).to_le_bytes());
        }
        (self.tuples, self.payload_bytes) = (self.tuples + 1, payload_bytes);
        Ok(true)
    }

    /// Completes the page as page number `sequence` of `partition`.
    pub fn complete(self, partition: u32, sequence: u32) -> Page {
        let (tuples, payload_bytes) = (self.tuples as u32, self.payload_bytes as u32);
        let header = Header::complete(&self.shape, partition, sequence, tuples, payload_bytes);
        Page::complete(self.block, &header)
    }
}
