//! Pages that are taken out while the shuffle runs: order, bounds, flushes, and every way to end.

use std::{
    sync::{Barrier, mpsc},
    thread,
    time::Duration,
};

use annulus_pages::{
    PagesError,
    memory::{PageMemory, Pool},
    page::{PageLayout, PageShape, PayloadSize},
    partition::{PageOrder, Stores},
    stream::{PageStream, StreamConfig, StreamWriter, stream},
    tuples::{Payloads, Tuples},
};
use proptest::prelude::*;

const PAGE: usize = 4096;

/// A stream whose pages have slots and tuples of 4 bytes by default.
struct Setup {
    partitions: usize,
    writers: usize,
    pages: usize,
    credit_pages: usize,
    page_bytes: usize,
    payload: PayloadSize,
    order: PageOrder,
    flush_after: Option<Duration>,
}

impl Setup {
    fn new(partitions: usize, writers: usize, pages: usize, credit_pages: usize) -> Self {
        let (payload, order) = (PayloadSize::Fixed(4), PageOrder::Completed);
        Self { partitions, writers, pages, credit_pages, page_bytes: PAGE, payload, order, flush_after: None }
    }

    fn open(&self) -> (Vec<StreamWriter>, PageStream, Pool) {
        let pool = Pool::new(self.page_bytes, self.pages * self.page_bytes).unwrap();
        let shape = PageShape::new(self.page_bytes, PageLayout::Slotted, self.payload).unwrap();
        let config = StreamConfig::new(self.partitions, self.writers, shape, pool.clone())
            .with_stores(Stores::Auto)
            .with_order(self.order)
            .with_credit_bytes(self.credit_pages * self.page_bytes)
            .with_flush_after(self.flush_after);
        let (writers, pages) = stream(config).unwrap();
        (writers, pages, pool)
    }
}

fn open(partitions: usize, writers: usize, pages: usize, credit_pages: usize) -> (Vec<StreamWriter>, PageStream, Pool) {
    Setup::new(partitions, writers, pages, credit_pages).open()
}

/// Writes tuples whose payload is their key.
fn write(writer: &mut StreamWriter, keys: &[u32]) -> Result<(), PagesError> {
    write_sized(writer, keys, 4)
}

/// Writes tuples whose payloads of `size` bytes begin with their key.
fn write_sized(writer: &mut StreamWriter, keys: &[u32], size: usize) -> Result<(), PagesError> {
    let mut bytes = vec![0; keys.len() * size];
    bytes.chunks_mut(size).zip(keys).for_each(|(payload, key)| payload[..4].copy_from_slice(&key.to_le_bytes()));
    writer.write(&Tuples::new(keys, Payloads::Fixed { bytes: &bytes, size }).unwrap())
}

/// Takes all pages, checks their contents, and returns the keys in order.
fn drain(pages: &PageStream, partitions: u32) -> Result<Vec<u32>, PagesError> {
    let mut next = vec![0; partitions as usize];
    let mut keys = Vec::new();
    while let Some(page) = pages.next()? {
        let header = page.header();
        assert_eq!(header.partition as usize, page.partition());
        assert_eq!(header.sequence, next[page.partition()], "pages of a partition come in order");
        next[page.partition()] += 1;
        for (key, payload) in page.reader().unwrap().tuples() {
            assert_eq!((key % partitions) as usize, page.partition());
            assert_eq!(payload, key.to_le_bytes());
            keys.push(key);
        }
    }
    keys.sort_unstable();
    Ok(keys)
}

#[test]
fn everything_comes_out_once_whatever_the_bounds() {
    for (writers, consumers, spare, credit) in [(1, 1, 0, 1), (2, 1, 1, 1), (4, 2, 40, 3), (3, 3, 20, 100)] {
        // Each writer may hold a claim on another page of each partition besides the current one.
        let (handles, pages, pool) = open(7, writers, 7 * (writers + 1) + spare, credit);
        let per_writer = 40_000u32;
        let mut keys: Vec<u32> = thread::scope(|scope| {
            for (number, mut writer) in handles.into_iter().enumerate() {
                scope.spawn(move || {
                    let keys: Vec<u32> = (0..per_writer).map(|key| number as u32 * per_writer + key).collect();
                    keys.chunks(1000).for_each(|keys| write(&mut writer, keys).unwrap());
                    writer.finish().unwrap();
                });
            }
            let takers: Vec<_> = (0..consumers)
                .map(|_| {
                    scope.spawn(|| {
                        let mut keys = Vec::new();
                        while let Some(page) = pages.next().unwrap() {
                            keys.extend(page.reader().unwrap().tuples().map(|(key, _)| key));
                        }
                        keys
                    })
                })
                .collect();
            takers.into_iter().flat_map(|taker| taker.join().unwrap()).collect()
        });
        keys.sort_unstable();
        assert!(keys.iter().copied().eq(0..per_writer * writers as u32));
        assert_eq!(pool.out(), 0);
    }
}

