//! Histograms: the number of tuples of each partition, and their sizes (paper, sections 2.2 and
//! 3.5).

use annulus_pages::{
    PagesError,
    page::{
        HEADER_BYTES, PageShape, PayloadSize,
        write::{Extent, Sizes, TupleExtents},
    },
    target::PartitionOf,
    tuples::Tuples,
};

use super::check_size;

/// The number of counters of a partition. They are used in turn, so that consecutive tuples of one
/// partition do not wait for each other.
const COUNTERS: usize = 4;

/// A histogram of tuples by partition.
pub(crate) struct Histogram {
    shape: PageShape,
    counts: Vec<[u32; COUNTERS]>,
    /// The sizes of the tuples' data, in order, if they differ.
    sizes: Vec<Vec<u32>>,
    /// The sums of these sizes.
    bytes: Vec<usize>,
}

impl Histogram {
    /// Creates an empty histogram.
    pub(crate) fn new(partitions: usize, shape: &PageShape) -> Self {
        let (sizes, bytes) = match shape.payload() {
            PayloadSize::Fixed(_) => (Vec::new(), Vec::new()),
            PayloadSize::Variable => (vec![Vec::new(); partitions], vec![0; partitions]),
        };
        Self { shape: *shape, counts: vec![[0; COUNTERS]; partitions], sizes, bytes }
    }

    /// Counts a batch of tuples.
    ///
    /// # Errors
    /// If a tuple is larger than a page.
    pub(crate) fn add(&mut self, tuples: &Tuples<'_>, target: impl PartitionOf) -> Result<(), PagesError> {
        match self.shape.payload() {
            PayloadSize::Fixed(_) => {
                let (groups, others) = tuples.keys().as_chunks::<COUNTERS>();
                for keys in groups {
                    for (counter, &key) in keys.iter().enumerate() {
                        self.counts[target.partition(key)][counter] += 1;
                    }
                }
                for &key in others {
                    self.counts[target.partition(key)][0] += 1;
                }
            }
            PayloadSize::Variable => {
                for (index, &key) in tuples.keys().iter().enumerate() {
                    let payload = tuples.payload(index);
                    check_size(payload, &self.shape)?;
                    let (partition, bytes) = (target.partition(key), payload.len());
                    self.counts[partition][0] += 1;
                    self.sizes[partition].push(bytes as u32);
                    self.bytes[partition] += bytes;
                }
            }
        }
        Ok(())
    }

    /// Removes all tuples.
    pub(crate) fn clear(&mut self) {
        self.counts.fill([0; COUNTERS]);
        self.sizes.iter_mut().for_each(Vec::clear);
        self.bytes.fill(0);
    }

    /// Returns the number of partitions.
    pub(crate) fn partitions(&self) -> usize {
        self.counts.len()
    }

    /// Returns the room that a partition's tuples need.
    pub(crate) fn need(&self, partition: usize) -> TupleExtents<'_> {
        let tuples = self.counts[partition].iter().sum::<u32>() as usize;
        match self.shape.payload() {
            PayloadSize::Fixed(size) => {
                let size = size as usize;
                TupleExtents { all: Extent { tuples, bytes: tuples * size }, sizes: Sizes::fixed(size) }
            }
            PayloadSize::Variable => TupleExtents {
                all: Extent { tuples, bytes: self.bytes[partition] },
                sizes: Sizes::each(&self.sizes[partition]),
            },
        }
    }
}

/// Returns the number of pages that a partition's tuples of all histograms need. With payloads of
/// any size, it is a lower bound.
pub(crate) fn pages_needed(histograms: &[Histogram], shape: &PageShape, partition: usize) -> usize {
    let needs = histograms.iter().map(|histogram| histogram.need(partition).all);
    let Extent { tuples, bytes } = needs.fold(Extent::default(), |sum, need| sum + need);
    match shape.payload() {
        PayloadSize::Fixed(_) => shape.pages_for(tuples),
        PayloadSize::Variable => (tuples * shape.slot_bytes() + bytes).div_ceil(shape.page_bytes() - HEADER_BYTES),
    }
}
