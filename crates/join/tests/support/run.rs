//! The library's joins on simulated hosts, one after another. Each host has a part of the build
//! side, and fragments go from host to host with their match bits.

use std::{cell::RefCell, ops::Range, sync::Arc};

use annulus_join::{
    FilterColumn, Fragment, JoinError, JoinType, LoopCondition, Loops, MatchingRows, MergeBuild, MergeCondition,
    MergeJoin, Output, OutputSpec, PairFilter, PairSink, RequiredPairs, RowCondition, Side, SideRows, Sides, Writer,
};
use arrow::{
    array::{Array, AsArray, BooleanArray, RecordBatch},
    buffer::MutableBuffer,
    datatypes::Int32Type,
};

use super::{
    model::{Pair, by_role},
    values::{Table, text},
};

/// A filter on the row numbers of a pair.
pub struct RowFilter<F> {
    columns: [FilterColumn; 2],
    keep: F,
}

impl<F: Fn(i32, i32) -> Option<bool> + Send + Sync + 'static> RowFilter<F> {
    /// Returns a filter that calls `keep` with the rows of the left and the right side.
    pub fn shared(left: &Table, right: &Table, keep: F) -> Arc<dyn PairFilter> {
        let right = FilterColumn { side: Side::Right, index: right.row_column() };
        Arc::new(Self { columns: [right, FilterColumn { side: Side::Left, index: left.row_column() }], keep })
    }
}

impl<F: Fn(i32, i32) -> Option<bool> + Send + Sync> PairFilter for RowFilter<F> {
    fn columns(&self) -> &[FilterColumn] {
        &self.columns
    }

    fn keep(&self, candidates: &RecordBatch) -> Result<BooleanArray, JoinError> {
        let rows = |column: usize| candidates.column(column).as_primitive::<Int32Type>().values();
        Ok(rows(1).iter().zip(rows(0)).map(|(&left, &right)| (self.keep)(left, right)).collect())
    }
}

/// The same filter as the condition of nested loops, where the build side is the left one.
#[derive(Debug)]
pub struct LoopFilter {
    build: Side,
    row_columns: Sides<[usize; 1]>,
    keep: fn(i32, i32) -> Option<bool>,
}

impl LoopFilter {
    /// Returns the condition that calls `keep` with the rows of the left and the right side.
    pub fn shared(
        build: Side,
        left: &Table,
        right: &Table,
        keep: fn(i32, i32) -> Option<bool>,
    ) -> Arc<dyn LoopCondition> {
        let (left, right) = by_role(build, left, right);
        let row_columns = Sides { left: [left.row_column()], right: [right.row_column()] };
        Arc::new(Self { build, row_columns, keep })
    }
}

impl LoopCondition for LoopFilter {
    fn columns(&self, side: Side) -> &[usize] {
        &self.row_columns[side]
    }

    fn of_rows(&self, one: Side, rows: &RecordBatch) -> Result<Box<dyn RowCondition>, JoinError> {
        let numbers = rows.column(self.row_columns[one][0]).as_primitive::<Int32Type>().values().to_vec();
        // The side, as the user names it, whose rows are taken one by one.
        let one = if one == Side::Left { self.build } else { self.build.other() };
        Ok(Box::new(OneRow { one, numbers, keep: self.keep }))
    }
}

struct OneRow {
    one: Side,
    numbers: Vec<i32>,
    keep: fn(i32, i32) -> Option<bool>,
}

impl RowCondition for OneRow {
    fn keep(&mut self, row: usize, others: &RecordBatch) -> Result<MatchingRows, JoinError> {
        let one = self.numbers[row];
        let others = others.column(0).as_primitive::<Int32Type>().values();
        let keep =
            |&other: &i32| if self.one == Side::Left { (self.keep)(one, other) } else { (self.keep)(other, one) };
        let kept: BooleanArray = others.iter().map(keep).collect();
        Ok(match kept.true_count() {
            0 => MatchingRows::None,
            all if all == kept.len() => MatchingRows::All,
            _ => MatchingRows::Some(kept),
        })
    }
}

/// The algorithm that finds the pairs.
pub enum Method {
    Loops(Option<Arc<dyn LoopCondition>>),
    Merge(Box<MergeCondition>),
}

