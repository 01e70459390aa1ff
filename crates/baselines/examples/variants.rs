//! Million tuples a second of each partitioner, checked first.
//!
//! `variants TUPLE_BYTES PARTITIONS THREADS MILLION_TUPLES [BUFFER_KIB] [BATCH_TUPLES] [PAGE_KIB]
//! [NAME]`: TUPLE_BYTES counts the 4-byte key. The memory is warm, the median of three runs counts,
//! and what the generator took is shown apart.

use std::{env, error::Error, time::Instant};

use annulus_baselines::{
    generator::{Generator, Keys, Payload, Placement, check},
    partitioner::{Job, Partitioner, best_cases, paper},
};
use annulus_pages::{
    error::PagesError,
    memory::Heap,
    page::{Layout, PageShape},
};
use annulus_rows::partition::Modulo;

const RUNS: usize = 3;

fn main() -> Result<(), Box<dyn Error>> {
    let args: Vec<_> = env::args().skip(1).collect();
    let number = |index: usize, default: usize| args.get(index).map_or(Ok(default), |text| text.parse());
    let (tuple_bytes, partitions, threads) = (number(0, 16)?, Modulo::new(number(1, 32)?), number(2, 2)?);
    let tuples = number(3, 64)? * 1_000_000;
    let (buffer_bytes, batch, page_bytes) = (number(4, 1024)? << 10, number(5, 16 << 10)?, number(6, 5 << 10)? << 10);
    let payload = Payload::Fixed(u32::try_from(tuple_bytes.checked_sub(4).ok_or("a tuple has a key of 4 bytes")?)?);
    let generator = || Generator::new(tuples as u64, 42, Keys::Uniform, payload, batch);
    let shape = PageShape::new(page_bytes, Layout::Slotted, generator()?.payload())?;
    let heap = Heap::new(page_bytes);

    println!("{:28} {:>9} {:>12} {:>9} {:>7}", "variant", "M/s", "without gen.", "gen. ns", "pages");
    let variants = paper().into_iter().map(|variant| (variant, Placement::ByKey));
    let variants = variants.chain(best_cases().into_iter().map(|variant| (variant, Placement::Any)));
    for (variant, placement) in variants.filter(|(variant, _)| args.get(7).is_none_or(|name| name == variant.name())) {
        let source = generator()?;
        let job = Job { partitions, threads, shape, memory: &heap, source: &source, buffer_bytes };
        check(&variant.shuffle(&job)?, &source, &shape, partitions, placement)?;
        let mut runs = Vec::new();
        for _ in 0..RUNS {
            let source = generator()?;
            runs.push(run(&*variant, &Job { source: &source, ..job }, &source)?);
        }
        runs.sort_by(|a, b| a.seconds.total_cmp(&b.seconds));
        let Run { seconds, generated, pages } = runs[RUNS / 2];
        let rate = |seconds: f64| tuples as f64 / seconds / 1e6;
        let (all, without, each) =
            (rate(seconds), rate(seconds - generated / threads as f64), generated / tuples as f64 * 1e9);
        println!("{:28} {all:9.1} {without:12.1} {each:9.2} {pages:7}", variant.name());
    }
    Ok(())
}

struct Run {
    seconds: f64,
    /// Seconds of all threads.
    generated: f64,
    pages: usize,
}

fn run(variant: &dyn Partitioner, job: &Job<'_>, source: &Generator) -> Result<Run, PagesError> {
    job.memory.take_peak();
    let start = Instant::now();
    let shuffled = variant.shuffle(job)?;
    let seconds = start.elapsed().as_secs_f64();
    drop(shuffled);
    Ok(Run { seconds, generated: source.generated().as_secs_f64(), pages: job.memory.take_peak() })
}
