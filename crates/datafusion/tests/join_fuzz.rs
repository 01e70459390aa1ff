//! Random joins of plans, compared with nested loops over the same rows in one partition: all join
//! types, lengths of batches, numbers of partitions, filters and limits.

mod common;

use std::sync::Arc;

use annulus_datafusion::{BandJoinExec, LoopJoinExec, SharedHashJoinExec};
use arrow::{
    array::{ArrayRef, Int32Array, Int64Array, RecordBatch, StringArray},
    datatypes::{DataType, Field, Schema, SchemaRef},
};
use common::{context, lines, run, within};
use datafusion::{
    catalog::memory::MemorySourceConfig,
    common::{JoinSide, JoinType, NullEquality},
    execution::runtime_env::RuntimeEnv,
    logical_expr::Operator,
    physical_expr::{
        PhysicalExpr,
        expressions::{BinaryExpr, Column},
    },
    physical_plan::{
        ExecutionPlan,
        joins::{
            HashJoinExec, NestedLoopJoinExec, PartitionMode,
            utils::{ColumnIndex, JoinFilter},
        },
    },
};
use rand::{Rng, SeedableRng, rngs::StdRng};

type Plan = Arc<dyn ExecutionPlan>;
type Expr = Arc<dyn PhysicalExpr>;

const KINDS: [JoinType; 10] = [
    JoinType::Inner,
    JoinType::Left,
    JoinType::Right,
    JoinType::Full,
    JoinType::LeftSemi,
    JoinType::RightSemi,
    JoinType::LeftAnti,
    JoinType::RightAnti,
    JoinType::LeftMark,
    JoinType::RightMark,
];
/// The lengths of output batches: 1, a few, and those around 50 as a batch may end within a row's
/// partners.
const LENGTHS: [usize; 7] = [1, 2, 7, 49, 50, 51, 1000];
// The keys, and the columns of filters.
const I: usize = 0;
const S: usize = 1;
const X: usize = 2;
const Y: usize = 3;

fn schema() -> SchemaRef {
    let fields = [("i", DataType::Int32), ("s", DataType::Utf8), ("x", DataType::Int64), ("y", DataType::Int64)];
    Arc::new(Schema::new(fields.map(|(name, data_type)| Field::new(name, data_type, true)).to_vec()))
}

/// Returns rows whose values are below `most`, with nulls.
fn table(random: &mut StdRng, rows: usize, most: i32) -> RecordBatch {
    let nulls = [0.0, 0.1, 0.6][random.random_range(0..3)];
    let mut numbers = || -> Vec<Option<i32>> {
        let is_hot = random.random_bool(0.3);
        let number =
            |random: &mut StdRng| if is_hot && random.random_bool(0.5) { 1 } else { random.random_range(0..most) };
        (0..rows).map(|_| (!random.random_bool(nulls)).then(|| number(random))).collect()
    };
    let wide = |numbers: Vec<Option<i32>>| Int64Array::from_iter(numbers.into_iter().map(|n| n.map(i64::from)));
    let text = |n: Option<i32>| n.map(|n| format!("text {}", n % 5));
    let columns: [ArrayRef; 4] = [
        Arc::new(Int32Array::from(numbers())),
        Arc::new(numbers().into_iter().map(text).collect::<StringArray>()),
        Arc::new(wide(numbers())),
        Arc::new(wide(numbers())),
    ];
    RecordBatch::try_new(schema(), columns.to_vec()).unwrap()
}

/// Returns the rows in this number of partitions, in batches of any length; some have no rows.
fn dealt(random: &mut StdRng, table: &RecordBatch, partitions: usize) -> Plan {
    let mut parts = vec![Vec::new(); partitions];
    let (mut at, most) = (0, [1, 10, 100][random.random_range(0..3)]);
    while at < table.num_rows() {
        let rows = random.random_range(0..=most).min(table.num_rows() - at);
        parts[random.random_range(0..partitions)].push(table.slice(at, rows));
        at += rows;
    }
    MemorySourceConfig::try_new_exec(&parts, schema(), None).unwrap()
}

/// Returns the rows in this number of partitions, with equal keys in one.
fn by_key(table: &RecordBatch, keys: &[usize], partitions: usize) -> Plan {
    let mut parts = vec![Vec::new(); partitions];
    for (row, key) in lines(&[table.project(keys).unwrap()]).into_iter().enumerate() {
        parts[key.bytes().map(usize::from).sum::<usize>() % partitions].push(table.slice(row, 1));
    }
    MemorySourceConfig::try_new_exec(&parts, schema(), None).unwrap()
}

/// Conditions over the columns of both sides.
#[derive(Default)]
struct Condition {
    places: Vec<ColumnIndex>,
    fields: Vec<Field>,
    parts: Vec<Expr>,
}

