//! The two tables, and the result of their join.

use std::{collections::HashMap, fs::File, ops::Bound, path::Path, sync::Arc};

use annulus_baselines::{
    generator::{Generator, Keys, Payload},
    source::TupleSource,
};
use annulus_cyclo::Condition;
use annulus_join::{Band, KeyPair, MergeCondition, Offset, Partitions};
use annulus_pages::TupleBatch;
use anyhow::{Context, Result, bail};
use arrow::{
    array::{ArrayRef, AsArray, Int32Array, Int64Array, RecordBatch},
    compute::cast,
    datatypes::{DataType, Field, Int64Type, Schema, SchemaRef},
    error::ArrowError,
    ipc::writer::FileWriter,
};
use tpchgen::generators::{LineItemGenerator, OrderGenerator};
use tpchgen_arrow::{LineItemArrow, OrderArrow};

use super::args::{By, Data};

const BATCH_ROWS: usize = 1 << 16;
/// The number of keys in a band, which is the average number of a row's matches.
const BAND_KEYS: i64 = 10;

/// A number of rows, and the sum of the numbers in them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Answer {
    pub(crate) rows: u64,
    pub(crate) sum: i64,
}

impl Answer {
    /// Returns the answer if each row of a table occurs `times` times.
    pub(super) fn times(self, times: usize) -> Self {
        Self { rows: self.rows * times as u64, sum: self.sum.wrapping_mul(times as i64) }
    }
}

/// Two tables of a key and a number. The left one is stationary.
pub(crate) struct Tables {
    pub(super) data: Data,
    pub(super) zipf: Option<f64>,
    pub(super) schema: SchemaRef,
    pub(super) left: Vec<RecordBatch>,
    pub(super) right: Vec<RecordBatch>,
    /// The result of their inner join.
    pub(super) answer: Answer,
}

impl Tables {
    /// Generates tables of `rows` rows each from `seed`, or TPC-H's at this scale.
    ///
    /// # Errors
    /// If there are too many rows, or the tables cannot have such keys.
    pub(crate) fn new(data: Data, rows: u64, zipf: Option<f64>, scale: f64, seed: u64) -> Result<Self> {
        if zipf.is_some() && data != Data::Even {
            bail!("--zipf needs --data even: leave one of them out");
        }
        let (left, right) = match data {
            Data::Even | Data::Band => {
                let of = |side: u64| tuples(rows, seed.wrapping_sub(1).wrapping_mul(2).wrapping_add(side), zipf);
                (of(1)?, of(2)?)
            }
            Data::Tpch => tpch(scale)?,
        };
        let schema = left.first().or(right.first()).context("the tables have no rows")?.schema();
        let answer = if data == Data::Band { within_band(&left, &right) } else { on_equal_keys(&left, &right) };
        Ok(Self { data, zipf, schema, left, right, answer })
    }

    /// Returns the join condition, for `hosts` equal parts.
    pub(super) fn condition(&self, by: By, hosts: u16) -> Condition {
        let keys = KeyPair { build: 0, probe: 0 };
        match (self.data, by) {
            (Data::Band, _) => {
                let offset = |keys: i64| Bound::Included(Offset::Int(keys.into()));
                // A right key is at least the left one, so left - right is not positive.
                let band = Some(Band { keys, low: offset(1 - BAND_KEYS), high: offset(0) });
                Condition::Merge(Box::new(MergeCondition { band, ..MergeCondition::default() }))
            }
            (_, By::Sort) => {
                Condition::Merge(Box::new(MergeCondition { equal: vec![keys], ..MergeCondition::default() }))
            }
            (_, By::Hash) => Condition::Hash {
                build: vec![0],
                probe: vec![0],
                nulls_equal: false,
                partitions: Partitions::for_rows(num_rows(&self.left) / usize::from(hosts)),
            },
        }
    }

    /// Returns the algorithm that is used if `by` is requested: bands are always joined by sorting.
    pub(super) fn by(&self, by: By) -> By {
        if self.data == Data::Band { By::Sort } else { by }
    }

