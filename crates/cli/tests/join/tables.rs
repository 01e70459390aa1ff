//! Random tables, and their rows as text.

use std::{fs, path::Path, sync::Arc};

use arrow::{
    array::{ArrayRef, Float64Array, Int32Array, Int64Array, RecordBatch, StringArray, TimestampMicrosecondArray},
    csv::WriterBuilder,
    util::display::{ArrayFormatter, FormatOptions},
};
use datafusion::parquet::{
    arrow::{ArrowWriter, arrow_reader::ParquetRecordBatchReaderBuilder},
    file::properties::WriterProperties,
};
use rand::{Rng, rngs::StdRng, seq::IndexedRandom};

const WORDS: [&str; 9] = ["a", "ab", "abc", "b", "bc", "Ab", "é", "a%", "_b"];
const PATTERNS: [&str; 5] = ["a%", "%b", "_b%", "%", "abc"];

/// The shape of a random table.
pub struct Shape {
    pub rows: usize,
    /// The number of different keys.
    pub keys: i64,
    /// The share of nulls in each column.
    pub nulls: f64,
    /// Whether half of the rows have one key.
    pub skewed: bool,
}

impl Shape {
    pub fn random(rng: &mut StdRng) -> Self {
        Self {
            rows: *[0, 1, 7, 60, 150, 300].choose(rng).expect("one"),
            keys: *[1, 5, 50, 400].choose(rng).expect("one"),
            nulls: *[0.0, 0.1, 0.5].choose(rng).expect("one"),
            skewed: rng.random_bool(0.3),
        }
    }

    /// Returns a shape for a table whose column types can be inferred from a text file.
    pub fn of_text(rng: &mut StdRng) -> Self {
        Self { rows: rng.random_range(60..300), nulls: 0.1, ..Self::random(rng) }
    }

    /// Makes a table with the columns k, g, t, x, f, ts, name and pattern; the left side's k and x
    /// are narrower.
    pub fn table(&self, rng: &mut StdRng, is_left: bool) -> RecordBatch {
        let key = |rng: &mut StdRng| {
            if self.skewed && rng.random_bool(0.5) { self.keys / 2 } else { rng.random_range(0..self.keys) }
        };
        let k = self.column(rng, key);
        let g = self.column(rng, word);
        let t = self.column(rng, |rng| rng.random_range(-60i64..60));
        let x = self.column(rng, |rng| rng.random_range(0i64..12));
        // Tenths have no exact floats, so sums are rounded.
        let f = self.column(rng, |rng| f64::from(rng.random_range(-40..40)) * 0.1);
        let ts = self.column(rng, |rng| START + rng.random_range(0..600) * 500_000);
        let name = self.column(rng, word);
        let pattern = self.column(rng, |rng| *PATTERNS.choose(rng).expect("one"));
        RecordBatch::try_from_iter_with_nullable([
            ("k", integers(k, is_left), true),
            ("g", Arc::new(StringArray::from(g)), true),
            ("t", Arc::new(Int64Array::from(t)), true),
            ("x", integers(x, is_left), true),
            ("f", Arc::new(Float64Array::from(f)), true),
            ("ts", Arc::new(TimestampMicrosecondArray::from(ts)), true),
            ("name", Arc::new(StringArray::from(name)), true),
            ("pattern", Arc::new(StringArray::from(pattern)), true),
        ])
        .expect("columns of one length")
    }

    fn column<T>(&self, rng: &mut StdRng, mut one: impl FnMut(&mut StdRng) -> T) -> Vec<Option<T>> {
        (0..self.rows).map(|_| (!rng.random_bool(self.nulls)).then(|| one(rng))).collect()
    }
}

/// The first microsecond of 2024, since 1970.
const START: i64 = 1_704_067_200_000_000;

fn word(rng: &mut StdRng) -> &'static str {
    WORDS.choose(rng).expect("one")
}

fn integers(values: Vec<Option<i64>>, narrow: bool) -> ArrayRef {
    if narrow {
        Arc::new(values.into_iter().map(|value| value.map(|value| value as i32)).collect::<Int32Array>())
    } else {
        Arc::new(Int64Array::from(values))
    }
}

/// Writes a table as some Parquet files in a new folder.
pub fn write_parquet(folder: &Path, table: &RecordBatch, files: usize, group_rows: usize) {
    fs::create_dir(folder).expect("a folder");
    let border = |file: usize| table.num_rows() * file / files;
    for file in 0..files {
        let properties = WriterProperties::builder().set_max_row_group_row_count(Some(group_rows)).build();
        let output = fs::File::create(folder.join(format!("{file}.parquet"))).expect("a file");
        let mut writer = ArrowWriter::try_new(output, table.schema(), Some(properties)).expect("a writer");
        writer.write(&table.slice(border(file), border(file + 1) - border(file))).expect("rows are written");
        writer.close().expect("a whole file");
    }
}

/// Writes a table as a CSV file in a new folder.
pub fn write_csv(folder: &Path, table: &RecordBatch) {
    fs::create_dir(folder).expect("a folder");
    let file = fs::File::create(folder.join("0.csv")).expect("a file");
    WriterBuilder::new().with_header(true).build(file).write(table).expect("rows are written");
}

/// Returns all rows that readers of a folder see, sorted.
pub fn rows_of_files(folder: &Path) -> Vec<String> {
    let mut rows = Vec::new();
    for entry in fs::read_dir(folder).expect("a folder") {
        let entry = entry.expect("an entry");
        let (path, name) = (entry.path(), entry.file_name());
        if name.as_encoded_bytes().starts_with(b".") {
            continue;
        }
        if path.is_dir() {
            rows.extend(rows_of_files(&path));
        } else if path.extension().is_some_and(|extension| extension == "parquet") {
            let file = fs::File::open(&path).expect("a file");
            let reader = ParquetRecordBatchReaderBuilder::try_new(file).expect("a Parquet file").build();
            let batches: Result<Vec<_>, _> = reader.expect("a reader").collect();
            rows.extend(rows_of(&batches.expect("rows")));
        }
    }
    rows.sort();
    rows
}

/// Returns all rows as text, sorted.
pub fn rows_of(batches: &[RecordBatch]) -> Vec<String> {
    let options = FormatOptions::default().with_null("NULL");
    let mut rows = Vec::new();
    for batch in batches {
        let columns: Vec<_> =
            batch.columns().iter().map(|c| ArrayFormatter::try_new(c, &options).expect("text")).collect();
        let row = |row: usize| columns.iter().map(|column| column.value(row).to_string()).collect::<Vec<_>>().join("|");
        rows.extend((0..batch.num_rows()).map(row));
    }
    rows.sort();
    rows
}