#[test]
fn one_consumer_sees_each_partition_in_order() {
    let (mut writers, pages, _pool) = open(5, 2, 100, 4);
    thread::scope(|scope| {
        for (number, mut writer) in writers.drain(..).enumerate() {
            scope.spawn(move || {
                let keys: Vec<u32> = (0..30_000).map(|key| key * 2 + number as u32).collect();
                keys.chunks(777).for_each(|keys| write(&mut writer, keys).unwrap());
                writer.finish().unwrap();
            });
        }
        assert!(drain(&pages, 5).unwrap().into_iter().eq(0..60_000));
    });
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// With flushes at any time, and pools so small that writers wait for memory.
    #[test]
    fn each_writer_s_tuples_come_in_the_order_in_which_it_wrote_them(
        (partitions, writers) in (prop_oneof![1_usize..6, 129_usize..132], 1_usize..5),
        (spare, credit_pages) in (0_usize..6, 1_usize..8),
        size in prop::sample::select(vec![None, Some(4), Some(32)]),
        batches in prop::collection::vec((1_usize..3000, any::<bool>()), 1..12),
    ) {
        let payload = size.map_or(PayloadSize::Variable, PayloadSize::Fixed);
        let pages = partitions * (writers + 1) + spare;
        let setup = Setup::new(partitions, writers, pages, credit_pages);
        let setup = Setup { order: PageOrder::Written, payload, ..setup };
        let (handles, pages, pool) = setup.open();
        let per_writer = batches.iter().map(|(tuples, _)| *tuples as u32).sum::<u32>();
        thread::scope(|scope| {
            for (number, mut writer) in handles.into_iter().enumerate() {
                let batches = &batches;
                scope.spawn(move || {
                    let mut next = number as u32 * per_writer;
                    for &(tuples, flush) in batches {
                        let keys: Vec<u32> = (next..next + tuples as u32).collect();
                        next += tuples as u32;
                        write_sized(&mut writer, &keys, size.unwrap_or(4) as usize).unwrap();
                        if flush {
                            writer.flush().unwrap();
                        }
                    }
                    writer.finish().unwrap();
                });
            }
            // Dropped if an assertion fails, so that the writers end.
            let pages = pages;
            // The smallest key that may come next, for each writer and partition; keys rise.
            let mut next = vec![0; partitions * writers];
            let mut count = 0;
            while let Some(page) = pages.next().unwrap() {
                for (key, payload) in page.reader().unwrap().tuples() {
                    assert_eq!(payload[..4], key.to_le_bytes());
                    let next = &mut next[page.partition() * writers + (key / per_writer) as usize];
                    assert!(*next <= key, "partition {}: {key} comes late", page.partition());
                    *next = key + 1;
                    count += 1;
                }
            }
            assert_eq!(count, per_writer * writers as u32);
        });
        prop_assert_eq!(pool.out(), 0);
    }
}

#[test]
fn a_slow_consumer_holds_the_writer_back() {
    let (mut writers, pages, pool) = open(1, 1, 64, 4);
    let mut writer = writers.pop().unwrap();
    let (started, begin) = mpsc::channel();
    thread::scope(|scope| {
        scope.spawn(move || {
            let keys: Vec<u32> = (0..60_000).collect();
            started.send(()).unwrap();
            write(&mut writer, &keys).unwrap();
            writer.finish().unwrap();
        });
        begin.recv().unwrap();
        let mut taken = 0;
        while let Some(page) = pages.next().unwrap() {
            taken += page.header().claimed;
            // Four pages out, one that waits for room, and the current one.
            assert!(pool.take_peak() <= 6, "credits bound the pages");
        }
        assert_eq!(taken, 60_000);
    });
}

