//! Code of the embedder that panics, or calls the exchange, at the worst moment. Nothing is lost
//! without an error, and nothing hangs.
#![cfg(not(loom))]
use annulus_exchange::{
    Consumer, DataPath, Delivery, ExchangeConfig, Overflow, Producer, SpilledBatch, StopError, Strategy, Unlimited,
    exchange,
    ring::{Admission, RingConfig, ring},
};
use arrow::{
    array::{Array, Int64Array, RecordBatch, StringViewArray},
    datatypes::{DataType, Field, Schema, SchemaRef},
};
use std::{
    cell::RefCell,
    ops::ControlFlow,
    panic::{AssertUnwindSafe, catch_unwind},
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst},
        mpsc,
    },
    task::{Context, Poll, RawWaker, RawWakerVTable, Wake, Waker},
    thread,
    time::Duration,
};

#[derive(Default)]
struct Bell(AtomicUsize);
impl Wake for Bell {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, SeqCst);
    }
}

thread_local!(static HOOK: RefCell<Option<Box<dyn FnOnce()>>> = const { RefCell::new(None) });
fn hooked() -> Waker {
    fn clone(p: *const ()) -> RawWaker {
        if let Some(hook) = HOOK.take() {
            hook()
        }
        RawWaker::new(p, &VT)
    }
    fn none(_: *const ()) {}
    static VT: RawWakerVTable = RawWakerVTable::new(clone, none, none, none);
    // SAFETY: the data pointer is never followed.
    unsafe { Waker::from_raw(RawWaker::new(std::ptr::null(), &VT)) }
}

/// The clone of D's waker marks the time between D's first look and its push. The hook's actions
/// may happen on another thread.
#[test]
fn a_consumer_that_finds_something_at_its_second_look_passes_the_news_on() {
    let (mut producers, mut consumers) = ring::<u32>(RingConfig::new(1, 3).with_groups(1).with_slots(2));
    let mut p = producers.pop().unwrap();
    let mut c = consumers.pop().unwrap();
    let mut d = consumers.pop().unwrap();
    let _b_is_never_polled = consumers.pop().unwrap();
    let bell = Arc::new(Bell::default());
    let (back, got) = mpsc::channel();
    let ring_me = Waker::from(Arc::clone(&bell));
    HOOK.set(Some(Box::new(move || {
        p.try_send(0).unwrap();
        p.try_send(1).unwrap();
        let mut cx = Context::from_waker(&ring_me);
        loop {
            match p.poll_ready(&mut cx, |_, _| panic!("no consumer starves yet")) {
                Poll::Ready(Ok(Admission::Yield)) => {}
                Poll::Pending => break,
                other => panic!("{other:?}"),
            }
        }
        back.send(p).unwrap();
    })));
    let w = hooked();
    let _ = d.poll_next(&mut Context::from_waker(&w), |_| ControlFlow::Continue(()));
    let p = got.recv().unwrap();
    drop(d); // a LIMIT was reached
    let cbell = Waker::from(Arc::new(Bell::default()));
    let mut cx = Context::from_waker(&cbell);
    assert!(c.poll_next(&mut cx, |_| ControlFlow::Continue(())).is_ready());
    assert!(c.poll_next(&mut cx, |_| ControlFlow::Continue(())).is_pending(), "c starves");
    let rung = bell.0.load(SeqCst);
    drop(p);
    assert!(rung > 0, "the parked producer is never woken though a consumer starves and b could be relieved");
}

fn schema() -> SchemaRef {
    Arc::new(Schema::new(vec![Field::new("key", DataType::Int64, false)]))
}
fn send(p: &mut Producer, keys: std::ops::Range<i64>) -> bool {
    let hashes: Vec<u64> = keys.clone().map(|k| k as u64).collect();
    let b = RecordBatch::try_new(schema(), vec![Arc::new(Int64Array::from_iter_values(keys))]).unwrap();
    p.send_hashed(b, &hashes).is_ok()
}
fn drain(consumers: &mut [Consumer]) -> (Vec<i64>, Vec<String>) {
    let (mut keys, mut errors) = (vec![], vec![]);
    for c in consumers {
        while let Some(d) = c.recv_blocking() {
            match d {
                Ok(Delivery::Batch(b)) => {
                    keys.extend_from_slice(b.column(0).as_any().downcast_ref::<Int64Array>().unwrap().values())
                }
                Ok(_) => {}
                Err(e) => errors.push(e.to_string()),
            }
        }
    }
    keys.sort();
    (keys, errors)
}

