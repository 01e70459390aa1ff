//! The memory limit is kept. Every allocation of the process is counted.

use std::{
    alloc::{GlobalAlloc, Layout, System},
    fs::File,
    path::Path,
    sync::atomic::{AtomicUsize, Ordering::Relaxed},
    sync::{Arc, Mutex},
};

use annulus_dataset::{
    CancelToken, Dataset, InputOptions, Job, NoProgress, OutputFormat, OutputOptions, Placement, PlacementSpec,
    VALUE_BUCKETS, split,
};
use arrow::array::{ArrayRef, Int64Array, RecordBatch, StringArray};
use parquet::{arrow::ArrowWriter, file::properties::WriterProperties};

struct Counting;

static HELD: AtomicUsize = AtomicUsize::new(0);
static PEAK: AtomicUsize = AtomicUsize::new(0);

fn grow(bytes: usize) {
    PEAK.fetch_max(HELD.fetch_add(bytes, Relaxed) + bytes, Relaxed);
}

// SAFETY: every call is passed to the system's allocator.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        grow(layout.size());
        // SAFETY: the caller's promises.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, ptr: *mut u8, layout: Layout) {
        HELD.fetch_sub(layout.size(), Relaxed);
        // SAFETY: the caller's promises.
        unsafe { System.dealloc(ptr, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// Held by a test while allocations are counted.
static COUNTS: Mutex<()> = Mutex::new(());

const LIMIT: usize = 48 << 20;
const FILES: usize = 8;
const FILE_ROWS: usize = 64 << 10;
const ROW_BYTES: usize = 400;

/// Writes a file with about `ROW_BYTES` bytes per decoded row.
fn write_input(path: &Path, file: usize) -> String {
    let properties = WriterProperties::builder().set_max_row_group_row_count(Some(2048)).build();
    let mut writer: Option<ArrowWriter<File>> = None;
    for start in (0..FILE_ROWS).step_by(2048) {
        let ids = (start..start + 2048).map(|row| (file * FILE_ROWS + row) as i64 * 0x9E37_79B9);
        let text = ids.clone().map(|id| format!("{id:0width$}", width = ROW_BYTES - 10));
        let columns: [(&str, ArrayRef); 2] = [
            ("id", Arc::new(Int64Array::from_iter_values(ids))),
            ("text", Arc::new(StringArray::from_iter_values(text))),
        ];
        let batch = RecordBatch::try_from_iter(columns).unwrap();
        let writer = writer.get_or_insert_with(|| {
            ArrowWriter::try_new(File::create(path).unwrap(), batch.schema(), Some(properties.clone())).unwrap()
        });
        writer.write(&batch).unwrap();
    }
    writer.unwrap().close().unwrap();
    path.to_str().unwrap().to_owned()
}

/// More values come than files can be open, after the sample of the first rows of each file.
#[test]
fn values_that_come_late_are_split_within_the_limit() {
    let _counts = COUNTS.lock();
    let temporary = tempfile::tempdir().unwrap();
    let rows: i64 = 400_000;
    let key = |row: i64| if row < 300_000 { row % 5 } else { row % 1000 };
    let columns: [(&str, ArrayRef); 3] = [
        ("key", Arc::new(Int64Array::from_iter_values((0..rows).map(key)))),
        ("text", Arc::new(StringArray::from_iter_values((0..rows).map(|row| format!("{row:0390}"))))),
        ("few", Arc::new(Int64Array::from_iter_values((0..rows).map(|row| row % 7)))),
    ];
    let batch = RecordBatch::try_from_iter(columns).unwrap();
    let path = temporary.path().join("in.parquet");
    let properties = WriterProperties::builder().set_max_row_group_row_count(Some(4096)).build();
    let mut writer = ArrowWriter::try_new(File::create(&path).unwrap(), batch.schema(), Some(properties)).unwrap();
    writer.write(&batch).unwrap();
    writer.close().unwrap();
    drop(batch);
    for format in [OutputFormat::Parquet, OutputFormat::Ipc] {
        let inputs = [path.to_str().unwrap().to_owned()];
        let mut dataset = Dataset::open(&inputs, &InputOptions::default().with_batch_rows(512)).unwrap();
        // The sample would find most values.
        dataset.units.truncate(80);
        let by = vec!["key".to_owned()];
        let placement = Placement::new(&PlacementSpec::Values, &dataset.schema, &by, VALUE_BUCKETS).unwrap();
        let output = OutputOptions::new(temporary.path().join(format.name()), format);
        let mut job = Job::new(dataset, placement, by, output);
        (job.threads, job.memory_limit) = (2, LIMIT);
        let before = HELD.load(Relaxed);
        PEAK.store(before, Relaxed);
        let summary = split(&job, &NoProgress, &CancelToken::new()).unwrap();
        let peak = PEAK.load(Relaxed) - before;
        assert!(summary.bytes_spilled > 0 && summary.manifest.rows == 80 * 4096);
        assert!(peak < LIMIT, "{}: {peak} bytes of {LIMIT}", format.name());
    }
}

#[test]
fn four_times_the_limit_is_split_within_it() {
    let _counts = COUNTS.lock();
    let temporary = tempfile::tempdir().unwrap();
    let inputs: Vec<String> =
        (0..FILES).map(|file| write_input(&temporary.path().join(format!("{file}.parquet")), file)).collect();
    for (number, (format, into, sort_by)) in [
        (OutputFormat::Parquet, 1, None),
        (OutputFormat::Parquet, 16, None),
        (OutputFormat::Parquet, 1000, None),
        (OutputFormat::Ipc, 16, None),
        (OutputFormat::Ipc, 1000, None),
        (OutputFormat::Pages, 16, None),
        (OutputFormat::Pages, 1000, None),
        // A key is as long as its row.
        (OutputFormat::Parquet, 1, Some("text:desc")),
        (OutputFormat::Ipc, 4, Some("text:desc")),
    ]
    .into_iter()
    .enumerate()
    {
        let dataset = Dataset::open(&inputs, &InputOptions::default().with_batch_rows(512)).unwrap();
        let by = vec!["id".to_owned()];
        let placement = Placement::new(&PlacementSpec::Hash, &dataset.schema, &by, into).unwrap();
        let dir = temporary.path().join(number.to_string());
        let output = OutputOptions::new(dir, format);
        let mut job = Job::new(dataset, placement, by, output);
        job.sort_by = sort_by.iter().map(|column| column.parse().unwrap()).collect();
        (job.threads, job.memory_limit) = (2, LIMIT);
        let before = HELD.load(Relaxed);
        PEAK.store(before, Relaxed);
        let summary = split(&job, &NoProgress, &CancelToken::new()).unwrap();
        let peak = PEAK.load(Relaxed) - before;
        assert_eq!(summary.manifest.rows as usize, FILES * FILE_ROWS);
        const { assert!(FILES * FILE_ROWS * ROW_BYTES > 4 * LIMIT) };
        assert!(peak < LIMIT, "{} to {into} by {sort_by:?}: {peak} bytes of {LIMIT}", format.name());
    }
}
