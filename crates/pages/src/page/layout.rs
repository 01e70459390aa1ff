//! How many tuples fit where. Pure arithmetic.

use super::HEADER_BYTES;
use crate::error::PagesError;

/// Smallest page.
pub const MIN_PAGE_BYTES: usize = 4 << 10;
/// Largest page.
pub const MAX_PAGE_BYTES: usize = 64 << 20;
/// Bytes of a slot of a slotted page: key, offset, length.
pub const SLOT_BYTES: usize = 12;
/// Tuples of one size fill a page in groups of this many, so that slots and data end on cache
/// lines: 16 slots are three lines, 16 keys one, and 16 tuples of any multiple of four bytes whole
/// lines.
pub const GROUP: usize = 16;

/// What a slot holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u16)]
pub enum Layout {
    /// Key, offset and length.
    Slotted = 0,
    /// The key alone; all tuples have one size.
    Compact = 1,
}

/// The bytes of a tuple besides its key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum PayloadSize {
    /// The same for every tuple.
    Fixed(u32),
    /// Each its own.
    Variable,
}

/// The shape that all pages of a shuffle have.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct PageShape {
    page_bytes: u32,
    layout: Layout,
    payload: PayloadSize,
    /// Tuples on a full page; with payloads of any size, the most that there can be.
    capacity: u32,
}

impl PageShape {
    /// Pages of `page_bytes`, a multiple of 4 KiB from [`MIN_PAGE_BYTES`] to [`MAX_PAGE_BYTES`].
    ///
    /// # Errors
    /// If the size is another, a compact page is asked for with payloads of any size, or not even
    /// one tuple fits.
    pub fn new(page_bytes: usize, layout: Layout, payload: PayloadSize) -> Result<Self, PagesError> {
        let refuse = |reason| Err(PagesError::Shape { page_bytes, reason });
        if !(MIN_PAGE_BYTES..=MAX_PAGE_BYTES).contains(&page_bytes) || !page_bytes.is_multiple_of(MIN_PAGE_BYTES) {
            return refuse("the size must be a multiple of 4 KiB between 4 KiB and 64 MiB");
        }
        if layout == Layout::Compact && payload == PayloadSize::Variable {
            return refuse("the compact layout is for tuples of one size; use the slotted one");
        }
        let mut shape = Self { page_bytes: page_bytes as u32, layout, payload, capacity: 0 };
        let smallest = match payload {
            PayloadSize::Fixed(bytes) => bytes as usize,
            PayloadSize::Variable => 0,
        };
        if smallest > shape.most_payload() {
            return refuse("not even one tuple fits; use larger pages");
        }
        let most = (page_bytes - HEADER_BYTES) / (shape.slot_bytes() + smallest);
        let in_groups = matches!(payload, PayloadSize::Fixed(_)) && most >= GROUP;
        shape.capacity = if in_groups { most / GROUP * GROUP } else { most } as u32;
        Ok(shape)
    }

    /// Bytes of a page.
    #[inline]
    pub fn page_bytes(&self) -> usize {
        self.page_bytes as usize
    }

    /// What its slots hold.
    #[inline]
    pub fn layout(&self) -> Layout {
        self.layout
    }

    /// The tuples' bytes besides their keys.
    #[inline]
    pub fn payload(&self) -> PayloadSize {
        self.payload
    }

    /// Bytes of a slot.
    #[inline]
    pub fn slot_bytes(&self) -> usize {
        match self.layout {
            Layout::Slotted => SLOT_BYTES,
            Layout::Compact => 4,
        }
    }

    /// Tuples on a full page of tuples of one size (whole groups of [`GROUP`], if there is room for
    /// one); with payloads of any size, how many empty ones would fit.
    #[inline]
    pub fn capacity(&self) -> usize {
        self.capacity as usize
    }

    /// The largest payload that an empty page takes.
    #[inline]
    pub fn most_payload(&self) -> usize {
        self.page_bytes() - HEADER_BYTES - self.slot_bytes()
    }

    /// Whether a page has room for `tuples` tuples with `payload_bytes` bytes altogether.
    #[inline]
    pub fn fits(&self, tuples: usize, payload_bytes: usize) -> bool {
        tuples <= self.capacity() && HEADER_BYTES + tuples * self.slot_bytes() + payload_bytes <= self.page_bytes()
    }

    /// Pages that `tuples` tuples of one size need.
    pub fn pages_for(&self, tuples: usize) -> usize {
        tuples.div_ceil(self.capacity())
    }
}
