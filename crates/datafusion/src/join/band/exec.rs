//! The operator that replaces DataFusion's `NestedLoopJoinExec`.

mod display;
mod plan;

use std::{any::Any, fmt, sync::Arc};

use datafusion::{
    common::{JoinType, internal_datafusion_err},
    error::Result,
    physical_plan::{
        ChildrenPropertiesMode, ExecutionPlan, PlanProperties, ReplaceChildrenOptions, joins::NestedLoopJoinExec,
        metrics::ExecutionPlanMetricsSet, projection::ProjectionExec,
    },
};

use super::{condition::Condition, plan::BandPlan};
use crate::join::{morsels::MorselExecutions, properties::Joined};

/// A join on a band or an inequality, by sorting.
///
/// It contains the stock operator that it replaced, over the same children, which answers the
/// optimizer's questions. Unlike the stock operator it reads all partitions of the left side. So it
/// promises less of its output, and the stock operator inside must not be executed. A plan can be
/// executed several times, and several times at once with contexts of their own.
pub struct BandJoinExec {
    stock: Arc<NestedLoopJoinExec>,
    plan: Arc<BandPlan>,
    why: Arc<str>,
    explain_as_stock: bool,
    properties: Arc<PlanProperties>,
    metrics: ExecutionPlanMetricsSet,
    executions: MorselExecutions<BandPlan>,
}

impl BandJoinExec {
    /// Returns a plan with the operator in the place of `stock`. A join that looks for one partner
    /// of each left row by two bands has its sides swapped: it can stop at the first partner of
    /// a row of the right side. Returns `None` if the operator cannot run the join.
    ///
    /// # Errors
    /// If `stock` is invalid.
    pub(crate) fn replace(
        stock: Arc<NestedLoopJoinExec>,
        why: &str,
        explain_as_stock: bool,
    ) -> Result<Option<Arc<dyn ExecutionPlan>>> {
        let Some(condition) = stock.filter().and_then(Condition::of) else { return Ok(None) };
        let one_partner = matches!(stock.join_type(), JoinType::LeftSemi | JoinType::LeftAnti | JoinType::LeftMark);
        let swap = one_partner && condition.second.is_some() && condition.rest.is_none();
        let plan = if swap { stock.swap_inputs()? } else { stock };
        Self::within(plan, &why.into(), explain_as_stock)
    }

    /// Creates the operator that replaces `stock`. Returns `None` if the condition has no band or
    /// inequality that the merge join evaluates, or an input is unbounded.
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
        let Some(plan) = BandPlan::of(stock)?.map(Arc::new) else { return Ok(None) };
        let (stock, properties) = (Arc::clone(stock), Joined::from(stock.as_ref()).properties(stock.properties())?);
        let (metrics, executions) = (ExecutionPlanMetricsSet::new(), MorselExecutions::default());
        Ok(Some(Self { stock, plan, why, explain_as_stock, properties, metrics, executions }))
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
    fn within(
        plan: Arc<dyn ExecutionPlan>,
        why: &Arc<str>,
        explain_as_stock: bool,
    ) -> Result<Option<Arc<dyn ExecutionPlan>>> {
        if plan.is::<ProjectionExec>() {
            let Some(input) = plan.children().first().copied().cloned() else { return Ok(None) };
            let Some(ours) = Self::within(input, why, explain_as_stock)? else { return Ok(None) };
            let options = ReplaceChildrenOptions::new(ChildrenPropertiesMode::Recompute);
            return plan.replace_children(vec![ours], options).map(Some);
        }
        let Ok(stock) = (plan as Arc<dyn Any + Send + Sync>).downcast() else { return Ok(None) };
        let ours = Self::of(&stock, Arc::clone(why), explain_as_stock)?;
        Ok(ours.map(|ours| Arc::new(ours) as Arc<dyn ExecutionPlan>))
    }

    fn rewrap(&self, plan: Arc<dyn ExecutionPlan>) -> Result<Option<Arc<dyn ExecutionPlan>>> {
        Self::within(plan, &self.why, self.explain_as_stock)
    }

    /// Returns the operator over other children.
    fn over(&self, stock: Arc<dyn ExecutionPlan>) -> Result<Arc<dyn ExecutionPlan>> {
        let ours = self.rewrap(stock)?;
        ours.ok_or_else(|| internal_datafusion_err!("a band join cannot have these children"))
    }
}

impl fmt::Debug for BandJoinExec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("BandJoinExec").field("stock", &self.stock).finish_non_exhaustive()
    }
}