#[test]
fn a_flush_brings_out_what_is_there() {
    for payload in [PayloadSize::Fixed(4), PayloadSize::Variable] {
        let (mut writers, pages, pool) = Setup { payload, ..Setup::new(3, 2, 64, 64) }.open();
        let mut seen = Vec::new();
        for round in 0..20u32 {
            for writer in &mut writers {
                write(writer, &[round * 3, round * 3 + 1]).unwrap();
            }
            writers.iter_mut().for_each(|writer| writer.flush().unwrap());
            // Both have flushed, so no tuples are left inside.
            let mut tuples = 0;
            while tuples < 4 {
                let page = pages.next().unwrap().unwrap();
                tuples += page.header().claimed;
                seen.extend(page.reader().unwrap().tuples().map(|(key, _)| key));
            }
            assert_eq!(tuples, 4);
            assert_eq!(pool.out(), 0, "{payload:?}, round {round}");
        }
        writers.into_iter().for_each(|writer| writer.finish().unwrap());
        assert!(pages.next().unwrap().is_none());
        seen.sort_unstable();
        assert!(seen.into_iter().eq((0..20).flat_map(|round| [round * 3, round * 3, round * 3 + 1, round * 3 + 1])));
    }
}

#[test]
fn a_writer_that_is_due_flushes_by_itself() {
    let due_after = |after| Setup { flush_after: Some(after), ..Setup::new(3, 1, 64, 64) }.open();
    let (mut writers, pages, _pool) = due_after(Duration::ZERO);
    let mut writer = writers.pop().unwrap();
    assert_eq!(writer.due(), None);
    write(&mut writer, &[5]).unwrap();
    let page = pages.next().unwrap().unwrap();
    assert_eq!((page.partition(), page.header().claimed), (2, 1));
    assert_eq!(writer.due(), None);
    let (mut writers, _pages, _pool) = due_after(Duration::from_secs(3600));
    let mut writer = writers.pop().unwrap();
    write(&mut writer, &[5]).unwrap();
    assert!(writer.due().is_some());
    writer.flush().unwrap();
    assert_eq!(writer.due(), None);
}

#[test]
fn a_dropped_writer_is_an_error_for_the_consumer() {
    let (mut writers, pages, pool) = open(3, 2, 64, 64);
    write(&mut writers[0], &(0..5000).collect::<Vec<_>>()).unwrap();
    drop(writers.pop());
    assert_eq!(write(&mut writers[0], &[1]), Err(PagesError::Failed));
    drop(writers);
    assert_eq!(drain(&pages, 3), Err(PagesError::Failed));
    assert_eq!(pool.out(), 0);
}

/// The writers are kept: only the error informs the consumer.
#[test]
fn an_error_of_a_writer_ends_the_stream_at_once() {
    let (mut writers, pages, _pool) = Setup { payload: PayloadSize::Variable, ..Setup::new(1, 2, 64, 64) }.open();
    let wrong = writers[0].write_to(&Tuples::new(&[1], Payloads::Fixed { bytes: &[], size: 0 }).unwrap(), &[]);
    assert!(matches!(wrong, Err(PagesError::Batch { .. })), "which changes nothing");
    write(&mut writers[0], &[1, 2]).unwrap();
    writers[0].flush().unwrap();
    assert_eq!(pages.next().unwrap().unwrap().header().claimed, 2);
    let payload = vec![0; PAGE];
    let error = writers[0].write(&Tuples::new(&[3], Payloads::Fixed { bytes: &payload, size: PAGE }).unwrap());
    assert!(matches!(error, Err(PagesError::TupleTooLarge { .. })));
    let (ended, end) = mpsc::channel();
    let consumer = thread::spawn(move || ended.send(pages.next().map(|_| ())));
    let end = end.recv_timeout(Duration::from_secs(20));
    drop(writers);
    consumer.join().unwrap().unwrap();
    assert_eq!(end, Ok(Err(PagesError::Failed)));
}

/// One writer waits for memory, the other one comes later.
#[test]
fn a_writer_without_consumers_says_so() {
    let (mut writers, pages, pool) = open(1, 2, 1, 64);
    let mut idle = writers.pop().unwrap();
    let mut writer = writers.pop().unwrap();
    thread::scope(|scope| {
        let waiting = scope.spawn(move || write(&mut writer, &(0..10_000).collect::<Vec<_>>()));
        // Its first page is out, and there is no second one.
        let page = pages.next().unwrap().unwrap();
        drop(pages);
        assert_eq!(waiting.join().unwrap(), Err(PagesError::Closed));
        drop(page);
    });
    assert_eq!(write(&mut idle, &[1]), Err(PagesError::Closed));
    drop(idle);
    assert_eq!(pool.out(), 0);
}

