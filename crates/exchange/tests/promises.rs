//! The suite of all strategies, on those of this crate.
#![cfg(not(loom))]

mod strategies;
mod suite;

use annulus_exchange::{DataPath, Strategy};

use suite::meter::{TEXT, metered, send, texts};

/// Long values of views are in buffers that the rows of a slice share, and count as the bytes that
/// the rows refer to.
#[test]
fn a_batch_of_views_counts_what_its_rows_hold() {
    for (strategy, path, consumers) in [
        (Strategy::Ring, DataPath::Gather, 1),
        (Strategy::Ring, DataPath::Cluster, 1),
        // With many consumers a producer holds batches until it has enough rows for all.
        (Strategy::Reserve, DataPath::Auto, 64),
    ] {
        for (batch, rows) in [(texts(20), 20), (texts(100).slice(50, 10), 10)] {
            let (mut producer, consumers, meter) = metered(strategy, path, consumers);
            send(&mut producer, batch);
            let reserved = meter.reserved();
            assert!(
                (rows * TEXT..2 * rows * TEXT).contains(&reserved),
                "{strategy} {path}: {reserved} for {rows} rows"
            );
            producer.finish();
            drop(consumers);
            assert_eq!(meter.reserved(), 0, "{strategy} {path}");
        }
    }
}
