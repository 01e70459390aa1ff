//! One suite for every partitioner. For any shape, number of threads and tuples, each tuple comes
//! out once, whole, in its place, on full pages. If anything fails, all threads end and all pages
//! are given back.

use std::{
    panic::{AssertUnwindSafe, catch_unwind, resume_unwind},
    sync::atomic::{AtomicUsize, Ordering::Relaxed},
};

use annulus_baselines::{
    generator::{Generator, Keys, Payload, Placement, check},
    partitioner::{Job, Partitioner, Ranges, best_cases, paper},
    source::{TupleReader, TupleSource},
};
use annulus_pages::{
    PagesError,
    memory::{Heap, PageMemory, Pool},
    page::{Block, PageLayout, PageShape, PayloadSize},
    partition::Stores,
    tuples::TupleBatch,
};
use annulus_rows::partition::Modulo;
use proptest::prelude::*;

/// Returns every partitioner, and where it may put tuples.
fn variants(page_bytes: usize, pages: usize) -> Vec<(Box<dyn Partitioner>, Placement)> {
    let pool = Pool::new(page_bytes, pages * page_bytes).unwrap();
    let ours: Box<dyn Partitioner> = Box::new(Ranges { pool, stores: Stores::PastCache });
    let by_key = paper().into_iter().chain([ours]).map(|variant| (variant, Placement::ByKey));
    by_key.chain(best_cases().into_iter().map(|variant| (variant, Placement::Any))).collect()
}

#[derive(Clone, Debug)]
struct Case {
    tuples: u64,
    seed: u64,
    keys: Keys,
    payload: Payload,
    batch_tuples: usize,
    partitions: usize,
    threads: usize,
    page_bytes: usize,
    layout: PageLayout,
    buffer_bytes: usize,
}

impl Case {
    fn generator(&self) -> Generator {
        Generator::new(self.tuples, self.seed, self.keys, self.payload, self.batch_tuples).unwrap()
    }

    fn shape(&self) -> PageShape {
        let payload = match self.payload {
            Payload::Fixed(bytes) => PayloadSize::Fixed(bytes),
            Payload::UpTo(_) | Payload::Near(_) => PayloadSize::Variable,
        };
        PageShape::new(self.page_bytes, self.layout, payload).unwrap()
    }

    fn job<'a>(&self, memory: &'a dyn PageMemory, source: &'a dyn TupleSource) -> Job<'a> {
        Job {
            partitions: Modulo::new(self.partitions),
            threads: self.threads,
            shape: self.shape(),
            memory,
            source,
            buffer_bytes: self.buffer_bytes,
        }
    }
}

fn keys() -> impl Strategy<Value = Keys> {
    prop_oneof![2 => Just(Keys::Uniform), 1 => (0.3..2.0).prop_map(Keys::Zipf)]
}

fn payload() -> impl Strategy<Value = Payload> {
    let fixed = prop_oneof![Just(0), Just(12), Just(96), 1_u32..=150];
    let (short, long) = ((0_u32..=300).prop_map(Payload::UpTo), (1000_u32..=4000).prop_map(Payload::UpTo));
    let near = (0_u32..=150).prop_map(Payload::Near);
    prop_oneof![3 => fixed.prop_map(Payload::Fixed), 1 => short, 1 => near, 1 => long]
}

fn case() -> impl Strategy<Value = Case> {
    let source = (0_u64..20_000, any::<u64>(), keys(), payload(), prop_oneof![1_usize..100, 1000_usize..5000]);
    let partitions = prop_oneof![1_usize..=4, 1_usize..=300, Just(64), Just(256)];
    let buffers = prop_oneof![Just(0), 1_usize..=1 << 16, 1_usize..=8 << 20];
    let job = (partitions, 1_usize..=8, 1_usize..=16, any::<bool>(), buffers);
    (source, job).prop_map(
        |((tuples, seed, keys, payload, batch_tuples), (partitions, threads, page, compact, buffer_bytes))| {
            let compact = compact && matches!(payload, Payload::Fixed(_));
            let layout = if compact { PageLayout::Compact } else { PageLayout::Slotted };
            // Fewer tuples if payloads are large. With few tuples in all cases, most partitions
            // would have only one page.
            let tuples = if matches!(payload, Payload::UpTo(1000..)) { tuples / 20 } else { tuples };
            let page_bytes = page * (4 << 10);
            Case { tuples, seed, keys, payload, batch_tuples, partitions, threads, page_bytes, layout, buffer_bytes }
        },
    )
}

/// A heap with a limit on the number of pages that it ever gives out, recycled or not.
struct Limited {
    heap: Heap,
    taken: AtomicUsize,
    limit: usize,
}

impl Limited {
    fn new(page_bytes: usize, limit: usize) -> Self {
        Self { heap: Heap::new(page_bytes), taken: AtomicUsize::new(0), limit }
    }

    /// Returns the number of pages that have not come back.
    fn out(&self) -> usize {
        self.heap.take_peak();
        self.heap.take_peak()
    }
}

