//! One suite for every partitioner that hands pages on while it runs. Each tuple comes out once,
//! whole and in its place, within a bound of pages. If a consumer leaves, all threads end and all
//! pages are given back.

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};

use annulus_baselines::{
    generator::{Checker, Generator, Keys, Payload, Placement},
    partitioner::{Job, Partitioner, Ranges, best_cases, paper},
    stream::{Pages, stream},
};
use annulus_pages::{
    PagesError,
    memory::{Heap, PageMemory, Pool},
    page::{PageLayout, PageShape, PayloadSize},
    partition::Stores,
};
use annulus_rows::partition::Modulo;

const PAGE: usize = 4096;
const TUPLES: u64 = 60_000;
const PARTITIONS: usize = 5;
const THREADS: usize = 3;
const BATCH: usize = 250;
const BUFFERS: usize = 12 << 10;

/// Returns every partitioner that streams, the paper's and Annulus's.
fn variants(pool: &Pool) -> Vec<Box<dyn Partitioner>> {
    let ours: Box<dyn Partitioner> = Box::new(Ranges { pool: pool.clone(), stores: Stores::Auto });
    paper().into_iter().filter(|variant| variant.streams().is_ok()).chain([ours]).collect()
}

/// What a consumer has to know of a shuffle.
struct Case<'a> {
    source: &'a Generator,
    shape: PageShape,
    waiting: usize,
}

/// Runs a variant, and returns what the consumer returned, how the shuffle ended, and the largest
/// number of pages in use. Afterwards no page is.
fn run<T>(
    variant: &dyn Partitioner,
    pool: &Pool,
    case: &Case<'_>,
    consume: impl FnOnce(Pages) -> T,
) -> (T, Result<(), PagesError>, usize) {
    let heap = Heap::new(PAGE);
    let Case { source, shape, waiting } = case;
    let memory: &dyn PageMemory = if variant.name() == "Ranges" { pool } else { &heap };
    memory.take_peak();
    let (partitions, buffer_bytes) = (Modulo::new(PARTITIONS), BUFFERS);
    let job = Job { partitions, threads: THREADS, shape: *shape, memory, source: *source, buffer_bytes };
    let (consumed, done) = stream(variant, &job, *waiting, consume);
    let most = memory.take_peak();
    assert_eq!(memory.take_peak(), 0, "{} keeps pages", variant.name());
    (consumed, done, most)
}

/// Returns the largest number of pages that a variant needs at once: those that are not full, those
/// that a thread writes or hands on, those that wait, and the consumer's.
fn bound(variant: &dyn Partitioner, case: &Case<'_>) -> usize {
    // A thread may be handing on one page while it has a claim on another one.
    let passing = 2 * THREADS + case.waiting + 1;
    passing
        + match variant.name() {
            "OnDemandLocalPages" | "LocalPagesAndMerge" => PARTITIONS * THREADS,
            // A thread has places for its last batch and for the tuples in its buffers. In each
            // partition they begin and end on pages that are not its own.
            "Hybrid" => PARTITIONS + THREADS * (2 * PARTITIONS + (BATCH + BUFFERS / 4) / case.shape.capacity() + 1),
            // A writer has claims in every partition.
            "Ranges" => PARTITIONS * (1 + THREADS),
            _ => PARTITIONS,
        }
}

fn shape(payload: Payload) -> PageShape {
    let payload = match payload {
        Payload::Fixed(bytes) => PayloadSize::Fixed(bytes),
        Payload::UpTo(_) | Payload::Near(_) => PayloadSize::Variable,
    };
    PageShape::new(PAGE, PageLayout::Slotted, payload).unwrap()
}

