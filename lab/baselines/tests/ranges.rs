//! The promises of this crate's writers beyond those of every partitioner.

use std::{
    sync::{
        Arc, Barrier, Mutex,
        atomic::{AtomicUsize, Ordering::Relaxed},
    },
    thread,
};

use annulus_baselines::{
    generator::{Generator, Keys, Payload, Placement, check},
    partitioner::{Job, Partitioner, Ranges},
};
use annulus_pages::{
    PagesError,
    memory::{PageMemory as _, Pool},
    page::{Page, PageLayout, PageShape, PayloadSize},
    partition::{PageOrder, PageSink, Stores, Writer, partition_writers},
    tuples::{Payloads, Tuples},
};
use annulus_rows::partition::Modulo;
use proptest::prelude::*;

const PAGE: usize = 4096;

/// A sink that keeps every page, so that no page goes back to the pool before the sink is dropped.
#[derive(Clone, Default)]
struct Keep(Arc<Mutex<Vec<(usize, Page)>>>);

impl PageSink for Keep {
    fn take(&self, partition: usize, page: Page) {
        self.0.lock().unwrap().push((partition, page));
    }
}

fn writers(partitions: usize, threads: usize, payload: PayloadSize, pages: usize) -> (Vec<Writer<Keep>>, Keep, Pool) {
    let keep = Keep::default();
    let (writers, pool) = writers_to(keep.clone(), partitions, threads, payload, pages, PageOrder::Completed);
    (writers, keep, pool)
}

fn writers_to<S: PageSink>(
    sink: S,
    partitions: usize,
    threads: usize,
    payload: PayloadSize,
    pages: usize,
    order: PageOrder,
) -> (Vec<Writer<S>>, Pool) {
    let shape = PageShape::new(PAGE, PageLayout::Slotted, payload).unwrap();
    let pool = Pool::new(PAGE, pages * PAGE).unwrap();
    let writers =
        partition_writers(Modulo::new(partitions), threads, shape, pool.clone(), Stores::Auto, order, sink).unwrap();
    (writers, pool)
}

fn keys_only(keys: &[u32]) -> Tuples<'_> {
    Tuples::new(keys, Payloads::Fixed { bytes: &[], size: 0 }).unwrap()
}

/// Writes batches so small that a writer takes the same path with every processor: it places groups
/// of 144 tuples of a partition. Larger batches have a path of their own where there is AVX-512.
fn write_small(writer: &mut Writer<impl PageSink>, keys: &[u32]) {
    keys.chunks(24).for_each(|keys| writer.write(&keys_only(keys)).unwrap());
}

fn kept_keys(keep: &Keep) -> Vec<u32> {
    let pages = keep.0.lock().unwrap();
    let keys =
        pages.iter().flat_map(|(_, page)| page.reader().unwrap().tuples().map(|(key, _)| key).collect::<Vec<_>>());
    let mut keys: Vec<u32> = keys.collect();
    keys.sort_unstable();
    keys
}

/// Two writers on one thread, alternating. The claims of both are on the same pages, and the first
/// one that finishes leaves a hole.
#[test]
fn holes_are_filled_when_the_last_writer_finishes() {
    for turns in [1, 7, 40, 333] {
        let (mut writers, keep, pool) = writers(3, 2, PayloadSize::Fixed(0), 64);
        let all: Vec<u32> = (0..turns * 16).collect();
        for (turn, keys) in all.chunks(16).enumerate() {
            writers[turn % 2].write(&keys_only(keys)).unwrap();
        }
        writers.into_iter().for_each(|writer| writer.finish().unwrap());
        assert_eq!(kept_keys(&keep), all);
        let capacity = PageShape::new(PAGE, PageLayout::Slotted, PayloadSize::Fixed(0)).unwrap().capacity();
        for partition in 0..3 {
            let pages = keep.0.lock().unwrap();
            let mut pages: Vec<_> =
                pages.iter().filter(|(of, _)| *of == partition).map(|(_, page)| page.header()).collect();
            pages.sort_by_key(|header| header.sequence);
            let full = pages.iter().take_while(|header| header.claimed as usize == capacity).count();
            assert!(full + 1 >= pages.len(), "only the last page may have room");
            assert!(pages.iter().enumerate().all(|(at, header)| header.sequence as usize == at));
        }
        keep.0.lock().unwrap().clear();
        assert_eq!(pool.out(), 0);
    }
}

