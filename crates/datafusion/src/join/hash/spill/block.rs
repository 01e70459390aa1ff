//! A block of a part: rows whose table fits in memory. Streams that need it at the same time share
//! the table, and all share its match bits.

use std::{
    ops::Range,
    sync::{
        Arc, OnceLock,
        atomic::{AtomicUsize, Ordering},
    },
};

use annulus_join::{BuildSide, MatchBits};
use datafusion::error::{DataFusionError, Result};
use futures::{
    FutureExt, StreamExt,
    future::{BoxFuture, Shared, WeakShared},
};
use parking_lot::Mutex;

use super::{context::SpillContext, files::SpilledRows, plan::build_bytes};
use crate::{
    error::from_join,
    join::hash::{build::BuildTable, layout::BUILD},
};

/// A block, and what its streams share.
#[derive(Debug)]
pub(super) struct Block {
    file: SpilledRows,
    pieces: Range<usize>,
    /// The streams that have not passed the block.
    left: Arc<AtomicUsize>,
    /// Which rows have a match, from the first time that the block is loaded on. The rows are in
    /// the same order each time.
    matched: OnceLock<Arc<MatchBits>>,
    table: Mutex<Option<WeakShared<TableFuture>>>,
}

/// The table in the making.
type TableFuture = BoxFuture<'static, Result<Arc<BuildTable>, Arc<DataFusionError>>>;

/// A table, which is in memory while this lives.
pub(super) type SharedTable = Shared<TableFuture>;

impl Block {
    /// Returns the block of these pieces of a file, which `left` streams will pass.
    pub(super) fn new(file: &SpilledRows, pieces: Range<usize>, left: usize) -> Self {
        let left = Arc::new(AtomicUsize::new(left));
        Self { file: file.clone(), pieces, left, matched: OnceLock::new(), table: Mutex::default() }
    }

    /// Passes the block for a stream without rows for it, and returns true; or returns false if it
    /// is the last stream, which must look at the rows that have no match.
    pub(super) fn skip(&self) -> bool {
        let less = |left: usize| (left > 1).then(|| left - 1);
        self.left.fetch_update(Ordering::AcqRel, Ordering::Acquire, less).is_ok()
    }

    pub(super) fn is_loaded(&self) -> bool {
        self.table.lock().as_ref().is_some_and(|table| table.upgrade().is_some())
    }

    /// Returns the table in the making: that of other streams, if any has it.
    pub(super) fn load(self: &Arc<Self>, spill: &Arc<SpillContext>) -> SharedTable {
        let mut table = self.table.lock();
        if let Some(loaded) = table.as_ref().and_then(WeakShared::upgrade) {
            return loaded;
        }
        let (block, spill) = (Arc::clone(self), Arc::clone(spill));
        let loading = async move { block.make(&spill).await.map(Arc::new).map_err(Arc::new) };
        let loaded = loading.boxed().shared();
        *table = loaded.downgrade();
        loaded
    }

    async fn make(&self, spill: &SpillContext) -> Result<BuildTable> {
        let Range { start, end } = self.pieces;
        let pieces = &self.file.pieces[start..end];
        let rows: usize = pieces.iter().map(|piece| piece.rows).sum();
        let budget = spill.budget.another();
        // The block was made to fit, or cannot be smaller.
        budget.grow(build_bytes(pieces.iter().map(|piece| piece.bytes).sum(), rows));
        let mut stream = spill.files[BUILD].read(&self.file)?.skip(start).take(end - start);
        let mut batches = Vec::with_capacity(pieces.len());
        while let Some(batch) = stream.next().await.transpose()? {
            batches.push(batch);
        }
        let side =
            BuildSide::prepare(spill.layout.keys(BUILD)?, batches, &spill.hash_config(rows)).map_err(from_join)?;
        let rows = spill.output.build_rows(side.batch()).map_err(from_join)?;
        let rows = match rows.share_matched() {
            Some(matched) => {
                let matched = self.matched.get_or_init(|| matched);
                rows.with_matched(Arc::clone(matched)).map_err(from_join)?
            }
            None => rows,
        };
        budget.settle(side.memory_bytes())?;
        Ok(BuildTable::new(side, rows, Arc::clone(&self.left), spill, budget, None))
    }
}
