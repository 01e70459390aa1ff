//! Checks that a shuffle put every tuple into its place, complete and once.

use annulus_pages::{
    page::{HEADER_BYTES, Header, MAGIC, Page, PageLayout, PageShape, PayloadSize, VERSION},
    target::PartitionOf,
};
use annulus_rows::partition::Modulo;

use super::{Generator, splitmix64, words};
use crate::partitioner::PartitionedPages;

/// The allowed places of tuples.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Placement {
    /// In partition `key % partitions`, on full pages except the last.
    ByKey,
    /// In any partition, on pages that need not be full.
    Any,
}

/// Checks the pages of a shuffle of all the generator's tuples:
/// - the headers;
/// - that all pages except each partition's last are full, without gaps between tuples;
/// - that keys belong to their partition;
/// - every byte of every payload;
/// - that each tuple occurs once.
///
/// Payloads of fewer than four bytes do not identify their tuple. Their keys and payloads are
/// compared as multisets, by a 128-bit sum. The check takes one bit of memory per tuple.
///
/// # Errors
/// A description of the first fault.
pub fn check(
    shuffled: &PartitionedPages,
    generator: &Generator,
    shape: &PageShape,
    partitions: Modulo,
    placement: Placement,
) -> Result<(), String> {
    if shuffled.partitions.len() != partitions.consumers() {
        return Err(format!("{} partitions instead of {}", shuffled.partitions.len(), partitions.consumers()));
    }
    let mut checker = Checker::new(generator, shape, partitions, placement);
    for (partition, pages) in shuffled.partitions.iter().enumerate() {
        pages.iter().try_for_each(|page| checker.page(partition, page))?;
    }
    checker.finish()
}

/// A check of pages as they come, which keeps none of them. It makes the same checks as [`check`].
pub struct Checker<'a> {
    generator: &'a Generator,
    shape: &'a PageShape,
    partitions: Modulo,
    placement: Placement,
    /// The pages of each partition.
    pages: Vec<PartitionState>,
    /// A bit for each tuple whose payload identifies it.
    seen: Vec<u64>,
    /// The tuples whose payload is too short to identify them.
    unnamed: Multiset,
    expected: Vec<u8>,
    tuples: u64,
}

/// The pages of a partition that have come.
#[derive(Clone, Default)]
struct PartitionState {
    pages: usize,
    /// The extent of the last page, if it was not full. Then no other page may follow.
    ended: Option<(usize, usize)>,
}

impl<'a> Checker<'a> {
    /// Starts a check of the pages that a shuffle of all the generator's tuples makes.
    pub fn new(generator: &'a Generator, shape: &'a PageShape, partitions: Modulo, placement: Placement) -> Self {
        Self {
            generator,
            shape,
            partitions,
            placement,
            pages: vec![PartitionState::default(); partitions.consumers()],
            seen: vec![0; generator.tuples().div_ceil(64) as usize],
            unnamed: Multiset::default(),
            expected: vec![0; generator.most_payload()],
            tuples: 0,
        }
    }

    /// Checks the next page of a partition.
    ///
    /// # Errors
    /// A description of the first fault.
    pub fn page(&mut self, partition: usize, page: &Page) -> Result<(), String> {
        let pages = self.pages.get(partition).map(|seen| seen.pages);
        let sequence = pages.ok_or_else(|| format!("there is no partition {partition}"))?;
        self.check(page, partition, sequence).map_err(|what| format!("partition {partition}, page {sequence}: {what}"))
    }

    fn check(&mut self, page: &Page, partition: usize, sequence: usize) -> Result<(), String> {
        let (header, bytes, shape) = (page.header(), page.bytes(), self.shape);
        let tuples = header.claimed as usize;
        let payload_bytes = header.payload_bytes as usize;
        let whole = Header::complete(shape, partition as u32, sequence as u32, header.claimed, header.payload_bytes);
        if header != whole || bytes.len() != shape.page_bytes() || tuples == 0 || !shape.fits(tuples, payload_bytes) {
            return Err(format!("its header is {header:?}"));
        }
        debug_assert_eq!((header.magic, header.version), (MAGIC, VERSION));
        if self.placement == Placement::ByKey {
            let seen = &mut self.pages[partition];
            if let Some((tuples, bytes)) = seen.ended {
                return Err(format!("{tuples} tuples with {bytes} bytes did not fill the page before"));
            }
            let full = match self.generator.payload() {
                PayloadSize::Fixed(_) => tuples == shape.capacity(),
                PayloadSize::Variable => !shape.fits(tuples + 1, payload_bytes + self.generator.most_payload()),
            };
            seen.ended = (!full).then_some((tuples, payload_bytes));
        }
        self.pages[partition].pages += 1;
        let mut offset = shape.page_bytes();
        for tuple in 0..tuples {
            let fail = |what: String| format!("tuple {tuple}: {what}");
            let (key, payload) = self.tuple(bytes, tuple, &mut offset).map_err(fail)?;
            let belongs = self.partitions.partition(key);
            if belongs != partition && self.placement == Placement::ByKey {
                return Err(fail(format!("its key {key} belongs to partition {belongs}")));
            }
            self.once(key, payload).map_err(fail)?;
        }
        if shape.page_bytes() - offset != payload_bytes {
            return Err(format!("{} bytes of data instead of {payload_bytes}", shape.page_bytes() - offset));
        }
        self.tuples += tuples as u64;
        Ok(())
    }