/// Returns two writers of one partition. The second one has filled a page and half of its claim on
/// the next one. After that the first one has filled many.
fn beside_a_claim(order: PageOrder) -> (Writer<Keep>, Writer<Keep>, Keep, Pool) {
    let keep = Keep::default();
    let (mut writers, pool) = writers_to(keep.clone(), 1, 2, PayloadSize::Fixed(0), 64, order);
    let (mut slow, mut fast) = (writers.pop().unwrap(), writers.pop().unwrap());
    slow.write(&keys_only(&(0..512).collect::<Vec<_>>())).unwrap();
    fast.write(&keys_only(&(512..512 + 336 * 20).collect::<Vec<_>>())).unwrap();
    (slow, fast, keep, pool)
}

#[test]
fn full_pages_go_on_while_a_slow_writer_holds_another() {
    let (slow, fast, keep, _pool) = beside_a_claim(PageOrder::Completed);
    assert!(keep.0.lock().unwrap().len() >= 18);
    fast.finish().unwrap();
    slow.finish().unwrap();
    assert!(kept_keys(&keep).into_iter().eq(0..512 + 336 * 20));
}

#[test]
fn where_order_is_kept_pages_wait_behind_a_claim_until_its_writer_flushes() {
    let (mut slow, fast, keep, pool) = beside_a_claim(PageOrder::Written);
    assert_eq!(keep.0.lock().unwrap().len(), 1);
    slow.flush().unwrap();
    assert!(keep.0.lock().unwrap().len() >= 18);
    fast.finish().unwrap();
    slow.finish().unwrap();
    let pages = std::mem::take(&mut *keep.0.lock().unwrap());
    let keys = |(_, page): &(usize, Page)| page.reader().unwrap().tuples().map(|(key, _)| key).collect::<Vec<_>>();
    let (of_slow, of_fast): (Vec<u32>, Vec<u32>) = pages.iter().flat_map(keys).partition(|key| *key < 512);
    assert!(of_slow.into_iter().eq(0..512) && of_fast.into_iter().eq(512..512 + 336 * 20));
    drop(pages);
    assert_eq!(pool.out(), 0);
}

/// Pages that wait for others are not lost when the shuffle fails.
#[test]
fn pages_behind_the_claim_of_a_dropped_writer_go_back() {
    let (slow, fast, keep, pool) = beside_a_claim(PageOrder::Written);
    assert!(pool.out() >= 20);
    drop(slow);
    drop(fast);
    assert_eq!(std::mem::take(&mut *keep.0.lock().unwrap()).len(), 1);
    assert_eq!(pool.out(), 0);
}

#[test]
fn a_dropped_writer_fails_the_others_and_keeps_no_page() {
    let (mut writers, keep, pool) = writers(5, 2, PayloadSize::Fixed(0), 64);
    let keys: Vec<u32> = (0..5000).collect();
    writers[0].write(&keys_only(&keys)).unwrap();
    writers[1].write(&keys_only(&keys)).unwrap();
    drop(writers.pop());
    let mut other = writers.pop().unwrap();
    assert_eq!(other.write(&keys_only(&keys)), Err(PagesError::Failed));
    assert_eq!(other.finish(), Err(PagesError::Failed));
    keep.0.lock().unwrap().clear();
    assert_eq!(pool.out(), 0);
}

