//! A stream of a join whose build side is partly on disk: it divides its rows of the probe side,
//! and then goes through the parts that are on disk.

use std::sync::Arc;

use annulus_join::{Divider, SideRows};
use arrow::{
    array::{BooleanArray, RecordBatch},
    compute::filter_record_batch,
};
use datafusion::{
    error::{DataFusionError, Result},
    execution::SendableRecordBatchStream,
};
use futures::StreamExt;

use super::{
    block::{Block, SharedTable},
    budget::MemoryBudget,
    context::SpillContext,
    files::{Files, SpilledRows},
    node::{Node, Shape, SpilledParts},
    order::Order,
    writers::PartitionWriters,
};
use crate::{
    error::from_join,
    join::hash::{
        build::BuildTable,
        layout::{BUILD, Layout, PROBE},
        setup::Setup,
    },
};

/// The probe side of one stream, and its pass through the parts that are on disk.
pub(in crate::join::hash) struct SpilledProbe {
    spill: Arc<SpillContext>,
    budget: MemoryBudget,
    /// The columns of the probe side, with a number of each row if the order counts.
    layout: Arc<Layout>,
    files: Files,
    /// Whether rows with null keys meet all parts of the build side, and those of the build side all
    /// rows.
    pairs_nulls: bool,
    /// While the input is read.
    router: Option<PartitionRouter>,
    /// The parts that the stream has not passed, with its rows for them.
    ahead: Vec<(Arc<Node>, SpilledRows)>,
    pass: Option<BlockPass>,
    order: Option<Order>,
}

/// Divides the input: rows of parts in memory go on, the others to files.
struct PartitionRouter {
    divider: Divider,
    writers: PartitionWriters,
    nodes: Vec<Option<Arc<Node>>>,
    /// The number of rows until now.
    rows: u64,
}

/// The pass through a part that is joined block by block.
struct BlockPass {
    shape: Arc<Shape>,
    /// The blocks that were begun.
    begun: usize,
    probe: SpilledRows,
    source: Option<SendableRecordBatchStream>,
    table: Option<SharedTable>,
    /// Which rows of each batch of the probe side have a match in the blocks before.
    marks: Vec<BooleanArray>,
    /// The batches of the probe side that were begun with this block.
    batches: usize,
}

impl SpilledProbe {
    /// Returns the probe side of the stream with this setup, which is changed if its rows must come in
    /// the order of the probe side.
    ///
    /// # Errors
    /// If a key's type cannot be compared.
    pub(in crate::join::hash) fn new(spilled: &SpilledParts, setup: &mut Setup) -> Result<Self> {
        let spill = Arc::clone(&spilled.spill);
        let mut order = None;
        if setup.is_ordered {
            setup.number()?;
            order = Some(Order::new(spill.files[PROBE].with_schema(setup.layout.schema()), spill.budget.another()));
        }
        let layout = Arc::clone(&setup.layout);
        let files = spill.files[PROBE].with_schema(Arc::clone(&layout.sides[PROBE].schema));
        let pairs_nulls = setup.pairs_nulls();
        // Rows that have no partner are not divided.
        let divided = spill.parts + usize::from(pairs_nulls);
        let wanted = spilled.nodes.iter().take(divided).map(Option::is_some);
        let writers = PartitionWriters::new(spill.budget.another(), &files, wanted, spill.piece_size(PROBE));
        let writers = writers.with_nulls_everywhere(pairs_nulls);
        let divider = Divider::new(layout.keys(PROBE)?, 0, spill.parts);
        let router = Some(PartitionRouter { divider, writers, nodes: spilled.nodes.clone(), rows: 0 });
        let budget = spill.budget.another();
        Ok(Self { spill, budget, layout, files, pairs_nulls, router, ahead: Vec::new(), pass: None, order })
    }

    /// Returns the next batch to look up, which may have no rows, or nothing when the current table
    /// needs no more.
    ///
    /// # Errors
    /// If the input, the disk or a kernel fails.
    pub(in crate::join::hash) async fn next(&mut self, setup: &mut Setup) -> Result<Option<RecordBatch>> {
        match (&mut self.router, &mut self.pass) {
            (Some(router), _) => match setup.probe.next().await.transpose()? {
                Some(batch) => {
                    let read = setup.read_input(&self.spill.seen, &batch)?;
                    let batch = router.route(&self.layout, read, self.order.is_some())?;
                    // Nulls of the build side that are in memory meet rows of all parts.
                    Ok(Some(if self.pairs_nulls { batch } else { router.rows_in_memory(&batch)? }))
                }
                None => Ok(None),
            },
            (None, Some(BlockPass { source: Some(source), .. })) => source.next().await.transpose(),
            (None, _) => Ok(None),
        }
    }

    /// Goes to the next table, or returns nothing after the last. The rows of the tables before
    /// have been output.
    ///
    /// # Errors
    /// If the disk or a kernel fails.
    pub(in crate::join::hash) async fn advance(&mut self) -> Result<Option<Arc<BuildTable>>> {
        if let Some(PartitionRouter { writers, nodes, .. }) = self.router.take() {
            let files = writers.finish()?.into_iter().chain([SpilledRows::default()]);
            let parts = nodes.into_iter().zip(files);
            self.ahead = parts.filter_map(|(node, file)| Some((node?, file))).collect();
        }
        loop {
            if let Some(pass) = &mut self.pass {
                if let Some(built) = pass.advance(&self.spill, &self.files).await? {
                    return Ok(Some(built));
                }
                self.budget.shrink(self.budget.size());
                self.pass = None;
            }
            let Some(last) = self.ahead.len().checked_sub(1) else { return Ok(None) };
            // A part whose table is there for another stream costs least. Otherwise the parts of a
            // division come before those above it, so that few files are there at once.
            let next = self.ahead.iter().position(|(node, _)| node.is_loaded()).unwrap_or(last);
            let (node, probe) = self.ahead.remove(next);
            if probe.is_empty() && (!self.spill.outputs_alone(BUILD) || node.skip()) {
                continue;
            }
            let shape = node.shape().await?;
            match &*shape {
                Shape::Blocks(_) => self.pass = Some(BlockPass::new(shape, probe)),
                Shape::Parts(level, nodes) => {
                    let files = self.divide(probe, *level, nodes).await?;
                    let parts = nodes.iter().zip(files);
                    self.ahead.extend(parts.filter_map(|(node, file)| Some((Arc::clone(node.as_ref()?), file))));
                }
            }
        }
    }

