//! Reads this host's rows of one input.

use std::{
    panic,
    path::Path,
    sync::{
        Mutex, PoisonError,
        atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed},
    },
    thread,
};

use annulus_cyclo::Give;
use annulus_dataset::{Dataset, Unit};
use annulus_join::{JoinError, Side};
use arrow::array::RecordBatch;
use datafusion::common::utils::memory::RecordBatchMemoryCounter;

use super::{
    progress::Counters,
    stop::{Stop, as_cancelled, cancelled},
};
use crate::{
    access::Access,
    control::{InputTask, Task, schema_from},
    error::ClusterError,
    job::Input,
    plan::Scan,
};

/// An input, and its units that this host reads.
pub(super) struct HostInput {
    pub(super) dataset: Dataset,
    units: Vec<usize>,
    name: String,
}

/// Reads this host's rows of an input, on several threads.
pub(super) struct Reader<'a> {
    pub(super) input: &'a HostInput,
    pub(super) scan: &'a Scan,
    pub(super) threads: usize,
    /// The most memory that rows read together may take.
    pub(super) memory_bytes: Option<u64>,
    pub(super) stop: &'a Stop,
    pub(super) progress: &'a Counters,
}

/// Rows in memory.
#[derive(Default)]
pub(super) struct Loaded {
    pub(super) batches: Vec<RecordBatch>,
    pub(super) rows: u64,
    pub(super) bytes: u64,
    pub(super) rows_bad: u64,
}

impl HostInput {
    /// Opens the input of a side, if `access` allows its files.
    pub(super) fn open(task: &Task, side: Side, access: Option<&Access>) -> Result<Self, ClusterError> {
        let query = &task.join.query;
        let Input { name, paths, options } = if side == Side::Left { &query.left } else { &query.right };
        let check = |file: &Path| access.map_or(Ok(()), |access| access.check_file(file));
        access.map_or(Ok(()), |access| access.check_inputs(paths))?;
        let dataset = Dataset::open_checked(paths, options, check).map_err(as_cancelled)?;
        let InputTask { schema, units, .. } = &task.inputs[side];
        let units = units.clone().unwrap_or_else(|| (0..dataset.units.len()).collect());
        let is_planned = task.is_planned_for(&dataset, side)
            && dataset.schema.fields() == schema_from(schema)?.fields()
            && units.iter().all(|&unit| unit < dataset.units.len());
        if !is_planned {
            return Err(changed(name));
        }
        Ok(Self { dataset, units, name: name.clone() })
    }
}

