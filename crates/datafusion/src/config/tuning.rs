//! The bounds of exchanges, for programs that measure them.

use crate::rust_options;

/// The bounds of the exchanges of a session: an extension that Rust programs insert. SQL does not
/// set it, because what suits the caches has been the best choice or close to it. Workers take no
/// bounds from a coordinator.
///
/// ```
/// use annulus_datafusion::config::ExchangeTuning;
/// use datafusion::prelude::SessionConfig;
///
/// let tuning = ExchangeTuning { groups: 4, ..ExchangeTuning::default() };
/// let config = SessionConfig::new().with_option_extension(tuning);
/// assert_eq!(config.options().extensions.get::<ExchangeTuning>().map(|tuning| tuning.groups), Some(4));
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ExchangeTuning {
    /// Number of published groups that a ring holds, 1 to 64, or 0 for what suits the caches. A queue
    /// has room for the batches of as many groups.
    pub groups: usize,
    /// Number of batches in a group, 0 for one for each input partition.
    pub slots: usize,
    /// Number of rings for the strategy `ring-per-domain`, 0 for one for each last-level cache that
    /// this process may use.
    pub domains: usize,
}

rust_options!(ExchangeTuning, "annulus_exchange");