/// A page has a hole and waits for an earlier one.
#[test]
fn a_parked_page_with_a_hole_comes_back_once() {
    let keep = Keep::default();
    let (mut writers, pool) = writers_to(keep.clone(), 1, 3, PayloadSize::Fixed(0), 64, PageOrder::Written);
    let keys: Vec<u32> = (0..600).collect();
    // A page takes 336 tuples, in claims of 112. The first writer places 576, and leaves a part of a
    // claim on page 2. The others place 144 each, and leave parts on pages 3 and 4.
    write_small(&mut writers[0], &keys);
    write_small(&mut writers[1], &keys[..168]);
    write_small(&mut writers[2], &keys[..168]);
    writers[1].flush().unwrap();
    assert_eq!((keep.0.lock().unwrap().len(), pool.out()), (1, 4), "one handed on, one parked, two with a claim");
    drop(writers);
    keep.0.lock().unwrap().clear();
    assert_eq!(pool.out(), 0);
}

#[test]
fn exhausted_memory_is_an_error_and_every_page_comes_back() {
    for payload in [PayloadSize::Fixed(0), PayloadSize::Variable] {
        let (mut writers, keep, pool) = writers(5, 1, payload, 7);
        let keys: Vec<u32> = (0..50_000).collect();
        let mut writer = writers.pop().unwrap();
        let error = writer.write(&keys_only(&keys)).unwrap_err();
        assert_eq!(error, PagesError::Exhausted { pages: 7, page_bytes: PAGE });
        assert_eq!(writer.finish(), Err(PagesError::Failed), "tuples are missing");
        keep.0.lock().unwrap().clear();
        assert_eq!(pool.out(), 0);
    }
}

/// Writers need the last page at the same time. One gets it, and has room for all.
#[test]
fn a_page_that_another_writer_is_about_to_give_is_not_missing() {
    for partitions in [1, 2] {
        for _ in 0..200 {
            let (mut writers, keep, _pool) = writers(partitions, 4, PayloadSize::Fixed(0), partitions);
            let ready = Barrier::new(writers.len());
            thread::scope(|scope| {
                for mut writer in writers.drain(..) {
                    let ready = &ready;
                    scope.spawn(move || {
                        ready.wait();
                        writer.write(&keys_only(&[1, 2])).unwrap();
                        writer.finish().unwrap();
                    });
                }
            });
            assert_eq!(kept_keys(&keep), [1, 1, 1, 1, 2, 2, 2, 2]);
        }
    }
}

/// A sink that keeps the page that it took until a writer finds no memory, or waits for it. Then it
/// lets another writer have the page.
struct Other {
    page: Mutex<Option<Page>>,
    waits: bool,
    writer: Arc<Mutex<Option<Writer<Arc<Other>>>>>,
}

impl PageSink for Other {
    fn take(&self, _partition: usize, page: Page) {
        *self.page.lock().unwrap() = Some(page);
    }

    fn events(&self) -> u64 {
        if !self.waits {
            self.make_room();
        }
        0
    }

    fn wait_for_memory(&self, _since: u64) -> bool {
        assert!(self.waits, "there was room before");
        self.make_room();
        false
    }
}

impl Other {
    fn make_room(&self) {
        if let Some(page) = self.page.lock().unwrap().take() {
            drop(page);
            self.writer.lock().unwrap().as_mut().unwrap().write(&keys_only(&[0; 256])).unwrap();
        }
    }
}

#[test]
fn room_that_another_writer_has_made_meanwhile_is_used() {
    for waits in [false, true] {
        use_room_of_another(waits);
    }
}

fn use_room_of_another(waits: bool) {
    let other = Arc::new(Mutex::new(None));
    let sink = Arc::new(Other { page: Mutex::default(), waits, writer: Arc::clone(&other) });
    let (mut writers, pool) = writers_to(Arc::clone(&sink), 1, 2, PayloadSize::Fixed(0), 1, PageOrder::Completed);
    *other.lock().unwrap() = writers.pop();
    let mut writer = writers.pop().unwrap();
    writer.write(&keys_only(&[1])).unwrap();
    writer.flush().unwrap();
    assert!(sink.page.lock().unwrap().is_some());
    writer.write(&keys_only(&[2])).unwrap();
    writer.finish().unwrap();
    let other = other.lock().unwrap().take().unwrap();
    other.finish().unwrap();
    assert_eq!(sink.page.lock().unwrap().take().map(|page| page.header().claimed), Some(257));
    assert_eq!(pool.out(), 0);
}

