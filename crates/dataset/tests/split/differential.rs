//! Every row is written once, to its partition, whatever the format, the number of partitions and
//! the memory.

use std::{
    fs::{self, File},
    sync::Arc,
};

use annulus_dataset::{ExistingPolicy, OutputFormat};
use annulus_pages::file::PageFileReader;
use arrow::{
    array::{ArrayRef, Date32Array, Int64Array, RecordBatch, StringArray, TimestampMicrosecondArray},
    datatypes::DataType,
};
use tempfile::tempdir;

use crate::support::*;

const FORMATS: [OutputFormat; 3] = [OutputFormat::Parquet, OutputFormat::Ipc, OutputFormat::Pages];

#[test]
fn every_row_is_in_its_partition() {
    let temporary = tempdir().unwrap();
    let inputs = write_inputs(&temporary.path().join("in"), 1, 3, 1500, 400);
    for (number, (format, into, by)) in [
        (FORMATS[0], 1, &["id"][..]),
        (FORMATS[0], 2, &["short"]),
        (FORMATS[0], 64, &["id"]),
        (FORMATS[0], 4096, &["id", "view"]),
        (FORMATS[1], 1, &["word"]),
        (FORMATS[1], 2, &["id"]),
        (FORMATS[1], 64, &["flag", "day", "price"]),
        (FORMATS[1], 4096, &["long"]),
        (FORMATS[2], 1, &["id"]),
        (FORMATS[2], 64, &["word", "bytes"]),
        (FORMATS[2], 4096, &["id", "view"]),
    ]
    .into_iter()
    .enumerate()
    {
        let dir = temporary.path().join(format!("out-{number}"));
        let job = job(&inputs, by, into, &dir, format);
        let summary = run_silently(&job).unwrap();
        assert_eq!((summary.rows_in, summary.manifest.rows, summary.slots_kept), (4500, 4500, 0));
        check_complete(&dir, &expected(&job, &inputs));
    }
}

#[test]
fn files_that_memory_cannot_keep_open_are_spilled_and_relieved() {
    let temporary = tempdir().unwrap();
    let inputs = write_inputs(&temporary.path().join("in"), 2, 2, 3000, 500);
    for (number, (format, into, memory, spills)) in [
        (FORMATS[0], 500, 4 << 20, true),
        (FORMATS[1], 500, 4 << 20, true),
        (FORMATS[0], 3, 8 << 20, false),
        (FORMATS[2], 500, 4 << 20, true),
        (FORMATS[2], 3, 8 << 20, false),
    ]
    .into_iter()
    .enumerate()
    {
        let dir = temporary.path().join(format!("out-{number}"));
        let mut job = job(&inputs, &["id"], into, &dir, format);
        job.memory_limit = memory;
        job.threads = 3;
        let summary = run_silently(&job).unwrap();
        assert_eq!(summary.bytes_spilled > 0, spills);
        check_complete(&dir, &expected(&job, &inputs));
    }
}

#[test]
fn more_files_than_can_be_spilled_for_are_refused() {
    let temporary = tempdir().unwrap();
    let inputs = write_inputs(&temporary.path().join("in"), 2, 1, 100, 100);
    let dir = temporary.path().join("out");
    let mut job = job(&inputs, &["id"], 65_536, &dir, OutputFormat::Parquet);
    (job.memory_limit, job.threads) = (64 << 20, 2);
    let error = run_silently(&job).unwrap_err().to_string();
    for part in ["`memory_limit` is 64M", "65536 files", "`into`", "`threads`", "allow "] {
        assert!(error.contains(part), "{error}");
    }
    assert!(!dir.exists(), "nothing is left");
    let allowed = error.split("allow ").nth(1).and_then(|rest| rest.split('M').next()).unwrap();
    job.memory_limit = allowed.parse::<usize>().unwrap() << 20;
    assert!(run_silently(&job).unwrap().bytes_spilled > 0);
}

#[test]
fn rows_larger_than_a_spilled_page_are_spilled_too() {
    let temporary = tempdir().unwrap();
    let ids = Int64Array::from_iter_values(0..600);
    let text = |row: usize| "x".repeat(if row % 100 == 7 { 300_000 + row } else { row % 50 });
    let texts = StringArray::from_iter_values((0..600).map(text));
    let columns: [(&str, ArrayRef); 2] = [("id", Arc::new(ids)), ("text", Arc::new(texts))];
    let input = temporary.path().join("in.parquet");
    write_parquet(&input, &[RecordBatch::try_from_iter(columns).unwrap()], 150);
    let inputs = [input.to_str().unwrap().to_owned()];
    let dir = temporary.path().join("out");
    let mut job = job(&inputs, &["id"], 500, &dir, OutputFormat::Parquet);
    job.memory_limit = 4 << 20;
    let summary = run_silently(&job).unwrap();
    assert!(summary.bytes_spilled > 6 * 300_000);
    check_complete(&dir, &expected(&job, &inputs));
}

