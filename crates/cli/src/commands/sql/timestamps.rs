//! Writes timestamps of seconds in milliseconds, because Parquet has no type for seconds.

use std::sync::Arc;

use annulus_dataset::for_parquet;
use arrow::{array::RecordBatch, compute::cast, error::ArrowError};
use datafusion::{
    config::ConfigOptions,
    error::Result,
    logical_expr::{Cast, Expr, LogicalPlan, LogicalPlanBuilder, dml::CopyTo},
    optimizer::AnalyzerRule,
};

/// Returns the rows with the types that Parquet keeps.
pub fn as_parquet(batch: &RecordBatch) -> Result<RecordBatch, ArrowError> {
    let schema = for_parquet(&batch.schema());
    if schema == batch.schema() {
        return Ok(batch.clone());
    }
    let columns = batch.columns().iter().zip(schema.fields());
    let columns = columns.map(|(column, field)| cast(column, field.data_type())).collect::<Result<_, _>>()?;
    RecordBatch::try_new(schema, columns)
}

/// A rule that makes `COPY ... TO` do the same for Parquet files.
#[derive(Debug)]
pub struct CopyTimestamps;

impl AnalyzerRule for CopyTimestamps {
    fn name(&self) -> &str {
        "copy_timestamps"
    }

    fn analyze(&self, plan: LogicalPlan, _config: &ConfigOptions) -> Result<LogicalPlan> {
        match plan {
            LogicalPlan::Copy(copy) if copy.file_type.get_ext() == "parquet" => {
                let input = Arc::new(with_milliseconds(&copy.input)?);
                Ok(LogicalPlan::Copy(CopyTo { input, ..copy }))
            }
            other => Ok(other),
        }
    }
}

fn with_milliseconds(input: &LogicalPlan) -> Result<LogicalPlan> {
    let kept = for_parquet(input.schema().as_arrow());
    if kept.fields() == input.schema().fields() {
        return Ok(input.clone());
    }
    let columns = input.schema().columns().into_iter().zip(input.schema().fields()).zip(kept.fields());
    let column = columns.map(|((column, found), kept)| {
        let name = column.name.clone();
        let expression = Expr::Column(column);
        if found.data_type() == kept.data_type() {
            expression
        } else {
            Expr::Cast(Cast::new(Box::new(expression), kept.data_type().clone())).alias(name)
        }
    });
    LogicalPlanBuilder::from(input.clone()).project(column.collect::<Vec<_>>())?.build()
}
