//! This host's rows of one side.

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
use annulus_join::JoinError;
use arrow::array::RecordBatch;
use datafusion::common::utils::memory::RecordBatchMemoryCounter;

use super::{
    progress::Progress,
    stop::{Stop, as_cancelled, cancelled},
};
use crate::{
    access::Access,
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

/// What is read of a side, and by whom.
pub(super) struct Reader<'a> {
    pub(super) side: &'a Side,
    pub(super) scan: &'a Scan,
    pub(super) threads: usize,
    /// Rows that are read together may not take more.
    pub(super) memory_bytes: Option<u64>,
    pub(super) stop: &'a Stop,
    pub(super) progress: &'a Progress,
}

/// Rows in memory.
#[derive(Default)]
pub(super) struct Loaded {
    pub(super) batches: Vec<RecordBatch>,
    pub(super) rows: u64,
    pub(super) bytes: u64,
    pub(super) rows_bad: u64,
    /// How many rows were counted together, one after the other.
    pub(super) waves: Vec<u64>,
}

impl Side {
    /// Opens the left (0) or the right (1) side, if `access` allows its files.
    pub(super) fn open(task: &Task, side: usize, access: Option<&Access>) -> Result<Self, ClusterError> {
        let Input { name, paths, options } = if side == 0 { &task.query.left } else { &task.query.right };
        let check = |file: &Path| access.map_or(Ok(()), |access| access.check_file(file));
        access.map_or(Ok(()), |access| access.check_inputs(paths))?;
        let dataset = Dataset::open_checked(paths, options, check).map_err(as_cancelled)?;
        let units = task.units[side].clone().unwrap_or_else(|| (0..dataset.units.len()).collect());
        let schema = schema_from(&task.schemas[side])?;
        let is_planned = task.is_planned_for(&dataset, side)
            && dataset.schema.fields() == schema.fields()
            && units.iter().all(|&unit| unit < dataset.units.len());
        if !is_planned {
            return Err(changed(name));
        }
        Ok(Self { dataset, units, name: name.clone() })
    }
}