impl Condition {
    fn column(&mut self, side: JoinSide, index: usize) -> Expr {
        let place = self.places.len();
        let field = schema().field(index).clone();
        self.places.push(ColumnIndex { index, side });
        let name = format!("c{place}");
        self.fields.push(field.with_name(&name));
        Arc::new(Column::new(&name, place))
    }

    /// Adds a comparison of a column of the left side with one of the right.
    fn compare(&mut self, left: usize, operator: Operator, right: usize) {
        let sides = (self.column(JoinSide::Left, left), self.column(JoinSide::Right, right));
        self.parts.push(Arc::new(BinaryExpr::new(sides.0, operator, sides.1)));
    }

    fn filter(self) -> Option<JoinFilter> {
        let all = self.parts.into_iter().reduce(|all, one| Arc::new(BinaryExpr::new(all, Operator::And, one)))?;
        Some(JoinFilter::new(all, self.places, Arc::new(Schema::new(self.fields))))
    }
}

/// A join of two tables.
struct Case {
    kind: JoinType,
    keys: &'static [usize],
    nulls_equal: bool,
    comparisons: Vec<(usize, Operator, usize)>,
    /// Whether it runs by nested loops.
    by_loops: bool,
}

impl Case {
    /// Returns a join whose condition has no band.
    fn without_band(random: &mut StdRng, kind: JoinType) -> Self {
        const ORDERS: [Operator; 4] = [Operator::Lt, Operator::LtEq, Operator::Gt, Operator::GtEq];
        let order = ORDERS[random.random_range(0..4)];
        let all = [(S, order, S), (X, Operator::NotEq, Y), (Y, Operator::IsDistinctFrom, X)];
        let mut comparisons: Vec<_> = all.into_iter().filter(|_| random.random_bool(0.5)).collect();
        comparisons.extend(random.random_bool(0.3).then_some((X, order, X)));
        Self { kind, keys: &[], nulls_equal: false, comparisons, by_loops: true }
    }

    fn new(random: &mut StdRng, keys: &'static [usize], kind: JoinType) -> Self {
        const ORDERS: [Operator; 4] = [Operator::Lt, Operator::LtEq, Operator::Gt, Operator::GtEq];
        let order = ORDERS[random.random_range(0..4)];
        let mut comparisons = vec![(X, order, [X, Y][random.random_range(0..2)])];
        if keys.is_empty() {
            // Two bounds of one key are a band.
            let other = ORDERS[random.random_range(0..4)];
            comparisons.extend(random.random_bool(0.5).then_some((X, other, Y)));
            comparisons.extend(random.random_bool(0.3).then_some((Y, Operator::NotEq, X)));
        } else if random.random_bool(0.5) {
            comparisons.clear();
        }
        Self { kind, keys, nulls_equal: random.random_bool(0.3), comparisons, by_loops: false }
    }

    fn filter(&self, with_keys: bool) -> Option<JoinFilter> {
        let mut condition = Condition::default();
        let equal = if self.nulls_equal { Operator::IsNotDistinctFrom } else { Operator::Eq };
        let keys = self.keys.iter().filter(|_| with_keys);
        keys.for_each(|&key| condition.compare(key, equal, key));
        self.comparisons.iter().for_each(|&(left, operator, right)| condition.compare(left, operator, right));
        condition.filter()
    }

    fn nested_loops(&self, left: Plan, right: Plan, with_keys: bool) -> Arc<NestedLoopJoinExec> {
        Arc::new(NestedLoopJoinExec::try_new(left, right, self.filter(with_keys), &self.kind, None).unwrap())
    }

    /// Returns the join on the operators of Annulus; nothing if it has none. A hash join has a table
    /// for each partition, if these match, or one for all.
    fn ours(&self, (left, right): (Plan, Plan), match_each_other: bool) -> Option<Plan> {
        if self.by_loops {
            let stock = self.nested_loops(left, right, false);
            return Some(Arc::new(LoopJoinExec::try_new(&stock, "a test").unwrap()?));
        }
        if self.keys.is_empty() {
            let ours = BandJoinExec::try_new(&self.nested_loops(left, right, false), "a test").unwrap()?;
            return Some(Arc::new(ours));
        }
        let schema = schema();
        let key = |&key: &usize| Arc::new(Column::new(schema.field(key).name(), key)) as Expr;
        let on = self.keys.iter().map(|one| (key(one), key(one))).collect();
        let nulls = if self.nulls_equal { NullEquality::NullEqualsNull } else { NullEquality::NullEqualsNothing };
        let (kind, filter, mode) = (&self.kind, self.filter(false), PartitionMode::CollectLeft);
        let stock = HashJoinExec::try_new(left, right, on, filter, kind, None, mode, nulls, false).unwrap();
        let of = if match_each_other { SharedHashJoinExec::try_partitioned } else { SharedHashJoinExec::try_new };
        Some(Arc::new(of(&stock, "a test").unwrap()))
    }
}

