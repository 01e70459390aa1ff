//! Data, jobs, and functions that read output without the library's own reader.

use std::{
    collections::BTreeMap,
    fs::{self, File},
    hash::Hasher,
    path::{Path, PathBuf},
    sync::Arc,
};

use annulus_dataset::{
    CancelToken, Dataset, DatasetError, FileEntry, InputOptions, Job, Manifest, NoProgress, OutputError, OutputFormat,
    OutputOptions, Placement, PlacementSpec, Progress, Scratch, Summary, VALUE_BUCKETS, split,
};
use annulus_pages::{codec::RowCodec, file::PageFileReader};
use arrow::{
    array::{
        ArrayRef, BinaryArray, BooleanArray, Date32Array, Decimal128Array, DictionaryArray, FixedSizeBinaryArray,
        Float64Array, Int32Array, Int64Array, LargeStringArray, ListArray, RecordBatch, StringArray, StringViewArray,
        StructArray, TimestampMicrosecondArray,
    },
    datatypes::{DataType, Field, Int32Type, Schema},
    ipc::reader::FileReader,
    util::display::{ArrayFormatter, FormatOptions},
};
use parquet::{
    arrow::{ArrowWriter, arrow_reader::ParquetRecordBatchReaderBuilder},
    file::properties::WriterProperties,
};
use rand::{Rng, SeedableRng, rngs::StdRng};
use tempfile::{TempDir, tempdir};

/// Returns a batch with columns of many types, with nulls. Keys repeat.
pub fn many_types(rng: &mut StdRng, rows: usize) -> RecordBatch {
    let mut text = |longest: usize| -> Vec<Option<String>> {
        let mut one = || (0..rng.random_range(0..longest)).map(|_| rng.random_range('a'..='z')).collect();
        (0..rows).map(|row| (row % 7 != 3).then(&mut one)).collect()
    };
    let (short, long, view) = (text(6), text(60), text(30));
    let words: Vec<&str> =
        (0..rows).map(|_| ["red", "green", "", "a longer word than the others"][rng.random_range(0..4)]).collect();
    let ints: Vec<Option<i32>> = (0..rows).map(|_| rng.random_bool(0.8).then(|| rng.random_range(-5..5))).collect();
    let floats = [0.0, -0.0, f64::NAN, f64::INFINITY, 1.5];
    let lists = ints.iter().map(|int| int.map(|int| (0..int.abs()).map(Some).collect::<Vec<_>>()));
    let fields =
        vec![Arc::new(Field::new("a", DataType::Int32, true)), Arc::new(Field::new("b", DataType::Utf8, true))];
    let structs: Vec<ArrayRef> =
        vec![Arc::new(Int32Array::from(ints.clone())), Arc::new(StringArray::from(short.clone()))];
    let bytes = |width: usize| (0..rows).map(move |row| vec![row as u8; width]);
    let columns: Vec<(&str, ArrayRef)> = vec![
        ("id", Arc::new(Int64Array::from_iter_values((0..rows).map(|_| rng.random_range(0..500))))),
        ("short", Arc::new(StringArray::from(short.clone()))),
        ("long", Arc::new(LargeStringArray::from(long))),
        ("view", Arc::new(StringViewArray::from(view))),
        ("int", Arc::new(Int32Array::from(ints.clone()))),
        ("float", Arc::new(Float64Array::from_iter_values((0..rows).map(|row| floats[row % 5])))),
        ("flag", Arc::new(BooleanArray::from_iter((0..rows).map(|row| (row % 3 > 0).then_some(row % 2 > 0))))),
        ("day", Arc::new(Date32Array::from(ints.clone()))),
        ("price", Arc::new(Decimal128Array::from_iter_values((0..rows).map(|row| row as i128 * 7)))),
        ("time", Arc::new(TimestampMicrosecondArray::from_iter_values(0..rows as i64).with_timezone("UTC"))),
        ("word", Arc::new(words.into_iter().collect::<DictionaryArray<Int32Type>>())),
        ("bytes", Arc::new(BinaryArray::from_iter_values(bytes(5)))),
        ("fixed", Arc::new(FixedSizeBinaryArray::try_from_iter(bytes(3)).unwrap())),
        ("list", Arc::new(ListArray::from_iter_primitive::<Int32Type, _, _>(lists))),
        ("struct", Arc::new(StructArray::new(fields.into(), structs, None))),
    ];
    RecordBatch::try_from_iter_with_nullable(columns.into_iter().map(|(name, column)| (name, column, true))).unwrap()
}

