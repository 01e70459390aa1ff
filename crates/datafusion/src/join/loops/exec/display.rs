//! The text of the operator in `EXPLAIN`.

use std::fmt;

use datafusion::physical_plan::{DisplayAs, DisplayFormatType, ExecutionPlan};

use super::LoopJoinExec;

impl DisplayAs for LoopJoinExec {
    fn fmt_as(&self, format: DisplayFormatType, f: &mut fmt::Formatter) -> fmt::Result {
        if self.explain_as_stock {
            return self.stock.fmt_as(format, f);
        }
        match format {
            DisplayFormatType::Default | DisplayFormatType::Verbose => {
                write!(f, "LoopJoinExec: join_type={:?}", self.stock.join_type())?;
                self.stock.filter().map_or(Ok(()), |filter| write!(f, ", filter={}", filter.expression()))?;
                if self.stock.contains_projection() {
                    let schema = self.stock.schema();
                    let columns: Vec<_> = schema.fields().iter().map(|field| field.name().as_str()).collect();
                    write!(f, ", projection=[{}]", columns.join(", "))?;
                }
                write!(f, ", why={}", self.why())
            }
            DisplayFormatType::TreeRender => {
                self.stock.fmt_as(format, f)?;
                self.stock.filter().map_or(Ok(()), |filter| writeln!(f, "filter={}", filter.expression()))?;
                writeln!(f, "why={}", self.why())
            }
        }
    }
}