impl PageMemory for Limited {
    fn take(&self) -> Result<Block, PagesError> {
        if self.taken.fetch_add(1, Relaxed) >= self.limit {
            return Err(exhausted(self.page_bytes(), self.limit));
        }
        self.heap.take()
    }

    fn page_bytes(&self) -> usize {
        self.heap.page_bytes()
    }

    fn take_peak(&self) -> usize {
        self.heap.take_peak()
    }
}

/// Memory whose blocks, except for the first `honest` ones, are smaller than it reports.
struct Deceitful {
    honest: usize,
    taken: AtomicUsize,
    large: Heap,
    small: Heap,
}

impl PageMemory for Deceitful {
    fn take(&self) -> Result<Block, PagesError> {
        if self.taken.fetch_add(1, Relaxed) < self.honest { self.large.take() } else { self.small.take() }
    }

    fn page_bytes(&self) -> usize {
        self.large.page_bytes()
    }

    fn take_peak(&self) -> usize {
        self.large.take_peak() + self.small.take_peak()
    }
}

fn exhausted(page_bytes: usize, pages: usize) -> PagesError {
    PagesError::Exhausted { pages, page_bytes }
}

/// More pages than any case needs.
const PLENTY: usize = 20_000;

const FAULT: &str = "the source is faulty";

/// A source that panics when it is read again after a number of batches.
struct Faulty<'a> {
    source: &'a Generator,
    fills: AtomicUsize,
    after: usize,
}

impl TupleSource for Faulty<'_> {
    fn reader(&self, thread: usize, threads: usize) -> Box<dyn TupleReader + '_> {
        Box::new(FaultyReader { faulty: self, reader: self.source.reader(thread, threads) })
    }
}

struct FaultyReader<'a> {
    faulty: &'a Faulty<'a>,
    reader: Box<dyn TupleReader + 'a>,
}

impl TupleReader for FaultyReader<'_> {
    fn fill(&mut self, batch: &mut TupleBatch) -> bool {
        if self.faulty.fills.fetch_add(1, Relaxed) == self.faulty.after {
            // Not `panic!`, to keep the tests' output readable.
            resume_unwind(Box::new(FAULT));
        }
        self.reader.fill(batch)
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn every_tuple_comes_out_once_whole_and_in_its_place(case in case()) {
        let generator = case.generator();
        for (variant, placement) in variants(case.page_bytes, PLENTY) {
            // Twice: memory that a variant keeps must not change its result.
            for _ in 0..2 {
                let (memory, source) = (Limited::new(case.page_bytes, usize::MAX), generator.again());
                let shuffled = variant.partition(&case.job(&memory, &source));
                let shuffled = shuffled.map_err(|error| TestCaseError::fail(format!("{}: {error}", variant.name())))?;
                let checked = check(&shuffled, &source, &case.shape(), Modulo::new(case.partitions), placement);
                checked.map_err(|what| TestCaseError::fail(format!("{}: {what}", variant.name())))?;
                drop(shuffled);
                prop_assert_eq!(memory.out(), 0, "{} keeps pages", variant.name());
            }
        }
    }

    #[test]
    fn memory_that_runs_out_ends_the_shuffle(case in case(), left in 0.0..1.0) {
        let generator = case.generator();
        let from_heap = |variant: &(Box<dyn Partitioner>, Placement)| variant.0.name() != "Ranges";
        for (variant, placement) in variants(case.page_bytes, PLENTY).into_iter().filter(from_heap) {
            let (memory, source) = (Limited::new(case.page_bytes, usize::MAX), generator.again());
            let shuffled = variant.partition(&case.job(&memory, &source)).unwrap();
            let used: usize = shuffled.partitions.iter().map(Vec::len).sum();
            let limit = (memory.taken.load(Relaxed) as f64 * left) as usize;
            let (memory, source) = (Limited::new(case.page_bytes, limit), generator.again());
            match variant.partition(&case.job(&memory, &source)) {
                // The number of pages that a variant takes depends on its threads' timing, but it
                // is not below the number of pages that it fills.
                Ok(shuffled) => {
                    let fixed = matches!(case.payload, Payload::Fixed(_)) && placement == Placement::ByKey;
                    prop_assert!(!fixed || limit >= used, "{} made pages of nothing", variant.name());
                    let checked = check(&shuffled, &source, &case.shape(), Modulo::new(case.partitions), placement);
                    prop_assert_eq!(checked, Ok(()), "{}", variant.name());
                }
                Err(error) => prop_assert_eq!(error, exhausted(case.page_bytes, limit), "{}", variant.name()),
            }
            prop_assert_eq!(memory.out(), 0, "{} keeps pages", variant.name());
        }
    }

    #[test]
    fn a_pool_that_runs_out_ends_the_shuffle(case in case(), left in 0.0..1.0) {
        let pool = |pages: usize| Pool::new(case.page_bytes, pages * case.page_bytes).unwrap();
        let generator = case.generator();
        let run = |pool: &Pool| {
            let source = generator.again();
            let ranges = Ranges { pool: pool.clone(), stores: Stores::Cached };
            let shuffled = ranges.partition(&case.job(pool, &source));
            let partitions = Modulo::new(case.partitions);
            shuffled.map(|shuffled| check(&shuffled, &source, &case.shape(), partitions, Placement::ByKey))
        };
        let plenty = pool(PLENTY);
        prop_assert_eq!(run(&plenty), Ok(Ok(())));
        // A limit below the number of partitions is refused.
        let most = plenty.take_peak();
        let limit = case.partitions + (most.saturating_sub(case.partitions) as f64 * left) as usize;
        let limited = pool(limit);
        match run(&limited) {
            Ok(checked) => prop_assert_eq!(checked, Ok(())),
            Err(error) => prop_assert!(matches!(error, PagesError::Exhausted { .. } | PagesError::Failed), "{}", error),
        }
        prop_assert_eq!(limited.out(), 0, "pages are kept");
    }

    #[test]
    fn a_source_that_panics_ends_the_shuffle(case in case(), after in 0_usize..20) {
        let generator = case.generator();
        for (variant, _) in variants(case.page_bytes, PLENTY) {
            let (memory, source) = (Limited::new(case.page_bytes, usize::MAX), generator.again());
            let faulty = Faulty { source: &source, fills: AtomicUsize::new(0), after };
            let result = catch_unwind(AssertUnwindSafe(|| variant.partition(&case.job(&memory, &faulty))));
            let panicked = faulty.fills.load(Relaxed) > after;
            match result {
                Ok(shuffled) => prop_assert!(!panicked && shuffled.is_ok(), "{} hides a panic", variant.name()),
                Err(panic) => prop_assert_eq!(panic.downcast_ref::<&str>(), Some(&FAULT), "{}", variant.name()),
            }
            prop_assert_eq!(memory.out(), 0, "{} keeps pages", variant.name());
        }
    }
}

