//! The setting of a measurement, its cells, and whether they fit in memory.

use annulus_baselines::{
    clock::Clock,
    generator::{Generator, Keys, Payload},
};
use annulus_pages::{
    PagesError,
    page::{HEADER_BYTES, PageLayout, PageShape, PayloadSize, SLOT_BYTES},
    partition::default_page_bytes,
};
use annulus_rows::partition::Modulo;
use annulus_terminal::units::counted;
use serde::{Deserialize, Serialize};

use super::variant::Variant;

/// The number of tuples of the paper's memory benchmark.
pub const PAPER_TUPLES: u64 = 67_200_000;
/// The default share of the machine's memory for a cell, and the share of a cell's memory for full
/// pages and tuples.
const MEMORY_SHARE: f64 = 0.6;
const TUPLE_SHARE: f64 = 0.5 / MEMORY_SHARE;
/// The default size of a batch of tuples in bytes.
const BATCH_BYTES: usize = 256 << 10;
/// The seed of all tuples.
pub const SEED: u64 = 42;
/// The largest ratio of pages that are not full to tuples, in bytes, with which a page size is
/// tried.
const WORTHWHILE: u64 = 4;
/// The size of the stretches in which a pool backs its pages.
const STRETCH_BYTES: u64 = 8 << 20;

/// The options that all cells have in common.
#[derive(Clone, Debug)]
pub struct Setting {
    /// The sizes of pages in bytes that are tried for each of the paper's variants.
    pub page_sizes: Vec<usize>,
    /// The size of our pages in bytes; if `None`, it is chosen by the number of partitions.
    pub our_page_bytes: Option<usize>,
    /// The page layout.
    pub layout: PageLayout,
    /// The distribution of tuple sizes.
    pub sizes: TupleSizes,
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
    /// The clock that times runs.
    pub clock: Clock,
    /// Whether hardware events are counted.
    pub counters: bool,
    /// If pages are taken out while a variant runs, the bytes of complete ones that may wait.
    pub stream_bytes: Option<usize>,
}

/// The distribution of tuple sizes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TupleSizes {
    /// All tuples have one size.
    #[default]
    Fixed,
    /// Payloads are evenly distributed from 0 to twice their mean.
    Uniform,
    /// Payloads are nearly normally distributed around their mean.
    Normal,
}

/// A variant that fits in memory, and the page sizes that are tried.
pub(super) type FittingVariant = (Variant, Vec<usize>);

