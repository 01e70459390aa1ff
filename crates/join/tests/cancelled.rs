//! The work that a join still does after it was cancelled, for each algorithm and join type.

use std::{
    cell::Cell,
    ops::Bound,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering::Relaxed},
    },
};

use annulus_join::{
    Band, BuildSide, CancelToken, FilterColumn, Fragment, FragmentFormat, HashConfig, JoinError, JoinType, KeyPair,
    Keys, Loops, MOST_PAIRS, MergeCondition, MergeJoin, Offset, Output, OutputSpec, PairFilter, PairSink, Partitions,
    Side, Sides, Writer,
};
use arrow::array::{ArrayRef, BooleanArray, Int32Array, RecordBatch};

/// The number of rows of either side. All pairs match: far more than a cancelled join may make.
const ROWS: usize = 1500;
/// The number of pairs after which the join is cancelled.
const BEFORE: usize = 50_000;

fn side() -> RecordBatch {
    let column = |value: fn(usize) -> i32| Arc::new((0..ROWS).map(value).collect::<Int32Array>()) as ArrayRef;
    RecordBatch::try_from_iter([("key", column(|_| 1)), ("row", column(|row| row as i32))]).unwrap()
}

#[derive(Clone, Copy, Debug)]
enum By {
    Hash,
    Merge,
    Band,
    Loops,
}

/// A filter that keeps all pairs, cancels the join if `asks` is set, and counts the pairs it gets
/// later.
struct Keep {
    asks: Option<CancelToken>,
    cancel: CancelToken,
    seen: AtomicUsize,
    late: AtomicUsize,
}

impl PairFilter for Keep {
    fn columns(&self) -> &[FilterColumn] {
        const { &[FilterColumn { side: Side::Left, index: 1 }, FilterColumn { side: Side::Right, index: 1 }] }
    }

    fn keep(&self, candidates: &RecordBatch) -> Result<BooleanArray, JoinError> {
        let rows = candidates.num_rows();
        if self.cancel.is_cancelled() {
            self.late.fetch_add(rows, Relaxed);
        }
        if self.seen.fetch_add(rows, Relaxed) + rows >= BEFORE {
            self.asks.iter().for_each(CancelToken::cancel);
        }
        Ok(vec![true; rows].into())
    }
}

/// Passes pairs on, cancels the join after enough of them, and counts those that come later.
struct Watched<S> {
    sink: S,
    cancel: CancelToken,
    made: usize,
    late: usize,
}

impl<S: PairSink> PairSink for Watched<S> {
    fn pairs(&mut self, build: &[u32], probe: &[u32]) -> Result<(), JoinError> {
        self.made += build.len();
        if self.cancel.is_cancelled() {
            self.late += build.len();
        }
        let taken = self.sink.pairs(build, probe);
        if self.made >= BEFORE {
            self.cancel.cancel();
        }
        taken
    }
}

/// Gives all pairs of the two sides to the sink.
fn probe(
    by: By,
    output: &Output,
    cancel: &CancelToken,
    writer: &mut Writer<impl FnMut(RecordBatch) -> Emitted>,
) -> (Emitted, usize) {
    let (side, schema) = (side(), side().schema());
    let mut joined =
        |build: &RecordBatch, fragment: &RecordBatch, probe: &mut dyn FnMut(&mut dyn PairSink) -> Emitted| {
            let (build, fragment) = (output.build_rows(build).unwrap(), output.probe_rows(fragment).unwrap());
            let sink = writer.sink(&build, &fragment);
            let mut watched = Watched { sink, cancel: cancel.clone(), made: 0, late: 0 };
            (probe(&mut watched), watched.late)
        };
    let keys = KeyPair { build: 0, probe: 0 };
    let merge = match by {
        By::Merge => MergeCondition { equal: vec![keys], ..MergeCondition::default() },
        By::Band => {
            let offset = |width| Bound::Included(Offset::Int(width));
            let keys = KeyPair { build: 1, probe: 1 };
            let band = Some(Band { keys, low: offset(-10_000), high: offset(10_000) });
            MergeCondition { band, ..MergeCondition::default() }
        }
        By::Hash => {
            let (keys, partitions) = (|| Keys::new(&schema, &[0], false).unwrap(), Partitions::at_least(4));
            let build = BuildSide::prepare(keys(), vec![side.clone()], &HashConfig::new(partitions)).unwrap();
            let format = Arc::new(FragmentFormat::new(keys(), partitions).unwrap());
            let fragment = Fragment::prepare(&format, vec![side], 1, 1 << 20).unwrap().remove(0);
            return joined(build.batch(), fragment.batch(), &mut |sink| {
                let mut morsels = fragment.morsels(1).into_iter();
                morsels.try_for_each(|morsel| build.probe(&fragment, &morsel, &mut Dyn(sink)).map(drop))
            });
        }
        By::Loops => {
            return joined(&side, &side, &mut |sink| {
                let loops = Loops::new(None, Sides { left: &side, right: &side }, output.wanted())?;
                loops.all(&mut Dyn(sink)).map(drop)
            });
        }
    };
    let join = MergeJoin::try_new(&merge, &schema, &schema).unwrap();
    let build = join.prepare_build(vec![side.clone()], 1).unwrap();
    let fragment = join.fragment(&join.prepare_probe(vec![side], 1 << 20, 1).unwrap()[0]).unwrap();
    joined(build.batch(), fragment.batch(), &mut |sink| {
        join.probe(&build, &fragment, 0..ROWS as u32, output.wanted(), &mut Dyn(sink)).map(drop)
    })
}

