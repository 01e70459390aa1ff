//! The operator that replaces DataFusion's `NestedLoopJoinExec`.

mod display;
mod plan;

use std::{any::Any, fmt, sync::Arc};

use datafusion::{
    common::internal_datafusion_err,
    error::Result,
    physical_plan::{
        ChildrenPropertiesMode, ExecutionPlan, PlanProperties, ReplaceChildrenOptions, joins::NestedLoopJoinExec,
        metrics::ExecutionPlanMetricsSet, projection::ProjectionExec,
    },
};

use super::{execution::MorselExecutions, method::Method};
use crate::join::properties::JoinShape;

/// A join of morsels of the right side with all parts of the left side, in one of the methods that
/// find pairs: [`BandJoinExec`](crate::BandJoinExec) sorts both sides and merges them, and
/// [`LoopJoinExec`](crate::LoopJoinExec) compares all pairs of rows.
///
/// It contains the stock operator that it replaced, over the same children, which answers the
/// optimizer's questions. Unlike the stock operator it reads all partitions of the left side. So it
/// promises less of its output, and the stock operator inside must not be executed. A plan can be
/// executed several times, and several times at once with contexts of their own.
pub struct MorselJoinExec<M: Method> {
    stock: Arc<NestedLoopJoinExec>,
    method: Arc<M>,
    why: Arc<str>,
    properties: Arc<PlanProperties>,
    metrics: ExecutionPlanMetricsSet,
    executions: MorselExecutions<M>,
}

impl<M: Method> MorselJoinExec<M> {
    /// Creates the operator that replaces `stock`. Returns `None` if an input is unbounded, or the
    /// method cannot evaluate the condition: a band join needs a band or an inequality.
    ///
    /// # Errors
    /// If `stock` is invalid.
    pub fn try_new(stock: &Arc<NestedLoopJoinExec>, why: impl Into<Arc<str>>) -> Result<Option<Self>> {
        if stock.properties().boundedness.is_unbounded() {
            return Ok(None);
        }
        let Some(method) = M::from_plan(stock)?.map(Arc::new) else { return Ok(None) };
        let properties = JoinShape::from(stock.as_ref()).properties(stock.properties())?;
        let (metrics, executions) = (ExecutionPlanMetricsSet::new(), MorselExecutions::default());
        Ok(Some(Self { stock: Arc::clone(stock), method, why: why.into(), properties, metrics, executions }))
    }

    /// Returns `plan`, a stock join or a projection of one, with the operator in the join's place.
    /// `None` if the operator cannot run the join.
    ///
    /// # Errors
    /// If `plan` is invalid.
    pub(crate) fn replace_in(plan: Arc<dyn ExecutionPlan>, why: &Arc<str>) -> Result<Option<Arc<dyn ExecutionPlan>>> {
        if plan.is::<ProjectionExec>() {
            let Some(input) = plan.children().first().copied().cloned() else { return Ok(None) };
            let Some(ours) = Self::replace_in(input, why)? else { return Ok(None) };
            let options = ReplaceChildrenOptions::new(ChildrenPropertiesMode::Recompute);
            return plan.replace_children(vec![ours], options).map(Some);
        }
        let Ok(stock) = (plan as Arc<dyn Any + Send + Sync>).downcast() else { return Ok(None) };
        let ours = Self::try_new(&stock, Arc::clone(why))?;
        Ok(ours.map(|ours| Arc::new(ours) as Arc<dyn ExecutionPlan>))
    }

    /// Returns the stock operator over the same children.
    pub fn stock(&self) -> &NestedLoopJoinExec {
        &self.stock
    }

    /// Returns the reason for the choice, as `EXPLAIN` prints it.
    pub fn why(&self) -> &str {
        &self.why
    }

    /// Returns the operator in the place of a stock join over other children.
    fn rewrap(&self, plan: Arc<dyn ExecutionPlan>) -> Result<Arc<dyn ExecutionPlan>> {
        let ours = Self::replace_in(plan, &self.why)?;
        ours.ok_or_else(|| internal_datafusion_err!("a {} cannot have these children", M::NAMES.join))
    }
}

impl<M: Method> fmt::Debug for MorselJoinExec<M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct(M::NAMES.operator).field("stock", &self.stock).finish_non_exhaustive()
    }
}
