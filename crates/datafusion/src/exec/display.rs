//! The text of the operator in `EXPLAIN`.

use std::fmt;

use datafusion::physical_plan::{DisplayAs, DisplayFormatType};

use super::RingRepartitionExec;

/// A node that displays itself in a format.
struct Text<'a, T>(&'a T, DisplayFormatType);

impl<T: DisplayAs> fmt::Display for Text<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt_as(self.1, f)
    }
}

impl DisplayAs for RingRepartitionExec {
    fn fmt_as(&self, format: DisplayFormatType, f: &mut fmt::Formatter) -> fmt::Result {
        let options = self.options();
        if options.explain_as_stock {
            return self.stock().fmt_as(format, f);
        }
        let why = self.why();
        let strategy = self.choice().strategy;
        match format {
            DisplayFormatType::Default | DisplayFormatType::Verbose => {
                // The stock text starts with the stock name; `Ring` before it makes our name.
                write!(f, "Ring{}, strategy={strategy}", Text(self.stock(), format))?;
                self.choice().path.map_or(Ok(()), |path| write!(f, ", path={path}"))?;
                self.skip().map_or(Ok(()), |skip| write!(f, ", skip_partial={skip}"))?;
                write!(f, ", why={why}")
            }
            DisplayFormatType::TreeRender => {
                self.stock().fmt_as(format, f)?;
                writeln!(f, "strategy={strategy}")?;
                self.choice().path.map_or(Ok(()), |path| writeln!(f, "path={path}"))?;
                self.skip().map_or(Ok(()), |skip| writeln!(f, "skip_partial={skip}"))?;
                writeln!(f, "why={why}")
            }
        }
    }
}