#[test]
fn jobs_that_cannot_be_run_are_refused() {
    let case = Case {
        tuples: 5000,
        seed: 1,
        keys: Keys::Uniform,
        payload: Payload::UpTo(6000),
        batch_tuples: 64,
        partitions: 7,
        threads: 3,
        page_bytes: 4 << 10,
        layout: PageLayout::Slotted,
        buffer_bytes: 1 << 20,
    };
    let (heap, other, source) = (Heap::new(4 << 10), Heap::new(8 << 10), case.generator());
    for (variant, _) in variants(case.page_bytes, PLENTY) {
        let error = |job: &Job<'_>| variant.partition(job).expect_err(variant.name());
        let too_large = error(&case.job(&heap, &case.generator()));
        assert!(matches!(too_large, PagesError::TupleTooLarge { payload_bytes: 4021.., most: 4020 }), "{too_large}");
        let no_threads = error(&Job { threads: 0, ..case.job(&heap, &source) });
        assert!(matches!(no_threads, PagesError::Option { option: "threads", .. }), "{no_threads}");
        let other_size = error(&case.job(&other, &source));
        assert!(matches!(other_size, PagesError::Option { option: "page_bytes", .. }), "{other_size}");
        let fixed = PageShape::new(4 << 10, PageLayout::Slotted, PayloadSize::Fixed(12)).unwrap();
        let other_batch = error(&Job { shape: fixed, ..case.job(&heap, &case.generator()) });
        assert!(matches!(other_batch, PagesError::Batch { .. }), "{other_batch}");
        heap.take_peak();
        assert_eq!(heap.take_peak(), 0, "{} keeps pages", variant.name());
    }
}

#[test]
fn blocks_smaller_than_the_memory_says_are_refused() {
    for (payload, layout) in [
        (Payload::Fixed(12), PageLayout::Slotted),
        (Payload::Fixed(96), PageLayout::Compact),
        (Payload::UpTo(300), PageLayout::Slotted),
    ] {
        let case = Case {
            tuples: 20_000,
            seed: 1,
            keys: Keys::Uniform,
            payload,
            batch_tuples: 64,
            partitions: 4,
            threads: 2,
            page_bytes: 16 << 10,
            layout,
            buffer_bytes: 1 << 16,
        };
        let source = case.generator();
        let from_heap = |variant: &(Box<dyn Partitioner>, Placement)| variant.0.name() != "Ranges";
        for (variant, _) in variants(case.page_bytes, PLENTY).into_iter().filter(from_heap) {
            // The block that is too small is one of the first, or one that is taken while pages are
            // written.
            for honest in [0, 8, 12] {
                let (large, small) = (Heap::new(16 << 10), Heap::new(4 << 10));
                let memory = Deceitful { honest, taken: AtomicUsize::new(0), large, small };
                let source = source.again();
                let error = variant.partition(&case.job(&memory, &source)).expect_err(variant.name());
                assert!(
                    matches!(error, PagesError::Option { option: "page_bytes", .. }),
                    "{}: {error}",
                    variant.name()
                );
                memory.take_peak();
                assert_eq!(memory.take_peak(), 0, "{} keeps pages", variant.name());
            }
        }
    }
}