#[test]
fn a_file_that_is_long_enough_is_followed_by_the_next() {
    let temporary = tempdir().unwrap();
    let inputs = write_inputs(&temporary.path().join("in"), 3, 4, 16_000, 4000);
    for (format, extension) in FORMATS.into_iter().zip(["parquet", "arrow", "pages"]) {
        let dir = temporary.path().join(extension);
        let mut job = job(&inputs, &["id"], 2, &dir, format);
        // A file ends after a batch, which has up to 8,192 rows.
        job.output.max_file_bytes = Some(20_000);
        job.memory_limit = 1 << 20;
        let manifest = run_silently(&job).unwrap().manifest;
        check_complete(&dir, &expected(&job, &inputs));
        let names: Vec<_> = manifest.partitions[1].files.iter().map(|file| file.name.clone()).collect();
        assert!(names.len() > 2, "{names:?}");
        assert_eq!(names[0], format!("part-00001.{extension}"));
        assert_eq!(names[1], format!("part-00001-00002.{extension}"));
    }
}

#[test]
fn a_dataset_without_rows_is_a_dataset() {
    let temporary = tempdir().unwrap();
    let path = temporary.path().join("empty.parquet");
    write_parquet(&path, &[RecordBatch::new_empty(one_column("id", DataType::Int64))], 10);
    let dir = out_dir(&temporary);
    let job = job(&[text(&path)], &["id"], 3, &dir, OutputFormat::Parquet);
    let manifest = run_silently(&job).unwrap().manifest;
    check_complete(&dir, &[vec![], vec![], vec![]]);
    assert_eq!((manifest.rows, manifest.partitions.len(), manifest.columns.len()), (0, 3, 1));
}

#[test]
fn the_manifest_has_the_range_of_the_keys() {
    let temporary = tempdir().unwrap();
    let path = temporary.path().join("in.parquet");
    let ids = Int64Array::from(vec![Some(7), None, Some(-3), Some(12), None]);
    let batch = RecordBatch::try_new(one_column("id", DataType::Int64), vec![Arc::new(ids)]).unwrap();
    write_parquet(&path, &[batch], 2);
    let dir = out_dir(&temporary);
    let manifest = run_silently(&job(&[text(&path)], &["id"], 1, &dir, OutputFormat::Parquet)).unwrap().manifest;
    let key = &manifest.partitions[0].files[0].keys[0];
    assert_eq!((key.min.as_deref(), key.max.as_deref(), key.nulls), (Some("-3"), Some("12"), 2));
}

#[test]
fn keys_that_no_calendar_has_are_numbers_in_the_manifest() {
    let temporary = tempdir().unwrap();
    let path = temporary.path().join("in.parquet");
    // There are enough rows for a key to be reported.
    let zone = TimestampMicrosecondArray::from([5, 9].repeat(2000)).with_timezone("Nowhere/At_All");
    let columns: [(&str, ArrayRef); 3] = [
        ("day", Arc::new(Date32Array::from([0, i32::MAX].repeat(2000)))),
        ("time", Arc::new(TimestampMicrosecondArray::from([i64::MAX, 0].repeat(2000)))),
        ("zone", Arc::new(zone)),
    ];
    write_parquet(&path, &[RecordBatch::try_from_iter(columns).unwrap()], 4000);
    let dir = out_dir(&temporary);
    let job = job(&[text(&path)], &["day", "time", "zone"], 1, &dir, OutputFormat::Parquet);
    let manifest = run_silently(&job).unwrap().manifest;
    let keys = &manifest.partitions[0].files[0].keys;
    let range = |key: usize| (keys[key].min.as_deref().unwrap(), keys[key].max.as_deref().unwrap());
    assert_eq!(range(0), ("1970-01-01", "2147483647"));
    assert_eq!(range(1), ("1970-01-01T00:00:00", "9223372036854775807"));
    assert_eq!(range(2), ("5", "9"));
    let dir = temporary.path().join("of-two");
    let job = crate::support::job(&[text(&path)], &["day", "time", "zone"], 2, &dir, OutputFormat::Parquet);
    let manifest = run_silently(&job).unwrap().manifest;
    let mut hot: Vec<&str> = manifest.hot_keys.iter().map(|hot| hot.key.as_str()).collect();
    hot.sort();
    assert_eq!(hot, ["1970-01-01, 9223372036854775807, 5", "2147483647, 1970-01-01T00:00:00, 9"]);
}

