//! The tree of the parts that are on disk. All streams see the same tree: whichever needs a part
//! first decides how it is cut, and the others wait for that together.

use std::sync::Arc;

use datafusion::error::{DataFusionError, Result};
use futures::{
    FutureExt, StreamExt,
    future::{BoxFuture, Shared},
};
use parking_lot::Mutex;

use super::{
    block::Block,
    context::SpillContext,
    files::SpilledRows,
    plan::{blocks, division, is_skewed},
    writers::PartitionWriters,
};
use crate::join::hash::layout::{BUILD, PROBE};

/// The parts of a build side that are on disk.
#[derive(Debug)]
pub(in crate::join::hash) struct SpilledParts {
    pub(super) spill: Arc<SpillContext>,
    /// None for the parts in memory, and for those without rows if no row needs them. The last one
    /// is of rows that have no partner.
    pub(super) nodes: Vec<Option<Arc<Node>>>,
}

/// A part on disk.
#[derive(Debug)]
pub(super) struct Node {
    spill: Arc<SpillContext>,
    /// The number of divisions that its rows went through.
    level: u32,
    /// Whether dividing it does not help.
    is_whole: bool,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    /// The streams that have not passed the part. When its shape is known, the shape counts them.
    left: usize,
    /// Until the shape is asked for.
    file: SpilledRows,
    shape: Option<ShapeFuture>,
}

/// The shape in the making.
type ShapeFuture = Shared<BoxFuture<'static, Result<Arc<Shape>, Arc<DataFusionError>>>>;

/// How a part is cut.
#[derive(Debug)]
pub(super) enum Shape {
    /// Blocks that fit in memory one by one.
    Blocks(Vec<Arc<Block>>),
    /// Parts of a division of this level; none for those without rows if no row needs them.
    Parts(u32, Vec<Option<Arc<Node>>>),
}

impl SpilledParts {
    /// Returns the parts, unless none is on disk.
    pub(super) fn new(spill: &Arc<SpillContext>, nodes: Vec<Option<Arc<Node>>>) -> Option<Self> {
        nodes.iter().any(Option::is_some).then(|| Self { spill: Arc::clone(spill), nodes })
    }
}

impl Node {
    /// Returns a part that no stream has passed. A whole one is not divided again.
    pub(super) fn new(spill: &Arc<SpillContext>, file: SpilledRows, level: u32, is_whole: bool) -> Self {
        Self::with_left(spill, file, level, is_whole, spill.streams)
    }

    fn with_left(spill: &Arc<SpillContext>, file: SpilledRows, level: u32, is_whole: bool, left: usize) -> Self {
        let metrics = spill.metrics.parts();
        metrics.parts.add(1);
        metrics.depth.set_max(level as usize);
        let state = Mutex::new(State { left, file, shape: None });
        Self { spill: Arc::clone(spill), level, is_whole, state }
    }

    /// Passes the part for a stream without rows for it, and returns true; or returns false if the
    /// stream must go through it: its shape counts the streams, or this is the last one.
    pub(super) fn skip(&self) -> bool {
        let mut state = self.state.lock();
        let may_skip = state.shape.is_none() && state.left > 1;
        state.left -= usize::from(may_skip);
        may_skip
    }

    /// Returns how the part is cut.
    ///
    /// # Errors
    /// If the disk fails, or a kernel.
    pub(super) async fn shape(&self) -> Result<Arc<Shape>> {
        let shaping = {
            let mut state = self.state.lock();
            let State { left, file, shape } = &mut *state;
            shape
                .get_or_insert_with(|| {
                    let (level, is_whole, left) = (self.level, self.is_whole, *left);
                    let cut = cut(Arc::clone(&self.spill), std::mem::take(file), level, is_whole, left);
                    async { cut.await.map(Arc::new).map_err(Arc::new) }.boxed().shared()
                })
                .clone()
        };
        shaping.await.map_err(|error| DataFusionError::from(&error))
    }

    /// Returns whether a table of the part is in memory now.
    pub(super) fn is_loaded(&self) -> bool {
        let state = self.state.lock();
        match state.shape.as_ref().and_then(|shape| shape.peek()) {
            Some(Ok(shape)) => {
                matches!(&**shape, Shape::Blocks(blocks) if blocks.iter().any(|block| block.is_loaded()))
            }
            _ => false,
        }
    }
}

/// Cuts a part into blocks or smaller parts.
async fn cut(spill: Arc<SpillContext>, file: SpilledRows, level: u32, is_whole: bool, left: usize) -> Result<Shape> {
    let ranges = blocks(&file.pieces, spill.budget.for_block());
    let Some(parts) = division(ranges.len(), level, is_whole) else {
        spill.metrics.parts().blocks.add(ranges.len());
        let block = |range| Arc::new(Block::new(&file, range, left));
        return Ok(Shape::Blocks(ranges.into_iter().map(block).collect()));
    };
    let rows = file.rows();
    let mut divider = spill.divider(BUILD, level, parts)?;
    let files = &spill.files[BUILD];
    let size = spill.size_of_open(parts);
    let mut writers = PartitionWriters::new(spill.budget.another(), files, (0..parts).map(|_| true), size);
    let mut stream = files.read(&file)?;
    drop(file);
    while let Some(batch) = stream.next().await.transpose()? {
        writers.divide(&mut divider, &batch)?;
    }
    let node = |file: SpilledRows| {
        let is_needed = !file.is_empty() || spill.keeps_unmatched(PROBE);
        let is_skewed = is_skewed(file.rows(), rows);
        spill.metrics.parts().skewed.add(usize::from(is_skewed));
        is_needed.then(|| Arc::new(Node::with_left(&spill, file, level + 1, is_skewed, left)))
    };
    Ok(Shape::Parts(level, writers.finish()?.into_iter().map(node).collect()))
}