#[derive(Default)]
struct Armed {
    reserve: AtomicBool,
    spill: AtomicBool,
    used: AtomicUsize,
}
impl Overflow for Armed {
    fn try_reserve(&self, bytes: usize) -> bool {
        if self.reserve.swap(false, SeqCst) {
            panic!("embedder")
        }
        self.used.fetch_add(bytes, SeqCst);
        true
    }
    fn release(&self, bytes: usize) {
        self.used.fetch_sub(bytes, SeqCst);
    }
    fn spill(&self, _: usize, _: RecordBatch) -> Result<SpilledBatch, StopError> {
        if self.spill.swap(false, SeqCst) {
            panic!("embedder")
        }
        Ok(SpilledBatch(Box::new(())))
    }
}

fn held_config() -> ExchangeConfig {
    ExchangeConfig::new(1, 64).with_batch_rows(128).with_strategy(Strategy::Reserve)
}

/// A panic of try_reserve in send_hashed would leave the batch's rows in `rows`, without the batch.
#[test]
fn a_panic_in_a_reservation_makes_no_rows_up() {
    let o = Arc::new(Armed::default());
    let (mut ps, mut cs) = exchange(&held_config(), schema(), Arc::clone(&o) as _).unwrap();
    let mut p = ps.pop().unwrap();
    for i in 0..8 {
        assert!(send(&mut p, i * 1000..(i + 1) * 1000));
    }
    assert!(send(&mut p, 10_000..11_000));
    o.reserve.store(true, SeqCst);
    assert!(catch_unwind(AssertUnwindSafe(|| send(&mut p, 11_000..12_000))).is_err());
    p.finish();
    let (keys, errors) = drain(&mut cs);
    let mut wanted: Vec<i64> = (0..8000).chain(10_000..11_000).collect();
    wanted.sort();
    assert!(
        !errors.is_empty() || keys == wanted,
        "{} rows, of which {} were not sent or came twice",
        keys.len(),
        keys.len() - wanted.len()
    );
}

/// The same with views: stale bytes would be taken for views, and their buffer numbers for indices
/// (get_unchecked).
#[test]
fn a_panic_in_a_reservation_makes_no_views_up() {
    let o = Arc::new(Armed::default());
    let schema: SchemaRef = Arc::new(Schema::new(vec![
        Field::new("s", DataType::Utf8View, false),
        Field::new("key", DataType::Decimal128(38, 0), false),
    ]));
    let config = ExchangeConfig::new(1, 64).with_batch_rows(128).with_strategy(Strategy::Reserve);
    let (mut ps, mut cs) = exchange(&config, Arc::clone(&schema), Arc::clone(&o) as _).unwrap();
    let mut p = ps.pop().unwrap();
    let send = |p: &mut Producer| {
        let hashes: Vec<u64> = (0..1000).collect();
        let s = StringViewArray::from_iter_values((0..1000).map(|i| format!("a string of more than twelve bytes {i}")));
        let k = arrow::array::Decimal128Array::from_iter_values(
            (0..1000).map(|i| 0x0fff_ffff_0fff_ffff_0000_0000_0000_0020_i128 + i),
        )
        .with_precision_and_scale(38, 0)
        .unwrap();
        let b = RecordBatch::try_new(Arc::clone(&schema), vec![Arc::new(s), Arc::new(k)]).unwrap();
        p.send_hashed(b, &hashes).unwrap();
    };
    for _ in 0..8 {
        send(&mut p);
    }
    send(&mut p);
    o.reserve.store(true, SeqCst);
    assert!(catch_unwind(AssertUnwindSafe(|| send(&mut p))).is_err());
    p.finish();
    cs.clear();
}

