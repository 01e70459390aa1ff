//! How many tuples go to each partition, and how large they are (paper, sections 2.2 and 3.5).

use annulus_pages::{
    error::PagesError,
    page::{
        HEADER_BYTES, PageShape, PayloadSize,
        write::{Extent, Need, Sizes},
    },
    target::Target,
    tuples::Tuples,
};

use crate::partitioner::check_size;

/// Counters that take turns, so that tuples of one partition in a row do not wait for each other.
const LANES: usize = 4;

/// A histogram by partition.
pub(crate) struct Histogram {
    shape: PageShape,
    counts: Vec<[u32; LANES]>,
    /// The sizes of the tuples' data, in order, if they differ.
    sizes: Vec<Vec<u32>>,
    /// Their sums.
    bytes: Vec<usize>,
}

impl Histogram {
    /// An empty histogram.
    pub(crate) fn new(partitions: usize, shape: &PageShape) -> Self {
        let (sizes, bytes) = match shape.payload() {
            PayloadSize::Fixed(_) => (Vec::new(), Vec::new()),
            PayloadSize::Variable => (vec![Vec::new(); partitions], vec![0; partitions]),
        };
        Self { shape: *shape, counts: vec![[0; LANES]; partitions], sizes, bytes }
    }

    /// Counts some tuples.
    ///
    /// # Errors
    /// If one is larger than a page.
    pub(crate) fn add(&mut self, tuples: &Tuples<'_>, target: impl Target) -> Result<(), PagesError> {
        match self.shape.payload() {
            PayloadSize::Fixed(_) => {
                let (groups, others) = tuples.keys().as_chunks::<LANES>();
                for keys in groups {
                    for (lane, &key) in keys.iter().enumerate() {
                        self.counts[target.of(key)][lane] += 1;
                    }
                }
                for &key in others {
                    self.counts[target.of(key)][0] += 1;
                }
            }
            PayloadSize::Variable => {
                for (index, &key) in tuples.keys().iter().enumerate() {
                    let payload = tuples.payload(index);
                    check_size(payload, &self.shape)?;
                    let (partition, bytes) = (target.of(key), payload.len());
                    self.counts[partition][0] += 1;
                    self.sizes[partition].push(bytes as u32);
                    self.bytes[partition] += bytes;
                }
            }
        }
        Ok(())
    }

    /// Forgets all tuples.
    pub(crate) fn clear(&mut self) {
        self.counts.fill([0; LANES]);
        self.sizes.iter_mut().for_each(Vec::clear);
        self.bytes.fill(0);
    }

    /// Number of partitions.
    pub(crate) fn partitions(&self) -> usize {
        self.counts.len()
    }

    /// The room that a partition's tuples need.
    pub(crate) fn need(&self, partition: usize) -> Need<'_> {
        let tuples = self.counts[partition].iter().sum::<u32>() as usize;
        match self.shape.payload() {
            PayloadSize::Fixed(size) => {
                let size = size as usize;
                Need { all: Extent { tuples, bytes: tuples * size }, sizes: Sizes::fixed(size) }
            }
            PayloadSize::Variable => Need {
                all: Extent { tuples, bytes: self.bytes[partition] },
                sizes: Sizes::each(&self.sizes[partition]),
            },
        }
    }
}

/// Pages that a partition's tuples of all histograms need; with payloads of any size, at least
/// these.
pub(crate) fn pages_needed(histograms: &[Histogram], shape: &PageShape, partition: usize) -> usize {
    let needs = histograms.iter().map(|histogram| histogram.need(partition).all);
    let Extent { tuples, bytes } = needs.fold(Extent::default(), |sum, need| sum + need);
    match shape.payload() {
        PayloadSize::Fixed(_) => shape.pages_for(tuples),
        PayloadSize::Variable => (tuples * shape.slot_bytes() + bytes).div_ceil(shape.page_bytes() - HEADER_BYTES),
    }
}
