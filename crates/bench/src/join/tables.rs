//! Both tables, and what their join is.

use std::{collections::HashMap, sync::Arc};

use annulus_pages::{
    generator::{Generator, Keys, Payload},
    tuples::{TupleBatch, TupleSource},
};
use anyhow::Result;
use arrow::{
    array::{Int32Array, Int64Array, RecordBatch},
    datatypes::{DataType, Field, Schema, SchemaRef},
};

const BATCH_ROWS: usize = 1 << 16;

/// Rows, and the sum of all their numbers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Answer {
    pub(super) rows: u64,
    pub(super) sum: i64,
}

/// Two tables in batches, one thread's.
pub(super) struct Tables {
    pub(super) left: Vec<RecordBatch>,
    pub(super) right: Vec<RecordBatch>,
    /// Their inner join.
    pub(super) answer: Answer,
}

/// A key and a number.
pub(super) fn schema() -> SchemaRef {
    Arc::new(Schema::new(vec![Field::new("key", DataType::Int32, false), Field::new("number", DataType::Int64, false)]))
}

impl Tables {
    /// Of `rows` rows each.
    pub(super) fn new(rows: u64, zipf: Option<f64>) -> Result<Self> {
        let (left, right) = (table(rows, 1, zipf)?, table(rows, 2, zipf)?);
        // Rows and sum of the numbers of each key on the left.
        let mut keys: HashMap<i32, Answer> = HashMap::with_capacity(rows as usize);
        for (key, number) in rows_of(&left) {
            let answer = keys.entry(key).or_default();
            (answer.rows, answer.sum) = (answer.rows + 1, answer.sum.wrapping_add(number));
        }
        let mut answer = Answer::default();
        for (key, number) in rows_of(&right) {
            let Some(matches) = keys.get(&key) else { continue };
            answer.rows += matches.rows;
            let own = number.wrapping_mul(matches.rows as i64);
            answer.sum = answer.sum.wrapping_add(matches.sum).wrapping_add(own);
        }
        Ok(Self { left, right, answer })
    }
}

/// The sum of all numbers of some columns.
pub(super) fn sum(column: &Int64Array) -> i64 {
    column.values().iter().fold(0, |sum: i64, &number| sum.wrapping_add(number))
}

fn rows_of(batches: &[RecordBatch]) -> impl Iterator<Item = (i32, i64)> {
    batches.iter().flat_map(|batch| {
        use arrow::{
            array::AsArray,
            datatypes::{Int32Type, Int64Type},
        };
        let keys = batch.column(0).as_primitive::<Int32Type>().values();
        let numbers = batch.column(1).as_primitive::<Int64Type>().values();
        keys.iter().copied().zip(numbers.iter().copied())
    })
}

fn table(rows: u64, seed: u64, zipf: Option<f64>) -> Result<Vec<RecordBatch>> {
    let keys = zipf.map_or(Keys::Uniform, Keys::Zipf);
    let generator = Generator::new(rows, seed << 40, keys, Payload::Fixed(8), BATCH_ROWS)?;
    let mut reader = generator.reader(0, 1);
    let mut batch = TupleBatch::default();
    let mut batches = Vec::new();
    // Zipf's keys are few; even ones are brought down to as many as there are rows.
    let key = |key: u32| if zipf.is_some() { key as i32 } else { ((u64::from(key) * rows) >> 32) as i32 };
    while reader.fill(&mut batch) {
        let keys: Int32Array = batch.keys.iter().map(|&word| Some(key(word))).collect();
        let words = batch.bytes.as_chunks::<8>().0;
        let numbers: Int64Array = words.iter().map(|&word| Some(i64::from_le_bytes(word))).collect();
        batches.push(RecordBatch::try_new(schema(), vec![Arc::new(keys), Arc::new(numbers)])?);
    }
    Ok(batches)
}
