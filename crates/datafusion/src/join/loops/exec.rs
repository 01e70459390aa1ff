//! The operator that replaces DataFusion's `NestedLoopJoinExec` where the condition has no band.

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

use super::plan::LoopPlan;
use crate::join::{morsels::MorselExecutions, properties::Joined};

/// A join by nested loops: all pairs are compared, on any condition.
///
/// It contains the stock operator that it replaced, over the same children, which answers the
/// optimizer's questions. Unlike the stock operator it reads all partitions of the left side. So it
/// promises less of its output, and the stock operator inside must not be executed. A plan can be
/// executed several times, and several times at once with contexts of their own.
pub struct LoopJoinExec {
    stock: Arc<NestedLoopJoinExec>,
    plan: Arc<LoopPlan>,
    properties: Arc<PlanProperties>,
    why: Arc<str>,
    explain_as_stock: bool,
    metrics: ExecutionPlanMetricsSet,
    executions: MorselExecutions<LoopPlan>,
}

impl LoopJoinExec {
    /// Creates the operator that replaces `stock`. Returns `None` if an input is unbounded.
    ///
    /// # Errors
    /// If `stock` is invalid.
    pub fn try_new(stock: &Arc<NestedLoopJoinExec>, why: &str, explain_as_stock: bool) -> Result<Option<Self>> {
        Self::of(stock, why.into(), explain_as_stock)
    }

    fn of(stock: &Arc<NestedLoopJoinExec>, why: Arc<str>, explain_as_stock: bool) -> Result<Option<Self>> {
        if stock.properties().boundedness.is_unbounded() {
            return Ok(None);
        }
        let plan = Arc::new(LoopPlan::of(stock)?);
        let (properties, metrics) =
            (Joined::from(stock.as_ref()).properties(stock.properties())?, ExecutionPlanMetricsSet::new());
        let (stock, executions) = (Arc::clone(stock), MorselExecutions::default());
        Ok(Some(Self { stock, plan, properties, why, explain_as_stock, metrics, executions }))
    }

    /// Returns the stock operator over the same children.
    pub fn stock(&self) -> &NestedLoopJoinExec {
        &self.stock
    }

    /// Returns the reason for the choice, as `EXPLAIN` prints it.
    pub fn why(&self) -> &str {
        &self.why
    }

    /// Returns `plan`, a stock join or a projection of one, with our operator in its place. `None`
    /// if that cannot be.
    fn within(&self, plan: Arc<dyn ExecutionPlan>) -> Result<Option<Arc<dyn ExecutionPlan>>> {
        if plan.is::<ProjectionExec>() {
            let Some(input) = plan.children().first().copied().cloned() else { return Ok(None) };
            let Some(ours) = self.within(input)? else { return Ok(None) };
            let options = ReplaceChildrenOptions::new(ChildrenPropertiesMode::Recompute);
            return plan.replace_children(vec![ours], options).map(Some);
        }
        let Ok(stock) = (plan as Arc<dyn Any + Send + Sync>).downcast() else { return Ok(None) };
        let ours = Self::of(&stock, Arc::clone(&self.why), self.explain_as_stock)?;
        Ok(ours.map(|ours| Arc::new(ours) as Arc<dyn ExecutionPlan>))
    }

    /// Returns the operator over other children.
    fn over(&self, stock: Arc<dyn ExecutionPlan>) -> Result<Arc<dyn ExecutionPlan>> {
        let ours = self.within(stock)?;
        ours.ok_or_else(|| internal_datafusion_err!("a join by nested loops cannot have these children"))
    }
}

impl fmt::Debug for LoopJoinExec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LoopJoinExec").field("stock", &self.stock).finish_non_exhaustive()
    }
}