/// Writes Parquet files with row groups of `group_rows` rows, and returns their paths.
pub fn write_inputs(dir: &Path, seed: u64, files: usize, rows: usize, group_rows: usize) -> Vec<String> {
    let mut rng = StdRng::seed_from_u64(seed);
    fs::create_dir_all(dir).unwrap();
    let one = |file: usize| {
        let path = dir.join(format!("in-{file}.parquet"));
        write_parquet(&path, &[many_types(&mut rng, rows)], group_rows);
        path.to_str().unwrap().to_owned()
    };
    (0..files).map(one).collect()
}

pub fn write_parquet(path: &Path, batches: &[RecordBatch], group_rows: usize) {
    let properties = WriterProperties::builder().set_max_row_group_row_count(Some(group_rows)).build();
    let mut writer = ArrowWriter::try_new(File::create(path).unwrap(), batches[0].schema(), Some(properties)).unwrap();
    batches.iter().for_each(|batch| writer.write(batch).unwrap());
    writer.close().unwrap();
}

/// Returns a job by hash on two threads. Tests change the other fields.
pub fn job(inputs: &[String], by: &[&str], into: usize, dir: &Path, format: OutputFormat) -> Job {
    let dataset = Dataset::open(inputs, &InputOptions::default()).unwrap();
    let by: Vec<String> = by.iter().map(|&key| key.to_owned()).collect();
    let placement = Placement::new(&PlacementSpec::Hash, &dataset.schema, &by, into).unwrap();
    let output = OutputOptions::new(dir, format);
    let mut job = Job::new(dataset, placement, by, output);
    (job.threads, job.memory_limit) = (2, 256 << 20);
    job
}

pub fn run_silently(job: &Job) -> Result<Summary, DatasetError> {
    split(job, &NoProgress, &CancelToken::new())
}

/// Cancels, or fails, after this number of batches and files.
pub struct CancelAfter {
    pub events: std::sync::atomic::AtomicUsize,
    pub cancel: CancelToken,
}

impl CancelAfter {
    pub fn new(events: usize) -> Self {
        Self { events: events.into(), cancel: CancelToken::new() }
    }

    fn step(&self) {
        if self.events.fetch_sub(1, std::sync::atomic::Ordering::Relaxed) == 1 {
            self.cancel.cancel();
        }
    }
}

impl Progress for CancelAfter {
    fn read(&self, _: u64, _: u64) {
        self.step();
    }

    fn finished(&self) {
        self.step();
    }
}

/// Returns all batches of a file.
pub fn read_file(path: &Path) -> Vec<RecordBatch> {
    let file = File::open(path).unwrap();
    match path.extension().unwrap().to_str().unwrap() {
        "parquet" => {
            ParquetRecordBatchReaderBuilder::try_new(file).unwrap().build().unwrap().map(Result::unwrap).collect()
        }
        "pages" => read_pages(file),
        _ => FileReader::try_new(file, None).unwrap().map(Result::unwrap).collect(),
    }
}

fn read_pages(file: File) -> Vec<RecordBatch> {
    let mut pages = PageFileReader::open(file).unwrap();
    let codec = RowCodec::new(pages.header().schema.clone()).unwrap();
    let (count, mut buffer) = (pages.pages(), Vec::new());
    let batch = |page| {
        let page = pages.read(page, &mut buffer).unwrap();
        codec.decode(&page.tuples().map(|(_, payload)| payload).collect::<Vec<_>>()).unwrap()
    };
    (0..count).map(batch).collect()
}

