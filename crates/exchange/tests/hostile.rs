//! Code of the embedder that panics, or calls the exchange, at the worst moment. Nothing is lost
//! without an error, and nothing hangs: a call that waits for itself hangs its test.
#![cfg(not(loom))]

use std::{
    cell::RefCell,
    ops::{ControlFlow, Range},
    panic::{AssertUnwindSafe, catch_unwind},
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst},
        mpsc,
    },
    task::{Context, Poll, RawWaker, RawWakerVTable, Wake, Waker},
    thread,
};

use annulus_exchange::{
    Admission, Consumer, Delivery, ExchangeConfig, Overflow, Producer, SpilledBatch, StopError, Strategy, Unlimited,
    exchange,
    ring::{RingConfig, ring},
};
use arrow::{
    array::{
        Array, AsArray, BooleanArray, Decimal128Array, FixedSizeBinaryArray, Int64Array, RecordBatch, StringViewArray,
    },
    datatypes::{DataType, Field, Int64Type, Schema, SchemaRef},
};

/// Counts how often it was woken.
#[derive(Default)]
struct Bell(AtomicUsize);

impl Wake for Bell {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, SeqCst);
    }
}

thread_local! {
    /// What the next clone of a hooked waker calls.
    static HOOK: RefCell<Option<Box<dyn FnOnce()>>> = const { RefCell::new(None) };
}

/// Returns a waker whose clone calls the hook of its thread.
fn hooked() -> Waker {
    fn clone(data: *const ()) -> RawWaker {
        if let Some(hook) = HOOK.take() {
            hook();
        }
        RawWaker::new(data, &TABLE)
    }
    fn nothing(_: *const ()) {}
    static TABLE: RawWakerVTable = RawWakerVTable::new(clone, nothing, nothing, nothing);
    // SAFETY: the data pointer is never followed.
    unsafe { Waker::from_raw(RawWaker::new(std::ptr::null(), &TABLE)) }
}

/// The clone of a consumer's waker marks the time between its first look and its registration. The
/// hook's actions may happen on another thread.
#[test]
fn a_consumer_that_finds_something_at_its_second_look_passes_the_news_on() {
    let (mut producers, mut consumers) = ring::<u32>(RingConfig::new(1, 3).with_groups(1).with_slots(2));
    let mut producer = producers.pop().unwrap();
    let mut starving = consumers.pop().unwrap();
    let mut looking = consumers.pop().unwrap();
    let _never_polled = consumers.pop().unwrap();
    let bell = Arc::new(Bell::default());
    let waker = Waker::from(Arc::clone(&bell));
    let (give_back, given_back) = mpsc::channel();
    HOOK.set(Some(Box::new(move || {
        producer.try_send(0).unwrap();
        producer.try_send(1).unwrap();
        let mut cx = Context::from_waker(&waker);
        loop {
            match producer.poll_ready(&mut cx, |_, _| panic!("no consumer starves yet")) {
                Poll::Ready(Ok(Admission::Yield)) => {}
                Poll::Pending => break,
                other => panic!("{other:?}"),
            }
        }
        give_back.send(producer).unwrap();
    })));
    let _ = looking.poll_next(&mut Context::from_waker(&hooked()), |_| ControlFlow::Continue(()));
    let producer = given_back.recv().unwrap();

    // As after a LIMIT.
    drop(looking);
    let waker = Waker::from(Arc::new(Bell::default()));
    let mut cx = Context::from_waker(&waker);
    assert!(starving.poll_next(&mut cx, |_| ControlFlow::Continue(())).is_ready());
    assert!(starving.poll_next(&mut cx, |_| ControlFlow::Continue(())).is_pending());
    let rung = bell.0.load(SeqCst);
    drop(producer);
    assert!(rung > 0, "the producer is not woken though a consumer starves, and another one could be relieved");
}

fn schema() -> SchemaRef {
    Arc::new(Schema::new(vec![Field::new("key", DataType::Int64, false)]))
}

