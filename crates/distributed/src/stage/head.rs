//! The operator at the head of a stage that other processes read.

use std::{fmt, sync::Arc};

use annulus_datafusion::{AnnulusConfig, config::Strategy, delegate, replace_in_stage};
use datafusion::{
    common::not_impl_err,
    config::ConfigOptions,
    error::Result,
    execution::TaskContext,
    physical_expr::{EquivalenceProperties, Partitioning},
    physical_plan::{
        DisplayAs, DisplayFormatType, ExecutionPlan, PlanProperties, SendableRecordBatchStream,
        repartition::RepartitionExec, stream::RecordBatchStreamAdapter,
    },
};
use futures::TryStreamExt;

use super::windows::restore_order;
use crate::net::SentForm;

/// The operator at the head of a stage, which sends its rows in a schema that arrives.
///
/// datafusion-distributed removes a `RepartitionExec` from the head of a stage when the stage is
/// executed, and puts a stock one in its place. It does not find the one in here, and channels of this crate
/// never request another head.
#[derive(Debug)]
pub(crate) struct StageHeadExec {
    /// The operator. A repartition uses the exchange of Annulus, if possible.
    inner: Arc<dyn ExecutionPlan>,
    /// The form in which the rows are sent, if it is not that of `inner`.
    sent: Option<SentForm>,
    properties: Arc<PlanProperties>,
}

/// Returns the plan of a stage with the operators of Annulus. If the stage `keeps_head`, a hash
/// repartition at its head is wrapped in a [`StageHeadExec`]. The head of a stage whose rows do not arrive in
/// their own schema is wrapped, too.
///
/// # Errors
/// If DataFusion cannot walk the plan, or rows cannot be sent.
pub(crate) fn rewrite_stage(
    plan: Arc<dyn ExecutionPlan>,
    config: &ConfigOptions,
    keeps_head: bool,
) -> Result<Arc<dyn ExecutionPlan>> {
    let is_head = |stock: &RepartitionExec| matches!(stock.partitioning(), Partitioning::Hash(..));
    let has_head = plan.downcast_ref::<RepartitionExec>().is_some_and(is_head);
    let inner = replace_in_stage(restore_order(plan)?, config)?;
    let strategy = config.extensions.get::<AnnulusConfig>().map(|annulus| annulus.strategy);
    let sent = match keeps_head && strategy != Some(Strategy::Stock.into()) {
        true => SentForm::for_schema(&inner.schema())?,
        false => SentForm::for_lists(&inner.schema())?,
    };
    if sent.is_some() && !keeps_head {
        return not_impl_err!(
            "lists with 64-bit offsets between workers whose task counts are found while the query runs: set \
             distributed.dynamic_task_count to false"
        );
    }
    Ok(if has_head && keeps_head || sent.is_some() { StageHeadExec::wrap(inner, sent) } else { inner })
}

impl StageHeadExec {
    /// Returns the head over other children.
    fn rewrap(&self, inner: Arc<dyn ExecutionPlan>) -> Result<Arc<dyn ExecutionPlan>> {
        Ok(Self::wrap(inner, self.sent.clone()))
    }

    fn wrap(inner: Arc<dyn ExecutionPlan>, sent: Option<SentForm>) -> Arc<dyn ExecutionPlan> {
        let own = inner.properties();
        let properties = sent.as_ref().map(|sent| {
            let equivalences = EquivalenceProperties::new(Arc::clone(&sent.schema));
            PlanProperties::new(equivalences, own.partitioning.clone(), own.emission_type, own.boundedness)
        });
        let properties = properties.map_or_else(|| Arc::clone(own), Arc::new);
        Arc::new(Self { inner, sent, properties })
    }
}

impl DisplayAs for StageHeadExec {
    fn fmt_as(&self, format: DisplayFormatType, f: &mut fmt::Formatter) -> fmt::Result {
        self.inner.fmt_as(format, f)
    }
}

impl ExecutionPlan for StageHeadExec {
    delegate!(self.inner: name, children, apply_expressions, metrics);
    delegate!(self.rewrap(self.inner): replace_children);
    delegate!(self.replace_children: with_new_children);

    fn properties(&self) -> &Arc<PlanProperties> {
        &self.properties
    }

    fn execute(&self, partition: usize, context: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        let rows = self.inner.execute(partition, context)?;
        let Some(sent) = self.sent.clone() else { return Ok(rows) };
        let schema = Arc::clone(&sent.schema);
        let rows = rows.and_then(move |batch| std::future::ready(sent.sent(&batch)));
        Ok(Box::pin(RecordBatchStreamAdapter::new(schema, rows)))
    }
}
