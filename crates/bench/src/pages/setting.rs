//! The setting of a measurement, its cells, and whether they fit in memory.

use annulus_baselines::generator::{Generator, Keys, Payload};
use annulus_pages::{
    PagesError,
    page::{PageLayout, PageShape, SLOT_BYTES},
    ranges::default_page_bytes,
};
use annulus_rows::partition::Modulo;
use annulus_terminal::units::counted;

use super::variant::Variant;

/// The number of tuples of the paper's memory benchmark.
pub const PAPER_TUPLES: u64 = 67_200_000;
/// The default share of the machine's memory for a cell, and the share of a cell's memory for full
/// pages and tuples.
const MEMORY_SHARE: f64 = 0.6;
const TUPLE_SHARE: f64 = 0.5 / MEMORY_SHARE;
/// The default size of a batch of tuples in bytes.
const BATCH_BYTES: usize = 256 << 10;
const SEED: u64 = 42;
/// The size of the stretches in which a pool backs its pages.
const STRETCH_BYTES: u64 = 8 << 20;

/// The options that all cells have in common.
#[derive(Clone, Debug)]
pub struct Setting {
    /// The size of the pages of the paper's variants in bytes.
    pub paper_page_bytes: usize,
    /// The size of our pages in bytes; if `None`, it is chosen by the number of partitions.
    pub our_page_bytes: Option<usize>,
    /// The page layout.
    pub layout: PageLayout,
    /// The distribution of keys.
    pub keys: Keys,
    /// The number of timed runs of each variant.
    pub rounds: usize,
    /// The bytes of the software-managed buffers of all threads together.
    pub buffer_bytes: usize,
    /// The number of tuples of a batch from the generator; if `None`, the number that fits in 256
    /// KiB.
    pub batch_tuples: Option<usize>,
    /// The memory limit of a cell.
    pub memory_bytes: u64,
    /// The largest number of bytes that each thread writes to measure the limit.
    pub limit_bytes: u64,
    /// Whether hardware events are counted.
    pub counters: bool,
}

/// One combination of sizes in which all variants are compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cell {
    /// The bytes of a tuple, including its key of 4 bytes.
    pub tuple_bytes: u32,
    /// The number of partitions.
    pub partitions: usize,
    /// The number of threads that generate and shuffle.
    pub threads: usize,
    /// The number of tuples.
    pub tuples: u64,
}

/// Returns the default memory limit of a cell: 60 % of the machine's memory, and at most 90 % of
/// the free memory.
pub fn default_memory_bytes(total: Option<u64>, available: Option<u64>) -> u64 {
    let share = total.map_or(u64::MAX, |total| (total as f64 * MEMORY_SHARE) as u64);
    available.map_or(share, |available| share.min(available / 10 * 9))
}

impl Setting {
    /// Returns the paper's number of tuples, or the number that fits in half of the memory. They
    /// must fit on pages of the paper's variants, on our pages, and in memory if a variant
    /// materialises them. If more than 100,000 tuples fit, their number is rounded down to a
    /// multiple of 100,000.
    pub fn default_tuples(&self, tuple_bytes: u32, variants: &[Variant]) -> u64 {
        let on_page = self.bytes_on_page(tuple_bytes);
        let materialised = if variants.iter().any(|variant| variant.materialises()) { tuple_bytes.into() } else { 0 };
        let most = (self.memory_bytes as f64 * TUPLE_SHARE) as u64 / (2 * on_page + materialised);
        let most = if most > 100_000 { most / 100_000 * 100_000 } else { most.max(1) };
        PAPER_TUPLES.min(most)
    }

    /// Returns the bytes that a tuple takes on a page.
    pub fn bytes_on_page(&self, tuple_bytes: u32) -> u64 {
        let slot = match self.layout {
            PageLayout::Slotted => SLOT_BYTES as u64,
            PageLayout::Compact => 4,
        };
        slot + u64::from(payload(tuple_bytes))
    }

    /// Returns the bytes of a page of `variant`.
    pub fn page_bytes(&self, variant: Variant, partitions: usize) -> usize {
        if variant.is_ours() {
            self.our_page_bytes.unwrap_or_else(|| default_page_bytes(partitions))
        } else {
            self.paper_page_bytes
        }
    }