/// Sends these keys, each to the consumer of its remainder.
fn send(producer: &mut Producer, keys: Range<i64>) -> bool {
    let hashes: Vec<u64> = keys.clone().map(|key| key as u64).collect();
    let batch = RecordBatch::try_new(schema(), vec![Arc::new(Int64Array::from_iter_values(keys))]).unwrap();
    producer.send_hashed(batch, &hashes).is_ok()
}

/// Returns the keys in memory of all consumers, sorted, and the errors.
fn drain(consumers: &mut [Consumer]) -> (Vec<i64>, Vec<String>) {
    let (mut keys, mut errors) = (vec![], vec![]);
    for consumer in consumers {
        while let Some(delivery) = consumer.recv_blocking() {
            match delivery {
                Ok(Delivery::Batch(batch)) => {
                    keys.extend_from_slice(batch.column(0).as_primitive::<Int64Type>().values());
                }
                Ok(Delivery::Spilled(_)) => {}
                Err(error) => errors.push(error.to_string()),
            }
        }
    }
    keys.sort_unstable();
    (keys, errors)
}

/// Memory without a limit, and a disk that forgets. The next call panics if it is armed.
#[derive(Default)]
struct Armed {
    reserve: AtomicBool,
    spill: AtomicBool,
    used: AtomicUsize,
}

impl Overflow for Armed {
    fn try_reserve(&self, bytes: usize) -> bool {
        assert!(!self.reserve.swap(false, SeqCst), "embedder");
        self.used.fetch_add(bytes, SeqCst);
        true
    }
    fn release(&self, bytes: usize) {
        self.used.fetch_sub(bytes, SeqCst);
    }
    fn spill(&self, _: usize, _: RecordBatch) -> Result<SpilledBatch, StopError> {
        assert!(!self.spill.swap(false, SeqCst), "embedder");
        Ok(SpilledBatch(Box::new(())))
    }
}

/// Creates an exchange of one producer, whose overflow is armed later.
fn armed(config: &ExchangeConfig, schema: SchemaRef) -> (Producer, Vec<Consumer>, Arc<Armed>) {
    let overflow = Arc::new(Armed::default());
    let (mut producers, consumers) = exchange(config, schema, Arc::clone(&overflow) as _).unwrap();
    (producers.pop().unwrap(), consumers, overflow)
}

/// With many consumers a producer holds batches back.
fn held_config() -> ExchangeConfig {
    ExchangeConfig::new(1, 64).with_batch_rows(128).with_strategy(Strategy::Reserve)
}

/// Nothing stays in memory beyond the bound.
fn spilling_config() -> ExchangeConfig {
    ExchangeConfig::new(1, 1).with_batch_rows(4).with_overflow_bytes(0).with_strategy(Strategy::Reserve)
}

fn panics(call: impl FnOnce()) -> bool {
    catch_unwind(AssertUnwindSafe(call)).is_err()
}

/// A panic of `try_reserve` in `send_hashed` must not leave the batch's rows without the batch.
#[test]
fn a_panic_in_a_reservation_makes_no_rows_up() {
    let (mut producer, mut consumers, overflow) = armed(&held_config(), schema());
    for number in 0..8 {
        assert!(send(&mut producer, number * 1000..(number + 1) * 1000));
    }
    assert!(send(&mut producer, 10_000..11_000));
    overflow.reserve.store(true, SeqCst);
    assert!(panics(|| {
        send(&mut producer, 11_000..12_000);
    }));
    producer.finish();

    let (keys, errors) = drain(&mut consumers);
    let mut sent: Vec<i64> = (0..8000).chain(10_000..11_000).collect();
    sent.sort_unstable();
    assert!(!errors.is_empty() || keys == sent, "{} rows, not the {} that were sent", keys.len(), sent.len());
}

