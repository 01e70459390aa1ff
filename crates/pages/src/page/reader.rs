//! A reader of pages that may come from anywhere: another host, a file, a fuzzer.

use super::{
    GROUP, HEADER_BYTES, Header, MAGIC, Page, PageError, PageLayout, PageShape, PayloadSize, SLOT_BYTES, VERSION,
    seal::checksum,
};

/// A valid page: its header and every slot have been checked.
///
/// ```
/// use annulus_pages::page::{PageError, PageReader};
///
/// assert_eq!(PageReader::new(b"GIF89a").unwrap_err(), PageError::Length { bytes: 6, expected: 64 });
/// ```
#[derive(Clone, Copy, Debug)]
pub struct PageReader<'a> {
    bytes: &'a [u8],
    header: Header,
    /// The slots in use.
    slots: &'a [u8],
    slot_bytes: usize,
    payload: PayloadSize,
}

impl<'a> PageReader<'a> {
    /// Checks `bytes`, which need not be a page. O(tuples) for a slotted page, O(1) for a compact
    /// one. If there is a checksum, it also takes one pass over the page.
    ///
    /// # Errors
    /// A [`PageError`] with the reason why the page is invalid.
    pub fn new(bytes: &'a [u8]) -> Result<Self, PageError> {
        let (header, shape) = checked_header(bytes)?;
        if header.checksum != 0 {
            let found = checksum(&header, &bytes[HEADER_BYTES..]);
            if found != header.checksum {
                return Err(PageError::Checksum { expected: header.checksum, found });
            }
        }
        let tuples = header.completed as usize;
        let slot_bytes = shape.slot_bytes();
        let slots = &bytes[HEADER_BYTES..HEADER_BYTES + tuples * slot_bytes];
        let reader = Self { bytes, header, slots, slot_bytes, payload: shape.payload() };
        if shape.layout() == PageLayout::Slotted {
            match shape.payload() {
                PayloadSize::Fixed(size) => reader.check_fixed_slots(size)?,
                PayloadSize::Variable => reader.check_slots()?,
            }
        }
        Ok(reader)
    }

    /// Checks `bytes` like [`new`](Self::new), and that the page was sealed: for bytes from a wire
    /// or a disk.
    ///
    /// # Errors
    /// Those of [`new`](Self::new), and [`PageError::Unsealed`].
    pub fn sealed(bytes: &'a [u8]) -> Result<Self, PageError> {
        let page = Self::new(bytes)?;
        if page.header.checksum == 0 { Err(PageError::Unsealed) } else { Ok(page) }
    }

    /// Returns the header.
    pub fn header(&self) -> &Header {
        &self.header
    }

    /// Returns the whole page.
    pub fn bytes(&self) -> &'a [u8] {
        self.bytes
    }

    /// Returns the slots in use.
    pub(super) fn slots(&self) -> &'a [u8] {
        self.slots
    }

    /// Returns the number of tuples.
    pub fn len(&self) -> usize {
        self.header.completed as usize
    }

    /// Returns whether there are no tuples.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns the key of tuple `index`.
    ///
    /// # Panics
    /// If tuple `index` does not exist.
    #[inline]
    pub fn key(&self, index: usize) -> u32 {
        word(&self.slots[index * self.slot_bytes..], 0)
    }

    /// Returns the data of tuple `index`.
    ///
    /// # Panics
    /// If tuple `index` does not exist.
    #[inline]
    pub fn payload(&self, index: usize) -> &'a [u8] {
        assert!(index < self.len(), "tuple {index} of {}", self.len());
        match self.payload {
            PayloadSize::Fixed(size) => {
                let end = self.bytes.len() - index * size as usize;
                &self.bytes[end - size as usize..end]
            }
            PayloadSize::Variable => {
                let (offset, length) = place(&self.slots[index * SLOT_BYTES..]);
                &self.bytes[offset as usize..][..length as usize]
            }
        }
    }

    /// Returns the key and the data of all tuples, in the order of their slots.
    #[inline]
    pub fn tuples(&self) -> PageTuples<'a> {
        PageTuples { page: *self, next: 0 }
    }

    /// Checks that each tuple is at the place that follows from its number.
    fn check_fixed_slots(&self, size: u32) -> Result<(), PageError> {
        let mut end = self.header.page_bytes;
        for (tuple, slot) in self.slots.chunks_exact(SLOT_BYTES).enumerate() {
            // All tuples fit, so this does not wrap.
            end -= size;
            let (offset, length) = place(slot);
            if (offset, length) != (end, size) {
                return Err(PageError::Slot { tuple, offset, length });
            }
        }
        Ok(())
    }

    /// Checks that each tuple is within the data, and that their lengths add up to its size.
    fn check_slots(&self) -> Result<(), PageError> {
        let end = u64::from(self.header.page_bytes);
        let start = self.header.page_bytes - self.header.payload_bytes;
        let mut sum = 0;
        // Groups are checked as a whole, without a branch for each slot.
        for (group, slots) in self.slots.chunks(GROUP * SLOT_BYTES).enumerate() {
            let mut inside = true;
            for (offset, length) in slots.chunks_exact(SLOT_BYTES).map(place) {
                inside &= offset >= start && u64::from(offset) + u64::from(length) <= end;
                sum += u64::from(length);
            }
            if !inside {
                let slots = slots.chunks_exact(SLOT_BYTES).map(place).enumerate();
                let outside = |&(_, (offset, length)): &(usize, (u32, u32))| {
                    offset < start || u64::from(offset) + u64::from(length) > end
                };
                let (at, (offset, length)) = slots.into_iter().find(outside).expect("one of the group is outside");
                return Err(PageError::Slot { tuple: group * GROUP + at, offset, length });
            }
        }
        if sum == u64::from(self.header.payload_bytes) {
            Ok(())
        } else {
            Err(PageError::Sum { sum, payload_bytes: self.header.payload_bytes })
        }
    }
}

