//! Names of options that are refused, and what to set instead.

use datafusion::{common::config_err, error::Result};

/// The names of the options, each with the remedy.
const REMOVED: [(&str, &str); 9] = [
    ("path", "name the side that copies in the strategy, as in annulus.strategy = 'ring+cluster'"),
    ("groups", BOUNDS),
    ("slots", BOUNDS),
    ("domains", BOUNDS),
    ("skip_partial_aggregation", GROUPINGS),
    ("merge_runs", GROUPINGS),
    ("broadcast_limit", "set annulus.cyclo_join = 'always' or 'never', or the extension RingJoinOptions in Rust"),
    ("share_memory", "workers share memory wherever that works; Connections::with_shared_memory turns it off in Rust"),
    ("explain_as_stock", "set annulus.strategy = 'stock', annulus.joins = 'never' and annulus.groupings = 'never'"),
];

const BOUNDS: &str = "the bounds suit the caches; a Rust program sets others with the extension ExchangeTuning";
const GROUPINGS: &str = "set annulus.groupings to 'auto' or 'never'";

/// Refuses the option `key` if an earlier release had it.
///
/// # Errors
/// If it had. The error names what has taken the option's place.
pub(super) fn refuse(key: &str) -> Result<()> {
    match REMOVED.into_iter().find(|(name, _)| *name == key) {
        Some((name, remedy)) => config_err!("annulus: the option 'annulus.{name}' was removed: {remedy}"),
        None => Ok(()),
    }
}