/// A sink that takes this number of pages, and panics at the next one.
struct Faulty(AtomicUsize);

impl PageSink for Faulty {
    fn take(&self, _partition: usize, _page: Page) {
        if self.0.fetch_update(Relaxed, Relaxed, |takes| takes.checked_sub(1)).is_err() {
            std::panic::resume_unwind(Box::new("a faulty sink"));
        }
    }
}

/// The buffer that was being flushed is still full then.
#[test]
fn nothing_is_written_after_a_sink_has_panicked() {
    let sink = Faulty(AtomicUsize::new(0));
    let (mut writers, pool) = writers_to(sink, 1, 1, PayloadSize::Fixed(0), 64, PageOrder::Completed);
    let mut writer = writers.pop().unwrap();
    let keys: Vec<u32> = (0..5000).collect();
    let written = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| writer.write(&keys_only(&keys))));
    assert!(written.is_err());
    assert_eq!(writer.write(&keys_only(&keys)), Err(PagesError::Failed));
    assert_eq!(writer.flush(), Err(PagesError::Failed));
    drop(writer);
    assert_eq!(pool.out(), 0);
}

/// The pages of the partition in which the sink panics, and of the later ones, go back to the pool.
#[test]
fn a_sink_that_panics_in_the_end_keeps_no_page() {
    for takes in 4..8 {
        let sink = Faulty(AtomicUsize::new(takes));
        let (mut writers, pool) = writers_to(sink, 2, 2, PayloadSize::Fixed(0), 64, PageOrder::Completed);
        let keys: Vec<u32> = (0..2 * 512).collect();
        // A page takes 336 tuples, in claims of 168. The first page of each partition is full now, the
        // third one when one writer ends, and the other two, one with a hole, when the last writer ends.
        writers.iter_mut().for_each(|writer| write_small(writer, &keys));
        writers.pop().unwrap().finish().unwrap();
        let last = writers.pop().unwrap();
        assert!(std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| last.finish())).is_err());
        assert_eq!(pool.out(), 0, "{takes} pages taken");
    }
}

#[test]
fn wrong_batches_are_refused_and_change_nothing() {
    let (mut writers, keep, _pool) = writers(5, 1, PayloadSize::Fixed(4), 64);
    let mut writer = writers.pop().unwrap();
    assert!(matches!(writer.write(&keys_only(&[1])), Err(PagesError::Batch { .. })));
    let good = Tuples::new(&[1, 2], Payloads::Fixed { bytes: &[0; 8], size: 4 }).unwrap();
    assert!(matches!(writer.write_to(&good, &[1]), Err(PagesError::Batch { .. })));
    assert!(matches!(writer.write_to(&good, &[1, 5]), Err(PagesError::Batch { .. })));
    writer.write_to(&good, &[4, 0]).unwrap();
    writer.finish().unwrap();
    let partitions: Vec<usize> = keep.0.lock().unwrap().iter().map(|(partition, _)| *partition).collect();
    assert_eq!(partitions, [0, 4]);
}

#[test]
fn a_pool_too_small_for_the_partitions_is_refused() {
    let shape = PageShape::new(PAGE, PageLayout::Slotted, PayloadSize::Variable).unwrap();
    let pool = Pool::new(PAGE, 9 * PAGE).unwrap();
    let error =
        partition_writers(Modulo::new(10), 1, shape, pool, Stores::Auto, PageOrder::Completed, Keep::default()).err();
    assert!(matches!(error, Some(PagesError::Option { value: 9, .. })), "{error:?}");
}