impl Page {
    /// Returns a reader of the page. O(tuples) for a slotted page.
    ///
    /// # Errors
    /// Those of [`PageReader::new`], if the page's writer broke the rules.
    pub fn reader(&self) -> Result<PageReader<'_>, PageError> {
        PageReader::new(self.bytes())
    }
}

/// An iterator over the tuples of a page: key and data of each.
#[derive(Clone, Debug)]
pub struct PageTuples<'a> {
    page: PageReader<'a>,
    next: usize,
}

impl<'a> Iterator for PageTuples<'a> {
    type Item = (u32, &'a [u8]);

    #[inline]
    fn next(&mut self) -> Option<Self::Item> {
        if self.next == self.page.len() {
            return None;
        }
        let index = self.next;
        self.next += 1;
        Some((self.page.key(index), self.page.payload(index)))
    }

    #[inline]
    fn size_hint(&self) -> (usize, Option<usize>) {
        let left = self.page.len() - self.next;
        (left, Some(left))
    }

    /// Folds all tuples. It is faster than repeated `next`, since it checks the kind of page once.
    #[inline]
    fn fold<B, F: FnMut(B, Self::Item) -> B>(self, init: B, mut f: F) -> B {
        let Self { page, next } = self;
        let slots = page.slots[next * page.slot_bytes..].chunks_exact(page.slot_bytes);
        match page.payload {
            PayloadSize::Fixed(0) => slots.fold(init, |folded, slot| f(folded, (word(slot, 0), &[]))),
            PayloadSize::Fixed(size) => {
                let data = page.bytes[..page.bytes.len() - next * size as usize].rchunks_exact(size as usize);
                slots.zip(data).fold(init, |folded, (slot, payload)| f(folded, (word(slot, 0), payload)))
            }
            PayloadSize::Variable => slots.fold(init, |folded, slot| {
                let (offset, length) = place(slot);
                f(folded, (word(slot, 0), &page.bytes[offset as usize..][..length as usize]))
            }),
        }
    }
}

impl ExactSizeIterator for PageTuples<'_> {}

/// Checks the header, and that slots and data fit on the page.
fn checked_header(bytes: &[u8]) -> Result<(Header, PageShape), PageError> {
    let start = bytes.first_chunk().ok_or(PageError::Length { bytes: bytes.len(), expected: HEADER_BYTES })?;
    let header = Header::from_bytes(start);
    if header.magic != MAGIC {
        return Err(PageError::Magic(header.magic));
    }
    if header.version != VERSION {
        return Err(PageError::Version(header.version));
    }
    let field = |field, value| PageError::Field { field, value };
    let layout = header.layout().ok_or(field("layout", u64::from(header.layout)))?;
    if header.flags != 0 {
        return Err(field("flags", u64::from(header.flags)));
    }
    if header.reserved != 0 {
        return Err(field("reserved", header.reserved));
    }
    if header.page_bytes as usize != bytes.len() {
        return Err(PageError::Length { bytes: bytes.len(), expected: header.page_bytes as usize });
    }
    let shape = PageShape::new(bytes.len(), layout, header.payload())?;
    let Header { claimed, completed, payload_bytes, .. } = header;
    if claimed != completed {
        return Err(PageError::Incomplete { claimed, completed });
    }
    let exact = match shape.payload() {
        PayloadSize::Fixed(size) => u64::from(size) * u64::from(completed) == u64::from(payload_bytes),
        PayloadSize::Variable => true,
    };
    if !exact || !shape.fits(completed as usize, payload_bytes as usize) {
        return Err(PageError::TooManyTuples { tuples: completed, payload_bytes });
    }
    Ok((header, shape))
}

/// Returns the offset and the length in a slot of a slotted page.
#[inline]
fn place(slot: &[u8]) -> (u32, u32) {
    (word(slot, 4), word(slot, 8))
}

#[inline]
fn word(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]])
}
