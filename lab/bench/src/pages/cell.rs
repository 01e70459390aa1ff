//! The runs of a cell: its page memory, its tuples, and how a run is checked.

use std::time::Instant;

use annulus_alloc::PeakCounter;
use annulus_baselines::{
    generator::{Checker, Generator, check},
    partitioner::{Job, Partitioner},
    stream::stream,
};
use annulus_pages::{
    memory::{Heap, PageMemory, Pool},
    page::PageShape,
};
use anyhow::{Context, Result, anyhow, bail};

use super::{
    limit::seconds,
    line::Time,
    setting::{Cell, FittingVariant, Setting},
    variant::Variant,
};
use crate::Stop;
use crate::stop::Stoppable;

/// The pieces of the heap, from which pages of any size are cut.
const PIECE_BYTES: usize = 64 << 20;
/// The size of pages with which the heap's memory is touched.
const TOUCHED_BYTES: usize = 64 << 10;

/// A variant with pages of one size.
pub(super) struct SizedVariant {
    pub(super) variant: Variant,
    pub(super) page_bytes: usize,
    partitioner: Box<dyn Partitioner>,
    shape: PageShape,
}

/// Whether the result of a run is checked, which takes longer than the run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum CheckMode {
    Yes,
    No,
}

/// A cell's page memory. It is touched before the first run, so that timed runs find it warm.
pub(super) struct CellBench<'a> {
    setting: &'a Setting,
    pub(super) cell: Cell,
    heap: Heap,
    pool: Pool,
    stop: &'a Stop,
}

impl<'a> CellBench<'a> {
    /// Takes and touches the memory that these variants need with any of their page sizes.
    pub(super) fn new(setting: &'a Setting, cell: Cell, fitting: &[FittingVariant], stop: &'a Stop) -> Result<Self> {
        let (mut most, mut pieces, mut pool_bytes, mut pool_page) = (0, 0, TOUCHED_BYTES, TOUCHED_BYTES);
        for (variant, sizes) in fitting {
            for &size in sizes {
                let bytes = setting.most_bytes(*variant, &cell, size)? as usize;
                if variant.is_ours() {
                    (pool_bytes, pool_page) = (bytes, size);
                } else {
                    most = most.max(bytes);
                    pieces = pieces.max((bytes / size).div_ceil(PIECE_BYTES / size));
                }
            }
        }
        let heap = Heap::in_pieces(TOUCHED_BYTES, PIECE_BYTES);
        heap.warm(if pieces > 1 { pieces * PIECE_BYTES } else { most } / TOUCHED_BYTES)?;
        let pool = Pool::new(pool_page, pool_bytes).context("cannot reserve a pool of pages")?;
        pool.warm(pool.limit());
        Ok(Self { setting, cell, heap, pool, stop })
    }

    /// Prepares a variant with pages of a size.
    pub(super) fn way(&self, variant: Variant, page_bytes: usize) -> Result<SizedVariant> {
        let shape = self.setting.shape(page_bytes, &self.cell)?;
        Ok(SizedVariant { variant, page_bytes, partitioner: variant.partitioner(&self.pool), shape })
    }

    /// Runs a variant, and checks every byte of its result.
    pub(super) fn check(&mut self, way: &SizedVariant) -> Result<()> {
        self.run_checked(way, CheckMode::Yes).map(drop)
    }

    /// Runs a variant, and returns its time.
    pub(super) fn run(&mut self, way: &SizedVariant) -> Result<Time> {
        self.run_checked(way, CheckMode::No)
    }

    /// Runs a variant that has not run before, so that only pages are warm for it. Returns the peak
    /// of its memory in bytes.
    pub(super) fn peak(&mut self, way: &SizedVariant) -> Result<u64> {
        self.cut(way)?;
        self.memory(way).take_peak();
        let counter = PeakCounter::start();
        self.run(way)?;
        let pages = self.memory(way).take_peak() as u64;
        Ok(pages * way.page_bytes as u64 + counter.peak_bytes())
    }

    fn memory(&self, way: &SizedVariant) -> &dyn PageMemory {
        if way.variant.is_ours() { &self.pool } else { &self.heap }
    }

    /// Cuts the heap into pages of the size that `way` has.
    fn cut(&mut self, way: &SizedVariant) -> Result<()> {
        let cut = way.variant.is_ours() || self.heap.page_bytes() == way.page_bytes || self.heap.recut(way.page_bytes);
        if cut { Ok(()) } else { bail!("{} kept a page", way.variant) }
    }

    fn run_checked(&mut self, way: &SizedVariant, checked: CheckMode) -> Result<Time> {
        self.cut(way)?;
        let source = self.setting.generator(&self.cell)?;
        let job = Job {
            partitions: self.cell.modulo(),
            threads: self.cell.threads,
            shape: way.shape,
            memory: self.memory(way),
            source: &Stoppable { generator: &source, stop: self.stop },
            buffer_bytes: self.setting.buffer_bytes,
        };
        let (total, first_page) = match self.setting.stream_bytes {
            Some(waiting) => self.streamed(way, &job, &source, waiting, checked)?,
            None => (self.kept(way, &job, &source, checked)?, None),
        };
        let generate = source.generated().as_secs_f64() / self.cell.threads as f64;
        Ok(Time { total, generate, first_page })
    }

    /// Runs a variant, and keeps all pages until it has ended. Returns the seconds.
    fn kept(&self, way: &SizedVariant, job: &Job<'_>, source: &Generator, checked: CheckMode) -> Result<f64> {
        let start = self.setting.clock.process();
        let shuffled = way.partitioner.partition(job)?;
        let total = seconds(self.setting.clock, &start, job.threads);
        self.stop.check()?;
        if checked == CheckMode::Yes {
            check(&shuffled, source, &way.shape, job.partitions, way.variant.placement()).map_err(wrong)?;
        }
        Ok(total)
    }

    /// Runs a variant, and takes its pages out meanwhile. Returns the seconds, and those until the
    /// first page.
    fn streamed(
        &self,
        way: &SizedVariant,
        job: &Job<'_>,
        source: &Generator,
        waiting: usize,
        checked: CheckMode,
    ) -> Result<(f64, Option<f64>)> {
        let mut checker = Checker::new(source, &way.shape, job.partitions, way.variant.placement());
        let (start, clock) = (Instant::now(), self.setting.clock.process());
        let consume = |pages: annulus_baselines::stream::Pages| {
            let mut first = None;
            for (partition, page) in pages {
                first.get_or_insert_with(|| start.elapsed().as_secs_f64());
                if checked == CheckMode::Yes {
                    checker.page(partition, &page)?;
                }
            }
            Ok(first)
        };
        let (first, done) = stream(&*way.partitioner, job, waiting / way.page_bytes, consume);
        let total = seconds(self.setting.clock, &clock, job.threads);
        self.stop.check()?;
        let first = first.map_err(wrong)?;
        done?;
        if checked == CheckMode::Yes {
            checker.finish().map_err(wrong)?;
        }
        Ok((total, first))
    }
}

fn wrong(what: String) -> anyhow::Error {
    anyhow!("tuples are in wrong places: {what}")
}
