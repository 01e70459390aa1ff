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
    block::{Block, Loaded},
    files::{Files, Spooled},
    lanes::Lanes,
    node::{Node, Shape, Spilled},
    order::Order,
    room::Room,
    tools::Tools,
};
use crate::{
    error::from_join,
    join::hash::{
        build::Built,
        layout::{BUILD, Layout, PROBE},
        setup::Setup,
    },
};

/// The way of one stream through the parts.
pub(in crate::join::hash) struct Walk {
    tools: Arc<Tools>,
    room: Room,
    /// The columns of the probe side, with a number of each row if the order counts.
    layout: Arc<Layout>,
    files: Files,
    /// Whether rows with null keys meet all parts of the build side, and those of the build side all
    /// rows.
    pairs_nulls: bool,
    /// While the input is read.
    router: Option<Router>,
    /// The parts that the stream has not passed, with its rows for them.
    ahead: Vec<(Arc<Node>, Spooled)>,
    visit: Option<Visit>,
    order: Option<Order>,
}

/// Divides the input: rows of parts in memory go on, the others to files.
struct Router {
    divider: Divider,
    lanes: Lanes,
    nodes: Vec<Option<Arc<Node>>>,
    /// The number of rows until now.
    rows: u64,
}

/// The visit of a part that is joined block by block.
struct Visit {
    shape: Arc<Shape>,
    /// The blocks that were begun.
    begun: usize,
    probe: Spooled,
    source: Option<SendableRecordBatchStream>,
    table: Option<Loaded>,
    /// Which rows of each batch of the probe side have a match in the blocks before.
    marks: Vec<BooleanArray>,
    /// The batches of the probe side that were begun with this block.
    batches: usize,
}

impl Walk {
    /// Returns the way of the stream with this setup, which is changed if its rows must come in the
    /// order of the probe side.
    ///
    /// # Errors
    /// If a key's type cannot be compared.
    pub(in crate::join::hash) fn new(spilled: &Spilled, setup: &mut Setup) -> Result<Self> {
        let tools = Arc::clone(&spilled.tools);
        let mut order = None;
        if setup.is_ordered {
            setup.number()?;
            order = Some(Order::new(tools.files[PROBE].with_schema(setup.layout.schema()), tools.room.another()));
        }
        let layout = Arc::clone(&setup.layout);
        let files = tools.files[PROBE].with_schema(Arc::clone(&layout.sides[PROBE].schema));
        let pairs_nulls = setup.pairs_nulls();
        // Rows that have no partner are not divided.
        let divided = tools.parts + usize::from(pairs_nulls);
        let wanted = spilled.nodes.iter().take(divided).map(Option::is_some);
        let lanes = Lanes::new(tools.room.another(), &files, wanted, (tools.piece_bytes(PROBE), tools.batch_rows));
        let lanes = lanes.with_nulls_everywhere(pairs_nulls);
        let divider = Divider::new(layout.keys(PROBE)?, 0, tools.parts);
        let router = Some(Router { divider, lanes, nodes: spilled.nodes.clone(), rows: 0 });
        let room = tools.room.another();
        Ok(Self { tools, room, layout, files, pairs_nulls, router, ahead: Vec::new(), visit: None, order })
    }

    /// Returns the next batch to look up, which may have no rows, or nothing when the current table
    /// needs no more.
    ///
    /// # Errors
    /// If the input, the disk or a kernel fails.
    pub(in crate::join::hash) async fn next(&mut self, setup: &mut Setup) -> Result<Option<RecordBatch>> {
        match (&mut self.router, &mut self.visit) {
            (Some(router), _) => match setup.probe.next().await.transpose()? {
                Some(batch) => {
                    let read = setup.read_input(&self.tools.seen, &batch)?;
                    let batch = router.route(&self.layout, read, self.order.is_some())?;
                    // Nulls of the build side that are in memory meet rows of all parts.
                    Ok(Some(if self.pairs_nulls { batch } else { router.here(&batch)? }))
                }
                None => Ok(None),
            },
            (None, Some(Visit { source: Some(source), .. })) => source.next().await.transpose(),
            (None, _) => Ok(None),
        }
    }

    /// Goes to the next table, or returns nothing after the last. The rows of the tables before
    /// have been output.
    ///
    /// # Errors
    /// If the disk or a kernel fails.
    pub(in crate::join::hash) async fn advance(&mut self) -> Result<Option<Arc<Built>>> {
        if let Some(Router { lanes, nodes, .. }) = self.router.take() {
            let files = lanes.finish()?.into_iter().chain([Spooled::default()]);
            let parts = nodes.into_iter().zip(files);
            self.ahead = parts.filter_map(|(node, file)| Some((node?, file))).collect();
        }
        loop {
            if let Some(visit) = &mut self.visit {
                if let Some(built) = visit.advance(&self.tools, &self.files).await? {
                    return Ok(Some(built));
                }
                self.room.shrink(self.room.size());
                self.visit = None;
            }
            let Some(last) = self.ahead.len().checked_sub(1) else { return Ok(None) };
            // A part whose table is there for another stream costs least. Otherwise the parts of a
            // division come before those above it, so that few files are there at once.
            let next = self.ahead.iter().position(|(node, _)| node.is_loaded()).unwrap_or(last);
            let (node, probe) = self.ahead.remove(next);
            if probe.is_empty() && (!self.tools.outputs_alone(BUILD) || node.skip()) {
                continue;
            }
            let shape = node.shape().await?;
            match &*shape {
                Shape::Blocks(_) => self.visit = Some(Visit::new(shape, probe)),
                Shape::Parts(level, nodes) => {
                    let files = self.divide(probe, *level, nodes).await?;
                    let parts = nodes.iter().zip(files);
                    self.ahead.extend(parts.filter_map(|(node, file)| Some((Arc::clone(node.as_ref()?), file))));
                }
            }
        }
    }

