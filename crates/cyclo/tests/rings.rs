//! Joins around rings of one to four hosts, compared with the same joins row by row.

use std::{
    num::NonZeroUsize,
    ops::Bound,
    os::unix::net::UnixListener,
    path::Path,
    sync::{
        Arc, Mutex,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
    thread,
    time::Duration,
};

use annulus_cyclo::{
    Condition, CycloError, JoinSpec, JoinStats, PreparedBuild, RowSink, RowSource, Share, StoreConfig, Supply,
};
use annulus_join::{
    Band, FilterColumn, JoinError, JoinType, KeyFilterKind, KeyPair, LoopCondition, MatchingRows, MergeCondition,
    Offset, OutputSpec, PairFilter, Partitions, RowCondition, Side, Sides,
};
use annulus_roundabout::{Address, Host, HostBuilder, RingConfig, RingPosition};
use arrow::{
    array::{Array, AsArray, BooleanArray, Int32Array, Int64Array, RecordBatch, StringArray},
    compute::cast,
    compute::kernels::cmp::lt,
    datatypes::{DataType, Field, Int64Type, Schema, SchemaRef},
};
use proptest::{collection::vec, prelude::*};

/// The key and the number of a row. Its text is made from the number.
type Row = (Option<i32>, i64);
/// The numbers of the left and the right row. A mark is 1 or 0 in the position of the other side.
type Pair = (Option<i64>, Option<i64>);

/// Returns the columns of a side. With `views`, batches may refer to the memory of its rows.
fn schema(views: bool) -> SchemaRef {
    Arc::new(Schema::new(vec![
        Field::new("key", DataType::Int32, true),
        Field::new("number", DataType::Int64, false),
        Field::new("text", if views { DataType::Utf8View } else { DataType::Utf8 }, false),
    ]))
}

fn text(number: i64) -> String {
    format!("the text of number {number}")
}

fn batch(rows: &[Row], views: bool) -> RecordBatch {
    let keys: Int32Array = rows.iter().map(|row| row.0).collect();
    let numbers: Int64Array = rows.iter().map(|row| Some(row.1)).collect();
    let texts: StringArray = rows.iter().map(|row| Some(text(row.1))).collect();
    let texts = cast(&texts, schema(views).field(2).data_type()).unwrap();
    RecordBatch::try_new(schema(views), vec![Arc::new(keys), Arc::new(numbers), texts]).unwrap()
}

/// A filter that keeps pairs whose left number is less than the right one.
#[derive(Debug)]
struct Less([FilterColumn; 2]);

impl PairFilter for Less {
    fn columns(&self) -> &[FilterColumn] {
        &self.0
    }

    fn keep(&self, candidates: &RecordBatch) -> Result<BooleanArray, JoinError> {
        Ok(lt(candidates.column(0), candidates.column(1))?)
    }
}

#[derive(Clone, Debug)]
struct Case {
    left: Vec<Vec<Row>>,
    right: Vec<Vec<Row>>,
    join: JoinType,
    build: Side,
    filtered: bool,
    nulls_equal: bool,
    threads: usize,
    partitions: usize,
    by: By,
    /// The number of parts of the build side.
    parts: usize,
    /// The number of rows of the probe side that are passed at a time while the ring all_stats, if any.
    /// The first rows are prepared before.
    fed: Option<usize>,
    /// The bytes of fed fragments that are kept in memory between revolutions.
    kept: usize,
    /// Whether texts are views.
    views: bool,
    /// The form of the key filter, where one is possible.
    key_filter: Option<KeyFilterKind>,
}

/// The way the local joins find their pairs.
/// The number of the left row, with a number added to it, is less than that of the right row.
#[derive(Debug)]
struct LoopLess {
    build: Side,
    added: i64,
}

impl LoopLess {
    fn shared(build: Side, added: i64) -> Arc<dyn LoopCondition> {
        Arc::new(Self { build, added })
    }
}

impl LoopCondition for LoopLess {
    fn columns(&self, _side: Side) -> &[usize] {
        &[1]
    }

    fn of_rows(&self, one: Side, rows: &RecordBatch) -> Result<Box<dyn RowCondition>, JoinError> {
        // Here the build side is the left one.
        let is_left = (one == Side::Left) == (self.build == Side::Left);
        let numbers = rows.column(1).as_primitive::<Int64Type>().values().to_vec();
        Ok(Box::new(OneLess { is_left, numbers, added: self.added }))
    }
}

struct OneLess {
    is_left: bool,
    numbers: Vec<i64>,
    added: i64,
}

impl RowCondition for OneLess {
    fn keep(&mut self, row: usize, others: &RecordBatch) -> Result<MatchingRows, JoinError> {
        let one = self.numbers[row];
        let others = others.column(0).as_primitive::<Int64Type>().values().iter();
        let less = |&other: &i64| if self.is_left { one + self.added < other } else { other + self.added < one };
        Ok(MatchingRows::Some(others.map(less).collect::<Vec<_>>().into()))
    }
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum By {
    Hash,
    Merge,
    /// The keys differ by at most this number.
    Band(i32),
    /// Every pair, or those that satisfy a condition.
    Loops,
}

impl Case {
    fn spec(&self) -> JoinSpec {
        let column = |side| FilterColumn { side, index: 1 };
        // Nested loops have a condition instead.
        let filter = (self.filtered && self.by != By::Loops)
            .then(|| Arc::new(Less([column(Side::Left), column(Side::Right)])) as _);
        JoinSpec::new(
            OutputSpec::new(self.join, self.build, Sides::from_fn(|_| schema(self.views)))
                .with_columns(Sides { left: vec![1, 2], right: vec![1, 2] })
                .with_filter(filter),
            self.condition(),
            4096,
        )
        .with_threads(self.threads)
        .with_key_filter(self.key_filter)
    }

    /// Returns the case without a key filter if none is possible.
    fn possible(self) -> Self {
        let is_possible = self.spec().can_filter_keys(NonZeroUsize::new(self.parts).unwrap()).unwrap();
        Self { key_filter: self.key_filter.filter(|_| is_possible), ..self }
    }

    fn condition(&self) -> Condition {
        let keys = KeyPair { build: 0, probe: 0 };
        let nulls_equal = self.nulls_equal;
        match self.by {
            By::Hash => {
                let partitions = Partitions::at_least(self.partitions);
                Condition::Hash { build: vec![0], probe: vec![0], nulls_equal, partitions }
            }
            By::Merge => Condition::Merge(Box::new(MergeCondition {
                equal: vec![keys],
                nulls_equal,
                ..MergeCondition::default()
            })),
            By::Band(width) => {
                let offset = |width: i32| Bound::Included(Offset::Int(width.into()));
                let band = Some(Band { keys, low: offset(-width), high: offset(width) });
                Condition::Merge(Box::new(MergeCondition { band, ..MergeCondition::default() }))
            }
            By::Loops => Condition::Any(self.filtered.then(|| LoopLess::shared(self.build, 0))),
        }
    }

    fn keys_match(&self, left: Option<i32>, right: Option<i32>) -> bool {
        match (self.by, left, right) {
            (By::Loops, ..) => true,
            (By::Band(width), Some(left), Some(right)) => (left - right).abs() <= width,
            (By::Band(_), ..) => false,
            (_, Some(left), Some(right)) => left == right,
            (_, None, None) => self.nulls_equal,
            _ => false,
        }
    }

    fn expected(&self) -> Vec<Pair> {
        let (left, right) = (self.left.concat(), self.right.concat());
        let matches = |a: &Row, b: &Row| self.keys_match(a.0, b.0) && (!self.filtered || a.1 < b.1);
        let mut out = Vec::new();
        let pairs = matches!(self.join, JoinType::Inner | JoinType::Left | JoinType::Right | JoinType::Full);
        for a in left.iter().filter(|_| pairs) {
            out.extend(right.iter().filter(|b| matches(a, b)).map(|b| (Some(a.1), Some(b.1))));
        }
        let left_has = |a: &&Row| right.iter().any(|b| matches(a, b));
        let right_has = |b: &&Row| left.iter().any(|a| matches(a, b));
        let (of_left, of_right) = (|a: &Row| (Some(a.1), None), |b: &Row| (None, Some(b.1)));
        match self.join {
            JoinType::Left | JoinType::Full | JoinType::LeftAnti => {
                out.extend(left.iter().filter(|row| !left_has(row)).map(of_left));
            }
            JoinType::LeftSemi => out.extend(left.iter().filter(left_has).map(of_left)),
            JoinType::LeftMark => out.extend(left.iter().map(|row| (Some(row.1), Some(i64::from(left_has(&row)))))),
            _ => {}
        }
        match self.join {
            JoinType::Right | JoinType::Full | JoinType::RightAnti => {
                out.extend(right.iter().filter(|row| !right_has(row)).map(of_right));
            }
            JoinType::RightSemi => out.extend(right.iter().filter(right_has).map(of_right)),
            JoinType::RightMark => out.extend(right.iter().map(|row| (Some(i64::from(right_has(&row))), Some(row.1)))),
            _ => {}
        }
        out.sort_unstable();
        out
    }

    fn joined(&self) -> Vec<Pair> {
        self.joined_with_stats().0
    }

    /// Returns the result, and each host's counters.
    fn joined_with_stats(&self) -> (Vec<Pair>, Vec<JoinStats>) {
        let folder = tempfile::tempdir().unwrap();
        let hosts = self.left.len() as u16;
        let out = Mutex::new(Vec::new());
        let listeners: Vec<_> = (0..hosts).map(|me| UnixListener::bind(path(folder.path(), me)).unwrap()).collect();
        let all_stats = thread::scope(|scope| {
            let host = |(me, listener)| {
                let (folder, out) = (folder.path(), &out);
                scope.spawn(move || self.host(RingPosition::new(me, hosts).unwrap(), listener, folder, out).unwrap())
            };
            let hosts: Vec<_> = (0..).zip(listeners).map(host).collect();
            hosts.into_iter().map(|host| host.join().unwrap()).collect()
        });
        let mut out = out.into_inner().unwrap();
        out.sort_unstable();
        (out, all_stats)
    }

    fn host(
        &self,
        position: RingPosition,
        listener: UnixListener,
        folder: &Path,
        out: &Mutex<Vec<Pair>>,
    ) -> Result<JoinStats, CycloError> {
        let timeout = Duration::from_secs(60);
        let config = RingConfig::default()
            .with_fragment_bytes(4096)
            .with_places(2)
            .with_own(2)
            .with_timeout(timeout)
            .with_connect_timeout(timeout);
        let address = Address::Unix { listener, successor: path(folder, position.successor().0) };
        let mut host = Host::join_ring(HostBuilder::new(position, 1, address).with_config(&config))?;
        let seen: Arc<[AtomicU64; 2]> = Arc::default();
        let watch = Arc::clone(&seen);
        let spec = self.spec().with_watch(Arc::new(move |visit| {
            watch[0].fetch_add(visit.rows, Relaxed);
            watch[1].fetch_add(if visit.is_own { 0 } else { visit.bytes }, Relaxed);
        }));
        let probe = &self.sides().1[position.me().index()];
        let (there, later) = probe.split_at(self.fed.map_or(probe.len(), |rows| rows.min(probe.len())));
        let share = Share::prepare(&spec, self.part(position, 0), batches(there, self.views))?;
        let feed = |give: &mut RowSink<'_>| {
            later.chunks(self.fed.unwrap_or(1)).try_for_each(|rows| give(batches(rows, self.views)))
        };
        let feed: Option<&RowSource<'_>> = if self.fed.is_some() { Some(&feed) } else { None };
        let emit = |_, batch| {
            out.lock().unwrap().extend(pairs(&batch, self.join));
            Ok(())
        };
        let stats = if self.parts == 1 && feed.is_none() {
            share.revolve(&mut host, &emit)?
        } else {
            let parts = NonZeroUsize::new(self.parts).unwrap();
            let supply = Supply::new().with_parts(parts, |part| Ok(self.part(position, part)));
            let supply =
                feed.into_iter().fold(supply, Supply::with_probe).with_store(StoreConfig::new(self.kept, folder));
            share.revolve_with(&mut host, supply, &emit)?
        };
        assert_eq!(seen.each_ref().map(|seen| seen.load(Relaxed)), [stats.probed, stats.revolution.received]);
        host.finish()?;
        Ok(stats)
    }

    /// Returns the build side and the probe side.
    fn sides(&self) -> (&[Vec<Row>], &[Vec<Row>]) {
        if self.build == Side::Left { (&self.left, &self.right) } else { (&self.right, &self.left) }
    }

    /// Returns one of several parts of the build side of a host; some parts are empty.
    fn part(&self, position: RingPosition, part: usize) -> Vec<RecordBatch> {
        let rows = &self.sides().0[position.me().index()];
        batches(
            &rows.iter().copied().filter(|row| row.1 as usize / 7 % self.parts == part).collect::<Vec<_>>(),
            self.views,
        )
    }
}

fn batches(rows: &[Row], views: bool) -> Vec<RecordBatch> {
    rows.chunks(7).map(|rows| batch(rows, views)).collect()
}

fn path(folder: &Path, host: u16) -> std::path::PathBuf {
    folder.join(format!("host-{host}"))
}

/// Returns the numbers of a batch, after a check of their texts. A semi, anti or mark join has the
/// columns of one side.
fn pairs(batch: &RecordBatch, join: JoinType) -> Vec<Pair> {
    let side = |first: usize| -> Vec<Option<i64>> {
        let Some(numbers) = batch.columns().get(first) else { return vec![None; batch.num_rows()] };
        if let Some(marks) = numbers.as_boolean_opt() {
            return marks.iter().map(|mark| mark.map(i64::from)).collect();
        }
        let texts = cast(batch.column(first + 1), &DataType::Utf8).unwrap();
        let (numbers, texts) = (numbers.as_primitive::<Int64Type>(), texts.as_string::<i32>());
        let value = |row: usize| {
            assert_eq!(numbers.is_null(row), texts.is_null(row));
            let number = numbers.is_valid(row).then(|| numbers.value(row))?;
            assert_eq!(texts.value(row), text(number));
            Some(number)
        };
        (0..batch.num_rows()).map(value).collect()
    };
    let (first, second) = (side(0), side(2));
    if !join.outputs(Side::Left) {
        second.into_iter().zip(first).collect()
    } else {
        first.into_iter().zip(second).collect()
    }
}

fn arb_case() -> impl Strategy<Value = Case> {
    let row = || (prop_oneof![1 => Just(None), 6 => (0..40i32).prop_map(Some)], 0..1000i64);
    let side = move |hosts| vec(vec(row(), 0..120), hosts);
    let by = prop_oneof![Just(By::Hash), Just(By::Merge), (0..3).prop_map(By::Band), Just(By::Loops)];
    let spec = (
        by,
        prop::sample::select(JoinType::ALL.to_vec()),
        any::<bool>(),
        any::<bool>(),
        any::<bool>(),
        (1..4usize, any::<bool>()),
        1..9usize,
        1..5usize,
        prop::option::of(1..60usize),
        prop_oneof![Just(0), Just(4000), Just(usize::MAX)],
        prop::option::of(prop_oneof![Just(KeyFilterKind::Exact), (1..300_u32).prop_map(KeyFilterKind::Bloom)]),
    );
    (1..5usize).prop_flat_map(move |hosts| (side(hosts), side(hosts))).prop_flat_map(move |(left, right)| {
        spec.clone().prop_map(
            move |(
                by,
                join,
                stays,
                filtered,
                nulls_equal,
                (threads, views),
                partitions,
                parts,
                fed,
                kept,
                key_filter,
            )| {
                let build = if stays { Side::Left } else { Side::Right };
                let (left, right) = (left.clone(), right.clone());
                Case {
                    left,
                    right,
                    join,
                    build,
                    filtered,
                    nulls_equal,
                    threads,
                    partitions,
                    by,
                    parts,
                    fed,
                    kept,
                    views,
                    key_filter,
                }
                .possible()
            },
        )
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn as_row_by_row(case in arb_case()) {
        prop_assert_eq!(case.joined(), case.expected());
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(60))]

    /// The plan may choose either: rings of any size have the same answer, whether sides are sorted
    /// already or not.
    #[test]
    fn hash_and_merge_agree(case in arb_case(), sorted in [any::<bool>(), any::<bool>()]) {
        let mut case = case;
        for (side, sorted) in [&mut case.left, &mut case.right].into_iter().zip(sorted) {
            if sorted {
                let (mut rows, hosts) = (side.concat(), side.len());
                rows.sort_unstable();
                let each = rows.len().div_ceil(hosts).max(1);
                *side = (0..hosts).map(|host| rows.iter().skip(host * each).take(each).copied().collect()).collect();
            }
        }
        let by = |by| Case { by, ..case.clone() }.possible().joined();
        let hash = by(By::Hash);
        prop_assert_eq!(&hash, &by(By::Merge));
        prop_assert_eq!(hash, Case { by: By::Hash, ..case.clone() }.expected());
    }
}

/// Returns a case whose hosts have the same rows on both sides.
fn inner(shares: Vec<Vec<Row>>, by: By, parts: usize) -> Case {
    Case {
        left: shares.clone(),
        right: shares,
        join: JoinType::Inner,
        build: Side::Left,
        filtered: by == By::Loops,
        nulls_equal: false,
        threads: 2,
        partitions: 4,
        by,
        parts,
        fed: None,
        kept: 0,
        views: true,
        key_filter: None,
    }
}

/// Every host joins all rotating rows, once for each part. Together the hosts compare the same
/// pairs as one host.
#[test]
fn work_is_shared_among_the_hosts() {
    let rows: Vec<Row> = (0..600).map(|number| (Some(number as i32 % 200), number)).collect();
    for (by, least) in [(By::Hash, 1800), (By::Merge, 1800), (By::Band(0), 1800), (By::Loops, 600 * 600)] {
        for (hosts, parts) in [(1, 1), (3, 1), (1, 3), (3, 2)] {
            let shares: Vec<Vec<Row>> = rows.chunks(600 / hosts).map(<[Row]>::to_vec).collect();
            let all_stats = inner(shares, by, parts).joined_with_stats().1;
            assert!(all_stats.iter().all(|stats| stats.probed == 600 * parts as u64), "{by:?}");
            let compared = all_stats.iter().map(|stats| stats.compared).sum::<u64>();
            // A row may meet a neighbour in the bucket of each table.
            let most = if by == By::Hash { least + (600 * hosts * parts) as u64 } else { least };
            assert!((least..=most).contains(&compared), "{by:?}, {hosts} hosts, {parts} parts: {compared}");
        }
    }
}

/// Rows that are fed are passed and prepared once, however many revolutions there are, whether
/// they are kept in memory or on disk.
#[test]
fn fed_rows_are_prepared_once() {
    let rows: Vec<Row> = (0..600).map(|number| (Some(number as i32 % 200), number)).collect();
    let shares: Vec<Vec<Row>> = rows.chunks(200).map(<[Row]>::to_vec).collect();
    for (parts, kept) in [(1, 0), (4, 0), (4, 5000), (4, usize::MAX)] {
        // Fifty rows are prepared before, and as many are fed at a time.
        let case = Case { fed: Some(50), kept, ..inner(shares.clone(), By::Hash, parts) };
        let (found, all_stats) = case.joined_with_stats();
        assert_eq!(found, case.expected());
        for stats in all_stats {
            assert_eq!((stats.prepared, stats.probed), (200, 600 * parts as u64));
            let (memory, disk) = (stats.memory.kept, stats.kept_on_disk);
            assert_eq!((memory > 0, disk > 0), (parts > 1 && kept > 0, parts > 1 && kept < 1 << 20), "{kept}");
            assert!(memory <= kept);
        }
    }
}

/// Rows of the probe side are prepared and sent only if another host, or this one, has a partner.
/// All parts of a Bloom filter, of 190 blocks in several fragments, reach every host.
#[test]
fn rows_without_a_partner_are_not_sent() {
    let side = |keys: std::ops::Range<i32>| -> Vec<Vec<Row>> {
        let rows: Vec<Row> = keys.map(|key| (Some(key), key.into())).collect();
        rows.chunks(rows.len().div_ceil(3)).map(<[Row]>::to_vec).collect()
    };
    for join in [JoinType::Inner, JoinType::Left, JoinType::LeftSemi, JoinType::RightSemi, JoinType::LeftAnti] {
        for (by, key_filter) in [(By::Hash, KeyFilterKind::Exact), (By::Merge, KeyFilterKind::Bloom(190))] {
            let (left, right) = (side(1900..2100), side(0..2000));
            let without = Case { left, right, join, fed: Some(60), ..inner(Vec::new(), by, 1) };
            let case = Case { key_filter: Some(key_filter), ..without.clone() };
            let (found, all_stats) = case.joined_with_stats();
            assert_eq!(found, without.joined_with_stats().0, "{join:?}");
            assert_eq!(found, case.expected(), "{join:?}");
            // The first sixty rows of each host were prepared before.
            let (prepared, dropped): (Vec<u64>, Vec<u64>) =
                all_stats.iter().map(|stats| (stats.prepared, stats.dropped)).unzip();
            assert_eq!(prepared.iter().sum::<u64>() + dropped.iter().sum::<u64>(), 2000);
            let prepared = prepared.iter().sum::<u64>();
            assert!((100 + 3 * 60 - 60..100 + 3 * 60 + 40).contains(&prepared), "{by:?}: {prepared} rows");
            assert!(all_stats.iter().all(|stats| stats.filter_bytes > 0 && stats.memory.filter > 0));
        }
    }
}

/// With several parts of the build side, each revolution has a filter of its part's keys: a row
/// goes around in the revolutions in which it may have a partner. Counted in bytes that cross
/// links, filters included, that is less than without filters, and less than with one filter of all
/// keys.
#[test]
fn with_several_parts_each_revolution_has_its_filter() {
    let rows: Vec<Row> = (0..6000).map(|number| (Some(number as i32), number)).collect();
    let shares: Vec<Vec<Row>> = rows.chunks(2000).map(<[Row]>::to_vec).collect();
    // Every fourth row of the build side is there, in four parts.
    let build: Vec<Vec<Row>> =
        shares.iter().map(|rows| rows.iter().copied().filter(|row| row.1 % 4 == 0).collect()).collect();
    let (parts, matched) = (4, 1500);
    for (by, key_filter) in [(By::Hash, KeyFilterKind::Exact), (By::Merge, KeyFilterKind::Bloom(100))] {
        for kept in [0, 5000, usize::MAX] {
            let whole = Case { left: build.clone(), fed: Some(300), kept, ..inner(shares.clone(), by, parts) };
            let without = whole.joined_with_stats();
            let with = Case { key_filter: Some(key_filter), ..whole.clone() };
            let (found, all_stats) = with.joined_with_stats();
            assert_eq!(found, without.0, "{by:?}");
            assert_eq!(found.len(), matched);
            let bytes = |all_stats: &[JoinStats]| -> u64 {
                all_stats.iter().map(|stats| stats.revolution.bytes + stats.filter_bytes).sum()
            };
            // The first 300 rows of each host were prepared before, and go around in each revolution.
            let unsifted = 3 * 300 * parts as u64;
            // One filter of all keys would let through 8,700 of the 24,000 rows of all revolutions.
            assert!(bytes(&all_stats) < bytes(&without.1) * 3 / 10, "{by:?}: {} bytes", bytes(&all_stats));
            let probed: u64 = all_stats.iter().map(|stats| stats.probed).sum();
            // All hosts see a row that has a partner, in one revolution.
            let needed = 3 * (unsifted + matched as u64 * 17 / 20);
            assert!((needed..needed + needed / 20).contains(&probed), "{by:?}: {probed} rows");
            for stats in &all_stats {
                let fed = (2000 - 300) * parts as u64;
                assert_eq!(stats.prepared - 300 + stats.dropped, fed, "{by:?}");
                let (memory, disk) = (stats.memory.kept, stats.kept_on_disk);
                assert_eq!((memory > 0, disk > 0), (kept > 0, kept < 1 << 20), "{kept}");
            }
        }
    }
}

#[test]
fn a_key_filter_that_would_drop_results_is_refused() {
    let shares: Vec<Vec<Row>> = vec![vec![(Some(1), 1)]];
    let filtered =
        |join, by, parts| Case { join, key_filter: Some(KeyFilterKind::Exact), ..inner(shares.clone(), by, parts) };
    for (case, reason) in [
        (filtered(JoinType::Right, By::Hash, 1), "rows without a match"),
        (filtered(JoinType::Full, By::Hash, 1), "rows without a match"),
        (filtered(JoinType::RightAnti, By::Merge, 1), "rows without a match"),
        (filtered(JoinType::Inner, By::Band(1), 1), "no equal keys"),
        (filtered(JoinType::Inner, By::Loops, 1), "no equal keys"),
        (filtered(JoinType::RightSemi, By::Hash, 2), "several parts"),
    ] {
        let folder = tempfile::tempdir().unwrap();
        let position = RingPosition::new(0, 1).unwrap();
        let listener = UnixListener::bind(path(folder.path(), 0)).unwrap();
        let error = case.host(position, listener, folder.path(), &Mutex::new(Vec::new())).unwrap_err().to_string();
        assert!(error.contains(reason), "{error}");
    }
}

/// Rows that were prepared for one join by pairs serve another one, with its own condition.
#[test]
fn prepared_rows_have_the_condition_of_each_join() {
    let rows: Vec<Row> = (0..50).map(|number| (None, number)).collect();
    let spec = |added| {
        let output = OutputSpec::new(JoinType::Inner, Side::Left, Sides::from_fn(|_| schema(false)));
        JoinSpec::new(output, Condition::Any(Some(LoopLess::shared(Side::Left, added))), 1 << 20)
    };
    let prepared = PreparedBuild::new(&spec(0), batches(&rows, false)).unwrap();
    for added in [0, 40] {
        let share = Share::with_prepared(&spec(added), &prepared, batches(&rows, false)).unwrap();
        let mut host = Host::single_host(&RingConfig::default()).unwrap();
        let found = AtomicU64::new(0);
        let emit = |_, batch: RecordBatch| {
            found.fetch_add(batch.num_rows() as u64, Relaxed);
            Ok(())
        };
        share.revolve(&mut host, &emit).unwrap();
        let expected = (0..50).flat_map(|left| (0..50).filter(move |right| left + added < *right)).count();
        assert_eq!(found.into_inner(), expected as u64);
    }
}
