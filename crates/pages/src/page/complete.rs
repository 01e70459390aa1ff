//! A complete page.

use super::{HEADER_BYTES, Header};
use crate::memory::Block;

/// A complete page: its header is written, and so are all its tuples.
#[derive(Debug)]
pub struct Page {
    block: Block,
}

impl Page {
    /// Completes a page: writes the header after all tuples are written.
    pub fn complete(mut block: Block, header: &Header) -> Self {
        block.as_mut_slice()[..HEADER_BYTES].copy_from_slice(&header.to_bytes());
        Self { block }
    }

    /// Returns the header.
    pub fn header(&self) -> Header {
        Header::from_bytes(self.bytes().first_chunk().expect("a page is larger than its header"))
    }

    /// Returns the whole page. The bytes between the slots and the data are left from the memory's
    /// previous use.
    pub fn bytes(&self) -> &[u8] {
        self.block.as_slice()
    }

    /// Returns the whole page, to seal it.
    pub(super) fn bytes_mut(&mut self) -> &mut [u8] {
        self.block.as_mut_slice()
    }
}