    /// Divides the rows of a part as the build side was.
    async fn divide(&mut self, probe: Spooled, level: u32, nodes: &[Option<Arc<Node>>]) -> Result<Vec<Spooled>> {
        let mut divider = Divider::new(self.layout.keys(PROBE)?, level, nodes.len());
        let size = (self.tools.piece_bytes(PROBE), self.tools.batch_rows);
        let wanted = nodes.iter().map(Option::is_some);
        let lanes = Lanes::new(self.tools.room.another(), &self.files, wanted, size);
        let mut lanes = lanes.with_nulls_everywhere(self.pairs_nulls);
        let mut stream = self.files.read(&probe)?;
        drop(probe);
        while let Some(batch) = stream.next().await.transpose()? {
            lanes.divide(&mut divider, &batch)?;
        }
        lanes.finish()
    }

    /// Marks the rows of a batch that have a match in a block before this one.
    ///
    /// # Errors
    /// If the batch is not the one of that block.
    pub(in crate::join::hash) fn begin(&mut self, rows: &SideRows) -> Result<()> {
        let Some(visit) = &mut self.visit else { return Ok(()) };
        visit.batches += 1;
        match visit.marks.get(visit.batches - 1) {
            Some(marks) => rows.mark(marks).map_err(from_join),
            None => Ok(()),
        }
    }

    /// Returns whether the rows of a batch meet the last rows of the build side.
    pub(in crate::join::hash) fn is_last(&self) -> bool {
        self.visit.as_ref().is_none_or(|visit| visit.begun == visit.blocks().len())
    }

    /// Returns whether the rows of a batch have now met all rows of the build side. If not, notes
    /// which have a match.
    pub(in crate::join::hash) fn end(&mut self, rows: &SideRows) -> bool {
        if self.is_last() {
            return true;
        }
        let Some(visit) = &mut self.visit else { return true };
        if let Some(matched) = rows.matched() {
            let marks = matched.to_array();
            match visit.marks.get_mut(visit.batches - 1) {
                Some(before) => *before = marks,
                None => {
                    self.room.grow(marks.values().inner().len());
                    visit.marks.push(marks);
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
        self.order.take().map(|order| order.merge(self.tools.batch_rows)).transpose()
    }
}

impl Router {
    /// Writes the rows of parts on disk to their files, and returns all of them.
    fn route(&mut self, layout: &Layout, read: RecordBatch, is_numbered: bool) -> Result<RecordBatch> {
        let first = self.rows;
        self.rows += read.num_rows() as u64;
        let batch = if is_numbered { layout.sides[PROBE].numbered(&read, first)? } else { read };
        self.lanes.divide(&mut self.divider, &batch)?;
        Ok(batch)
    }

    /// Returns the rows of the last batch that are not of parts on disk, in their order.
    fn here(&self, batch: &RecordBatch) -> Result<RecordBatch> {
        // Rows without a partner are looked up like those of parts in memory.
        let is_here: Vec<bool> = self.nodes.iter().map(Option::is_none).collect();
        let parts = self.divider.parts();
        let here = |&part: &u16| usize::from(part) >= parts || is_here[usize::from(part)];
        let here: BooleanArray = self.divider.parts_of_rows().iter().map(here).collect::<Vec<_>>().into();
        Ok(filter_record_batch(batch, &here)?)
    }
}

impl Visit {
    fn new(shape: Arc<Shape>, probe: Spooled) -> Self {
        Self { shape, begun: 0, probe, source: None, table: None, marks: Vec::new(), batches: 0 }
    }

    fn blocks(&self) -> &[Arc<Block>] {
        match &*self.shape {
            Shape::Blocks(blocks) => blocks,
            Shape::Parts(..) => &[],
        }
    }

    /// Goes to the next block, or returns nothing after the last.
    async fn advance(&mut self, tools: &Arc<Tools>, files: &Files) -> Result<Option<Arc<Built>>> {
        // Before the next table is made, the last one goes.
        (self.source, self.table, self.batches) = (None, None, 0);
        while let Some(block) = self.blocks().get(self.begun).cloned() {
            self.begun += 1;
            if self.probe.is_empty() && block.skip() {
                continue;
            }
            let table = block.load(tools);
            let built = table.clone().await.map_err(|error| DataFusionError::from(&error))?;
            self.table = Some(table);
            self.source = Some(files.read(&self.probe)?);
            return Ok(Some(built));
        }
        Ok(None)
    }
}
