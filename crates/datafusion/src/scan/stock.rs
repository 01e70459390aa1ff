//! Files that DataFusion's source reads, with the conditions evaluated on their batches.

use std::{fmt, sync::Arc};

use datafusion::{
    arrow::{array::RecordBatch, compute::filter_record_batch},
    common::cast::as_boolean_array,
    error::Result,
};
use datafusion_datasource::morsel::{Morsel, MorselPlan, MorselPlanner};
use futures::{StreamExt, TryStreamExt, stream::BoxStream};

use super::morsel::{ScanPlan, StockFilter};

/// A file on its way to its rows.
pub(super) struct FilteredPlanner {
    plan: Arc<ScanPlan>,
    inner: Box<dyn MorselPlanner>,
}

impl FilteredPlanner {
    pub fn new(plan: Arc<ScanPlan>, inner: Box<dyn MorselPlanner>) -> Self {
        Self { plan, inner }
    }
}

impl fmt::Debug for FilteredPlanner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("FilteredPlanner").field(&self.inner).finish()
    }
}

impl MorselPlanner for FilteredPlanner {
    fn plan(self: Box<Self>) -> Result<Option<MorselPlan>> {
        let Self { plan, inner } = *self;
        let Some(mut next) = inner.plan()? else { return Ok(None) };
        let morsels = next.take_morsels().into_iter();
        let morsels = morsels.map(|inner| Box::new(FilteredMorsel { plan: Arc::clone(&plan), inner }) as _);
        let planners = next.take_ready_planners().into_iter();
        let planners = planners.map(|inner| Box::new(Self::new(Arc::clone(&plan), inner)) as _);
        let mut filtered = MorselPlan::new().with_morsels(morsels.collect()).with_planners(planners.collect());
        if let Some(pending) = next.take_pending_planner() {
            filtered.set_pending_planner(async move { Ok(Box::new(Self::new(plan, pending.await?)) as _) });
        }
        Ok(Some(filtered))
    }
}

struct FilteredMorsel {
    plan: Arc<ScanPlan>,
    inner: Box<dyn Morsel>,
}

impl fmt::Debug for FilteredMorsel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("FilteredMorsel").field(&self.inner).finish()
    }
}

impl Morsel for FilteredMorsel {
    fn into_stream(self: Box<Self>) -> BoxStream<'static, Result<RecordBatch>> {
        let Self { plan, inner } = *self;
        let batches = inner.into_stream().map(move |batch| filter(&plan, batch?));
        batches.try_filter(|batch| std::future::ready(batch.num_rows() > 0)).boxed()
    }
}

/// Returns the rows of a batch that meet the conditions, with the columns of the output.
fn filter(plan: &ScanPlan, batch: RecordBatch) -> Result<RecordBatch> {
    let Some(StockFilter { predicate, columns }) = &plan.filter else { return Ok(batch) };
    let answers = predicate.evaluate(&batch)?.into_array(batch.num_rows())?;
    let batch = match columns {
        Some(columns) => batch.project(columns)?,
        None => batch,
    };
    Ok(filter_record_batch(&batch, as_boolean_array(&answers)?)?)
}