/// A panic in the first `try_reserve` of a flush drops batches whose send returned `Ok`. The
/// handles must get an error.
#[test]
fn batches_held_when_a_flush_panics_are_not_lost_silently() {
    let o = Arc::new(Armed::default());
    let (mut ps, mut cs) = exchange(&held_config(), schema(), Arc::clone(&o) as _).unwrap();
    let mut p = ps.pop().unwrap();
    for i in 0..3 {
        assert!(send(&mut p, i * 1000..(i + 1) * 1000));
    }
    o.reserve.store(true, SeqCst);
    assert!(catch_unwind(AssertUnwindSafe(|| p.idle())).is_err());
    p.finish();
    let (keys, errors) = drain(&mut cs);
    assert!(!errors.is_empty() || keys.len() == 3000, "{} of 3000 rows and no error", keys.len());
}

#[test]
fn a_spill_that_panics_leaves_nothing_reserved() {
    let o = Arc::new(Armed::default());
    let config = ExchangeConfig::new(1, 1).with_batch_rows(4).with_overflow_bytes(0).with_strategy(Strategy::Reserve);
    let (mut ps, cs) = exchange(&config, schema(), Arc::clone(&o) as _).unwrap();
    let mut p = ps.pop().unwrap();
    o.spill.store(true, SeqCst);
    let r = catch_unwind(AssertUnwindSafe(|| send(&mut p, 0..16)));
    assert!(r.is_err());
    drop((p, ps, cs));
    assert_eq!(o.used.load(SeqCst), 0, "bytes still reserved");
}

/// The last chunk of a call is lost if its spill panics. Without an error, no handle would notice,
/// and the gate would count the chunk for ever.
#[test]
fn a_spill_that_panics_at_the_last_chunk_stops_the_exchange() {
    let o = Arc::new(Armed::default());
    let config = ExchangeConfig::new(1, 1).with_batch_rows(4).with_overflow_bytes(0).with_strategy(Strategy::Reserve);
    let (mut ps, mut cs) = exchange(&config, schema(), Arc::clone(&o) as _).unwrap();
    let mut p = ps.pop().unwrap();
    assert!(send(&mut p, 0..8));
    o.spill.store(true, SeqCst);
    assert!(catch_unwind(AssertUnwindSafe(|| send(&mut p, 8..12))).is_err());
    p.finish();
    let (keys, errors) = drain(&mut cs);
    assert!(!errors.is_empty() || keys.len() == 12, "{} of 12 rows and no error", keys.len());
}