type Emitted = Result<(), JoinError>;

/// A sink behind a pointer, for functions that need a sized type.
struct Dyn<'a>(&'a mut dyn PairSink);

impl PairSink for Dyn<'_> {
    fn pairs(&mut self, build: &[u32], probe: &[u32]) -> Result<(), JoinError> {
        self.0.pairs(build, probe)
    }
}

fn output(join: JoinType, build: Side, filter: Option<Arc<dyn PairFilter>>, cancel: &CancelToken) -> Arc<Output> {
    let schema = side().schema();
    let spec = OutputSpec::new(join, build, Sides { left: schema.clone(), right: schema })
        .with_columns(Sides { left: vec![1], right: vec![1] })
        .with_filter(filter);
    Arc::new(Output::try_new(spec).unwrap().cancelled_by(cancel.clone()))
}

/// Iterates over every algorithm, type and build side.
fn cases() -> impl Iterator<Item = (By, JoinType, Side)> {
    let algorithms = [By::Hash, By::Merge, By::Band, By::Loops];
    let sides = Side::BOTH;
    let types = move |by| JoinType::ALL.into_iter().flat_map(move |join| sides.map(|side| (by, join, side)));
    algorithms.into_iter().flat_map(types)
}

#[test]
fn few_pairs_are_made_after_a_stop() {
    for case @ (by, join, build) in cases() {
        let cancel = CancelToken::new();
        let output = output(join, build, None, &cancel);
        let late_batches = Cell::new(0);
        let mut writer = Writer::new(Arc::clone(&output), |_| {
            late_batches.set(late_batches.get() + usize::from(cancel.is_cancelled()));
            Ok(())
        });
        let (ended, late) = probe(by, &output, &cancel, &mut writer);
        // If one pair of each row is enough, the join is done before it is cancelled.
        let is_done = ended.is_ok() && !cancel.is_cancelled();
        assert!(is_done || matches!(ended, Err(JoinError::Cancelled)), "{case:?}: {ended:?}");
        assert!(late <= MOST_PAIRS, "{case:?}: {late} pairs after the stop");
        if !is_done {
            assert!(matches!(writer.finish(), Err(JoinError::Cancelled)), "{case:?}");
        }
        assert_eq!(late_batches.get(), 0, "{case:?}");
    }
}

#[test]
fn a_filter_is_asked_no_more_after_a_stop() {
    for case @ (by, join, build) in cases() {
        let cancel = CancelToken::new();
        let (asks, seen, late) = (Some(cancel.clone()), AtomicUsize::new(0), AtomicUsize::new(0));
        let keep = Arc::new(Keep { asks, cancel: cancel.clone(), seen, late });
        let output = output(join, build, Some(Arc::clone(&keep) as _), &cancel);
        let mut writer = Writer::new(Arc::clone(&output), |_| Ok(()));
        let (ended, _) = probe(by, &output, &CancelToken::new(), &mut writer);
        assert!(matches!(ended, Err(JoinError::Cancelled)), "{case:?}: {ended:?}");
        assert_eq!(keep.late.load(Relaxed), 0, "{case:?}");
        let seen = keep.seen.load(Relaxed);
        assert!((BEFORE..BEFORE + MOST_PAIRS).contains(&seen), "{case:?}: {seen} pairs");
    }
}

/// Rows are not output alone after a join was cancelled.
#[test]
fn no_rows_come_out_alone_after_a_stop() {
    let rows = Arc::new(Int32Array::from_iter_values(0..50_000)) as ArrayRef;
    let batch = RecordBatch::try_from_iter([("key", Arc::clone(&rows)), ("row", rows)]).unwrap();
    for (join, build) in [(JoinType::Left, Side::Left), (JoinType::LeftAnti, Side::Right)] {
        let cancel = CancelToken::new();
        let output = output(join, build, None, &cancel);
        let mut batches = 0;
        let emit = |_| {
            batches += 1;
            cancel.cancel();
            Ok(())
        };
        let ended = match build {
            Side::Left => output.build_alone(&output.build_rows(&batch).unwrap(), 0..50_000, emit),
            Side::Right => output.probe_alone(&output.probe_rows(&batch).unwrap(), 0..50_000, emit),
        };
        assert!(matches!(ended, Err(JoinError::Cancelled)), "{join:?}: {ended:?}");
        assert_eq!(batches, 1, "{join:?}");
    }
}