/// Returns the number of joins that were compared. `sizes` are those of the left and right table.
async fn compare(seed: u64, keys: &'static [usize], sizes: [usize; 2], partitions: [usize; 2]) -> usize {
    compare_cases(seed, |random, kind| Case::new(random, keys, kind), sizes, partitions).await
}

async fn compare_cases(
    seed: u64,
    case: impl Fn(&mut StdRng, JoinType) -> Case,
    sizes: [usize; 2],
    partitions: [usize; 2],
) -> usize {
    let mut random = StdRng::seed_from_u64(seed);
    let most = [3, 30, 500][random.random_range(0..3)];
    let [left, right] = sizes.map(|rows| table(&mut random, rows, most));
    let whole = |table: &RecordBatch| MemorySourceConfig::try_new_exec(&[vec![table.clone()]], schema(), None).unwrap();
    let runtime = Arc::new(RuntimeEnv::default());
    let mut compared = 0;
    for kind in KINDS {
        let case = case(&mut random, kind);
        let length = LENGTHS[random.random_range(0..LENGTHS.len())];
        let (keys, is_hashed) = (case.keys, !case.by_loops && !case.keys.is_empty());
        let match_each_other = is_hashed && random.random_bool(0.3);
        let sides = if match_each_other {
            (by_key(&left, keys, partitions[1]), by_key(&right, keys, partitions[1]))
        } else {
            (dealt(&mut random, &left, partitions[0]), dealt(&mut random, &right, partitions[1]))
        };
        let Some(ours) = case.ours(sides, match_each_other) else { continue };
        let reference = case.nested_loops(whole(&left), whole(&right), true);
        let mut expected = run(reference, &context(Arc::clone(&runtime), 8192)).await.unwrap().concat();
        let context = context(Arc::clone(&runtime), length);
        let mut found = within("a join", run(Arc::clone(&ours), &context)).await.unwrap().concat();
        expected.sort_unstable();
        found.sort_unstable();
        assert_eq!(found, expected, "seed {seed}, {kind}, batches of {length}, {:?} {:?}", case.keys, case.comparisons);
        limited(&mut random, &ours, &context, &expected).await;
        compared += 1;
    }
    compared
}

/// With a limit, each partition outputs as many rows as it may, and none that is not of the join.
async fn limited(
    random: &mut StdRng,
    plan: &Plan,
    context: &Arc<datafusion::execution::TaskContext>,
    expected: &[String],
) {
    let limit = [1, 3, 60][random.random_range(0..3)];
    let Some(limited) = plan.with_fetch(Some(limit)) else { return };
    let found = within("a limit", run(limited, context)).await.unwrap();
    assert!(found.iter().all(|partition| partition.len() <= limit), "{limit}");
    let mut found = found.concat();
    assert!(found.len() >= expected.len().min(limit), "{} of {}, limit {limit}", found.len(), expected.len());
    found.sort_unstable();
    let mut rest = expected.iter();
    assert!(found.iter().all(|row| rest.any(|other| other == row)), "rows that the join does not have, limit {limit}");
}

const SIZES: [[usize; 2]; 6] = [[0, 30], [30, 0], [1, 70], [60, 60], [150, 40], [40, 150]];

#[tokio::test]
async fn hash_joins_are_those_of_nested_loops() {
    const KEYS: [&[usize]; 3] = [&[I], &[S], &[I, S]];
    for seed in 0..18 {
        let of = seed as usize;
        let compared = compare(seed, KEYS[of % 3], SIZES[of % 6], [1 + of % 4, 1 + of % 3]).await;
        assert_eq!(compared, KINDS.len());
    }
}

#[tokio::test]
async fn band_joins_are_those_of_nested_loops() {
    let mut compared = 0;
    for seed in 0..18 {
        let of = seed as usize;
        compared += compare(1000 + seed, &[], SIZES[of % 6], [1 + of % 4, 1 + of % 3]).await;
    }
    // All types but the marks.
    assert!(compared >= 18 * 8, "{compared}");
}

#[tokio::test]
async fn loop_joins_are_those_of_nested_loops() {
    for seed in 0..24 {
        let (of, partitions) = (seed as usize, [1 + seed as usize % 4, 1 + seed as usize % 3]);
        let compared = compare_cases(4000 + seed, Case::without_band, SIZES[of % 6], partitions).await;
        assert_eq!(compared, KINDS.len());
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn many_partitions() {
    for (seed, partitions) in [(1, [16, 16]), (2, [64, 64]), (3, [1, 64]), (4, [64, 1])] {
        assert_eq!(compare(2000 + seed, &[I], [120, 150], partitions).await, KINDS.len());
        assert!(compare(3000 + seed, &[], [120, 150], partitions).await >= 8);
        assert_eq!(compare_cases(5000 + seed, Case::without_band, [120, 150], partitions).await, KINDS.len());
    }
}