    /// Divides the rows of a part as the build side was.
    async fn divide(
        &mut self,
        probe: SpilledRows,
        level: u32,
        nodes: &[Option<Arc<Node>>],
    ) -> Result<Vec<SpilledRows>> {
        let mut divider = Divider::new(self.layout.keys(PROBE)?, level, nodes.len());
        let size = self.spill.piece_size(PROBE);
        let wanted = nodes.iter().map(Option::is_some);
        let writers = PartitionWriters::new(self.spill.budget.another(), &self.files, wanted, size);
        let mut writers = writers.with_nulls_everywhere(self.pairs_nulls);
        let mut stream = self.files.read(&probe)?;
        drop(probe);
        while let Some(batch) = stream.next().await.transpose()? {
            writers.divide(&mut divider, &batch)?;
        }
        writers.finish()
    }

    /// Marks the rows of a batch that have a match in a block before this one.
    ///
    /// # Errors
    /// If the batch is not the one of that block.
    pub(in crate::join::hash) fn begin(&mut self, rows: &SideRows) -> Result<()> {
        let Some(pass) = &mut self.pass else { return Ok(()) };
        pass.batches += 1;
        match pass.marks.get(pass.batches - 1) {
            Some(marks) => rows.mark(marks).map_err(from_join),
            None => Ok(()),
        }
    }

    /// Returns whether the rows of a batch meet the last rows of the build side.
    pub(in crate::join::hash) fn is_last(&self) -> bool {
        self.pass.as_ref().is_none_or(|pass| pass.begun == pass.blocks().len())
    }

    /// Returns whether the rows of a batch have now met all rows of the build side. If not, notes
    /// which have a match.
    pub(in crate::join::hash) fn end(&mut self, rows: &SideRows) -> bool {
        if self.is_last() {
            return true;
        }
        let Some(pass) = &mut self.pass else { return true };
        if let Some(matched) = rows.matched() {
            let marks = matched.to_array();
            match pass.marks.get_mut(pass.batches - 1) {
                Some(before) => *before = marks,
                None => {
                    self.budget.grow(marks.values().inner().len());
                    pass.marks.push(marks);
                }
            }
        }
        false
    }

    /// Returns what restores the order of the probe side, if it counts.
    pub(in crate::join::hash) fn order(&mut self) -> Option<&mut Order> {
        self.order.as_mut()
    }

    /// Returns the output in the order of the probe side, if it counts.
    ///
    /// # Errors
    /// If a file cannot be opened.
    pub(in crate::join::hash) fn ordered(&mut self) -> Result<Option<SendableRecordBatchStream>> {
        self.order.take().map(|order| order.merge(self.spill.batch_rows)).transpose()
    }
}

impl PartitionRouter {
    /// Writes the rows of parts on disk to their files, and returns all of them.
    fn route(&mut self, layout: &Layout, read: RecordBatch, is_numbered: bool) -> Result<RecordBatch> {
        let first = self.rows;
        self.rows += read.num_rows() as u64;
        let batch = if is_numbered { layout.sides[PROBE].numbered(&read, first)? } else { read };
        self.writers.divide(&mut self.divider, &batch)?;
        Ok(batch)
    }

    /// Returns the rows of the last batch that are not of parts on disk, in their order.
    fn rows_in_memory(&self, batch: &RecordBatch) -> Result<RecordBatch> {
        // Rows without a partner are looked up like those of parts in memory.
        let is_here: Vec<bool> = self.nodes.iter().map(Option::is_none).collect();
        let parts = self.divider.parts();
        let here = |&part: &u16| usize::from(part) >= parts || is_here[usize::from(part)];
        let here: BooleanArray = self.divider.parts_of_rows().iter().map(here).collect::<Vec<_>>().into();
        Ok(filter_record_batch(batch, &here)?)
    }
}

impl BlockPass {
    fn new(shape: Arc<Shape>, probe: SpilledRows) -> Self {
        Self { shape, begun: 0, probe, source: None, table: None, marks: Vec::new(), batches: 0 }
    }

    fn blocks(&self) -> &[Arc<Block>] {
        match &*self.shape {
            Shape::Blocks(blocks) => blocks,
            Shape::Parts(..) => &[],
        }
    }

    /// Goes to the next block, or returns nothing after the last.
    async fn advance(&mut self, spill: &Arc<SpillContext>, files: &Files) -> Result<Option<Arc<BuildTable>>> {
        // Before the next table is made, the last one goes.
        (self.source, self.table, self.batches) = (None, None, 0);
        while let Some(block) = self.blocks().get(self.begun).cloned() {
            self.begun += 1;
            if self.probe.is_empty() && block.skip() {
                continue;
            }
            let table = block.load(spill);
            let built = table.clone().await.map_err(|error| DataFusionError::from(&error))?;
            self.table = Some(table);
            self.source = Some(files.read(&self.probe)?);
            return Ok(Some(built));
        }
        Ok(None)
    }
}