    /// Returns the shape of the pages of `variant`.
    ///
    /// # Errors
    /// If pages cannot have this size.
    pub fn shape(&self, variant: Variant, cell: &Cell) -> Result<PageShape, PagesError> {
        let size = annulus_pages::page::PayloadSize::Fixed(payload(cell.tuple_bytes));
        PageShape::new(self.page_bytes(variant, cell.partitions), self.layout, size)
    }

    /// Returns the largest number of pages that `variant` has at once: full ones, and those that
    /// are not full yet.
    pub(super) fn most_pages(&self, variant: Variant, cell: &Cell, shape: &PageShape) -> u64 {
        let (partitions, threads) = (cell.partitions as u64, cell.threads as u64);
        let open = match variant {
            _ if variant.has_local_pages() => partitions * threads,
            // Full pages may lack a writer's claim, at most an eighth of a page. Replacing a page
            // may take one page more than needed.
            _ if variant.is_ours() => partitions * (1 + threads.div_ceil(8)) + threads,
            _ => partitions,
        };
        cell.tuples.div_ceil(shape.capacity() as u64) + open
    }

    /// Returns the variants whose memory fits, and a message for each of the others. Pages of the
    /// paper's variants are kept for the next variant, and ours as well, so that memory stays warm.
    ///
    /// # Errors
    /// If pages cannot have the requested size.
    pub fn fitting(&self, cell: &Cell, variants: &[Variant]) -> Result<(Vec<Variant>, Vec<String>), PagesError> {
        let pages = |variant: Variant| -> Result<u64, PagesError> {
            let shape = self.shape(variant, cell)?;
            let stretch = if variant.is_ours() { STRETCH_BYTES } else { 0 };
            Ok(self.most_pages(variant, cell, &shape) * shape.page_bytes() as u64 + stretch)
        };
        let kept =
            |variant: Variant| if variant.materialises() { cell.tuples * u64::from(cell.tuple_bytes) } else { 0 };
        let (mut fitting, mut skipped, mut beside) = (Vec::new(), Vec::new(), cell.tuples / 8);
        // Variants whose memory is kept while others run are considered first.
        let first = |variant: &&Variant| !(variant.is_ours() || variant.materialises());
        let (others, staying): (Vec<&Variant>, Vec<&Variant>) = variants.iter().partition(first);
        for &variant in staying.into_iter().rev().chain(others) {
            let stays = if variant.is_ours() { pages(variant)? } else { kept(variant) };
            let needed = beside + stays + if variant.is_ours() { 0 } else { pages(variant)? };
            if needed <= self.memory_bytes {
                beside += stays;
                fitting.push(variant);
            } else {
                skipped.push(self.reason(variant, cell, needed));
            }
        }
        fitting.sort_by_key(|variant| variants.iter().position(|other| other == variant));
        Ok((fitting, skipped))
    }

    fn reason(&self, variant: Variant, cell: &Cell, needed: u64) -> String {
        let Cell { tuple_bytes, partitions, threads, .. } = cell;
        let gib = |bytes: u64| bytes as f64 / f64::from(1 << 30);
        let open = if variant.has_local_pages() { "partition and thread" } else { "partition" };
        format!(
            "skipped: {variant} with {tuple_bytes}-byte tuples, {} and {}: with a page of {} KiB for each {open} it \
             takes up to {:.2} GiB, and the limit is {:.2} GiB (--memory)",
            counted(*partitions as u64, "partition"),
            counted(*threads as u64, "thread"),
            self.page_bytes(variant, *partitions) >> 10,
            gib(needed),
            gib(self.memory_bytes)
        )
    }

    /// Returns the generator of a cell's tuples.
    ///
    /// # Errors
    /// If they are too many, or the distribution of their keys is invalid.
    pub(super) fn generator(&self, cell: &Cell) -> Result<Generator, PagesError> {
        let batch = self.batch_tuples.unwrap_or((BATCH_BYTES / cell.tuple_bytes.max(1) as usize).max(1));
        Generator::new(cell.tuples, SEED, self.keys, Payload::Fixed(payload(cell.tuple_bytes)), batch)
    }
}

impl Cell {
    /// Returns the function that maps keys to the cell's partitions.
    pub(super) fn modulo(&self) -> Modulo {
        Modulo::new(self.partitions)
    }
}

/// Returns the bytes of a tuple without its key.
fn payload(tuple_bytes: u32) -> u32 {
    tuple_bytes.saturating_sub(4)
}

#[cfg(test)]
mod tests;
