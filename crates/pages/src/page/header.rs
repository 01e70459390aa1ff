//! The first 64 bytes of a page.

use super::layout::{PageLayout, PageShape, PayloadSize};

/// The bytes of the header: one cache line.
pub const HEADER_BYTES: usize = 64;
/// "AnPg", the first four bytes of every page.
pub const MAGIC: u32 = u32::from_le_bytes(*b"AnPg");
/// The version of the format.
pub const VERSION: u16 = 1;
/// The value of `fixed_bytes` for a page whose tuples vary in size.
pub(super) const ANY_SIZE: u32 = u32::MAX;

/// The header of a page. On the page all numbers are little-endian.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
pub struct Header {
    /// [`MAGIC`].
    pub magic: u32,
    /// [`VERSION`].
    pub version: u16,
    /// The [`PageLayout`] as a number.
    pub layout: u16,
    /// The size of the page.
    pub page_bytes: u32,
    /// The partition of all its tuples.
    pub partition: u32,
    /// The position among the partition's pages, from 0.
    pub sequence: u32,
    /// The number of tuples that have a place.
    pub claimed: u32,
    /// The number of tuples that are written. The page may be handed on when this equals `claimed`.
    pub completed: u32,
    /// The bytes of tuple data at the end of the page.
    pub payload_bytes: u32,
    /// The bytes of every tuple's data, or `u32::MAX` if each has its own size.
    pub fixed_bytes: u32,
    /// Reserved: 0.
    pub flags: u32,
    /// The meaning of the tuples' data, on which writer and reader agree.
    pub schema_id: u64,
    /// The checksum of the page, or 0 while it has none.
    pub checksum: u64,
    /// Reserved: 0.
    pub reserved: u64,
}

const _: () = {
    use std::mem::{align_of, offset_of, size_of};
    assert!(size_of::<Header>() == HEADER_BYTES && align_of::<Header>() == 8);
    assert!(offset_of!(Header, page_bytes) == 8 && offset_of!(Header, claimed) == 20);
    assert!(offset_of!(Header, completed) == 24 && offset_of!(Header, fixed_bytes) == 32);
    assert!(offset_of!(Header, schema_id) == 40 && offset_of!(Header, checksum) == 48);
};

impl Header {
    /// Creates the header of a page with `tuples` tuples that have `payload_bytes` bytes together.
    pub fn complete(shape: &PageShape, partition: u32, sequence: u32, tuples: u32, payload_bytes: u32) -> Self {
        let fixed_bytes = match shape.payload() {
            PayloadSize::Fixed(bytes) => bytes,
            PayloadSize::Variable => ANY_SIZE,
        };
        Self {
            magic: MAGIC,
            version: VERSION,
            layout: shape.layout() as u16,
            page_bytes: shape.page_bytes() as u32,
            partition,
            sequence,
            claimed: tuples,
            completed: tuples,
            payload_bytes,
            fixed_bytes,
            flags: 0,
            schema_id: 0,
            checksum: 0,
            reserved: 0,
        }
    }

    /// Returns the header as the bytes on a page.
    pub fn to_bytes(&self) -> [u8; HEADER_BYTES] {
        let mut bytes = [0; HEADER_BYTES];
        bytes[0..4].copy_from_slice(&self.magic.to_le_bytes());
        bytes[4..6].copy_from_slice(&self.version.to_le_bytes());
        bytes[6..8].copy_from_slice(&self.layout.to_le_bytes());
        let words = [
            self.page_bytes,
            self.partition,
            self.sequence,
            self.claimed,
            self.completed,
            self.payload_bytes,
            self.fixed_bytes,
            self.flags,
        ];
        for (to, word) in bytes[8..40].chunks_exact_mut(4).zip(words) {
            to.copy_from_slice(&word.to_le_bytes());
        }
        for (to, word) in bytes[40..64].chunks_exact_mut(8).zip([self.schema_id, self.checksum, self.reserved]) {
            to.copy_from_slice(&word.to_le_bytes());
        }
        bytes
    }

    /// Reads the header of a page. Nothing is checked.
    pub fn from_bytes(bytes: &[u8; HEADER_BYTES]) -> Self {
        let word = |at: usize| u32::from_le_bytes(std::array::from_fn(|i| bytes[at + i]));
        let half = |at: usize| u16::from_le_bytes([bytes[at], bytes[at + 1]]);
        let long = |at: usize| u64::from_le_bytes(std::array::from_fn(|i| bytes[at + i]));
        Self {
            magic: word(0),
            version: half(4),
            layout: half(6),
            page_bytes: word(8),
            partition: word(12),
            sequence: word(16),
            claimed: word(20),
            completed: word(24),
            payload_bytes: word(28),
            fixed_bytes: word(32),
            flags: word(36),
            schema_id: long(40),
            checksum: long(48),
            reserved: long(56),
        }
    }

    /// Returns the layout, if the number is that of one.
    pub fn layout(&self) -> Option<PageLayout> {
        [PageLayout::Slotted, PageLayout::Compact].into_iter().find(|&layout| layout as u16 == self.layout)
    }

    /// Returns the size of payloads.
    pub fn payload(&self) -> PayloadSize {
        if self.fixed_bytes == ANY_SIZE { PayloadSize::Variable } else { PayloadSize::Fixed(self.fixed_bytes) }
    }
}
