//! The text of the operator in `EXPLAIN`.

use std::fmt;

use datafusion::physical_plan::{DisplayAs, DisplayFormatType, ExecutionPlan};

use super::SharedHashJoinExec;

impl DisplayAs for SharedHashJoinExec {
    fn fmt_as(&self, format: DisplayFormatType, f: &mut fmt::Formatter) -> fmt::Result {
        let stock = self.stock();
        match format {
            DisplayFormatType::Default | DisplayFormatType::Verbose => {
                let mode = if self.is_partitioned() { "mode=Partitioned, " } else { "" };
                write!(f, "SharedHashJoinExec: {mode}join_type={:?}", stock.join_type())?;
                let on = stock.on().iter().map(|(left, right)| format!("({left}, {right})"));
                write!(f, ", on=[{}]", on.collect::<Vec<_>>().join(", "))?;
                if let Some(filter) = stock.filter() {
                    write!(f, ", filter={filter}")?;
                }
                if let Some(projection) = &stock.projection {
                    let fields = stock.join_schema().fields();
                    let name = |&column: &usize| format!("{}@{column}", fields[column].name());
                    let names: Vec<_> = projection.iter().map(name).collect();
                    write!(f, ", projection=[{}]", names.join(", "))?;
                }
                if let Some(fetch) = stock.fetch() {
                    write!(f, ", fetch={fetch}")?;
                }
                write!(f, ", algorithm=hash, why={}", self.why())
            }
            DisplayFormatType::TreeRender => {
                stock.fmt_as(format, f)?;
                writeln!(f, "why={}", self.why())
            }
        }
    }
}