/// Returns each row as text, in the order of the batches.
pub fn rows_of(batches: &[RecordBatch]) -> Vec<String> {
    let options = FormatOptions::default().with_null("<null>");
    let mut rows = vec![];
    for batch in batches {
        let columns: Vec<_> =
            batch.columns().iter().map(|column| ArrayFormatter::try_new(column, &options).unwrap()).collect();
        rows.extend((0..batch.num_rows()).map(|row| {
            let values: Vec<String> = columns.iter().map(|column| column.value(row).to_string()).collect();
            values.join("|")
        }));
    }
    rows
}

pub fn sorted(mut rows: Vec<String>) -> Vec<String> {
    rows.sort_unstable();
    rows
}

/// Returns the same job with a folder for each value.
pub fn by_value(mut job: Job) -> Job {
    job.placement = Placement::new(&PlacementSpec::Values, &job.dataset.schema, &job.by, VALUE_BUCKETS).unwrap();
    job
}

/// Returns the sorted rows that each folder must have, without the key columns, by the folder's
/// name.
pub fn expected_folders(job: &Job, inputs: &[String]) -> BTreeMap<String, Vec<String>> {
    let mut folders = BTreeMap::<_, Vec<String>>::new();
    let options = FormatOptions::default().with_null("__HIVE_DEFAULT_PARTITION__");
    for batch in inputs.iter().flat_map(|input| read_file(Path::new(input))) {
        let keys: Vec<usize> = job.by.iter().map(|key| batch.schema().index_of(key).unwrap()).collect();
        let others: Vec<usize> = (0..batch.num_columns()).filter(|column| !keys.contains(column)).collect();
        let rows = rows_of(&[batch.project(&others).unwrap()]);
        let shown: Vec<_> =
            keys.iter().map(|&key| ArrayFormatter::try_new(batch.column(key), &options).unwrap()).collect();
        for (number, row) in rows.into_iter().enumerate() {
            let part = |(key, values): (&String, &ArrayFormatter<'_>)| format!("{key}={}", values.value(number));
            let folder = job.by.iter().zip(&shown).map(part).collect::<Vec<_>>().join("/");
            folders.entry(folder).or_default().push(row);
        }
    }
    folders.into_iter().map(|(folder, rows)| (folder, sorted(rows))).collect()
}

/// Returns the sorted rows that each partition must have.
pub fn expected(job: &Job, inputs: &[String]) -> Vec<Vec<String>> {
    if job.placement.is_by_value() {
        return expected_folders(job, inputs).into_values().collect();
    }
    let mut partitions = vec![Vec::new(); job.placement.partitions()];
    let (mut scratch, mut targets) = (Scratch::default(), Vec::new());
    for input in inputs {
        for batch in read_file(Path::new(input)) {
            job.placement.assign(&batch, &mut scratch, &mut targets).unwrap();
            for (row, &target) in rows_of(&[batch]).into_iter().zip(&targets) {
                partitions[usize::from(target)].push(row);
            }
        }
    }
    partitions.into_iter().map(sorted).collect()
}

/// Returns the sorted rows of each partition's own files, and of each of its extra files for hot
/// keys.
pub fn rows_by_slot(dir: &Path) -> BTreeMap<(usize, Option<usize>), Vec<String>> {
    let mut slots = BTreeMap::<_, Vec<String>>::new();
    for partition in manifest(dir).partitions {
        for file in partition.files {
            assert_eq!(file.hot.is_some(), file.name.contains(".hot-"));
            slots.entry((partition.partition, file.hot)).or_default().extend(rows_of(&read_file(&dir.join(file.name))));
        }
    }
    slots.into_iter().map(|(slot, rows)| (slot, sorted(rows))).collect()
}

/// Returns the manifest of a folder.
pub fn manifest(dir: &Path) -> Manifest {
    serde_json::from_slice(&fs::read(dir.join(".annulus/manifest")).unwrap()).unwrap()
}

/// Returns the names of the visible files in a folder and below.
pub fn visible(dir: &Path) -> Vec<String> {
    let names = fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let names = names.filter(|name| !name.starts_with('.'));
    let files = names.flat_map(|name| match dir.join(&name) {
        folder if folder.is_dir() => visible(&folder).iter().map(|file| format!("{name}/{file}")).collect(),
        _ => vec![name],
    });
    sorted(files.collect())
}

/// Checks that a file matches its entry, and that it can be read to its end.
pub fn check_file(dir: &Path, file: &FileEntry) {
    let content = fs::read(dir.join(&file.name)).unwrap();
    let mut hasher = twox_hash::XxHash64::with_seed(0);
    hasher.write(&content);
    assert_eq!((content.len() as u64, format!("xxh64:{:016x}", hasher.finish())), (file.bytes, file.checksum.clone()));
    let rows: usize = read_file(&dir.join(&file.name)).iter().map(RecordBatch::num_rows).sum();
    assert_eq!(rows as u64, file.rows, "{}", file.name);
}

/// Checks that a folder holds these rows in these partitions, and nothing else.
pub fn check_complete(dir: &Path, expected: &[Vec<String>]) {
    let manifest = manifest(dir);
    assert_eq!(manifest.partitions.len(), expected.len());
    for (partition, rows) in manifest.partitions.iter().zip(expected) {
        let files = partition.files.iter().flat_map(|file| read_file(&dir.join(&file.name)));
        assert!(sorted(rows_of(&files.collect::<Vec<_>>())) == *rows, "partition {}", partition.partition);
        assert_eq!(partition.rows, rows.len() as u64);
        assert_eq!(partition.files.is_empty(), rows.is_empty());
        partition.files.iter().for_each(|file| check_file(dir, file));
    }
    let names: Vec<String> = manifest.file_names().map(str::to_owned).collect();
    assert_eq!(visible(dir), sorted(names));
    assert!(has_only_manifest(dir), "nothing else that is hidden is left");
}

/// Returns whether the manifest is all that is hidden in a dataset's folder.
pub fn has_only_manifest(dir: &Path) -> bool {
    let names = fs::read_dir(dir.join(".annulus")).unwrap().map(|entry| entry.unwrap().file_name());
    names.eq(["manifest"])
}

/// Checks a folder whose run did not end: every visible file is complete and recorded.
pub fn check_unfinished(dir: &Path) {
    if dir.join(".annulus/manifest").exists() {
        let manifest = manifest(dir);
        manifest.partitions.iter().flat_map(|partition| &partition.files).for_each(|file| check_file(dir, file));
        return;
    }
    let names = if dir.exists() { visible(dir) } else { vec![] };
    let recorded = journal(dir);
    for name in &names {
        check_file(dir, recorded.get(name).unwrap_or_else(|| panic!("{name} is not in the journal")));
    }
}

fn journal(dir: &Path) -> BTreeMap<String, FileEntry> {
    let text = fs::read_to_string(dir.join(".annulus/journal.jsonl")).unwrap_or_default();
    let mut files = BTreeMap::new();
    for line in text.split_inclusive('\n').skip(1).filter(|line| line.ends_with('\n')) {
        let entry: serde_json::Value = serde_json::from_str(line).unwrap();
        for file in entry["files"].as_array().unwrap() {
            let file: FileEntry = serde_json::from_value(file.clone()).unwrap();
            files.insert(file.name.clone(), file);
        }
    }
    files
}

/// Returns a schema for batches of one column.
pub fn one_column(name: &str, data_type: DataType) -> Arc<Schema> {
    Arc::new(Schema::new(vec![Field::new(name, data_type, true)]))
}

pub fn text(path: &Path) -> String {
    path.to_str().unwrap().to_owned()
}

pub fn out_dir(temporary: &TempDir) -> PathBuf {
    temporary.path().join("out")
}

/// Writes two files of 1000 rows each.
pub fn setup() -> (TempDir, Vec<String>) {
    let temporary = tempdir().unwrap();
    let inputs = write_inputs(&temporary.path().join("in"), 5, 2, 1000, 100);
    (temporary, inputs)
}

/// Returns the error of a run that cannot use its folder.
pub fn output_error(result: Result<Summary, DatasetError>) -> OutputError {
    match result.expect_err("an error") {
        DatasetError::Output(error) => error,
        other => panic!("{other}"),
    }
}
