//! The work of each thread: it reads units into waves, then finishes files.

use std::sync::{
    OnceLock,
    atomic::{
        AtomicBool, AtomicUsize,
        Ordering::{Acquire, Relaxed},
    },
};

use super::{
    CancelToken, Job, Progress, Shares, create_spill,
    hot_files::HotTurns,
    hot_report::{self, HotReport},
    sort::{Order, Sorter},
    spill::{Spill, SpillReader, SpillWriter, SpilledRows},
    values::{OpenValues, ValueTargets},
    wave::Wave,
};
use arrow::array::RecordBatch;
use parking_lot::Mutex;

use crate::{
    codes::{BatchCodes, Codes, CodesLayout},
    error::{DatasetError, OutputError},
    hot_keys::HotKeys,
    input::{DecodedBatch, Unit, UnitReader},
    manifest::HotKeyEntry,
    output::Output,
    placement::Scratch,
};

/// The state that all workers share.
pub(super) struct Shared<'a> {
    pub(super) job: &'a Job,
    pub(super) output: &'a Output,
    /// The number of rows of each slot that an earlier run finished; `None` for other slots.
    pub(super) kept: &'a [Option<u64>],
    /// The columns that are moved as codes, if there are any.
    pub(super) codes: Option<Codes>,
    pub(super) progress: &'a dyn Progress,
    pub(super) cancel: &'a CancelToken,
    /// Whether a worker has failed.
    pub(super) stop: AtomicBool,
    /// The next unit to read; after reading, the next slot to finish.
    pub(super) next: AtomicUsize,
    pub(super) shares: Shares,
    /// The values whose files are open, if each value has a folder.
    pub(super) open: Option<OpenValues>,
    /// The files that rows go to first if they are sorted or not all output files can be open at
    /// once.
    pub(super) spill: OnceLock<Spill>,
    /// Held by the worker that creates the spill while rows are read.
    pub(super) beginning_spill: Mutex<()>,
    /// The order of a slot's rows, if it matters. All rows are then spilled, except those of open values.
    pub(super) order: Option<Order>,
}

/// The result of a worker's reading.
#[derive(Default)]
pub(super) struct ReadingResult {
    pub(super) rows_in: u64,
    pub(super) rows_bad: u64,
    /// The number of rows of each slot, including kept ones.
    rows: Vec<u64>,
    /// The numbers of rows by key, in a sample of the rows.
    counts: Option<HotKeys>,
    /// The number of rows of each key that is spread over extra files.
    spread: Vec<u64>,
}

impl Shared<'_> {
    /// Reads units until there are no more, and writes or spills their rows.
    pub(super) fn read(&self, worker: usize) -> Result<ReadingResult, DatasetError> {
        let job = self.job;
        let mut reading = ReadingWorker {
            shared: self,
            worker,
            wave: Wave::new(&job.dataset.schema, self.wave_slots()),
            layout: CodesLayout::values(job.dataset.schema.fields().len()),
            scratch: Scratch::default(),
            targets: Vec::new(),
            report: HotReport::new(job),
            hot: job.hot_files.turns(&job.placement, &job.dataset.schema, &job.by),
            values: self.open.as_ref().map(|open| open.targets(&job.placement)),
            spill: self.spill.get().and_then(Spill::writer),
            ended: ReadingResult { rows: vec![0; self.kept.len()], ..ReadingResult::default() },
        };
        while let Some(unit) = self.job.dataset.units.get(self.next.fetch_add(1, Relaxed)) {
            reading.read(unit)?;
        }
        reading.end()
    }

    /// Ends the files of open values until there are no more.
    pub(super) fn seal_values(&self) -> Result<(), DatasetError> {
        let count = self.open.as_ref().map_or(0, OpenValues::count);
        loop {
            let value = self.next.fetch_add(1, Relaxed);
            if value >= count {
                return Ok(());
            }
            self.check()?;
            self.output.seal_value(value)?;
        }
    }

    /// Returns the number of slots of a wave. If values are open, they are its slots, and one more has the rows that
    /// are not written to open files.
    fn wave_slots(&self) -> usize {
        self.open.as_ref().map_or(self.kept.len(), |open| open.capacity() + 1)
    }

    /// Returns a worker's writer to the spill, which the first worker that needs it creates.
    fn begin_spill(&self) -> Result<Option<SpillWriter<'_>>, DatasetError> {
        let _beginning = self.beginning_spill.lock();
        if self.spill.get().is_none() {
            // The open files and the spill's pages share the memory.
            self.output.halve_memory();
            let spill = create_spill(self.job, self.output, self.shares.writers / 2)?;
            self.spill.get_or_init(|| spill);
        }
        Ok(self.spill.get().and_then(Spill::writer))
    }

    /// Finishes slots until there are no more, after writing their spilled rows. Returns the bytes
    /// that sorting them wrote to runs.
    pub(super) fn finish(&self, spilled: Option<&SpilledRows>) -> Result<u64, DatasetError> {
        let mut spilled = spilled.map(SpilledRows::reader).transpose()?;
        let mut in_runs = 0;
        loop {
            let slot = self.next.fetch_add(1, Relaxed);
            match self.kept.get(slot) {
                None => return Ok(in_runs),
                Some(Some(_)) => continue,
                Some(None) => {}
            }
            if let Some(spilled) = &mut spilled {
                in_runs += self.write_spilled(slot, spilled)?;
            }
            self.check()?;
            self.output.finish(slot)?;
            self.progress.finished();
        }
    }

    /// Writes the spilled rows of a slot, sorted if there is an order. Returns the bytes that
    /// sorting them wrote to runs.
    fn write_spilled(&self, slot: usize, spilled: &mut SpillReader<'_>) -> Result<u64, DatasetError> {
        let mut write = |batch: RecordBatch| {
            self.check()?;
            Ok(self.output.write(slot, &batch, None)?)
        };
        let Some(order) = &self.order else { return spilled.read(slot, write).map(|()| 0) };
        let path = |run| self.output.scratch_path(&format!("sort-{slot}-{run}.arrows"));
        let mut sorter = Sorter::new(order, self.shares.sort, &path);
        spilled.read(slot, |batch| {
            self.check()?;
            sorter.push(batch)
        })?;
        sorter.finish(&mut write)
    }

    /// Returns the number of slots that this run has to finish.
    pub(super) fn unfinished(&self) -> usize {
        self.kept.iter().filter(|kept| kept.is_none()).count()
    }

    /// Returns an error if the run is to stop.
    fn check(&self) -> Result<(), DatasetError> {
        if self.stop.load(Acquire) { Err(DatasetError::Cancelled) } else { Ok(self.cancel.check()?) }
    }
}

