//! What every strategy of the exchange promises. Test programs include this module, and beside it
//! `strategies`, the strategies that it runs on.

mod accounting;
mod contract;
mod hand_over;
pub mod meter;
mod stress;
mod transport;

use annulus_exchange::{DataPath, Strategy};

use crate::strategies;

/// A strategy, and the side that copies the rows.
type Way = (Strategy, DataPath);

/// Every strategy, with each path that it has.
fn ways() -> impl Iterator<Item = Way> {
    let paths = |strategy| match strategy {
        Strategy::Reserve => vec![(strategy, DataPath::Auto)],
        _ => vec![(strategy, DataPath::Gather), (strategy, DataPath::Cluster)],
    };
    strategies::all().into_iter().flat_map(paths)
}

/// The strategies that pass values on.
fn transports() -> impl Iterator<Item = Strategy> {
    strategies::all().into_iter().filter(|strategy| *strategy != Strategy::Reserve)
}

/// Those that have a bound.
fn bounded_transports() -> impl Iterator<Item = Strategy> {
    transports().filter(|strategy| !strategy.keeps_all())
}