#[test]
fn ranges_of_keys_of_every_type_are_those_of_the_rows() {
    let temporary = tempdir().unwrap();
    let inputs = write_inputs(&temporary.path().join("in"), 4, 1, 800, 100);
    for column in ["short", "view", "flag", "day", "price", "time", "word", "bytes", "fixed"] {
        let dir = out_dir(&temporary);
        let mut job = job(&inputs, &[column], 1, &dir, OutputFormat::Parquet);
        job.output.existing = ExistingPolicy::Overwrite;
        let manifest = run_silently(&job).unwrap().manifest;
        let file = &manifest.partitions[0].files[0];
        let values = read_file(&dir.join(&file.name)).iter().fold(vec![], |mut all, batch| {
            let column = batch.column_by_name(column).unwrap();
            let sorted = arrow::compute::sort(column, None).unwrap();
            let sorted = arrow::compute::filter(&sorted, &arrow::compute::is_not_null(&sorted).unwrap()).unwrap();
            all.push(sorted);
            all
        });
        let all: Vec<&dyn arrow::array::Array> = values.iter().map(AsRef::as_ref).collect();
        let all = arrow::compute::sort(&arrow::compute::concat(&all).unwrap(), None).unwrap();
        let show = |row| arrow::util::display::array_value_to_string(&all, row).unwrap();
        assert_eq!((file.keys[0].min.clone(), file.keys[0].max.clone()), (Some(show(0)), Some(show(all.len() - 1))));
        assert!(fs::metadata(dir.join(".annulus/manifest")).unwrap().len() > 0);
    }
}

#[test]
fn page_files_are_read_again_with_all_their_types() {
    let temporary = tempdir().unwrap();
    let inputs = write_inputs(&temporary.path().join("in"), 6, 2, 3000, 500);
    let (first, second) = (temporary.path().join("first"), temporary.path().join("second"));
    let to_pages = job(&inputs, &["id"], 5, &first, OutputFormat::Pages);
    run_silently(&to_pages).unwrap();
    let job = job(&[text(&first)], &["short", "day"], 7, &second, OutputFormat::Pages);
    assert_eq!(job.dataset.schema, to_pages.dataset.schema);
    run_silently(&job).unwrap();
    check_complete(&second, &expected(&job, &inputs));
    let file = File::open(second.join("part-00003.pages")).unwrap();
    let pages = PageFileReader::open(file).unwrap();
    assert_eq!((pages.header().partitions, pages.pages_of(3).len()), (7, pages.pages()));
}

#[test]
fn rows_that_no_page_holds_are_named_with_a_remedy() {
    let temporary = tempdir().unwrap();
    let ids = Int64Array::from_iter_values(0..40);
    let texts = StringArray::from_iter_values((0..40).map(|row| "x".repeat(if row == 17 { 200_000 } else { row })));
    let columns: [(&str, ArrayRef); 2] = [("id", Arc::new(ids)), ("text", Arc::new(texts))];
    let input = temporary.path().join("in.parquet");
    write_parquet(&input, &[RecordBatch::try_from_iter(columns).unwrap()], 15);
    let inputs = [text(&input)];
    let dir = temporary.path().join("out");
    let mut job = job(&inputs, &["id"], 1, &dir, OutputFormat::Pages);
    job.threads = 1;
    let error = run_silently(&job).unwrap_err().to_string();
    for part in ["row 17 (from 0) of", "part-00000.pages", "takes 2000", "`page_size` 256K"] {
        assert!(error.contains(part), "no {part} in: {error}");
    }
    assert!(!dir.exists());
    job.output.page_bytes = 256 << 10;
    run_silently(&job).unwrap();
    check_complete(&dir, &expected(&job, &inputs));

    job.output.existing = ExistingPolicy::Overwrite;
    job.output.page_bytes = 5000;
    let error = run_silently(&job).unwrap_err().to_string();
    assert!(error.contains("multiple of 4 KiB") && error.contains("`page_size`"), "{error}");
}