/// The same with views: stale bytes would be taken for views, and their buffer numbers for indices
/// that nobody checks.
#[test]
fn a_panic_in_a_reservation_makes_no_views_up() {
    let schema: SchemaRef = Arc::new(Schema::new(vec![
        Field::new("text", DataType::Utf8View, false),
        Field::new("key", DataType::Decimal128(38, 0), false),
    ]));
    let (mut producer, mut consumers, overflow) = armed(&held_config(), Arc::clone(&schema));
    let send = |producer: &mut Producer| {
        let hashes: Vec<u64> = (0..1000).collect();
        let texts = (0..1000).map(|row| format!("a string of more than twelve bytes {row}"));
        let keys = (0..1000).map(|row| 0x0fff_ffff_0fff_ffff_0000_0000_0000_0020_i128 + row);
        let keys = Decimal128Array::from_iter_values(keys).with_precision_and_scale(38, 0).unwrap();
        let columns: Vec<Arc<dyn Array>> = vec![Arc::new(StringViewArray::from_iter_values(texts)), Arc::new(keys)];
        let batch = RecordBatch::try_new(Arc::clone(&schema), columns).unwrap();
        producer.send_hashed(batch, &hashes).unwrap();
    };
    for _ in 0..9 {
        send(&mut producer);
    }
    overflow.reserve.store(true, SeqCst);
    assert!(panics(|| send(&mut producer)));
    producer.finish();
    consumers.clear();
}

/// A panic in the first `try_reserve` of a flush drops batches whose send returned `Ok`. The
/// handles must get an error.
#[test]
fn batches_held_when_a_flush_panics_are_not_lost_silently() {
    let (mut producer, mut consumers, overflow) = armed(&held_config(), schema());
    for number in 0..3 {
        assert!(send(&mut producer, number * 1000..(number + 1) * 1000));
    }
    overflow.reserve.store(true, SeqCst);
    assert!(panics(|| producer.idle()));
    producer.finish();

    let (keys, errors) = drain(&mut consumers);
    assert!(!errors.is_empty() || keys.len() == 3000, "{} of 3000 rows and no error", keys.len());
}

#[test]
fn a_spill_that_panics_leaves_nothing_reserved() {
    let (mut producer, consumers, overflow) = armed(&spilling_config(), schema());
    overflow.spill.store(true, SeqCst);
    assert!(panics(|| {
        send(&mut producer, 0..16);
    }));
    drop((producer, consumers));
    assert_eq!(overflow.used.load(SeqCst), 0, "bytes still reserved");
}

/// The last chunk of a call is lost if its spill panics. Without an error, no handle would notice,
/// and the gate would count the chunk for ever.
#[test]
fn a_spill_that_panics_at_the_last_chunk_stops_the_exchange() {
    let (mut producer, mut consumers, overflow) = armed(&spilling_config(), schema());
    assert!(send(&mut producer, 0..8));
    overflow.spill.store(true, SeqCst);
    assert!(panics(|| {
        send(&mut producer, 8..12);
    }));
    producer.finish();

    let (keys, errors) = drain(&mut consumers);
    assert!(!errors.is_empty() || keys.len() == 12, "{} of 12 rows and no error", keys.len());
}

/// Lets another producer find the exchange full, on a thread of its own, while rows are accounted
/// for.
#[derive(Default)]
struct Parks {
    other: Mutex<Option<(Producer, Waker)>>,
    armed: AtomicBool,
}

impl Overflow for Parks {
    fn try_reserve(&self, _: usize) -> bool {
        if self.armed.swap(false, SeqCst) {
            let (mut producer, waker) = self.other.lock().unwrap().take().unwrap();
            let waits = thread::spawn(move || {
                let mut cx = Context::from_waker(&waker);
                while let Poll::Ready(Ok(Admission::Yield)) = producer.poll_ready(&mut cx) {}
                producer
            });
            *self.other.lock().unwrap() = Some((waits.join().unwrap(), Waker::noop().clone()));
        }
        true
    }
    fn release(&self, _: usize) {}
    fn spill(&self, _: usize, _: RecordBatch) -> Result<SpilledBatch, StopError> {
        unreachable!("memory has no limit")
    }
}

