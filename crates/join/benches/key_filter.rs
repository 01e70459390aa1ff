//! The constants of the key filter's cost model, in nanoseconds a row: adding a key and testing
//! one, and preparing a row of the probe side and probing with it.
//!
//! `cargo bench -p annulus-join --bench key_filter`. Each figure is the median of five runs on one
//! thread. Every filter is first checked to keep all rows that have a partner.

use std::{sync::Arc, time::Instant};

use annulus_join::{
    BuildSide, CancelToken, Fragment, FragmentFormat, HashConfig, JoinError, KeyFilter, KeyFilterBuilder,
    KeyFilterKind, Keys, PairSink, Partitions,
};
use arrow::array::{ArrayRef, Int64Array, RecordBatch, StringArray};

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

const ROUNDS: usize = 5;
const BUILD_ROWS: i64 = 1 << 20;
const PROBE_ROWS: i64 = 1 << 22;
const BATCH_ROWS: i64 = 8192;
const BITS: u32 = 16;

struct Count(usize);

impl PairSink for Count {
    fn pairs(&mut self, build: &[u32], _: &[u32]) -> Result<(), JoinError> {
        self.0 += build.len();
        Ok(())
    }
}

fn main() {
    println!("{:24}{:>10}{:>10}{:>10}{:>12}", "", "add", "test", "kept", "filter MB");
    for (name, text) in [("i64 keys", false), ("text keys", true)] {
        // Every fourteenth row of the probe side has a partner: 7 %.
        let (build, probe) = (side(0..BUILD_ROWS, 14, text), side(0..PROBE_ROWS, 1, text));
        let keys = || Keys::new(&build[0].schema(), &[0], false).expect("keys");
        let partners = (PROBE_ROWS + 13) / 14;
        let blocks = BUILD_ROWS as u32 / (8 * KeyFilter::BLOCK_BYTES as u32) * BITS;
        for (form, kind) in [("Bloom", KeyFilterKind::Bloom(blocks)), ("exact", KeyFilterKind::Exact)] {
            let keys = keys();
            let make = || {
                let mut builder = KeyFilterBuilder::new(kind);
                // One host adds all of its rows at once.
                let all = arrow::compute::concat_batches(&build[0].schema(), &build).expect("a batch");
                let start = Instant::now();
                builder.insert(&keys, &all, &CancelToken::new()).expect("keys");
                let filter = builder.complete();
                (start.elapsed().as_nanos() as f64 / BUILD_ROWS as f64, filter)
            };
            let add = median(|| make().0);
            let filter = make().1;
            let keep = || probe.iter().map(|batch| filter.keep(&keys, batch).expect("rows").num_rows()).sum::<usize>();
            let kept = keep();
            assert!(kept as i64 >= partners, "{name}, {form}: {kept} of {partners} rows are kept");
            let test = median(|| timed(PROBE_ROWS, || assert_eq!(keep(), kept)));
            let (share, megabytes) = (kept as f64 / PROBE_ROWS as f64, filter.bytes() as f64 / 1e6);
            println!("{:24}{add:>10.1}{test:>10.1}{share:>10.4}{megabytes:>12.1}", format!("{name}, {form}"));
        }
        let partitions = Partitions::for_rows(BUILD_ROWS as usize);
        let tables = BuildSide::prepare(keys(), build.clone(), &HashConfig::new(partitions)).expect("a build side");
        let format = Arc::new(FragmentFormat::new(keys(), partitions).expect("a format"));
        let prepare = || Fragment::prepare(&format, probe.clone(), 1, 1 << 20).expect("fragments");
        let fragments = prepare();
        let join = || {
            let mut count = Count(0);
            for fragment in &fragments {
                for morsel in fragment.morsels(1) {
                    tables.probe(fragment, &morsel, &mut count).expect("pairs");
                }
            }
            assert_eq!(count.0 as i64, partners);
        };
        let prepared = median(|| timed(PROBE_ROWS, || drop(prepare())));
        println!("{name}: {prepared:.1} to prepare a row, {:.1} to probe with it", median(|| timed(PROBE_ROWS, join)));
    }
}

/// Returns batches with the keys of `rows`, multiplied by `step`, and a number.
fn side(rows: std::ops::Range<i64>, step: i64, text: bool) -> Vec<RecordBatch> {
    let batch = |start: i64| {
        // Rows in no particular order.
        let rows = (start..rows.end.min(start + BATCH_ROWS)).map(|row| row.wrapping_mul(7_919) % rows.end);
        let numbers: Int64Array = rows.map(|row| Some(row * step)).collect();
        let texts = || numbers.iter().flatten().map(|key| Some(format!("key {key:012}"))).collect::<StringArray>();
        let keys: ArrayRef = if text { Arc::new(texts()) } else { Arc::new(numbers.clone()) };
        RecordBatch::try_from_iter([("key", keys), ("number", Arc::new(numbers) as ArrayRef)]).expect("a batch")
    };
    rows.clone().step_by(BATCH_ROWS as usize).map(batch).collect()
}

/// Returns the nanoseconds that `work` takes for each of `rows` rows.
fn timed(rows: i64, work: impl FnOnce()) -> f64 {
    let start = Instant::now();
    work();
    start.elapsed().as_nanos() as f64 / rows as f64
}

fn median(run: impl Fn() -> f64) -> f64 {
    let mut runs: Vec<f64> = (0..ROUNDS).map(|_| run()).collect();
    runs.sort_unstable_by(f64::total_cmp);
    runs[ROUNDS / 2]
}
