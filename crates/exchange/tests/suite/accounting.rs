//! What the exchange reports to the embedder's memory accounting.

use std::task::{Context, Poll, Waker};

use annulus_exchange::{DataPath, Delivery, ring::Admission};

use super::{
    bounded_transports,
    meter::{TEXT, metered, send, texts},
};

/// The rows that a slow consumer's overflow collects count before they are a batch. They are given
/// back when the consumer takes them, and when it goes away.
#[test]
fn a_slow_consumers_open_batch_counts() {
    for strategy in bounded_transports() {
        for (path, leaves) in [(DataPath::Gather, false), (DataPath::Gather, true), (DataPath::Cluster, false)] {
            let (mut producer, mut consumers, meter) = metered(strategy, path, 2);
            let mut slow = consumers.pop().unwrap();
            let mut cx = Context::from_waker(Waker::noop());
            let mut sent = 0;
            while sent < 10 {
                while consumers[0].poll_recv(&mut cx).is_ready() {}
                match producer.poll_ready(&mut cx) {
                    Poll::Ready(Ok(Admission::Granted)) => {
                        send(&mut producer, texts(4));
                        sent += 1;
                    }
                    Poll::Ready(Ok(Admission::Yield)) => {}
                    other => panic!("{strategy} {path}: {other:?}"),
                }
            }
            // Fewer rows than a batch, nearly all of which were taken off the transport.
            let reserved = meter.reserved();
            assert!(reserved >= 2 * sent * TEXT, "{strategy} {path}: {reserved}");
            producer.finish();
            if leaves {
                drop(slow);
            } else {
                let mut rows = 0;
                while let Some(delivery) = slow.recv_blocking() {
                    let Delivery::Batch(batch) = delivery.unwrap() else { panic!("nothing was spilled") };
                    rows += batch.num_rows();
                }
                assert_eq!(rows, 2 * sent);
            }
            while consumers[0].recv_blocking().is_some() {}
            assert_eq!(meter.reserved(), 0, "{strategy} {path}");
        }
    }
}
