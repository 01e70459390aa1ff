//! This host's rows of one side.

use std::{
    panic,
    sync::{
        Mutex, PoisonError,
        atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed},
    },
    thread,
};

use annulus_dataset::input::{Dataset, Unit};
use arrow::array::RecordBatch;

use super::{
    progress::Progress,
    stop::{Stop, cancelled},
};
use crate::{
    control::{Task, schema_from},
    error::ClusterError,
    job::Input,
    plan::Scan,
};

/// A side's dataset, and which of its units are this host's.
pub(super) struct Side {
    pub(super) dataset: Dataset,
    units: Vec<usize>,
    name: String,
}

/// Rows in memory.
#[derive(Default)]
pub(super) struct Loaded {
    pub(super) batches: Vec<RecordBatch>,
    pub(super) rows: u64,
    pub(super) bytes: u64,
    pub(super) rows_bad: u64,
}

impl Side {
    /// Opens the left (0) or the right (1) side.
    pub(super) fn open(task: &Task, side: usize) -> Result<Self, ClusterError> {
        let Input { name, paths, options } = if side == 0 { &task.query.left } else { &task.query.right };
        let dataset = Dataset::open(paths, options).map_err(cancelled)?;
        let units = task.units[side].clone().unwrap_or_else(|| (0..dataset.units.len()).collect());
        let schema = schema_from(&task.schemas[side])?;
        let is_planned = task.is_planned_for(&dataset, side)
            && dataset.schema.fields() == schema.fields()
            && units.iter().all(|&unit| unit < dataset.units.len());
        if !is_planned {
            let reason = format!(
                "'{name}' is not what it was when the join was planned: its files have changed, or are others on this host"
            );
            return Err(ClusterError::Option { option: "LEFT and RIGHT", reason });
        }
        Ok(Self { dataset, units, name: name.clone() })
    }

    /// Reads part `part` of `parts` of this host's rows, by all threads.
    pub(super) fn load(
        &self,
        scan: &Scan,
        (part, parts): (usize, usize),
        task: &Task,
        stop: &Stop,
        progress: &Progress,
    ) -> Result<Loaded, ClusterError> {
        let border = |part: usize| self.units.len() * part / parts;
        let units = &self.units[border(part)..border(part + 1)];
        let (next, held) = (AtomicUsize::new(0), AtomicU64::new(0));
        let parts: Vec<Mutex<Loaded>> = units.iter().map(|_| Mutex::default()).collect();
        let work = || -> Result<(), ClusterError> {
            while let Some((place, &unit)) = Some(next.fetch_add(1, Relaxed)).and_then(|at| Some((at, units.get(at)?)))
            {
                let loaded = read(&self.dataset.units[unit], scan, stop, progress, |bytes| {
                    self.check_memory(held.fetch_add(bytes, Relaxed) + bytes, task)
                });
                *parts[place].lock().unwrap_or_else(PoisonError::into_inner) = loaded.inspect_err(|_| {
                    // Nobody goes on to another unit.
                    next.store(units.len(), Relaxed);
                })?;
            }
            Ok(())
        };
        thread::scope(|scope| {
            let helpers = (1..task.threads().min(units.len())).map(|_| scope.spawn(work)).collect::<Vec<_>>();
            let own = work();
            let helpers =
                helpers.into_iter().map(|helper| helper.join().unwrap_or_else(|panic| panic::resume_unwind(panic)));
            helpers.fold(own, Result::and)
        })?;
        let mut all = Loaded::default();
        for part in parts {
            let part = part.into_inner().unwrap_or_else(PoisonError::into_inner);
            all.batches.extend(part.batches);
            all.rows += part.rows;
            all.bytes += part.bytes;
            all.rows_bad += part.rows_bad;
        }
        Ok(all)
    }

    /// A side that takes more than all there may be is not read to its end.
    fn check_memory(&self, bytes: u64, task: &Task) -> Result<(), ClusterError> {
        match task.memory_bytes {
            Some(limit) if bytes > limit => Err(ClusterError::Option {
                option: "--memory-limit",
                reason: format!(
                    "this host's rows of '{}' alone take more than {limit} bytes; allow more, or use more hosts",
                    self.name
                ),
            }),
            _ => Ok(()),
        }
    }
}

fn read(
    unit: &Unit,
    scan: &Scan,
    stop: &Stop,
    progress: &Progress,
    took: impl Fn(u64) -> Result<(), ClusterError>,
) -> Result<Loaded, ClusterError> {
    let mut loaded = Loaded::default();
    for decoded in unit.read_columns(&scan.columns).map_err(cancelled)? {
        stop.check()?;
        let decoded = decoded.map_err(cancelled)?;
        progress.read(decoded.batch.num_rows(), decoded.input_bytes);
        let batch = scan.apply(decoded.batch)?;
        let bytes = batch.get_array_memory_size() as u64;
        took(bytes)?;
        loaded.rows += batch.num_rows() as u64;
        loaded.bytes += bytes;
        loaded.rows_bad += decoded.bad.len() as u64;
        loaded.batches.push(batch);
    }
    Ok(loaded)
}
