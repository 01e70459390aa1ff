//! Reads the build side: into memory while the pool grants it, then into parts of which some are
//! files.

use std::sync::Arc;

use annulus_join::{Divider, Keys};
use arrow::array::RecordBatch;
use datafusion::{
    common::utils::memory::RecordBatchMemoryCounter,
    error::{DataFusionError, Result},
    execution::SendableRecordBatchStream,
};
use parking_lot::Mutex;

use super::{
    context::SpillContext,
    node::{Node, SpilledParts},
    residents::{PartRows, Residents},
};
use crate::{
    error::from_join,
    join::{
        collect::{Keeper, no_memory, read_all},
        hash::layout::BUILD,
        key_filter::Known,
    },
};

/// The rows of a build side.
#[derive(Debug)]
pub(in crate::join::hash) struct BuildRows {
    /// The batches in memory. Their memory is reserved, and that of the table to be made of them.
    pub(in crate::join::hash) batches: Vec<RecordBatch>,
    /// The number of all rows, those on disk included.
    pub(in crate::join::hash) rows: usize,
    /// The rows on disk, if any.
    pub(in crate::join::hash) spilled: Option<SpilledParts>,
    /// What is known of the keys of all rows, if it was asked for. It has a set of them if rows were spilled.
    pub(in crate::join::hash) known: Option<Known>,
}

/// Reads the build side, with a task for each of its streams.
///
/// # Errors
/// The first error or panic of a stream; that of a disk which is full; and
/// [`DataFusionError::ResourcesExhausted`] if rows do not fit in memory and there is no disk.
pub(in crate::join::hash) async fn gather(
    streams: Vec<SendableRecordBatchStream>,
    spill: &Arc<SpillContext>,
    known: Option<Known>,
) -> Result<BuildRows> {
    let is_asked = known.is_some();
    let shared = Arc::new(GatherState {
        is_asked,
        spill: Arc::clone(spill),
        state: Mutex::new(State::InMemory(streams.iter().map(|_| StreamRows::default()).collect())),
        known: Mutex::new(known),
    });
    let task = |(stream, at)| -> Result<_> {
        let known = if is_asked { Some(Known::new(spill.layout.keys(BUILD)?.types())?) } else { None };
        Ok((stream, Task { shared: Arc::clone(&shared), stream: at, known, dividing: None, rows: 0 }))
    };
    let tasks = read_all(streams.into_iter().zip(0..).map(task).collect::<Result<_>>()?).await?;
    let rows = tasks.iter().map(|task| task.rows).sum();
    for task in tasks {
        if let (Some(all), Some(known)) = (&mut *shared.known.lock(), task.known) {
            all.merge(known)?;
        }
    }
    shared.end(rows)
}

/// What the tasks share.
struct GatherState {
    spill: Arc<SpillContext>,
    state: Mutex<State>,
    /// What is known of the keys, if it is asked for: at first the set of those of rows that were divided.
    known: Mutex<Option<Known>>,
    is_asked: bool,
}

enum State {
    /// The batches of each stream.
    InMemory(Vec<StreamRows>),
    Divided(Arc<Residents>),
}

/// The batches of a stream. They may share memory, which is reserved once.
#[derive(Default)]
struct StreamRows {
    /// Each with the bytes that were reserved for it.
    batches: Vec<(RecordBatch, usize)>,
    memory: RecordBatchMemoryCounter,
}

/// Keeps the batches of one stream.
struct Task {
    shared: Arc<GatherState>,
    stream: usize,
    /// What is known of the keys of these rows, if it is asked for. It is noted as they come: later, in
    /// the order of their hashes, each text would have to be fetched.
    known: Option<Known>,
    dividing: Option<RowDivision>,
    rows: usize,
}

/// What a task needs to divide rows.
struct RowDivision {
    divider: Divider,
    keys: Keys,
}

impl Keeper for Task {
    fn keep(&mut self, batch: RecordBatch) -> Result<()> {
        let batch = self.shared.spill.layout.sides[BUILD].read(&batch)?;
        self.rows += batch.num_rows();
        if let Some(known) = &mut self.known {
            known.update(&self.shared.spill.layout.sides[BUILD].key_columns(&batch))?;
        }
        let (residents, before) = match self.shared.collect(self.stream, &batch)? {
            Next::InMemory => return Ok(()),
            Next::Divide(residents, before) => (residents, before),
        };
        let dividing = match &mut self.dividing {
            Some(dividing) => dividing,
            none => none.insert(self.shared.dividing()?),
        };
        self.shared.divide(&residents, dividing, before)?;
        self.shared.add(&residents, dividing, &batch)
    }
}