    /// Returns the key and the payload of a tuple whose payload ends at `offset`, and moves
    /// `offset` to its beginning.
    fn tuple<'p>(&self, page: &'p [u8], tuple: usize, offset: &mut usize) -> Result<(u32, &'p [u8]), String> {
        let slot = HEADER_BYTES + tuple * self.shape.slot_bytes();
        let word = |at: usize| u32::from_le_bytes(std::array::from_fn(|i| page[slot + at + i]));
        let size = match (self.shape.layout(), self.generator.payload) {
            (PageLayout::Compact, super::Payload::Fixed(size)) => size as usize,
            _ => word(8) as usize,
        };
        let end = *offset;
        *offset = end.checked_sub(size).ok_or_else(|| format!("its length is {size}, more than the page has"))?;
        if self.shape.layout() == PageLayout::Slotted && word(4) as usize != *offset {
            return Err(format!("its offset is {} instead of {offset}", word(4)));
        }
        Ok((word(0), &page[*offset..end]))
    }

    /// Checks that the tuple is one of the generator's, and did not occur before.
    fn once(&mut self, key: u32, payload: &[u8]) -> Result<(), String> {
        let Some(name) = payload.first_chunk::<4>() else {
            self.unnamed.add(key, payload);
            return Ok(());
        };
        let number = u32::from_le_bytes(*name);
        if u64::from(number) >= self.generator.tuples() {
            return Err(format!("its payload names tuple {number}, which does not exist"));
        }
        let (expected_key, size) = (self.generator.key(number.into()), self.generator.payload_bytes(number.into()));
        if (key, payload.len()) != (expected_key, size) {
            let found = payload.len();
            return Err(format!(
                "key {key} and {found} bytes, but tuple {number} has key {expected_key} and {size} bytes"
            ));
        }
        let expected = &mut self.expected[..size];
        words::payload(number, expected);
        if payload != expected {
            return Err(format!("the payload of tuple {number} is damaged"));
        }
        let (word, bit) = (&mut self.seen[number as usize / 64], 1 << (number % 64));
        if *word & bit != 0 {
            return Err(format!("tuple {number} was there already"));
        }
        *word |= bit;
        Ok(())
    }

    /// Checks that no tuple is missing.
    ///
    /// # Errors
    /// A description of the first fault.
    pub fn finish(self) -> Result<(), String> {
        let all = self.generator.tuples();
        if self.tuples != all {
            return Err(format!("{} tuples instead of {all}", self.tuples));
        }
        let mut unnamed = Multiset::default();
        let mut payload = [0; 4];
        for number in 0..all {
            let size = self.generator.payload_bytes(number);
            if size < 4 {
                words::payload(number as u32, &mut payload[..size]);
                unnamed.add(self.generator.key(number), &payload[..size]);
            } else if self.seen[number as usize / 64] & (1 << (number % 64)) == 0 {
                return Err(format!("tuple {number} is missing"));
            }
        }
        if unnamed != self.unnamed {
            return Err("tuples with fewer than four bytes of payload are not those that were generated".to_owned());
        }
        Ok(())
    }
}

/// A multiset of tuples, as sums of their hashes.
#[derive(Debug, Default, PartialEq, Eq)]
struct Multiset {
    sums: [u64; 2],
}

impl Multiset {
    fn add(&mut self, key: u32, payload: &[u8]) {
        let short = payload.iter().rev().fold(payload.len() as u64, |word, &byte| word << 8 | u64::from(byte));
        let tuple = short << 32 | u64::from(key);
        self.sums[0] = self.sums[0].wrapping_add(splitmix64(tuple));
        self.sums[1] = self.sums[1].wrapping_add(splitmix64(!tuple));
    }
}
