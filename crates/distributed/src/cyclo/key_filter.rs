//! The choice of a filter of the stationary keys, which drops rotating rows before they are sent.

use annulus_cyclo::{KeyFilterChoice, KeyFilterSizes};
use serde::{Deserialize, Serialize};

use crate::state::RingAgreement;

/// The sizes of the sides of a join, as far as a plan knows them.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct FilterSizes {
    /// The stationary rows, before conditions drop some.
    pub(crate) whole_rows: f64,
    pub(crate) rotating_rows: f64,
    pub(crate) rotating_bytes: f64,
}

impl FilterSizes {
    /// Returns the filter that all tasks make, if it saves more than it costs. All tasks of an agreement decide
    /// alike.
    pub(super) fn choose(&self, agreement: &RingAgreement) -> Option<KeyFilterChoice> {
        let (parts, build_rows) = (f64::from(agreement.parts), agreement.part_rows as f64);
        // Each rotating row is expected to have the same number of partners in the whole relation, at least
        // one, any of which may be in a part.
        let left = (build_rows / self.whole_rows.max(1.0)).min(1.0 / parts);
        let partners = (self.whole_rows / self.rotating_rows.max(1.0)).max(1.0);
        let sizes = KeyFilterSizes {
            hosts: agreement.hosts.len().max(1) as u64,
            revolutions: agreement.parts.into(),
            build_rows: agreement.part_rows,
            probe_rows: self.rotating_rows as u64,
            probe_bytes: self.rotating_bytes as u64,
            with_partner: 1.0 - (1.0 - left).powf(partners),
            most_bytes: agreement.filter_bytes,
            send_ns: agreement.send_ns(),
        };
        sizes.best()
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::state::RingHost;

    #[test]
    fn a_filter_needs_stationary_rows_that_were_dropped() {
        let host = RingHost { worker: String::new(), address: String::new(), local: None, fabric: None, member: None };
        let agreement = |part_rows, parts| RingAgreement {
            session: 0,
            hosts: vec![host.clone(); 3],
            rows: part_rows / 3,
            part_rows,
            parts,
            fragment_bytes: 1 << 20,
            filter_bytes: 1 << 28,
            silence: Duration::ZERO,
        };
        let sizes = FilterSizes { whole_rows: 1.5e6, rotating_rows: 6e6, rotating_bytes: 6e8 };
        assert!(sizes.choose(&agreement(105_000, 1)).is_some(), "7 % of the orders");
        assert_eq!(sizes.choose(&agreement(1_500_000, 1)), None, "all of them");
        assert!(sizes.choose(&agreement(375_000, 4)).is_some(), "a revolution meets a part");
        let short = FilterSizes { rotating_rows: 10.0, rotating_bytes: 1000.0, ..sizes };
        assert_eq!(short.choose(&agreement(105_000, 1)), None);
    }
}