/// What becomes of a batch.
enum Next {
    /// It is in memory.
    InMemory,
    /// It is to be divided, after these, which were in memory before.
    Divide(Arc<Residents>, Vec<(RecordBatch, usize)>),
}

impl GatherState {
    fn dividing(&self) -> Result<RowDivision> {
        let divider = self.spill.divider(BUILD, 0, self.spill.parts)?;
        Ok(RowDivision { divider, keys: self.spill.layout.keys(BUILD)? })
    }

    /// Keeps a batch in memory, or says how it is to be divided.
    fn collect(&self, stream: usize, batch: &RecordBatch) -> Result<Next> {
        let mut state = self.state.lock();
        match &mut *state {
            State::InMemory(all) => {
                let StreamRows { batches, memory } = &mut all[stream];
                let bytes = memory.count_batch(batch);
                match self.spill.budget.try_collect(bytes) {
                    Ok(()) => {
                        batches.push((batch.clone(), bytes));
                        Ok(Next::InMemory)
                    }
                    Err(error) => self.begin_dividing(&mut state, batch, error),
                }
            }
            State::Divided(residents) => Ok(Next::Divide(Arc::clone(residents), Vec::new())),
        }
    }

    /// Returns the batches that are to be divided, as the pool has refused more.
    fn begin_dividing(&self, state: &mut State, like: &RecordBatch, error: DataFusionError) -> Result<Next> {
        let State::InMemory(all) = state else { return Err(error) };
        if !self.spill.budget.can_spill() {
            return Err(no_memory(error));
        }
        let before = std::mem::take(all).into_iter().flat_map(|collected| collected.batches).collect();
        if let Some(known) = &mut *self.known.lock() {
            known.collect_set(self.spill.budget.grow_for_set());
        }
        let residents = Arc::new(Residents::new(&self.spill, like));
        *state = State::Divided(Arc::clone(&residents));
        Ok(Next::Divide(residents, before))
    }

    /// Divides batches for which memory is reserved.
    fn divide(
        &self,
        residents: &Residents,
        dividing: &mut RowDivision,
        batches: Vec<(RecordBatch, usize)>,
    ) -> Result<()> {
        for (batch, bytes) in batches {
            // Their rows take it again.
            self.spill.budget.shrink(bytes);
            self.add(residents, dividing, &batch)?;
        }
        Ok(())
    }

    fn add(&self, residents: &Residents, dividing: &mut RowDivision, batch: &RecordBatch) -> Result<()> {
        if self.is_asked {
            let hashes = dividing.keys.hash(batch).map_err(from_join)?;
            if let Some(known) = &mut *self.known.lock() {
                known.insert(&hashes);
            }
        }
        residents.add(&mut dividing.divider, batch)
    }

    /// Frees memory for the table, and returns all rows.
    fn end(&self, rows: usize) -> Result<BuildRows> {
        let bytes = self.spill.budget.size();
        let mut state = self.state.lock();
        if let State::InMemory(all) = &mut *state {
            let like = all.iter().flat_map(|collected| &collected.batches).next().map(|(batch, _)| batch.clone());
            let (like, refused) = match (like, self.spill.try_build(bytes, rows)) {
                (Some(like), Err(refused)) => (like, refused),
                _ => {
                    let batches = std::mem::take(all).into_iter().flat_map(|collected| collected.batches);
                    let batches = batches.map(|(batch, _)| batch).collect();
                    return Ok(BuildRows { batches, rows, spilled: None, known: self.known.lock().take() });
                }
            };
            if let Next::Divide(residents, before) = self.begin_dividing(&mut state, &like, refused)? {
                self.divide(&residents, &mut self.dividing()?, before)?;
            }
        }
        let State::Divided(residents) = &*state else {
            return datafusion::common::internal_err!("a build side that was divided is in memory");
        };
        residents.settle()?;
        let (mut batches, mut nodes) = (Vec::new(), Vec::new());
        for (part, kept) in residents.take()?.into_iter().enumerate() {
            // Rows that have no partner cannot be divided by their keys.
            let is_whole = part == self.spill.parts;

            nodes.push(match kept {
                PartRows::InMemory(pieces) => {
                    batches.extend(pieces);
                    None
                }
                PartRows::OnDisk(file) => Some(Arc::new(Node::new(&self.spill, file, 1, is_whole))),
            });
        }
        let spilled = SpilledParts::new(&self.spill, nodes);
        Ok(BuildRows { batches, rows, spilled, known: self.known.lock().take() })
    }
}