/// How the sides are spread over hosts, fragments and threads.
#[derive(Clone, Copy, Debug)]
pub struct Spread {
    pub build: Side,
    pub hosts: usize,
    /// The number of fragments, at least this for a merge join.
    pub fragments: usize,
    /// The number of rows that a thread takes at once.
    pub morsel: usize,
    pub threads: usize,
}

/// A host's part of the build side.
enum Host {
    Loops(RecordBatch, Option<Arc<dyn LoopCondition>>),
    Merge(Arc<MergeJoin>, Box<MergeBuild>),
}

impl Host {
    fn batch(&self) -> &RecordBatch {
        match self {
            Self::Loops(batch, _) => batch,
            Self::Merge(_, build) => build.batch(),
        }
    }

    fn probe(&self, fragment: &RecordBatch, rows: Range<u32>, wanted: RequiredPairs, sink: &mut impl PairSink) {
        match self {
            Self::Loops(batch, condition) => {
                let probe = fragment.slice(rows.start as usize, rows.len());
                let loops = Loops::new(condition.as_deref(), Sides { left: batch, right: &probe }, wanted).unwrap();
                loops.with_first_probe_row(rows.start).all(sink)
            }
            Self::Merge(join, build) => {
                // As it arrives from another host, and as it is where it was sorted.
                let mut counts = Vec::new();
                for fragment in [join.arrived(&travelled(join, fragment)).unwrap(), join.fragment(fragment).unwrap()] {
                    let mut found = Collected::default();
                    counts.push((join.probe(build, &fragment, rows.clone(), wanted, &mut found).unwrap(), found.0));
                }
                assert_eq!(counts[0], counts[1]);
                let fragment = join.arrived(&travelled(join, fragment)).unwrap();
                join.probe(build, &fragment, rows, wanted, sink)
            }
        }
        .unwrap();
    }
}

/// Pairs of row numbers.
#[derive(Default)]
struct Collected(Vec<(u32, u32)>);

impl PairSink for Collected {
    fn pairs(&mut self, build: &[u32], probe: &[u32]) -> Result<(), JoinError> {
        self.0.extend(build.iter().copied().zip(probe.iter().copied()));
        Ok(())
    }
}

/// Encodes a sorted batch, and decodes it with the keys that travelled.
fn travelled(join: &MergeJoin, batch: &RecordBatch) -> Fragment {
    let format = Arc::new(join.format().unwrap());
    let [fragment] = &join.fragments(&format, batch, 1, 1 << 20).unwrap()[..] else { panic!("several fragments") };
    let mut bytes = MutableBuffer::from_len_zeroed(fragment.encoded_bytes());
    fragment.encode(&mut bytes).unwrap();
    Fragment::decode(&format, bytes.into()).unwrap()
}

/// Runs a join, and returns the rows of its output, sorted.
pub fn run(
    join: JoinType,
    (left, right): (&Table, &Table),
    method: &Method,
    filter: Option<Arc<dyn PairFilter>>,
    spread: Spread,
) -> Vec<Pair> {
    let (left_batch, right_batch) = (left.batch(), right.batch());
    let columns = |table: &Table| vec![table.text_column(), table.row_column()];
    let schemas = Sides { left: left_batch.schema(), right: right_batch.schema() };
    let spec = OutputSpec::new(join, spread.build, schemas)
        .with_columns(Sides { left: columns(left), right: columns(right) })
        .with_filter(filter);
    let output = Output::try_new(spec);
    let (build, probe) = by_role(spread.build, left_batch, right_batch);
    let (hosts, fragments) = prepare(method, &build, &probe, spread);
    let batches = RefCell::new(Vec::new());
    ring(&Arc::new(output.unwrap()), &hosts, &fragments, spread, &batches);
    read(join, &batches.into_inner())
}