#[test]
fn a_pool_of_pages_that_no_shape_has_is_refused() {
    for page_bytes in [0, 100, 4097, 128 << 20] {
        let error = Pool::new(page_bytes, 1 << 30).unwrap_err();
        assert!(error.to_string().contains("multiple of 4 KiB"), "{error}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// Pools and pages can be reused by the next shuffle, whatever the pages contain.
    #[test]
    fn a_used_pool_is_as_good_as_a_new_one(
        threads in 1..5usize,
        partitions in 1..200usize,
        tuples in 0..60_000u64,
        payload in prop_oneof![
            prop::sample::select(vec![0u32, 4, 7, 12, 32, 64, 96, 100, 160]).prop_map(Payload::Fixed),
            (0..300u32).prop_map(Payload::UpTo),
        ],
        stores in prop::sample::select(vec![Stores::Cached, Stores::PastCache]),
        page_bytes in prop::sample::select(vec![4096usize, 8192, 65536]),
    ) {
        let pool = Pool::new(page_bytes, 1 << 30).unwrap();
        for round in 0..2 {
            let source = Generator::new(tuples, round, Keys::Uniform, payload, 1000).unwrap();
            let shape = PageShape::new(page_bytes, PageLayout::Slotted, source.payload()).unwrap();
            let ranges = Ranges { pool: pool.clone(), stores };
            let job = Job {
                partitions: Modulo::new(partitions),
                threads,
                shape,
                memory: &pool,
                source: &source,
                buffer_bytes: 1 << 20,
            };
            let shuffled = ranges.partition(&job).unwrap();
            check(&shuffled, &source, &shape, Modulo::new(partitions), Placement::ByKey).unwrap();
        }
        prop_assert_eq!(pool.out(), 0);
    }
}

/// Creates writers of tuples with payloads of `size` bytes, on the pool's pages.
fn writers_of(size: u32, pool: &Pool, stores: Stores, order: PageOrder, keep: &Copies) -> Vec<Writer<Copies>> {
    let shape = PageShape::new(pool.page_bytes(), PageLayout::Slotted, PayloadSize::Fixed(size)).unwrap();
    partition_writers(Modulo::new(keep.partitions), 2, shape, pool.clone(), stores, order, keep.clone()).unwrap()
}

/// The tuples of each partition, in the order of its pages.
type Placed = Vec<Vec<(u32, Vec<u8>)>>;

/// A sink that copies tuples, and gives pages back at once.
#[derive(Clone)]
struct Copies {
    partitions: usize,
    placed: Arc<Mutex<Placed>>,
}

impl Copies {
    fn new(partitions: usize) -> Self {
        Self { partitions, placed: Arc::new(Mutex::new(vec![Vec::new(); partitions])) }
    }
}

impl PageSink for Copies {
    fn take(&self, partition: usize, page: Page) {
        let tuples = page.reader().unwrap();
        self.placed.lock().unwrap()[partition].extend(tuples.tuples().map(|(key, payload)| (key, payload.to_vec())));
    }
}

/// Returns a payload that tells tuples apart.
fn payload_of(number: u32, size: u32) -> Vec<u8> {
    (0..size).map(|at| (number.wrapping_mul(37).wrapping_add(number >> 8).wrapping_add(at * 11)) as u8).collect()
}

fn write_numbered(writer: &mut Writer<Copies>, keys: &[u32], first: u32, size: u32) {
    let bytes: Vec<u8> = (first..).zip(keys).flat_map(|(number, _)| payload_of(number, size)).collect();
    writer.write(&Tuples::new(keys, Payloads::Fixed { bytes: &bytes, size: size as usize }).unwrap()).unwrap();
}

/// A writer's payloads are on a page before their slots when it gives the rest of its claim back.
#[test]
fn a_writer_finishes_its_tuples_before_it_waits_for_memory() {
    for stores in [Stores::Cached, Stores::PastCache] {
        for waiting in [24, 25] {
            // Past the cache, payloads of 96 bytes go in twos. With few partitions the last one waits in
            // the buffer.
            let kept = if stores == Stores::Cached { 0 } else { waiting % 2 };
            finish_before_waiting(stores, 2, waiting, waiting - kept);
            finish_before_waiting(stores, 130, waiting, waiting);
        }
    }
}

fn finish_before_waiting(stores: Stores, partitions: usize, waiting: usize, finished: usize) {
    let keep = Copies::new(partitions);
    let pool = Pool::new(PAGE, partitions.max(4) * PAGE).unwrap();
    let others: Vec<_> = (4..partitions).map(|_| pool.take().unwrap()).collect();
    let mut writers = writers_of(96, &pool, stores, PageOrder::Written, &keep);
    // A page takes 32 tuples, in claims of 16. Page 1 is the first writer's, and the other one's
    // pages 2 and 3 wait for it. Page 4 is open.
    let of_other = partitions as u32;
    write_numbered(&mut writers[0], &vec![0; waiting], 0, 96);
    write_numbered(&mut writers[1], &[of_other; 2 * 32 + 16], 100, 96);
    assert_eq!((pool.out(), keep.placed.lock().unwrap()[0].len()), (others.len() + 4, 0));
    write_numbered(&mut writers[0], &[1; 17], 50, 96);
    assert_eq!(keep.placed.lock().unwrap()[0].len(), finished + 2 * 32);
    // The claims were given back.
    write_numbered(&mut writers[0], &[0; 5], waiting as u32, 96);
    writers.into_iter().for_each(|writer| writer.finish().unwrap());
    let placed = std::mem::take(&mut *keep.placed.lock().unwrap());
    let of =
        |key: u32| placed[key as usize % partitions].iter().filter(move |tuple| tuple.0 == key).map(|tuple| &tuple.1);
    assert!(of(0).eq(&(0..waiting as u32 + 5).map(|number| payload_of(number, 96)).collect::<Vec<_>>()));
    assert!(of(of_other).eq(&(100..180).map(|number| payload_of(number, 96)).collect::<Vec<_>>()));
    assert!(of(1).eq(&(50..67).map(|number| payload_of(number, 96)).collect::<Vec<_>>()));
    assert_eq!(pool.out(), others.len());
}

/// A writer continues after the places of another one, which has given back the rest of its claim.
#[test]
fn a_claim_may_begin_at_any_place() {
    for (size, first, partitions) in [32, 64, 96].into_iter().flat_map(|size| {
        [1, 5, 15, 16, 17].into_iter().flat_map(move |first| [2, 130].map(|partitions| (size, first, partitions)))
    }) {
        let keep = Copies::new(partitions);
        let pool = Pool::new(PAGE, partitions.max(16) * PAGE).unwrap();
        let mut writers = writers_of(size, &pool, Stores::PastCache, PageOrder::Completed, &keep);
        let mut writer = writers.pop().unwrap();
        write_numbered(&mut writer, &vec![0; first], 0, size);
        writer.finish().unwrap();
        let mut writer = writers.pop().unwrap();
        let mut next = first as u32;
        for tuples in [1, 2, 40, 100] {
            write_numbered(&mut writer, &vec![0; tuples], next, size);
            next += tuples as u32;
        }
        writer.finish().unwrap();
        // The last writer has moved tuples to fill holes.
        let mut placed = std::mem::take(&mut keep.placed.lock().unwrap()[0]);
        placed.sort();
        let mut expected: Vec<_> = (0..next).map(|number| (0, payload_of(number, size))).collect();
        expected.sort();
        assert!(placed == expected, "{size} bytes, {first} tuples, {partitions} partitions");
        assert_eq!(pool.out(), 0);
    }
}

/// A shuffle with many partitions ends in every way without a page that is lost.
#[test]
fn payloads_in_twos_end_with_errors_panics_and_drops() {
    let keys: Vec<u32> = (0..20_000).map(|number| number * 7 % 130).collect();
    let bytes = vec![1; keys.len() * 96];
    let tuples = Tuples::new(&keys, Payloads::Fixed { bytes: &bytes, size: 96 }).unwrap();
    let payload = PayloadSize::Fixed(96);
    for order in [PageOrder::Completed, PageOrder::Written] {
        // The sink keeps pages, so the pool runs dry.
        let keep = Keep::default();
        let (mut writers, pool) = writers_to(keep.clone(), 130, 2, payload, 300, order);
        assert!(matches!(writers[0].write(&tuples), Err(PagesError::Exhausted { .. })));
        assert_eq!(writers[1].write(&tuples), Err(PagesError::Failed));
        assert_eq!(writers.pop().unwrap().finish(), Err(PagesError::Failed));
        drop(writers);
        keep.0.lock().unwrap().clear();
        assert_eq!(pool.out(), 0);

        for takes in [0, 1, 200] {
            let (mut writers, pool) = writers_to(Faulty(AtomicUsize::new(takes)), 130, 2, payload, 2000, order);
            let write = std::panic::AssertUnwindSafe(|| writers[0].write(&tuples));
            assert!(std::panic::catch_unwind(write).is_err());
            assert_eq!(writers[0].flush(), Err(PagesError::Failed));
            drop(writers);
            assert_eq!(pool.out(), 0, "{takes} pages taken");
        }

        let keep = Keep::default();
        let (mut writers, pool) = writers_to(keep.clone(), 130, 2, payload, 2000, order);
        writers.iter_mut().for_each(|writer| writer.write(&tuples).unwrap());
        writers[0].write_to(&tuples, &vec![129; keys.len()]).unwrap();
        let wrong = Tuples::new(&keys[..2], Payloads::Fixed { bytes: &bytes[..64], size: 32 }).unwrap();
        assert!(matches!(writers[0].write(&wrong), Err(PagesError::Batch { .. })));
        drop(writers);
        keep.0.lock().unwrap().clear();
        assert_eq!(pool.out(), 0);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// Small batches collect in buffers, and large ones do not. With many partitions, payloads go in
    /// twos.
    #[test]
    fn batches_of_any_length_keep_the_order_of_each_writer(
        partitions in prop_oneof![1..20usize, 129..135usize],
        size in prop::sample::select(vec![12u32, 32, 64, 96, 100, 160, 288]),
        batches in prop::collection::vec((0..2usize, prop_oneof![0..40usize, 0..3000usize], 0..8u32), 1..20),
        stores in prop::sample::select(vec![Stores::Cached, Stores::PastCache]),
        order in prop::sample::select(vec![PageOrder::Completed, PageOrder::Written]),
        skewed in any::<bool>(),
        page_bytes in prop::sample::select(vec![PAGE, 16 * PAGE]),
    ) {
        let keep = Copies::new(partitions);
        let pool = Pool::new(page_bytes, 1 << 30).unwrap();
        let mut writers = writers_of(size, &pool, stores, order, &keep);
        let mut expected: [Placed; 2] = std::array::from_fn(|_| vec![Vec::new(); partitions]);
        let mut next = 0_u32;
        for (writer, tuples, action) in batches {
            // The lowest bit of a key's quotient names the writer.
            let key = |number: u32| {
                let mixed = number.wrapping_mul(0x9E37_79B9) >> 8;
                let partition = if skewed && !mixed.is_multiple_of(64) { 0 } else { mixed % partitions as u32 };
                (mixed / 2 * 2 + writer as u32) * partitions as u32 + partition
            };
            let keys: Vec<u32> = (next..next + tuples as u32).map(key).collect();
            write_numbered(&mut writers[writer], &keys, next, size);
            for (number, &key) in (next..).zip(&keys) {
                expected[writer][key as usize % partitions].push((key, payload_of(number, size)));
            }
            next += tuples as u32;
            if action == 0 {
                writers[writer].flush().unwrap();
            }
        }
        writers.into_iter().for_each(|writer| writer.finish().unwrap());
        let placed = std::mem::take(&mut *keep.placed.lock().unwrap());
        for (partition, mut placed) in placed.into_iter().enumerate() {
            let mut expected: Vec<_> = expected.iter().flat_map(|writer| writer[partition].clone()).collect();
            let writer_of = |key: u32| key as usize / partitions % 2;
            match order {
                PageOrder::Written => placed.sort_by_key(|&(key, _)| writer_of(key)),
                _ => [&mut placed, &mut expected].into_iter().for_each(|tuples| tuples.sort()),
            }
            prop_assert!(placed == expected, "partition {}", partition);
        }
        prop_assert_eq!(pool.out(), 0);
    }
}
