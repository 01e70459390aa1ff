//! The shape of pages, which determines how many tuples fit. Pure arithmetic.

use super::HEADER_BYTES;
use crate::{error::PagesError, memory::check_page_bytes};

/// The bytes of a slot of a slotted page: key, offset, length.
pub const SLOT_BYTES: usize = 12;
/// The number of tuples in a group. Tuples of one size fill a page in groups, so that slots and
/// data end on cache lines: 16 slots are three lines, and 16 keys are one line. 16 tuples of a
/// multiple of four bytes are whole lines.
pub const GROUP: usize = 16;

/// The content of a slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u16)]
pub enum PageLayout {
    /// The key, the offset and the length.
    Slotted = 0,
    /// Only the key. All tuples have one size.
    Compact = 1,
}

/// The bytes of a tuple besides its key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum PayloadSize {
    /// Every tuple has this number of bytes.
    Fixed(u32),
    /// Each tuple has its own size.
    Variable,
}

/// The shape that all pages of a shuffle have.
///
/// ```
/// use annulus_pages::{PageLayout, PageShape, PayloadSize};
///
/// let shape = PageShape::new(4096, PageLayout::Compact, PayloadSize::Fixed(12))?;
/// assert_eq!(shape.capacity(), 240); // tuples of 16 bytes with their keys
/// assert!(PageShape::new(4096, PageLayout::Compact, PayloadSize::Variable).is_err());
/// # Ok::<(), annulus_pages::PagesError>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct PageShape {
    page_bytes: u32,
    layout: PageLayout,
    payload: PayloadSize,
    /// The number of tuples on a full page. With payloads of any size, the largest possible number.
    capacity: u32,
}

impl PageShape {
    /// Creates the shape of pages of `page_bytes`, a multiple of 4 KiB from
    /// [`MIN_PAGE_BYTES`](super::MIN_PAGE_BYTES) to [`MAX_PAGE_BYTES`](super::MAX_PAGE_BYTES).
    ///
    /// # Errors
    /// [`PagesError::Shape`] for any other size, for compact pages with payloads of any size, and
    /// if not even one tuple fits.
    pub fn new(page_bytes: usize, layout: PageLayout, payload: PayloadSize) -> Result<Self, PagesError> {
        let refuse = |reason| Err(PagesError::Shape { page_bytes, reason });
        check_page_bytes(page_bytes)?;
        if layout == PageLayout::Compact && payload == PayloadSize::Variable {
            return refuse("the compact layout is for tuples of one size: use the slotted one");
        }
        let mut shape = Self { page_bytes: page_bytes as u32, layout, payload, capacity: 0 };
        let smallest = match payload {
            PayloadSize::Fixed(bytes) => bytes as usize,
            PayloadSize::Variable => 0,
        };
        if smallest > shape.most_payload() {
            return refuse("not even one tuple fits: use larger pages");
        }
        let most = (page_bytes - HEADER_BYTES) / (shape.slot_bytes() + smallest);
        let in_groups = matches!(payload, PayloadSize::Fixed(_)) && most >= GROUP;
        shape.capacity = if in_groups { most / GROUP * GROUP } else { most } as u32;
        Ok(shape)
    }

    /// Returns the bytes of a page.
    #[inline]
    pub fn page_bytes(&self) -> usize {
        self.page_bytes as usize
    }

    /// Returns the content of its slots.
    #[inline]
    pub fn layout(&self) -> PageLayout {
        self.layout
    }

    /// Returns the bytes of tuples besides their keys.
    #[inline]
    pub fn payload(&self) -> PayloadSize {
        self.payload
    }

    /// Returns the bytes of a slot.
    #[inline]
    pub fn slot_bytes(&self) -> usize {
        match self.layout {
            PageLayout::Slotted => SLOT_BYTES,
            PageLayout::Compact => 4,
        }
    }

    /// Returns the number of tuples on a full page. If they have one size, it is a multiple of
    /// [`GROUP`], if there is room for one group. With payloads of any size, it is the number of
    /// empty payloads that fit.
    #[inline]
    pub fn capacity(&self) -> usize {
        self.capacity as usize
    }

    /// Returns the bytes of the largest payload that fits on an empty page.
    #[inline]
    pub fn most_payload(&self) -> usize {
        self.page_bytes() - HEADER_BYTES - self.slot_bytes()
    }

    /// Returns whether a page has room for `tuples` tuples with `payload_bytes` bytes together.
    #[inline]
    pub fn fits(&self, tuples: usize, payload_bytes: usize) -> bool {
        tuples <= self.capacity() && HEADER_BYTES + tuples * self.slot_bytes() + payload_bytes <= self.page_bytes()
    }

    /// Returns the number of pages that `tuples` tuples of one size need.
    pub fn pages_for(&self, tuples: usize) -> usize {
        tuples.div_ceil(self.capacity())
    }
}
