//! The text of the operator in `EXPLAIN`.

use std::fmt;

use datafusion::physical_plan::{DisplayAs, DisplayFormatType, ExecutionPlan};

use super::{Method, MorselJoinExec};

impl<M: Method> DisplayAs for MorselJoinExec<M> {
    fn fmt_as(&self, format: DisplayFormatType, f: &mut fmt::Formatter) -> fmt::Result {
        let facts = self.method.facts(&self.stock);
        match format {
            DisplayFormatType::Default | DisplayFormatType::Verbose => {
                write!(f, "{}: join_type={:?}", M::NAMES.operator, self.stock.join_type())?;
                facts.iter().try_for_each(|(name, text)| write!(f, ", {name}={text}"))?;
                if self.stock.contains_projection() {
                    let schema = self.stock.schema();
                    let columns: Vec<_> = schema.fields().iter().map(|field| field.name().as_str()).collect();
                    write!(f, ", projection=[{}]", columns.join(", "))?;
                }
                M::NAMES.algorithm.map_or(Ok(()), |algorithm| write!(f, ", algorithm={algorithm}"))?;
                write!(f, ", why={}", self.why)
            }
            DisplayFormatType::TreeRender => {
                self.stock.fmt_as(format, f)?;
                facts.iter().try_for_each(|(name, text)| writeln!(f, "{name}={text}"))?;
                M::NAMES.algorithm.map_or(Ok(()), |algorithm| writeln!(f, "algorithm={algorithm}"))?;
                writeln!(f, "why={}", self.why)
            }
        }
    }
}