/// Drops a consumer when it is woken.
struct Drops(Mutex<Option<Consumer>>);

impl Wake for Drops {
    fn wake(self: Arc<Self>) {
        let consumer = self.0.lock().unwrap().take();
        drop(consumer);
    }
}

/// If producers were woken under a laggard's lock, its consumer's drop would wait for that lock.
#[test]
fn a_waker_may_drop_the_consumer_that_is_relieved() {
    let overflow = Arc::new(Parks::default());
    let config = ExchangeConfig::new(2, 2).with_batch_rows(1).with_strategy(Strategy::Ring);
    let (mut producers, mut consumers) = exchange(&config, schema(), Arc::clone(&overflow) as _).unwrap();
    let (mut other, mut producer) = (producers.pop().unwrap(), producers.pop().unwrap());
    let (mut starving, slow) = (consumers.pop().unwrap(), consumers.pop().unwrap());
    assert!(send(&mut producer, 0..2));
    assert!(send(&mut other, 2..4));
    assert!(send(&mut producer, 4..6));
    assert!(send(&mut other, 6..8));
    // One beyond the bound, as a stale window admits.
    assert!(send(&mut producer, 8..10));
    let mut cx = Context::from_waker(Waker::noop());
    while starving.poll_recv(&mut cx).is_ready() {}

    let drops = Arc::new(Drops(Mutex::new(Some(slow))));
    *overflow.other.lock().unwrap() = Some((other, Waker::from(Arc::clone(&drops))));
    overflow.armed.store(true, SeqCst);
    for _ in 0..5 {
        let _ = producer.poll_ready(&mut cx);
        let _ = starving.poll_recv(&mut cx);
    }
    assert!(drops.0.lock().unwrap().is_none(), "the other producer was not woken");
}

/// A panic in a hand-over counts the value as not taken, but its rows are in the laggard's builder
/// already.
#[test]
fn a_panic_in_a_hand_over_neither_loses_nor_doubles_rows() {
    let config = ExchangeConfig::new(1, 2).with_batch_rows(3).with_slots(2).with_strategy(Strategy::Ring);
    let (mut producer, mut consumers, overflow) = armed(&config, schema());
    for first in [0, 4, 8, 12] {
        assert!(send(&mut producer, first..first + 4));
    }
    let mut cx = Context::from_waker(Waker::noop());
    while consumers[1].poll_recv(&mut cx).is_ready() {}
    overflow.reserve.store(true, SeqCst);
    let mut panicked = false;
    for _ in 0..5 {
        panicked |= panics(|| {
            let _ = producer.poll_ready(&mut cx);
        });
    }
    assert!(panicked);
    producer.finish();

    let (keys, errors) = drain(&mut consumers[..1]);
    assert!(!errors.is_empty() || keys == [0, 2, 4, 6, 8, 10, 12, 14], "{keys:?}");
}

/// For Miri: the debug format of a buffer shows its whole allocation.
#[test]
fn a_buffer_can_be_shown() {
    let config = ExchangeConfig::new(1, 1).with_batch_rows(64).with_strategy(Strategy::Ring);
    let (mut producers, mut consumers) = exchange(&config, schema(), Arc::new(Unlimited)).unwrap();
    let mut producer = producers.pop().unwrap();
    assert!(send(&mut producer, 0..3));
    producer.finish();
    let Some(Ok(Delivery::Batch(batch))) = consumers[0].recv_blocking() else { panic!("no batch") };
    assert!(format!("{:?}", batch.column(0).to_data().buffers()[0]).contains("data"));
}

