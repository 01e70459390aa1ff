//! Writes columns with `COPY ... TO` in the types that files have, as all commands do.

use std::sync::Arc;

use annulus_dataset::{for_arrow, for_parquet};
use datafusion::{
    config::ConfigOptions,
    error::Result,
    logical_expr::{Cast, Expr, LogicalPlan, LogicalPlanBuilder, dml::CopyTo},
    optimizer::AnalyzerRule,
};

/// A rule that casts columns which Parquet or Arrow files store as another type.
#[derive(Debug)]
pub struct CopyTypes;

impl AnalyzerRule for CopyTypes {
    fn name(&self) -> &str {
        "copy_types"
    }

    fn analyze(&self, plan: LogicalPlan, _config: &ConfigOptions) -> Result<LogicalPlan> {
        let LogicalPlan::Copy(copy) = plan else { return Ok(plan) };
        let schema = copy.input.schema().as_arrow();
        let stored = match copy.file_type.get_ext().as_str() {
            "parquet" => for_parquet(schema)?,
            "arrow" => for_arrow(schema),
            _ => return Ok(LogicalPlan::Copy(copy)),
        };
        let input = Arc::new(cast(&copy.input, &stored)?);
        Ok(LogicalPlan::Copy(CopyTo { input, ..copy }))
    }
}

/// Returns `input` with the types of `stored`, which has the same columns.
fn cast(input: &LogicalPlan, stored: &arrow::datatypes::Schema) -> Result<LogicalPlan> {
    if stored.fields() == input.schema().fields() {
        return Ok(input.clone());
    }
    let columns = input.schema().columns().into_iter().zip(input.schema().fields()).zip(stored.fields());
    let column = columns.map(|((column, found), stored)| {
        let name = column.name.clone();
        let expression = Expr::Column(column);
        if found.data_type() == stored.data_type() {
            expression
        } else {
            Expr::Cast(Cast::new(Box::new(expression), stored.data_type().clone())).alias(name)
        }
    });
    LogicalPlanBuilder::from(input.clone()).project(column.collect::<Vec<_>>())?.build()
}