/// Producers would be woken under a laggard's lock.
#[test]
fn a_waker_may_drop_the_consumer_that_is_relieved() {
    #[derive(Default)]
    struct Park {
        other: Mutex<Option<(Producer, Waker)>>,
        armed: AtomicBool,
    }
    impl Overflow for Park {
        fn try_reserve(&self, _: usize) -> bool {
            if self.armed.swap(false, SeqCst) {
                // another thread's producer finds the ring full just now
                let (mut p, w) = self.other.lock().unwrap().take().unwrap();
                let p = thread::spawn(move || {
                    while let Poll::Ready(Ok(Admission::Yield)) = p.poll_ready(&mut Context::from_waker(&w)) {}
                    p
                })
                .join()
                .unwrap();
                *self.other.lock().unwrap() = Some((p, Waker::noop().clone()));
            }
            true
        }
        fn release(&self, _: usize) {}
        fn spill(&self, _: usize, _: RecordBatch) -> Result<SpilledBatch, StopError> {
            unreachable!()
        }
    }
    struct Drops(Mutex<Option<Consumer>>);
    impl Wake for Drops {
        fn wake(self: Arc<Self>) {
            let c = self.0.lock().unwrap().take();
            drop(c);
        }
    }
    let (tell, told) = mpsc::channel();
    thread::spawn(move || {
        let o = Arc::new(Park::default());
        let config = ExchangeConfig::new(2, 2).with_batch_rows(1).with_strategy(Strategy::Ring);
        let (mut ps, mut cs) = exchange(&config, schema(), Arc::clone(&o) as _).unwrap();
        let (mut p1, mut p0) = (ps.pop().unwrap(), ps.pop().unwrap());
        let (mut c1, c0) = (cs.pop().unwrap(), cs.pop().unwrap());
        assert!(send(&mut p0, 0..2));
        assert!(send(&mut p1, 2..4));
        assert!(send(&mut p0, 4..6));
        assert!(send(&mut p1, 6..8));
        assert!(send(&mut p0, 8..10)); // one beyond, as a stale window admits
        let mut cx = Context::from_waker(Waker::noop());
        while c1.poll_recv(&mut cx).is_ready() {}
        *o.other.lock().unwrap() = Some((p1, Waker::from(Arc::new(Drops(Mutex::new(Some(c0)))))));
        o.armed.store(true, SeqCst);
        for _ in 0..5 {
            let _ = p0.poll_ready(&mut cx);
            let _ = c1.poll_recv(&mut cx);
        }
        tell.send(()).unwrap();
    });
    assert!(
        told.recv_timeout(Duration::from_secs(5)).is_ok(),
        "deadlock: the waker is called under the laggard's lock"
    );
}

/// A panic in a hand-over counts the value as not taken, but its rows are in the laggard's builder
/// already.
#[test]
fn a_panic_in_a_hand_over_neither_loses_nor_doubles_rows() {
    let o = Arc::new(Armed::default());
    let config = ExchangeConfig::new(1, 2).with_batch_rows(3).with_strategy(Strategy::Ring);
    let config = config.with_slots(2);
    let (mut ps, mut cs) = exchange(&config, schema(), Arc::clone(&o) as _).unwrap();
    let mut p = ps.pop().unwrap();
    for first in [0, 4, 8, 12] {
        assert!(send(&mut p, first..first + 4));
    }
    let mut cx = Context::from_waker(Waker::noop());
    while cs[1].poll_recv(&mut cx).is_ready() {}
    o.reserve.store(true, SeqCst);
    let mut panicked = false;
    for _ in 0..5 {
        panicked |= catch_unwind(AssertUnwindSafe(|| {
            let _ = p.poll_ready(&mut cx);
        }))
        .is_err();
    }
    assert!(panicked);
    p.finish();
    let (keys, errors) = drain(&mut cs[..1]);
    assert!(!errors.is_empty() || keys == [0, 2, 4, 6, 8, 10, 12, 14], "{keys:?}");
}

/// Polls its consumer whenever it is woken, as a runtime on another thread might at that moment.
struct Eager {
    consumer: Mutex<Option<Consumer>>,
    keys: Mutex<Vec<i64>>,
    failed: AtomicBool,
}
impl Eager {
    /// Takes the available rows; returns false if the consumer has to wait.
    fn poll(self: &Arc<Self>) -> bool {
        let waker = Waker::from(Arc::clone(self));
        let mut consumer = self.consumer.lock().unwrap();
        let consumer = consumer.as_mut().unwrap();
        loop {
            match consumer.poll_recv(&mut Context::from_waker(&waker)) {
                Poll::Pending => return false,
                Poll::Ready(None) => return true,
                Poll::Ready(Some(Ok(Delivery::Spilled(spilled)))) => self.collect(spilled.0.downcast_ref().unwrap()),
                Poll::Ready(Some(Ok(Delivery::Batch(batch)))) => self.collect(&batch),
                Poll::Ready(Some(Err(_))) => self.failed.store(true, SeqCst),
            }
        }
    }
    fn collect(&self, batch: &RecordBatch) {
        let keys = batch.column(0).as_any().downcast_ref::<Int64Array>().unwrap();
        self.keys.lock().unwrap().extend_from_slice(keys.values());
    }
}
impl Wake for Eager {
    fn wake(self: Arc<Self>) {
        self.poll();
    }
}