impl Reader<'_> {
    /// Reads part `part` of `parts` of this host's rows, by all threads.
    pub(super) fn part(&self, part: usize, parts: usize) -> Result<Loaded, ClusterError> {
        let border = |part: usize| self.side.units.len() * part / parts;
        self.units(&self.side.units[border(part)..border(part + 1)], true)
    }

    /// Reads all of this host's rows, and gives them as soon as they take `bytes` bytes. Counts
    /// them.
    ///
    /// # Errors
    /// If others come than `before`, when they were given first.
    pub(super) fn feed(&self, bytes: u64, before: Option<&Loaded>, give: &mut Give<'_>) -> Result<Loaded, JoinError> {
        let is_first = before.is_none();
        let (mut wave, mut all) = (Loaded::default(), Loaded::default());
        let mut give = |all: &mut Loaded, wave: Loaded| {
            let as_before = before.is_none_or(|before| before.waves.get(all.waves.len()) == Some(&wave.rows));
            if as_before { give(all.count(wave)) } else { Err(outside(changed(&self.side.name))) }
        };
        let (mut rest, mut at_once) = (&self.side.units[..], 1);
        while !rest.is_empty() {
            let units;
            (units, rest) = rest.split_at(at_once.min(rest.len()));
            let loaded = self.units(units, is_first).map_err(outside)?;
            let each = (loaded.bytes / units.len() as u64).max(1);
            wave.add(loaded);
            if wave.bytes >= bytes {
                give(&mut all, std::mem::take(&mut wave))?;
            }
            // Many threads must not read much more than is wanted.
            at_once = ((bytes - wave.bytes) / each).clamp(1, self.threads as u64) as usize;
        }
        give(&mut all, wave)?;
        Ok(all)
    }

    /// `is_first` says that these rows have not been read before.
    fn units(&self, units: &[usize], is_first: bool) -> Result<Loaded, ClusterError> {
        let (next, held) = (AtomicUsize::new(0), AtomicU64::new(0));
        let parts: Vec<Mutex<Loaded>> = units.iter().map(|_| Mutex::default()).collect();
        let work = || -> Result<(), ClusterError> {
            while let Some((place, &unit)) = Some(next.fetch_add(1, Relaxed)).and_then(|at| Some((at, units.get(at)?)))
            {
                let loaded = self.read(&self.side.dataset.units[unit], is_first, |bytes| {
                    self.check_memory(held.fetch_add(bytes, Relaxed) + bytes)
                });
                *parts[place].lock().unwrap_or_else(PoisonError::into_inner) = loaded.inspect_err(|_| {
                    // Nobody goes on to another unit.
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

    /// A side that takes more than all there may be is not read to its end.
    fn check_memory(&self, bytes: u64) -> Result<(), ClusterError> {
        match self.memory_bytes {
            Some(limit) if bytes > limit => Err(ClusterError::Option {
                option: "memory_limit",
                reason: format!(
                    "this host's rows of '{}' alone take more than {limit} bytes; allow more, or use more hosts",
                    self.side.name
                ),
            }),
            _ => Ok(()),
        }
    }

    fn read(
        &self,
        unit: &Unit,
        is_first: bool,
        took: impl Fn(u64) -> Result<(), ClusterError>,
    ) -> Result<Loaded, ClusterError> {
        let mut loaded = Loaded::default();
        // Batches of views share the buffers of their strings.
        let mut counter = RecordBatchMemoryCounter::new();
        for decoded in unit.read_columns(&self.scan.columns).map_err(cancelled)? {
            self.stop.check()?;
            let decoded = decoded.map_err(cancelled)?;
            // The same rows are shown once, and the work of each revolution.
            if is_first {
                self.progress.read(decoded.batch.num_rows(), decoded.input_bytes);
            } else {
                self.progress.read_again(decoded.input_bytes);
            }
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
        "'{name}' is not what it was when the join was planned: its files have changed, or are others on this host"
    );
    ClusterError::Option { option: "LEFT and RIGHT", reason }
}

/// An error of who gives rows to the join.
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

    /// Counts other rows, of which the most bytes at a time are of interest, and gives them.
    pub(super) fn count(&mut self, other: Self) -> Vec<RecordBatch> {
        let Self { batches, rows, bytes, rows_bad, .. } = other;
        self.waves.push(rows);
        self.rows += rows;
        self.bytes = self.bytes.max(bytes);
        self.rows_bad += rows_bad;
        batches
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use annulus_dataset::InputOptions;
    use annulus_join::{JoinType, Side as JoinSide};

    use super::*;
    use crate::{
        job::{Algorithm, JoinKind, Query},
        plan::{self, Condition},
    };

    /// Match bits belong to rows by their places.
    #[test]
    fn rows_that_are_others_when_they_are_read_again_are_refused() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("names.csv");
        fs::write(&file, "name\nada\neve\nbob\nzoe\n").unwrap();
        let paths = vec![file.to_str().unwrap().to_owned()];
        let options = InputOptions::default().with_unit_bytes(8);
        let dataset = Dataset::open(&paths, &options).unwrap();
        let input = |name: &str| Input { name: name.to_owned(), paths: paths.clone(), options: options.clone() };
        let query = Query {
            left: input("a"),
            right: input("b"),
            on: vec![("name".to_owned(), "name".to_owned())],
            condition: None,
            join: JoinKind(JoinType::Inner),
            suffix: "_b".to_owned(),
        };
        let condition = Condition::new(&query, &dataset.schema, &dataset.schema, 0).unwrap();
        let bound = plan::bind(&condition, &query, JoinSide::Left, Algorithm::Hash).unwrap();
        let side = Side { units: (0..dataset.units.len()).collect(), dataset, name: "a".to_owned() };
        let (stop, progress) = (Stop::default(), Progress::default());
        let scan = &bound.scans[0];
        let reader = Reader { side: &side, scan, threads: 1, memory_bytes: None, stop: &stop, progress: &progress };
        let mut given = Vec::new();
        let mut give = |batches: Vec<RecordBatch>| {
            given.push(batches.iter().map(RecordBatch::num_rows).sum::<usize>());
            Ok(())
        };
        // Each unit is enough for a wave.
        let first = reader.feed(1, None, &mut give).unwrap();
        let once = progress.get();
        let again = reader.feed(1, Some(&first), &mut give).unwrap();
        let twice = progress.get();
        // The work of each revolution is shown, and the same rows once.
        assert_eq!((twice.rows_read, twice.bytes_read), (once.rows_read, 2 * once.bytes_read));
        assert_eq!((first.rows, &first.waves), (4, &again.waves));
        assert!(first.waves.len() > 1, "{:?}", first.waves);
        // As many bytes, in fewer rows.
        fs::write(&file, "name\nada\neve\nbob_zoe\n").unwrap();
        let error = reader.feed(1, Some(&first), &mut give).err().unwrap();
        assert!(error.to_string().contains("its files have changed"), "{error}");
        assert_eq!(progress.get().rows_read, 4);
    }
}