#[test]
fn writers_end_when_no_consumer_is_left() {
    let (mut writers, pages, pool) = open(1, 2, 64, 1);
    let late = writers.pop().unwrap();
    let mut writer = writers.pop().unwrap();
    let both = Barrier::new(2);
    thread::scope(|scope| {
        let both = &both;
        scope.spawn(move || {
            both.wait();
            // Far more than the one page of credit: this returns only because the consumer is gone.
            let _ = write(&mut writer, &(0..100_000).collect::<Vec<_>>());
            assert_eq!(write(&mut writer, &[1]), Err(PagesError::Closed));
        });
        both.wait();
        drop(pages);
    });
    assert_eq!(late.finish(), Err(PagesError::Closed));
    assert_eq!(pool.out(), 0);
}

#[test]
fn a_page_for_each_partition_is_enough_for_one_writer() {
    let (mut writers, pages, _pool) = open(7, 1, 7, 1);
    let mut writer = writers.pop().unwrap();
    thread::scope(|scope| {
        scope.spawn(move || {
            write(&mut writer, &(0..7 * 2000).collect::<Vec<_>>()).unwrap();
            writer.finish().unwrap();
        });
        assert!(drain(&pages, 7).unwrap().into_iter().eq(0..7 * 2000));
    });
}

/// The page that one writer waits for goes to another one, which leaves room on it and then does
/// nothing.
#[test]
fn a_writer_that_waits_for_memory_finds_the_room_that_another_has_made() {
    // Whether the writer waits when the page comes depends on the scheduler, so the test repeats.
    for _ in 0..50 {
        let (mut writers, pages, pool) = Setup { page_bytes: 2 * PAGE, ..Setup::new(1, 2, 1, 1) }.open();
        let mut waits = writers.pop().unwrap();
        let taken = pool.take().unwrap();
        let (sender, receiver) = mpsc::channel();
        let thread = thread::spawn(move || {
            sender.send(Ok(())).unwrap();
            sender.send(write(&mut waits, &[1; 128])).unwrap();
            waits
        });
        receiver.recv().unwrap().unwrap();
        thread::yield_now();
        drop(taken);
        write(&mut writers[0], &[0; 64]).unwrap();
        write(&mut writers[0], &[0; 64]).unwrap();
        let written = receiver.recv_timeout(Duration::from_secs(20));
        // Ends the other's wait in any case.
        drop(pages);
        drop(thread.join().unwrap());
        assert_eq!(written, Ok(Ok(())));
    }
}

/// Each writer holds part of the page that the other waits for, and the pool has no third page.
#[test]
fn a_pool_too_small_to_go_on_is_an_error_and_no_wait_for_ever() {
    let (mut writers, pages, pool) = Setup { page_bytes: 16 * PAGE, ..Setup::new(2, 2, 2, 64) }.open();
    let keys = |partition: u32, tuples: u32| (0..tuples).map(|key| key * 2 + partition).collect::<Vec<_>>();
    write(&mut writers[0], &keys(0, 3000)).unwrap();
    write(&mut writers[1], &keys(1, 3000)).unwrap();
    assert_eq!(pool.out(), 2);
    thread::scope(|scope| {
        for (mut writer, partition) in writers.drain(..).zip([1, 0]) {
            scope.spawn(move || {
                let error = write(&mut writer, &keys(partition, 10_000)).unwrap_err();
                assert!(matches!(error, PagesError::Exhausted { .. } | PagesError::Failed), "{error}");
            });
        }
        assert_eq!(drain(&pages, 2), Err(PagesError::Failed));
    });
    assert_eq!(pool.out(), 0);
}

#[test]
fn a_number_of_partitions_outside_its_limits_is_refused() {
    let shape = PageShape::new(PAGE, PageLayout::Slotted, PayloadSize::Fixed(4)).unwrap();
    for partitions in [0, (1 << 16) + 1] {
        let pool = Pool::new(PAGE, (partitions + 1) * PAGE).unwrap();
        let Err(error) = stream(StreamConfig::new(partitions, 1, shape, pool)) else { panic!("it is refused") };
        assert_eq!(error.to_string(), format!("invalid partitions '{partitions}': choose 1 to 65536"));
    }
}