/// Returns a batch of views, flags and bytes: a slice, whose length and strings depend on `number`.
fn batch_of_views(schema: &SchemaRef, number: usize) -> RecordBatch {
    let len = [40, 0, 7, 33, 1][number % 5];
    let text = |row: usize| {
        let long = [5, 13, 64, 65, 17, 33, 90, 0, 12, 16][(row * 7 + number) % 10];
        (number != 2 || row < 3).then(|| "x".repeat(if number % 5 == 2 { 0 } else { long }))
    };
    let flag = |row: usize| (!row.is_multiple_of(5)).then_some(row.is_multiple_of(2));
    let bytes = |row: usize| (!row.is_multiple_of(4)).then_some([row as u8; 16]);
    let rows = 0..len + 3;
    let bytes = FixedSizeBinaryArray::try_from_sparse_iter_with_size(rows.clone().map(bytes), 16).unwrap();
    let columns: Vec<Arc<dyn Array>> = vec![
        Arc::new(StringViewArray::from_iter(rows.clone().map(text)).slice(3, len)),
        Arc::new(BooleanArray::from_iter(rows.map(flag)).slice(3, len)),
        Arc::new(bytes.slice(3, len)),
    ];
    RecordBatch::try_new(Arc::clone(schema), columns).unwrap()
}

/// For Miri: several held batches, views with buffers and without, slices, empty batches.
#[test]
fn views_of_several_batches() {
    let schema: SchemaRef = Arc::new(Schema::new(vec![
        Field::new("text", DataType::Utf8View, true),
        Field::new("flag", DataType::Boolean, true),
        Field::new("bytes", DataType::FixedSizeBinary(16), true),
    ]));
    let config = ExchangeConfig::new(1, 9).with_batch_rows(16).with_strategy(Strategy::Reserve);
    let (mut producers, mut consumers) = exchange(&config, Arc::clone(&schema), Arc::new(Unlimited)).unwrap();
    let mut producer = producers.pop().unwrap();
    let mut sent = 0;
    for number in 0..10 {
        let batch = batch_of_views(&schema, number);
        let hashes: Vec<u64> = (0..batch.num_rows() as u64).map(|row| row * 31 + number as u64).collect();
        sent += batch.num_rows();
        producer.send_hashed(batch, &hashes).unwrap();
    }
    producer.finish();

    let mut rows = 0;
    for consumer in &mut consumers {
        while let Some(Ok(Delivery::Batch(batch))) = consumer.recv_blocking() {
            rows += batch.num_rows();
            batch.columns().iter().for_each(|column| column.to_data().validate_full().unwrap());
        }
    }
    assert_eq!(rows, sent);
}

thread_local! {
    /// The number of the clone that panics, from 1.
    static BOMB: RefCell<usize> = const { RefCell::new(0) };
}

/// The clone that a wake-up makes panics once: the handle must not stay marked as listed.
#[test]
fn a_waker_whose_clone_panics_leaves_its_handle_able_to_wait() {
    static RUNG: AtomicUsize = AtomicUsize::new(0);
    fn clone(data: *const ()) -> RawWaker {
        let left = BOMB.with_borrow_mut(|left| std::mem::replace(left, left.saturating_sub(1)));
        assert!(left != 1, "clone");
        RawWaker::new(data, &TABLE)
    }
    fn nothing(_: *const ()) {}
    fn wake(_: *const ()) {
        RUNG.fetch_add(1, SeqCst);
    }
    static TABLE: RawWakerVTable = RawWakerVTable::new(clone, wake, wake, nothing);
    // SAFETY: the data pointer is never followed.
    let waker = unsafe { Waker::from_raw(RawWaker::new(std::ptr::null(), &TABLE)) };
    let (mut producers, mut consumers) = ring::<u32>(RingConfig::new(1, 1).with_groups(4).with_slots(1));
    let (mut producer, mut consumer) = (producers.pop().unwrap(), consumers.pop().unwrap());
    let mut cx = Context::from_waker(&waker);
    assert!(consumer.poll_next(&mut cx, |_| ControlFlow::Continue(())).is_pending());
    BOMB.set(1);
    assert!(panics(|| {
        let _ = producer.try_send(0);
    }));

    while consumer.poll_next(&mut cx, |_| ControlFlow::Continue(())).is_ready() {}
    let before = RUNG.load(SeqCst);
    producer.try_send(1).unwrap();
    producer.idle();
    assert!(RUNG.load(SeqCst) > before, "never called again");
}