    /// Returns the rows of both sides.
    pub(super) fn rows(&self) -> [u64; 2] {
        [&self.left, &self.right].map(|side| num_rows(side) as u64)
    }

    /// Returns host `me`'s part of a side: an equal part of every batch.
    pub(super) fn share(side: &[RecordBatch], me: u16, hosts: u16) -> Vec<RecordBatch> {
        let part = |batch: &RecordBatch| {
            let at = |host: u16| batch.num_rows() * usize::from(host) / usize::from(hosts);
            batch.slice(at(me), at(me + 1) - at(me))
        };
        side.iter().map(part).collect()
    }

    /// Writes `left.arrow` and `right.arrow` to `folder`.
    pub(super) fn save(&self, folder: &Path) -> Result<()> {
        std::fs::create_dir_all(folder).with_context(|| format!("cannot create the folder '{}'", folder.display()))?;
        for (name, side) in [("left.arrow", &self.left), ("right.arrow", &self.right)] {
            let path = folder.join(name);
            let write = || -> Result<()> {
                let mut writer = FileWriter::try_new_buffered(File::create(&path)?, &self.schema)?;
                side.iter().try_for_each(|batch| writer.write(batch))?;
                Ok(writer.finish()?)
            };
            write().with_context(|| format!("cannot write '{}'", path.display()))?;
        }
        Ok(())
    }
}

/// Returns the sum of a column, with wrap-around.
pub(super) fn sum(column: &Int64Array) -> i64 {
    column.values().iter().fold(0, |sum: i64, &number| sum.wrapping_add(number))
}

fn num_rows(side: &[RecordBatch]) -> usize {
    side.iter().map(RecordBatch::num_rows).sum()
}

fn rows_of(batches: &[RecordBatch]) -> impl Iterator<Item = (i64, i64)> {
    batches.iter().flat_map(|batch| {
        let column = |index: usize| {
            let numbers = cast(batch.column(index), &DataType::Int64).expect("integers of up to 64 bits");
            numbers.as_primitive::<Int64Type>().values().to_vec()
        };
        column(0).into_iter().zip(column(1))
    })
}

fn on_equal_keys(left: &[RecordBatch], right: &[RecordBatch]) -> Answer {
    // The number of rows and the sum of the numbers, for each key on the left.
    let mut keys: HashMap<i64, Answer> = HashMap::with_capacity(num_rows(left));
    for (key, number) in rows_of(left) {
        let answer = keys.entry(key).or_default();
        (answer.rows, answer.sum) = (answer.rows + 1, answer.sum.wrapping_add(number));
    }
    let mut answer = Answer::default();
    for (key, number) in rows_of(right) {
        if let Some(matches) = keys.get(&key) {
            answer.add(*matches, number);
        }
    }
    answer
}

fn within_band(left: &[RecordBatch], right: &[RecordBatch]) -> Answer {
    let mut sorted: Vec<(i64, i64)> = rows_of(left).collect();
    sorted.sort_unstable();
    // The running sum of the numbers before each row.
    let mut before = vec![0_i64];
    before.extend(sorted.iter().scan(0_i64, |sum, row| {
        *sum = sum.wrapping_add(row.1);
        Some(*sum)
    }));
    let at = |key: i64| sorted.partition_point(|row| row.0 < key);
    let mut answer = Answer::default();
    for (key, number) in rows_of(right) {
        let (start, end) = (at(key - BAND_KEYS + 1), at(key + 1));
        answer.add(Answer { rows: (end - start) as u64, sum: before[end].wrapping_sub(before[start]) }, number);
    }
    answer
}

impl Answer {
    /// Adds a row with this number and the rows that it matches.
    fn add(&mut self, matches: Self, number: i64) {
        self.rows += matches.rows;
        let own = number.wrapping_mul(matches.rows as i64);
        self.sum = self.sum.wrapping_add(matches.sum).wrapping_add(own);
    }
}

