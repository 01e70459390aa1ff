//! The encoding of the operators of this crate for workers.

use std::sync::Arc;

use annulus_datafusion::{
    AsOfCondition, AsOfJoinExec, InTurnExec, NearestCondition, NearestJoinExec, NearestOrder, UnitScan, UnorderedExec,
};
use annulus_join::{AsOfComparison, Sides};
use datafusion::{
    arrow::datatypes::SchemaRef,
    common::{internal_datafusion_err, internal_err},
    error::{DataFusionError, Result},
    execution::TaskContext,
    physical_expr::PhysicalExpr,
    physical_plan::{
        ChildrenPropertiesMode, ExecutionPlan, ReplaceChildrenOptions,
        empty::EmptyExec,
        projection::{EmbeddedProjection, ProjectionExec, ProjectionExpr},
    },
};
use datafusion_proto::{
    bytes::{physical_plan_from_bytes, physical_plan_from_bytes_with_extension_codec, physical_plan_to_bytes},
    physical_plan::{PhysicalExtensionCodec, PhysicalProtoConverterExtension},
};
use serde::{Deserialize, Serialize};
use url::Url;

use crate::{
    cyclo::{CycloJoinExec, FilterSizes, RingPlan},
    files::WorkerFiles,
    resident::{KeepExec, ResidentScanExec, Shares},
    results::WriteExec,
    stage::TaskPartitionsExec,
    state::{TableInfo, Target},
};

/// Encodes the operators as JSON. Their inputs travel beside them.
#[derive(Debug)]
pub(crate) struct AnnulusCodec;

/// An encoded operator, without its inputs.
#[derive(Serialize, Deserialize)]
enum Sent {
    AsOf {
        /// The expressions of the left side, of the right side, and the bounds, each as a projection of
        /// an empty input.
        left: Vec<u8>,
        right: Vec<u8>,
        bounds: Option<Vec<u8>>,
        comparison: AsOfComparison,
        keeps_left: bool,
        is_partitioned: bool,
        projection: Option<Vec<usize>>,
    },
    Cyclo {
        id: String,
        meeting_at: String,
        workers: usize,
        filter: Option<FilterSizes>,
        why: String,
        /// The stock join that describes the operator, with empty inputs.
        join: Vec<u8>,
    },
    InTurn {
        turns: Vec<Vec<usize>>,
    },
    Keep {
        table: TableInfo,
        workers: usize,
    },
    Nearest {
        /// The expression over the columns of both sides, as a projection of an empty input.
        by: Vec<u8>,
        order: NearestOrder,
        k: usize,
        keeps_left: bool,
        projection: Option<Vec<usize>>,
    },
    Scan {
        shares: Shares,
        projection: Option<Vec<usize>>,
        partitions: usize,
    },
    TaskPartitions {
        tasks: usize,
    },
    Units(Box<UnitScan>),
    Unordered,
    Write(Target),
}

const RECOMPUTE: ReplaceChildrenOptions = ReplaceChildrenOptions::new(ChildrenPropertiesMode::Recompute);

impl PhysicalExtensionCodec for AnnulusCodec {
    fn try_encode(
        &self,
        node: Arc<dyn ExecutionPlan>,
        buffer: &mut Vec<u8>,
        _: &dyn PhysicalProtoConverterExtension,
    ) -> Result<()> {
        let sent = if let Some(node) = node.downcast_ref::<AsOfJoinExec>() {
            asof(node)?
        } else if let Some(node) = node.downcast_ref::<CycloJoinExec>() {
            let join = node.encoded(self)?;
            let RingPlan { id, meeting_at, workers, filter } = node.ring().clone();
            Sent::Cyclo { id, meeting_at: meeting_at.into(), workers, filter, why: node.why().to_owned(), join }
        } else if let Some(node) = node.downcast_ref::<InTurnExec>() {
            Sent::InTurn { turns: node.turns().iter().map(|turns| turns.to_vec()).collect() }
        } else if let Some(node) = node.downcast_ref::<KeepExec>() {
            Sent::Keep { table: node.table().as_ref().clone(), workers: node.workers() }
        } else if let Some(node) = node.downcast_ref::<NearestJoinExec>() {
            nearest(node)?
        } else if let Some(node) = node.downcast_ref::<ResidentScanExec>() {
            let (shares, projection) = (node.shares().as_ref().clone(), node.projection().cloned());
            Sent::Scan { shares, projection, partitions: node.partitions() }
        } else if let Some(node) = node.downcast_ref::<TaskPartitionsExec>() {
            Sent::TaskPartitions { tasks: node.tasks() }
        } else if node.is::<UnorderedExec>() {
            Sent::Unordered
        } else if let Some(node) = node.downcast_ref::<WriteExec>() {
            Sent::Write(node.target().as_ref().clone())
        } else if let Some(units) = UnitScan::from_plan(node.as_ref()) {
            Sent::Units(Box::new(units))
        } else {
            return internal_err!("cannot serialize operator {} for a worker", node.name());
        };
        serde_json::to_writer(buffer, &sent).map_err(|error| DataFusionError::External(error.into()))
    }

