//! The text of the operator in `EXPLAIN`.

use std::fmt;

use datafusion::physical_plan::{DisplayAs, DisplayFormatType, ExecutionPlan};

use super::BandJoinExec;

impl DisplayAs for BandJoinExec {
    fn fmt_as(&self, format: DisplayFormatType, f: &mut fmt::Formatter) -> fmt::Result {
        if self.explain_as_stock {
            return self.stock.fmt_as(format, f);
        }
        let (join_type, parts) = (self.stock.join_type(), self.plan.condition.parts());
        let rest = self.plan.condition.rest.as_ref();
        match format {
            DisplayFormatType::Default | DisplayFormatType::Verbose => {
                write!(f, "BandJoinExec: join_type={join_type:?}")?;
                parts.iter().try_for_each(|(name, text)| write!(f, ", {name}={text}"))?;
                rest.map_or(Ok(()), |rest| write!(f, ", filter={rest}"))?;
                if self.stock.contains_projection() {
                    let schema = self.stock.schema();
                    let columns: Vec<_> = schema.fields().iter().map(|field| field.name().as_str()).collect();
                    write!(f, ", projection=[{}]", columns.join(", "))?;
                }
                write!(f, ", algorithm=sort-merge, why={}", self.why())
            }
            DisplayFormatType::TreeRender => {
                self.stock.fmt_as(format, f)?;
                parts.iter().try_for_each(|(name, text)| writeln!(f, "{name}={text}"))?;
                rest.map_or(Ok(()), |rest| writeln!(f, "filter={rest}"))?;
                writeln!(f, "algorithm=sort-merge")?;
                writeln!(f, "why={}", self.why())
            }
        }
    }
}