/// No memory, and a disk that takes three rows. After that its consumer asks for rows, and the
/// spill fails or panics.
struct ThreeRows {
    reader: Arc<Eager>,
    left: AtomicUsize,
    panics: bool,
}
impl Overflow for ThreeRows {
    fn try_reserve(&self, _: usize) -> bool {
        false
    }
    fn release(&self, _: usize) {}
    fn spill(&self, _: usize, batch: RecordBatch) -> Result<SpilledBatch, StopError> {
        if self.left.fetch_sub(1, SeqCst) > 0 {
            return Ok(SpilledBatch(Box::new(batch)));
        }
        self.left.store(0, SeqCst);
        assert!(!self.reader.poll(), "its rows are being handed over");
        assert!(!self.panics, "embedder");
        Err(Box::<dyn std::error::Error + Send + Sync>::from("the disk is full").into())
    }
}

/// A hand-over that ends in the middle of a batch. Its consumer gets the error before it can see
/// that batch in the ring, or anything after the rows that were lost with the hand-over.
#[test]
fn a_hand_over_that_fails_half_way_is_an_error_before_any_later_row() {
    // A batch that was kept for all consumers is handed over to none.
    let transports = Strategy::TRANSPORTS.into_iter().filter(|strategy| *strategy != Strategy::Batch);
    let both = |strategy| [DataPath::Gather, DataPath::Cluster].map(|path| (strategy, path));
    for ((strategy, path), panics) in transports.flat_map(both).flat_map(|way| [(way, false), (way, true)]) {
        let (keys, failed) = (Mutex::default(), AtomicBool::default());
        let reader = Arc::new(Eager { consumer: Mutex::new(None), keys, failed });
        let overflow = ThreeRows { reader: Arc::clone(&reader), left: AtomicUsize::new(3), panics };
        let config = ExchangeConfig::new(1, 2).with_batch_rows(1).with_groups(1).with_slots(2);
        let config = config.with_strategy(strategy).with_path(path);
        let (mut ps, mut cs) = exchange(&config, schema(), Arc::new(overflow)).unwrap();
        let (mut p, mut starves) = (ps.pop().unwrap(), cs.pop().unwrap());
        *reader.consumer.lock().unwrap() = cs.pop();
        let mut cx = Context::from_waker(Waker::noop());
        let mut next = 0;
        let ends = || {
            loop {
                while starves.poll_recv(&mut cx).is_ready() {}
                match p.poll_ready(&mut cx) {
                    Poll::Ready(Err(_)) => break,
                    Poll::Ready(Ok(Admission::Granted)) if next < 64 => {
                        assert!(send(&mut p, next..next + 4));
                        next += 4;
                    }
                    Poll::Ready(Ok(Admission::Granted)) => panic!("{strategy} {path}: nothing was handed over"),
                    _ => {}
                }
            }
        };
        assert_eq!(catch_unwind(AssertUnwindSafe(ends)).is_err(), panics);
        assert!(reader.poll(), "{strategy} {path}: the consumer did not get the error");
        let keys = reader.keys.lock().unwrap();
        assert!(reader.failed.load(SeqCst));
        assert!(
            (0..).step_by(2).zip(keys.iter()).all(|(expected, key)| expected == *key),
            "{strategy} {path}: {keys:?}"
        );
    }
}

/// For Miri: the debug format of a buffer shows its whole allocation.
#[test]
fn a_buffer_can_be_shown() {
    let config = ExchangeConfig::new(1, 1).with_batch_rows(64).with_strategy(Strategy::Ring);
    let (mut ps, mut cs) = exchange(&config, schema(), Arc::new(Unlimited)).unwrap();
    let mut p = ps.pop().unwrap();
    assert!(send(&mut p, 0..3));
    p.finish();
    let Some(Ok(Delivery::Batch(b))) = cs[0].recv_blocking() else { panic!() };
    assert!(format!("{:?}", b.column(0).to_data().buffers()[0]).contains("data"));
}