fn prepare(method: &Method, build: &RecordBatch, probe: &RecordBatch, spread: Spread) -> (Vec<Host>, Vec<RecordBatch>) {
    let (parts, origins) = (pieces(build, spread.hosts), pieces(probe, spread.fragments));
    let condition = match method {
        Method::Merge(condition) => condition,
        Method::Loops(condition) => {
            return (parts.into_iter().map(|part| Host::Loops(part, condition.clone())).collect(), origins);
        }
    };
    let join = Arc::new(MergeJoin::try_new(condition, build.schema_ref(), probe.schema_ref()).unwrap());
    // Several batches each, as in practice.
    let host = |part: RecordBatch| {
        Host::Merge(Arc::clone(&join), Box::new(join.prepare_build(pieces(&part, 2), spread.threads).unwrap()))
    };
    let hosts = parts.into_iter().map(host).collect();
    let sorted = |origin: RecordBatch| join.prepare_probe(pieces(&origin, 2), 1000, spread.threads).unwrap();
    (hosts, origins.into_iter().flat_map(sorted).collect())
}

/// Takes every fragment to every host, with its match bits.
fn ring(
    output: &Arc<Output>,
    hosts: &[Host],
    fragments: &[RecordBatch],
    spread: Spread,
    batches: &RefCell<Vec<RecordBatch>>,
) {
    let emit = |batch: RecordBatch| -> Result<(), JoinError> {
        batches.borrow_mut().push(batch);
        Ok(())
    };
    let builds: Vec<SideRows> = hosts.iter().map(|host| output.build_rows(host.batch()).unwrap()).collect();
    let mut writers: Vec<_> = (0..spread.threads).map(|_| Writer::new(Arc::clone(output), emit)).collect();
    for fragment in fragments {
        let mut met: Option<BooleanArray> = None;
        for (index, (host, build)) in hosts.iter().zip(&builds).enumerate() {
            let probe = output.probe_rows(fragment).unwrap();
            met.iter().for_each(|met| probe.mark(met).unwrap());
            for (morsel, start) in (0..fragment.num_rows()).step_by(spread.morsel).enumerate() {
                let rows = start as u32..fragment.num_rows().min(start + spread.morsel) as u32;
                let sink = &mut writers[morsel % spread.threads].sink(build, &probe);
                host.probe(fragment, rows, output.wanted(), sink);
            }
            met = probe.matched().map(|matched| matched.to_array());
            if index + 1 == hosts.len() {
                output.probe_alone(&probe, 0..fragment.num_rows(), emit).unwrap();
            }
        }
    }
    writers.into_iter().for_each(|writer| writer.finish().unwrap());
    for (host, build) in hosts.iter().zip(&builds) {
        let half = host.batch().num_rows() / 2;
        output.build_alone(build, 0..half, emit).unwrap();
        output.build_alone(build, half..usize::MAX, emit).unwrap();
    }
}

/// Splits the batch into `pieces` pieces.
pub fn pieces(batch: &RecordBatch, pieces: usize) -> Vec<RecordBatch> {
    let start = |piece: usize| batch.num_rows() * piece / pieces;
    (0..pieces).map(|piece| batch.slice(start(piece), start(piece + 1) - start(piece))).collect()
}

/// Returns the numbers of the rows, after a check of their other columns.
fn read(join: JoinType, batches: &[RecordBatch]) -> Vec<Pair> {
    let sides = Side::BOTH.into_iter().filter(|&side| join.outputs(side)).count();
    let mut pairs = Vec::new();
    for batch in batches {
        assert_eq!(batch.num_columns(), 2 * sides + usize::from(join.marks()));
        let row = |side: usize, row: usize| {
            let (texts, rows) = (batch.column(2 * side), batch.column(2 * side + 1));
            assert_eq!(texts.is_null(row), rows.is_null(row));
            rows.is_valid(row).then(|| {
                let number = rows.as_primitive::<Int32Type>().value(row);
                assert_eq!(texts.as_string_view().value(row), text(number));
                number
            })
        };
        pairs.extend((0..batch.num_rows()).map(|index| match (sides, join) {
            (2, _) => (row(0, index), row(1, index)),
            (_, JoinType::LeftMark) => (row(0, index), Some(mark(batch, index))),
            (_, JoinType::RightMark) => (Some(mark(batch, index)), row(0, index)),
            (_, JoinType::RightSemi | JoinType::RightAnti) => (None, row(0, index)),
            _ => (row(0, index), None),
        }));
    }
    pairs.sort_unstable();
    pairs
}

/// Returns the mark of a row.
fn mark(batch: &RecordBatch, row: usize) -> i32 {
    let marks = batch.column(batch.num_columns() - 1).as_boolean();
    assert!(marks.is_valid(row));
    i32::from(marks.value(row))
}