impl ReadingResult {
    pub(super) fn merge(mut self, other: Self) -> Self {
        self.rows_in += other.rows_in;
        self.rows_bad += other.rows_bad;
        let add = |ours: &mut [u64], theirs: Vec<u64>| ours.iter_mut().zip(theirs).for_each(|(a, b)| *a += b);
        add(&mut self.rows, other.rows);
        add(&mut self.spread, other.spread);
        if let (Some(ours), Some(theirs)) = (&mut self.counts, other.counts) {
            ours.merge(theirs);
        }
        self
    }

    /// Returns the keys with many rows.
    pub(super) fn hot_keys(&self, job: &Job, output: &Output) -> Vec<HotKeyEntry> {
        let mut partition_rows = vec![0; job.placement.partitions()];
        for (slot, rows) in self.rows.iter().enumerate() {
            partition_rows[output.slot(slot).partition] += rows;
        }
        hot_report::entries(job, self.counts.as_ref(), &self.spread, &partition_rows)
    }

    /// Returns an error if the inputs give another number of rows for a kept slot than it has.
    pub(super) fn check(&self, shared: &Shared<'_>) -> Result<(), DatasetError> {
        for (slot, (&found, kept)) in self.rows.iter().zip(shared.kept).enumerate() {
            if let Some(kept) = kept.filter(|&kept| kept != found) {
                let name = shared.output.slot(slot).stem();
                let remedy = shared.job.output.existing.start_again();
                return Err(OutputError::RowsDiffer { name, kept, found, remedy }.into());
            }
        }
        Ok(())
    }
}

/// A worker during reading.
struct ReadingWorker<'a> {
    shared: &'a Shared<'a>,
    worker: usize,
    wave: Wave,
    /// The columns of the wave that have codes.
    layout: CodesLayout,
    scratch: Scratch,
    /// The partitions of a batch's rows, later their slots.
    targets: Vec<annulus_rows::partition::Target>,
    report: Option<HotReport>,
    hot: Option<HotTurns<'a>>,
    values: Option<ValueTargets<'a>>,
    spill: Option<SpillWriter<'a>>,
    ended: ReadingResult,
}