fn tuples(rows: u64, seed: u64, zipf: Option<f64>) -> Result<Vec<RecordBatch>> {
    let keys = zipf.map_or(Keys::Uniform, Keys::Zipf);
    let generator = Generator::new(rows, seed << 40, keys, Payload::Fixed(8), BATCH_ROWS)?;
    let mut reader = generator.reader(0, 1);
    let mut batch = TupleBatch::default();
    let mut batches = Vec::new();
    // Zipf's keys are few. Even keys are scaled to the number of rows.
    let key = |key: u32| if zipf.is_some() { key as i32 } else { ((u64::from(key) * rows) >> 32) as i32 };
    while reader.fill(&mut batch) {
        let keys: Int32Array = batch.keys.iter().map(|&word| Some(key(word))).collect();
        let words = batch.bytes.as_chunks::<8>().0;
        let numbers: Int64Array = words.iter().map(|&word| Some(i64::from_le_bytes(word))).collect();
        batches.push(two_columns(Arc::new(keys), Arc::new(numbers))?);
    }
    Ok(batches)
}

/// Generates orders with their customers, and lines with their parts.
fn tpch(scale: f64) -> Result<(Vec<RecordBatch>, Vec<RecordBatch>)> {
    let orders = OrderArrow::new(OrderGenerator::new(scale, 1, 1)).with_batch_size(BATCH_ROWS);
    let lines = LineItemArrow::new(LineItemGenerator::new(scale, 1, 1)).with_batch_size(BATCH_ROWS);
    Ok((named(orders, ["o_orderkey", "o_custkey"])?, named(lines, ["l_orderkey", "l_partkey"])?))
}

fn named(table: impl Iterator<Item = Result<RecordBatch, ArrowError>>, names: [&str; 2]) -> Result<Vec<RecordBatch>> {
    let batch = |batch: Result<RecordBatch, ArrowError>| {
        let batch = batch?;
        let column = |name: &str| -> Result<ArrayRef> {
            let column = batch.column_by_name(name).with_context(|| format!("TPC-H has no column {name}"))?;
            Ok(cast(column, &DataType::Int64)?)
        };
        two_columns(column(names[0])?, column(names[1])?)
    };
    table.map(batch).collect()
}

fn two_columns(key: ArrayRef, number: ArrayRef) -> Result<RecordBatch> {
    let fields = vec![Field::new("key", key.data_type().clone(), false), Field::new("number", DataType::Int64, false)];
    Ok(RecordBatch::try_new(Arc::new(Schema::new(fields)), vec![key, number])?)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Computes the answer from every pair, one by one.
    fn pair_by_pair(tables: &Tables, matches: impl Fn(i64, i64) -> bool) -> Answer {
        let mut answer = Answer::default();
        for (left, first) in rows_of(&tables.left) {
            for (right, second) in rows_of(&tables.right).filter(|row| matches(left, row.0)) {
                let _ = right;
                answer.rows += 1;
                answer.sum = answer.sum.wrapping_add(first).wrapping_add(second);
            }
        }
        answer
    }

    #[test]
    fn answers_are_those_of_all_pairs() {
        let equal = Tables::new(Data::Even, 700, None, 1.0, 1).unwrap();
        assert_eq!(equal.answer, pair_by_pair(&equal, |left, right| left == right));
        let band = Tables::new(Data::Band, 700, None, 1.0, 1).unwrap();
        assert_eq!(band.answer, pair_by_pair(&band, |left, right| (left..left + BAND_KEYS).contains(&right)));
        assert!((6_000..8_000).contains(&band.answer.rows), "{:?}", band.answer);
    }

    #[test]
    fn every_line_has_an_order() {
        let tables = Tables::new(Data::Tpch, 1, None, 0.001, 1).unwrap();
        assert_eq!(tables.answer.rows, tables.rows()[1]);
        assert!(tables.rows()[0] > 1000);
    }
}