    fn try_decode(
        &self,
        buffer: &[u8],
        inputs: &[Arc<dyn ExecutionPlan>],
        context: &TaskContext,
        _: &dyn PhysicalProtoConverterExtension,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let external = |error| DataFusionError::External(error);
        match serde_json::from_slice(buffer).map_err(|error| external(error.into()))? {
            Sent::AsOf { left, right, bounds, comparison, keeps_left, is_partitioned, projection } => {
                let [left_input, right_input] = inputs else {
                    return internal_err!("an as-of join has {} inputs", inputs.len());
                };
                let exprs = |bytes: &[u8]| projected(bytes, context);
                let pairs = exprs(&left)?.into_iter().zip(exprs(&right)?);
                let mut on: Vec<_> = pairs.map(|(left, right)| Sides { left, right }).collect();
                let times = on.pop().ok_or_else(|| internal_datafusion_err!("an as-of join was sent without times"))?;
                let bounds = bounds.map(|bytes| exprs(&bytes)).transpose()?.and_then(|mut exprs| exprs.pop());
                let condition = AsOfCondition { on, times, comparison, bounds, keeps_left };
                let inputs = Sides { left: Arc::clone(left_input), right: Arc::clone(right_input) };
                let join = AsOfJoinExec::try_new(inputs, condition, is_partitioned)?;
                Ok(Arc::new(join.with_projection(projection)?))
            }
            Sent::Cyclo { id, meeting_at, workers, filter, why, join } => {
                let meeting_at = Url::parse(&meeting_at).map_err(|error| external(error.into()))?;
                let stock = physical_plan_from_bytes_with_extension_codec(&join, context, self)?;
                let stock = stock.replace_children(inputs.to_vec(), RECOMPUTE)?;
                let ours = CycloJoinExec::try_new(stock, RingPlan { id, meeting_at, workers, filter }, why)?;
                let ours = ours.ok_or_else(|| internal_datafusion_err!("a ring cannot run the join that was sent"))?;
                Ok(Arc::new(ours))
            }
            Sent::InTurn { turns } => Ok(Arc::new(InTurnExec::from_turns(only(inputs)?, turns)?)),
            Sent::Keep { table, workers } => Ok(Arc::new(KeepExec::new(only(inputs)?, Arc::new(table), workers))),
            Sent::Nearest { by, order, k, keeps_left, projection } => {
                let [left, right] = inputs else {
                    return internal_err!("a nearest-rows join has {} inputs", inputs.len());
                };
                let by = projected(&by, context)?.pop();
                let by = by.ok_or_else(|| internal_datafusion_err!("a nearest-rows join was sent without an order"))?;
                let inputs = Sides { left: Arc::clone(left), right: Arc::clone(right) };
                let condition = NearestCondition { by, order, k, keeps_left };
                let join = NearestJoinExec::try_new(inputs, condition)?;
                Ok(Arc::new(join.with_projection(projection)?))
            }
            Sent::Scan { shares, projection, partitions } => {
                Ok(Arc::new(ResidentScanExec::new(Arc::new(shares), projection, partitions, None)?))
            }
            Sent::TaskPartitions { tasks } => Ok(Arc::new(TaskPartitionsExec::new(only(inputs)?, tasks))),
            Sent::Unordered => Ok(Arc::new(UnorderedExec::new(only(inputs)?))),
            Sent::Units(units) => {
                let files = context.session_config().get_extension::<WorkerFiles>();
                units.into_plan(files.unwrap_or_default())
            }
            Sent::Write(target) => Ok(Arc::new(WriteExec::new(only(inputs)?, Arc::new(target), None))),
        }
    }
}

/// Returns the input of an operator that has one.
fn only(inputs: &[Arc<dyn ExecutionPlan>]) -> Result<Arc<dyn ExecutionPlan>> {
    match inputs {
        [input] => Ok(Arc::clone(input)),
        _ => internal_err!("an operator with one input was sent with {}", inputs.len()),
    }
}

/// Returns an as-of join to be encoded.
fn asof(node: &AsOfJoinExec) -> Result<Sent> {
    let AsOfCondition { on, times, comparison, bounds, keeps_left } = node.condition();
    let [left_schema, right_schema] = [0, 1].map(|child| node.children()[child].schema());
    let joined = Arc::new(node.joined_schema());
    let pairs = || on.iter().chain([times]);
    Ok(Sent::AsOf {
        left: projection_of(pairs().map(|pair| &pair.left), left_schema)?,
        right: projection_of(pairs().map(|pair| &pair.right), right_schema)?,
        bounds: bounds.as_ref().map(|bounds| projection_of([bounds], joined)).transpose()?,
        comparison: *comparison,
        keeps_left: *keeps_left,
        is_partitioned: node.is_partitioned(),
        projection: node.projection().map(<[usize]>::to_vec),
    })
}

/// Returns a nearest-rows join to be encoded.
fn nearest(node: &NearestJoinExec) -> Result<Sent> {
    let NearestCondition { by, order, k, keeps_left } = node.condition();
    Ok(Sent::Nearest {
        by: projection_of([by], Arc::new(node.joined_schema()))?,
        order: *order,
        k: *k,
        keeps_left: *keeps_left,
        projection: node.projection().map(<[usize]>::to_vec),
    })
}

/// Encodes expressions over the columns of a schema, as a projection of no rows.
fn projection_of<'a>(exprs: impl IntoIterator<Item = &'a Arc<dyn PhysicalExpr>>, schema: SchemaRef) -> Result<Vec<u8>> {
    let exprs = exprs.into_iter().enumerate();
    let exprs = exprs.map(|(index, expr)| ProjectionExpr::new(Arc::clone(expr), index.to_string()));
    let plan = ProjectionExec::try_new(exprs.collect::<Vec<_>>(), Arc::new(EmptyExec::new(schema)))?;
    Ok(physical_plan_to_bytes(Arc::new(plan))?.to_vec())
}

/// Decodes the expressions of a projection.
fn projected(bytes: &[u8], context: &TaskContext) -> Result<Vec<Arc<dyn PhysicalExpr>>> {
    let plan = physical_plan_from_bytes(bytes, context)?;
    match plan.downcast_ref::<ProjectionExec>() {
        Some(projection) => Ok(projection.expr().iter().map(|projected| Arc::clone(&projected.expr)).collect()),
        None => internal_err!("expressions were sent as another operator"),
    }
}