/// One combination of sizes in which all variants are compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Cell {
    /// The bytes of a tuple, including its key of 4 bytes. If sizes differ, their mean.
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

    /// Returns the page sizes that may be tried for `variant`, from the smallest on. There is one
    /// for ours, which is chosen by the number of partitions or given.
    fn page_sizes(&self, variant: Variant, partitions: usize) -> Vec<usize> {
        if variant.is_ours() {
            return vec![self.our_page_bytes.unwrap_or_else(|| default_page_bytes(partitions))];
        }
        let mut sizes = self.page_sizes.clone();
        sizes.sort_unstable();
        sizes.dedup();
        sizes
    }

    /// Returns the shape of pages of this size.
    ///
    /// # Errors
    /// If pages cannot have this size.
    pub(super) fn shape(&self, page_bytes: usize, cell: &Cell) -> Result<PageShape, PagesError> {
        let payload = match self.payload(cell) {
            Payload::Fixed(bytes) => PayloadSize::Fixed(bytes),
            Payload::UpTo(_) | Payload::Near(_) => PayloadSize::Variable,
        };
        PageShape::new(page_bytes, self.layout, payload)
    }

    /// Returns the largest number of pages that `variant` has at once: full ones, and those that
    /// are not full yet.
    pub(super) fn most_pages(&self, variant: Variant, cell: &Cell, shape: &PageShape) -> u64 {
        let open = self.open_pages(variant, cell);
        let tuples = match self.payload(cell) {
            Payload::Fixed(_) => shape.capacity(),
            // A page is closed by the first tuple that does not fit.
            Payload::UpTo(most) => self.fewest_tuples(cell, shape, most),
            Payload::Near(mean) => self.fewest_tuples(cell, shape, 2 * mean),
        };
        let all = cell.tuples.div_ceil(tuples as u64) + open;
        let Some(waiting) = self.stream_bytes else { return all };
        // Each thread passes on pages, and may have places on two pages of each partition.
        let (partitions, threads) = (cell.partitions as u64, cell.threads as u64);
        all.min(open + 2 * threads * (1 + partitions) + (waiting / shape.page_bytes()) as u64 + 1)
    }

    fn fewest_tuples(&self, cell: &Cell, shape: &PageShape, most: u32) -> usize {
        let room = shape.page_bytes().saturating_sub(HEADER_BYTES + most as usize);
        // Sizes vary from page to page.
        (room / self.bytes_on_page(cell.tuple_bytes) as usize * 9 / 10).max(1)
    }

    /// Returns the number of pages that `variant` has besides full ones.
    fn open_pages(&self, variant: Variant, cell: &Cell) -> u64 {
        let (partitions, threads) = (cell.partitions as u64, cell.threads as u64);
        match variant {
            _ if variant.has_local_pages() => partitions * threads,
            // Full pages may lack a writer's claim, at most an eighth of a page. Replacing a page
            // may take one page more than needed.
            _ if variant.is_ours() => partitions * (1 + threads.div_ceil(8)) + threads,
            _ => partitions,
        }
    }

    /// Returns the largest number of bytes of pages that `variant` has at once.
    pub(super) fn most_bytes(&self, variant: Variant, cell: &Cell, page_bytes: usize) -> Result<u64, PagesError> {
        let shape = self.shape(page_bytes, cell)?;
        Ok(self.most_pages(variant, cell, &shape) * page_bytes as u64)
    }

    /// Returns the variants whose memory fits, with the page sizes that are tried, and a message
    /// for each of the others. Pages of the paper's variants are kept for the next variant, and
    /// ours as well, so that memory stays warm.
    ///
    /// A page size is not tried if the pages that are not full take more than four times as much as
    /// the tuples, unless it is the smallest.
    ///
    /// # Errors
    /// If pages cannot have a requested size.
    pub(super) fn fitting(
        &self,
        cell: &Cell,
        variants: &[Variant],
    ) -> Result<(Vec<FittingVariant>, Vec<String>), PagesError> {
        let kept =
            |variant: Variant| if variant.materialises() { cell.tuples * u64::from(cell.tuple_bytes) } else { 0 };
        let (mut fitting, mut skipped, mut beside) = (Vec::new(), Vec::new(), cell.tuples / 8);
        // Variants whose memory is kept while others run are considered first.
        let first = |variant: &&Variant| !(variant.is_ours() || variant.materialises());
        let (others, staying): (Vec<&Variant>, Vec<&Variant>) = variants.iter().partition(first);
        for &variant in staying.into_iter().rev().chain(others) {
            if self.stream_bytes.is_some()
                && let Err(reason) = variant.streams()
            {
                skipped.push(format!("skipped: {variant} does not stream: {reason}"));
                continue;
            }
            let sizes = self.page_sizes(variant, cell.partitions);
            let mut needed = Vec::new();
            for &size in &sizes {
                let pages = self.most_bytes(variant, cell, size)?;
                let stays = if variant.is_ours() { pages + STRETCH_BYTES } else { kept(variant) };
                needed.push((size, stays, beside + stays + if variant.is_ours() { 0 } else { pages }));
            }
            let fits = |&&(size, _, needed): &&(usize, u64, u64)| {
                needed <= self.memory_bytes && (size == sizes[0] || self.is_worthwhile(variant, cell, size))
            };
            let tried: Vec<_> = needed.iter().filter(fits).collect();
            match tried.iter().map(|(_, stays, _)| *stays).max() {
                Some(stays) => {
                    beside += stays;
                    fitting.push((variant, tried.into_iter().map(|(size, ..)| *size).collect()));
                }
                None => {
                    let least = needed.iter().min_by_key(|(.., needed)| *needed);
                    skipped.extend(least.map(|&(size, _, needed)| self.reason(variant, cell, size, needed)));
                }
            }
        }
        fitting.sort_by_key(|(variant, _)| variants.iter().position(|other| other == variant));
        Ok((fitting, skipped))
    }

    fn is_worthwhile(&self, variant: Variant, cell: &Cell, page_bytes: usize) -> bool {
        let open = self.open_pages(variant, cell) * page_bytes as u64;
        open <= WORTHWHILE * cell.tuples * self.bytes_on_page(cell.tuple_bytes)
    }

    fn reason(&self, variant: Variant, cell: &Cell, page_bytes: usize, needed: u64) -> String {
        let Cell { tuple_bytes, partitions, threads, .. } = cell;
        let gib = |bytes: u64| bytes as f64 / f64::from(1 << 30);
        let open = if variant.has_local_pages() { "partition and thread" } else { "partition" };
        format!(
            "skipped: {variant} with {tuple_bytes}-byte tuples, {} and {}: with a page of {} KiB for each {open} it \
             takes up to {:.2} GiB, and the limit is {:.2} GiB (--memory)",
            counted(*partitions as u64, "partition"),
            counted(*threads as u64, "thread"),
            page_bytes >> 10,
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
        Ok(Generator::new(cell.tuples, SEED, self.keys, self.payload(cell), batch)?.with_clock(self.clock))
    }

    fn payload(&self, cell: &Cell) -> Payload {
        let mean = payload(cell.tuple_bytes);
        match self.sizes {
            TupleSizes::Fixed => Payload::Fixed(mean),
            TupleSizes::Uniform => Payload::UpTo(2 * mean),
            TupleSizes::Normal => Payload::Near(mean),
        }
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