impl Reader<'_> {
    /// Reads part `part` of `parts` of this host's rows, on all threads.
    pub(super) fn part(&self, part: usize, parts: usize) -> Result<Loaded, ClusterError> {
        self.units(self.part_units(part, parts))
    }

    fn part_units(&self, part: usize, parts: usize) -> &[usize] {
        let border = |part: usize| self.input.units.len() * part / parts;
        &self.input.units[border(part)..border(part + 1)]
    }

    /// Returns the rows of the largest of `parts` parts, estimated from those of the first one,
    /// which is `first`: conditions are expected to leave the same share of each.
    pub(super) fn largest_part(&self, parts: usize, first: &Loaded) -> u64 {
        let units = |part: usize| self.part_units(part, parts).iter().map(|&unit| &self.input.dataset.units[unit]);
        let weight = |part: usize| -> u64 { units(part).map(|unit| unit.rows().unwrap_or_else(|| unit.bytes())).sum() };
        let largest = (0..parts).max_by_key(|&part| weight(part)).unwrap_or_default();
        match weight(0) {
            // Nothing is known of the conditions.
            0 => units(largest).filter_map(Unit::rows).sum::<u64>().max(first.rows),
            of_first => {
                let rows = u128::from(first.rows) * u128::from(weight(largest)) / u128::from(of_first);
                u64::try_from(rows).unwrap_or(u64::MAX).max(first.rows)
            }
        }
    }

    /// Reads all of this host's rows, and passes them to `give` in waves of at least `bytes` bytes.
    /// Returns their counts.
    pub(super) fn feed(&self, bytes: u64, give: &mut Give<'_>) -> Result<Loaded, JoinError> {
        let (mut wave, mut all) = (Loaded::default(), Loaded::default());
        let (mut rest, mut at_once) = (&self.input.units[..], 1);
        while !rest.is_empty() {
            let units;
            (units, rest) = rest.split_at(at_once.min(rest.len()));
            let loaded = self.units(units).map_err(outside)?;
            let each = (loaded.bytes / units.len() as u64).max(1);
            wave.add(loaded);
            if wave.bytes >= bytes {
                give(all.count(std::mem::take(&mut wave)))?;
            }
            // All threads together must not read much more than a wave.
            at_once = ((bytes - wave.bytes) / each).clamp(1, self.threads as u64) as usize;
        }
        give(all.count(wave))?;
        Ok(all)
    }

    fn units(&self, units: &[usize]) -> Result<Loaded, ClusterError> {
        let (next, held) = (AtomicUsize::new(0), AtomicU64::new(0));
        let parts: Vec<Mutex<Loaded>> = units.iter().map(|_| Mutex::default()).collect();
        let work = || -> Result<(), ClusterError> {
            while let Some((place, &unit)) = Some(next.fetch_add(1, Relaxed)).and_then(|at| Some((at, units.get(at)?)))
            {
                let loaded = self.read(&self.input.dataset.units[unit], |bytes| {
                    self.check_memory(held.fetch_add(bytes, Relaxed) + bytes)
                });
                *parts[place].lock().unwrap_or_else(PoisonError::into_inner) = loaded.inspect_err(|_| {
                    // The other threads start no further unit.
                    next.store(units.len(), Relaxed);
                })?;
            }
            Ok(())
        };
        thread::scope(|scope| {
            let helpers = (1..self.threads.min(units.len())).map(|_| scope.spawn(work)).collect::<Vec<_>>();
            let own = work();
            let helpers =
                helpers.into_iter().map(|helper| helper.join().unwrap_or_else(|panic| panic::resume_unwind(panic)));
            helpers.fold(own, Result::and)
        })?;
        let mut all = Loaded::default();
        parts.into_iter().for_each(|part| all.add(part.into_inner().unwrap_or_else(PoisonError::into_inner)));
        Ok(all)
    }

    /// Refuses rows that exceed the memory limit by themselves, before all of them are read.
    fn check_memory(&self, bytes: u64) -> Result<(), ClusterError> {
        match self.memory_bytes {
            Some(limit) if bytes > limit => Err(ClusterError::Option {
                option: "memory_limit",
                reason: format!(
                    "this host's rows of '{}' alone take more than {limit} bytes; allow more, or use more hosts",
                    self.input.name
                ),
            }),
            _ => Ok(()),
        }
    }

    fn read(&self, unit: &Unit, took: impl Fn(u64) -> Result<(), ClusterError>) -> Result<Loaded, ClusterError> {
        let mut loaded = Loaded::default();
        // Batches of views share the buffers of their strings.
        let mut counter = RecordBatchMemoryCounter::new();
        for decoded in unit.read_columns(&self.scan.columns).map_err(cancelled)? {
            self.stop.check()?;
            let decoded = decoded.map_err(cancelled)?;
            self.progress.read(decoded.batch.num_rows(), decoded.input_bytes);
            let batch = self.scan.apply(decoded.batch)?;
            let bytes = counter.count_batch(&batch) as u64;
            took(bytes)?;
            loaded.rows += batch.num_rows() as u64;
            loaded.bytes += bytes;
            loaded.rows_bad += decoded.bad.len() as u64;
            loaded.batches.push(batch);
        }
        Ok(loaded)
    }
}

fn changed(name: &str) -> ClusterError {
    let reason = format!(
        "the files of '{name}' differ from those that the join was planned with: they have changed, or this host \
            has others"
    );
    ClusterError::Option { option: "LEFT and RIGHT", reason }
}

/// Wraps an error of this crate, to pass it through the join.
pub(super) fn outside(error: ClusterError) -> JoinError {
    match error {
        ClusterError::Cancelled => JoinError::Cancelled,
        error => JoinError::Outside(Box::new(error)),
    }
}

impl Loaded {
    fn add(&mut self, more: Self) {
        self.batches.extend(more.batches);
        self.rows += more.rows;
        self.bytes += more.bytes;
        self.rows_bad += more.rows_bad;
    }

    /// Adds the counts of other rows, and returns those rows. `bytes` becomes the most at one time.
    pub(super) fn count(&mut self, other: Self) -> Vec<RecordBatch> {
        let Self { batches, rows, bytes, rows_bad, .. } = other;
        self.rows += rows;
        self.bytes = self.bytes.max(bytes);
        self.rows_bad += rows_bad;
        batches
    }
}