impl ReadingWorker<'_> {
    fn read(&mut self, unit: &Unit) -> Result<(), DatasetError> {
        self.scratch.begin_unit(unit.index());
        self.report.iter_mut().for_each(|report| report.begin_unit(unit.index()));
        self.hot.iter_mut().for_each(|hot| hot.begin_unit(unit.index()));
        self.shared.check()?;
        for decoded in self.open(unit)? {
            self.shared.check()?;
            let DecodedBatch { batch, input_bytes, bad } = decoded?;
            let rows = (batch.num_rows() + bad.len()) as u64;
            self.ended.rows_in += rows;
            self.ended.rows_bad += bad.len() as u64;
            if self.shared.job.quarantine && !bad.is_empty() {
                self.shared.output.quarantine(&bad)?;
            }
            if batch.num_rows() > 0 {
                if self.values.is_some() {
                    self.place_by_value(&batch)?;
                } else {
                    self.assign(&batch)?;
                    self.place(&batch)?;
                }
            }
            self.shared.progress.read(rows, input_bytes);
            drop(batch);
            if self.wave.bytes() >= self.shared.shares.wave {
                self.write_wave()?;
            }
        }
        Ok(())
    }

    /// Begins to read a unit, and a wave for its columns if they differ from those before.
    fn open(&mut self, unit: &Unit) -> Result<UnitReader, DatasetError> {
        let Some(codes) = &self.shared.codes else { return unit.read() };
        let (layout, batches) = unit.read_codes(codes)?;
        if layout != self.layout {
            self.write_wave()?;
            self.wave = Wave::new(&layout.schema(&self.shared.job.dataset.schema), self.shared.wave_slots());
            self.layout = layout;
        }
        Ok(batches)
    }

    /// Finds the slot of each row of a batch.
    fn assign(&mut self, batch: &RecordBatch) -> Result<(), DatasetError> {
        self.shared.job.placement.assign(batch, &mut self.scratch, &mut self.targets)?;
        if let Some(report) = &mut self.report {
            report.observe(batch, &self.targets)?;
        }
        if let Some(hot) = &mut self.hot {
            hot.redirect(batch, self.scratch.hashes(), &mut self.targets)?;
        }
        Ok(())
    }

    /// Holds the rows of a batch until the wave is full, or spills them.
    fn place(&mut self, batch: &RecordBatch) -> Result<(), DatasetError> {
        let shared = self.shared;
        match &mut self.spill {
            None => self.wave.hold(batch, &mut self.targets, &mut self.ended.rows),
            Some(spill) => {
                self.targets.iter().for_each(|&slot| self.ended.rows[usize::from(slot)] += 1);
                spill.append(batch, &self.targets, |slot| shared.kept[slot].is_some())
            }
        }
    }

    /// Holds the rows of open values until the wave is full, and spills the others.
    fn place_by_value(&mut self, batch: &RecordBatch) -> Result<(), DatasetError> {
        let (shared, Some(values)) = (self.shared, &mut self.values) else { return Ok(()) };
        let coded = shared.codes.as_ref().map(|codes| BatchCodes::new(codes, &self.layout));
        let (counts, targets) = (&mut self.ended.rows, &mut self.targets);
        if let Some(spilled) = values.assign(batch, coded, shared.output, shared.kept, counts, targets)? {
            if self.spill.is_none() {
                self.spill = shared.begin_spill()?;
            }
            let rows = match coded {
                Some(coded) => &coded.decode(batch, &shared.job.dataset.schema)?,
                None => batch,
            };
            let skip = |slot| slot == usize::from(spilled.others);
            self.spill.as_mut().map_or(Ok(()), |spill| spill.append(rows, spilled.targets, skip))?;
        }
        self.wave.hold(batch, targets, &mut [])
    }

    fn end(mut self) -> Result<ReadingResult, DatasetError> {
        self.write_wave()?;
        self.spill.map_or(Ok(()), SpillWriter::finish)?;
        self.ended.counts = self.report.map(HotReport::finish);
        self.ended.spread = self.hot.map_or(Vec::new(), HotTurns::finish);
        Ok(self.ended)
    }

    fn write_wave(&mut self) -> Result<(), DatasetError> {
        let shared = self.shared;
        let coded = shared.codes.as_ref().map(|codes| BatchCodes::new(codes, &self.layout));
        // Workers begin at different slots, so that they do not wait for the same locks.
        let first = |slots: usize| self.worker * slots / shared.job.threads;
        if let Some(open) = &shared.open {
            let write = |value, batch: RecordBatch| {
                shared.check()?;
                Ok(shared.output.write_value(value, &batch, coded)?)
            };
            return self.wave.write(first(open.count()), |slot| slot == open.capacity(), write);
        }
        let first = first(shared.kept.len());
        self.wave.write(
            first,
            |slot| shared.kept[slot].is_some(),
            |slot, batch| {
                shared.check()?;
                Ok(shared.output.write(slot, &batch, coded)?)
            },
        )
    }
}
