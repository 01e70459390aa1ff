//! Pages taken out while the shuffle runs: order, bounds, flushes, and every way to end.

use std::{
    sync::{Barrier, mpsc},
    thread,
    time::Duration,
};

use annulus_exchange::partition::Modulo;
use annulus_pages::{
    error::PagesError,
    memory::{PageMemory, Pool},
    page::{Layout, PageShape, PayloadSize},
    ranges::Stores,
    stream::{PageStream, StreamConfig, StreamWriter, stream},
    tuples::{Payloads, Tuples},
};

const PAGE: usize = 4096;

fn open(partitions: usize, writers: usize, pages: usize, credit_pages: usize) -> (Vec<StreamWriter>, PageStream, Pool) {
    open_with(partitions, writers, pages, credit_pages, PayloadSize::Fixed(4), None)
}

fn open_with(
    partitions: usize,
    writers: usize,
    pages: usize,
    credit_pages: usize,
    payload: PayloadSize,
    flush_after: Option<Duration>,
) -> (Vec<StreamWriter>, PageStream, Pool) {
    open_sized(PAGE, partitions, writers, pages, credit_pages, payload, flush_after)
}

fn open_sized(
    page_bytes: usize,
    partitions: usize,
    writers: usize,
    pages: usize,
    credit_pages: usize,
    payload: PayloadSize,
    flush_after: Option<Duration>,
) -> (Vec<StreamWriter>, PageStream, Pool) {
    let pool = Pool::new(page_bytes, pages * page_bytes).unwrap();
    let config = StreamConfig {
        partitions: Modulo::new(partitions),
        writers,
        shape: PageShape::new(page_bytes, Layout::Slotted, payload).unwrap(),
        pool: pool.clone(),
        stores: Stores::Auto,
        credit_bytes: credit_pages * page_bytes,
        flush_after,
    };
    let (writers, pages) = stream(config).unwrap();
    (writers, pages, pool)
}

/// Tuples whose payload is their key.
fn write(writer: &mut StreamWriter, keys: &[u32]) -> Result<(), PagesError> {
    let bytes: Vec<u8> = keys.iter().flat_map(|key| key.to_le_bytes()).collect();
    writer.write(&Tuples::new(keys, Payloads::Fixed { bytes: &bytes, size: 4 }).unwrap())
}

/// Takes everything, checks what stands on the pages, and returns the keys in order.
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
        // Each writer may hold a claim on a page of each partition besides the current one.
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
        let (mut writers, pages, pool) = open_with(3, 2, 64, 64, payload, None);
        let mut seen = Vec::new();
        for round in 0..20u32 {
            for writer in &mut writers {
                write(writer, &[round * 3, round * 3 + 1]).unwrap();
            }
            writers.iter_mut().for_each(|writer| writer.flush().unwrap());
            // Both have flushed, so nothing is left inside.
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
    let (mut writers, pages, _pool) = open_with(3, 1, 64, 64, PayloadSize::Fixed(4), Some(Duration::ZERO));
    let mut writer = writers.pop().unwrap();
    assert_eq!(writer.due(), None);
    write(&mut writer, &[5]).unwrap();
    let page = pages.next().unwrap().unwrap();
    assert_eq!((page.partition(), page.header().claimed), (2, 1));
    assert_eq!(writer.due(), None);
    let (mut writers, _pages, _pool) = open_with(3, 1, 64, 64, PayloadSize::Fixed(4), Some(Duration::from_secs(3600)));
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
            // Far more than the one page of credit: only the consumer's end lets this return.
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

/// Each writer holds part of the page that the other waits for, and the pool has no third.
#[test]
fn a_pool_too_small_to_go_on_is_an_error_and_no_wait_for_ever() {
    let (mut writers, pages, pool) = open_sized(16 * PAGE, 2, 2, 2, 64, PayloadSize::Fixed(4), None);
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
