//! A model of a consumer that has collected rows for a batch which is not full, while the producers
//! pause.

use std::sync::Arc;

use arrow::array::{ArrayRef, Int64Array, RecordBatch};
use loom::thread;

use crate::{
    Delivery, ExchangeConfig, Strategy, Unlimited, exchange,
    waiting::bell::{block_on, model},
};

/// One producer ends and the other one turns idle. The consumer gets the row that it has collected,
/// however soon it begins to wait.
#[test]
fn rows_come_when_no_producer_is_at_work() {
    model(2, || {
        let ids: ArrayRef = Arc::new(Int64Array::from(vec![1]));
        let batch = RecordBatch::try_from_iter([("id", ids)]).unwrap();
        // A group of one slot is announced when it is sent, so that no wake-up is for the group.
        let config = ExchangeConfig::new(2, 1).with_slots(1).with_batch_rows(4).with_strategy(Strategy::Ring);
        let (mut producers, mut consumers) = exchange(&config, batch.schema(), Arc::new(Unlimited)).unwrap();
        let (ending, mut pausing) = (producers.pop().unwrap(), producers.pop().unwrap());
        pausing.send_hashed(batch, &[0]).unwrap();
        let ends = thread::spawn(move || {
            ending.finish();
        });
        let pauses = thread::spawn(move || {
            pausing.idle();
            pausing
        });
        let received = block_on(|cx| consumers[0].poll_recv(cx));
        assert!(matches!(received, Some(Ok(Delivery::Batch(rows))) if rows.num_rows() == 1));
        ends.join().unwrap();
        let _pausing = pauses.join().unwrap();
    });
}