#[test]
fn a_slow_consumer_gets_every_tuple_once_in_bounded_memory() {
    for (payload, waiting) in [(12, 0), (12, 3), (96, 1), (0, 2)]
        .map(|(bytes, waiting)| (Payload::Fixed(bytes), waiting))
        .into_iter()
        .chain([(Payload::UpTo(200), 1), (Payload::Near(60), 4)])
    {
        let source = Generator::new(TUPLES, 9, Keys::Uniform, payload, BATCH).unwrap();
        let case = Case { source: &source, shape: shape(payload), waiting };
        let pool = Pool::new(PAGE, 4000 * PAGE).unwrap();
        for variant in variants(&pool) {
            let source = source.again();
            let case = Case { source: &source, ..case };
            let (expected, partitions) = (source.again(), Modulo::new(PARTITIONS));
            let (checked, done, most) = run(&*variant, &pool, &case, |pages| {
                let mut checker = Checker::new(&expected, &case.shape, partitions, Placement::ByKey);
                for (partition, page) in pages {
                    // Checking every byte takes longer than making the page.
                    checker.page(partition, &page)?;
                }
                checker.finish()
            });
            assert_eq!((checked, done), (Ok(()), Ok(())), "{} of {payload:?}", variant.name());
            if let Payload::Fixed(_) = payload {
                let bound = bound(&*variant, &case);
                assert!(most <= bound, "{}: {most} pages of {payload:?}, more than {bound}", variant.name());
            }
        }
    }
}

#[test]
fn a_consumer_that_leaves_ends_the_shuffle() {
    let payload = Payload::Fixed(12);
    // More tuples than a test could place: only the end of the stream ends it.
    let source = Generator::new(u64::from(u32::MAX), 9, Keys::Uniform, payload, BATCH).unwrap();
    let pool = Pool::new(PAGE, 4000 * PAGE).unwrap();
    for variant in variants(&pool) {
        for (waiting, taken) in [(0, 0), (0, 1), (2, 7), (1, 100)] {
            let source = source.again();
            let case = Case { source: &source, shape: shape(payload), waiting };
            let (consumed, done, _) = run(&*variant, &pool, &case, |pages| pages.take(taken).count());
            assert_eq!((consumed, done), (taken, Err(PagesError::Closed)), "{}", variant.name());
        }
    }
}

#[test]
fn a_consumer_that_panics_ends_the_shuffle() {
    const FAULT: &str = "the consumer is faulty";
    let payload = Payload::Fixed(12);
    let source = Generator::new(u64::from(u32::MAX), 9, Keys::Uniform, payload, BATCH).unwrap();
    let pool = Pool::new(PAGE, 4000 * PAGE).unwrap();
    for variant in variants(&pool) {
        let source = source.again();
        let case = Case { source: &source, shape: shape(payload), waiting: 1 };
        let faulty = |mut pages: Pages| {
            pages.next();
            // Not `panic!`, to keep the test's output readable.
            resume_unwind(Box::new(FAULT))
        };
        let panicked = catch_unwind(AssertUnwindSafe(|| run(&*variant, &pool, &case, faulty).1));
        let panic = panicked.expect_err(variant.name());
        assert_eq!(panic.downcast_ref::<&str>(), Some(&FAULT), "{}", variant.name());
        assert_eq!(pool.out(), 0);
    }
}

#[test]
fn memory_that_runs_out_ends_the_stream() {
    let payload = Payload::Fixed(12);
    let source = Generator::new(TUPLES, 9, Keys::Uniform, payload, BATCH).unwrap();
    let pool = Pool::new(PAGE, PARTITIONS * PAGE).unwrap();
    let case = Case { source: &source, shape: shape(payload), waiting: 1 };
    let ours = Ranges { pool: pool.clone(), stores: Stores::Auto };
    let (pages, done, _) = run(&ours, &pool, &case, |pages| pages.count());
    // With one page for each partition, the writers run out of pages, or not, by their timing.
    match done {
        Ok(()) => assert!(pages > PARTITIONS),
        Err(error) => assert!(matches!(error, PagesError::Exhausted { .. } | PagesError::Failed), "{error}"),
    }
}

#[test]
fn variants_that_do_not_stream_say_why() {
    let all = paper().into_iter().chain(best_cases());
    let refused: Vec<_> = all.filter_map(|variant| Some((variant.name(), variant.streams().err()?))).collect();
    let names: Vec<_> = refused.iter().map(|(name, _)| *name).collect();
    assert_eq!(names, ["Radix", "BestCase", "BestCaseSynchronised"]);
    assert!(refused[0].1.contains("no page is complete before the last tuple"), "{refused:?}");
}