/// For Miri: several held batches, views with buffers and without, slices, empty batches.
#[test]
fn views_of_several_batches() {
    let schema: SchemaRef = Arc::new(Schema::new(vec![
        Field::new("s", DataType::Utf8View, true),
        Field::new("b", DataType::Boolean, true),
        Field::new("f", DataType::FixedSizeBinary(16), true),
    ]));
    let config = ExchangeConfig::new(1, 9).with_batch_rows(16).with_strategy(Strategy::Reserve);
    let (mut ps, mut cs) = exchange(&config, Arc::clone(&schema), Arc::new(Unlimited)).unwrap();
    let mut p = ps.pop().unwrap();
    let mut sent = 0;
    for i in 0..10usize {
        let len = [40, 0, 7, 33, 1][i % 5];
        let text = |r: usize| {
            (i != 2 || r < 3)
                .then(|| "x".repeat([5, 13, 64, 65, 17, 33, 90, 0, 12, 16][(r * 7 + i) % 10] * usize::from(i % 5 != 2)))
        };
        let s = StringViewArray::from_iter((0..len + 3).map(text)).slice(3, len);
        let b = arrow::array::BooleanArray::from_iter((0..len + 3).map(|r| (r % 5 != 0).then_some(r % 2 == 0)))
            .slice(3, len);
        let f = arrow::array::FixedSizeBinaryArray::try_from_sparse_iter_with_size(
            (0..len + 3).map(|r| (r % 4 != 0).then_some([r as u8; 16])),
            16,
        )
        .unwrap()
        .slice(3, len);
        let batch = RecordBatch::try_new(Arc::clone(&schema), vec![Arc::new(s), Arc::new(b), Arc::new(f)]).unwrap();
        let hashes: Vec<u64> = (0..len as u64).map(|r| r * 31 + i as u64).collect();
        p.send_hashed(batch, &hashes).unwrap();
        sent += len;
    }
    p.finish();
    let mut rows = 0;
    for c in &mut cs {
        while let Some(Ok(Delivery::Batch(b))) = c.recv_blocking() {
            rows += b.num_rows();
            for col in b.columns() {
                col.to_data().validate_full().unwrap();
            }
        }
    }
    assert_eq!(rows, sent);
}

thread_local!(static BOMB: RefCell<usize> = const { RefCell::new(0) });
/// The clone that `take_next` makes panics once: the node would stay `listed` off the stack.
#[test]
fn a_waker_whose_clone_panics_leaves_its_handle_able_to_wait() {
    static RUNG: AtomicUsize = AtomicUsize::new(0);
    fn clone(p: *const ()) -> RawWaker {
        let left = BOMB.with_borrow_mut(|b| {
            let was = *b;
            *b = was.saturating_sub(1);
            was
        });
        assert!(left != 1, "clone");
        RawWaker::new(p, &VT)
    }
    fn none(_: *const ()) {}
    fn wake(_: *const ()) {
        RUNG.fetch_add(1, SeqCst);
    }
    static VT: RawWakerVTable = RawWakerVTable::new(clone, wake, wake, none);
    // SAFETY: the data pointer is never followed.
    let w = unsafe { Waker::from_raw(RawWaker::new(std::ptr::null(), &VT)) };
    let (mut ps, mut cs) = ring::<u32>(RingConfig::new(1, 1).with_groups(4).with_slots(1));
    let (mut p, mut c) = (ps.pop().unwrap(), cs.pop().unwrap());
    let mut cx = Context::from_waker(&w);
    assert!(c.poll_next(&mut cx, |_| ControlFlow::Continue(())).is_pending());
    BOMB.set(1);
    assert!(catch_unwind(AssertUnwindSafe(|| p.try_send(0))).is_err());
    while c.poll_next(&mut cx, |_| ControlFlow::Continue(())).is_ready() {}
    let before = RUNG.load(SeqCst);
    p.try_send(1).unwrap();
    p.idle();
    assert!(RUNG.load(SeqCst) > before, "never called again");
}
