//! The text of the operator in `EXPLAIN`.

use std::fmt;

use annulus_exchange::Strategy;
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
        let (why, facts) = (self.why(), facts(self));
        match format {
            DisplayFormatType::Default | DisplayFormatType::Verbose => {
                // The stock text starts with the stock name; `Ring` before it makes our name.
                write!(f, "Ring{}", Text(self.stock(), format))?;
                facts.iter().try_for_each(|(name, value)| write!(f, ", {name}={value}"))?;
                write!(f, ", why={why}")
            }
            DisplayFormatType::TreeRender => {
                self.stock().fmt_as(format, f)?;
                facts.iter().try_for_each(|(name, value)| writeln!(f, "{name}={value}"))?;
                writeln!(f, "why={why}")
            }
        }
    }
}

/// Returns the settings of the exchange to show: the strategy, the side that copies, the bounds, and
/// when a grouping below gives up. Settings that the strategy does not have are left out, and so are
/// the defaults of slots and groupings.
fn facts(exec: &RingRepartitionExec) -> Vec<(&'static str, String)> {
    let (choice, config) = (exec.choice(), exec.config());
    let mut facts = vec![("strategy", choice.strategy.to_string())];
    facts.extend(choice.path.map(|path| ("path", path.to_string())));
    if !choice.strategy.keeps_all() {
        facts.push(("groups", config.groups.to_string()));
        facts.extend((config.slots != 0).then(|| ("slots", config.slots.to_string())));
    }
    if choice.strategy == Strategy::RingPerDomain {
        facts.push(("domains", config.domains.min(config.producers).to_string()));
    }
    facts.extend(exec.skip().map(|skip| ("skip_partial", skip.to_string())));
    facts
}
