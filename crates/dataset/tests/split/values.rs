//! A folder for each value, and rows that are sorted within their files.

use std::{collections::BTreeSet, fs, path::Path, sync::Arc};

use annulus_dataset::{
    Dataset, DatasetError, ExistingPolicy, InputOptions, Job, OutputError, OutputFormat, Placement, PlacementSpec,
    VALUE_BUCKETS, Verification, split,
};
use arrow::{
    array::{
        Array, ArrayRef, BooleanArray, Date32Array, Decimal128Array, DictionaryArray, Int8Array, Int64Array,
        LargeStringArray, RecordBatch, StringArray, StringViewArray, TimestampMicrosecondArray,
        TimestampNanosecondArray, TimestampSecondArray, UInt64Array,
    },
    compute::{SortOptions, cast, concat_batches, sort_to_indices, take},
    datatypes::{DataType, Int32Type},
    row::{RowConverter, SortField},
};
use tempfile::tempdir;

use crate::support::*;

/// Checks that a folder has a folder for each value and nothing else, with the rows that it must
/// have.
fn check_folders(job: &Job, inputs: &[String]) {
    let expected = expected_folders(job, inputs);
    check_complete(&job.output.dir, &expected.values().cloned().collect::<Vec<_>>());
    let manifest = manifest(&job.output.dir);
    let folder_columns = manifest.folder_columns.iter().map(|column| &column.name);
    assert!(folder_columns.eq(&job.by));
    for (folder, partition) in expected.keys().zip(&manifest.partitions) {
        for (number, file) in partition.files.iter().enumerate() {
            assert_eq!(file.name, format!("{folder}/part-{number:05}.{}", job.output.format.extension()));
            for (key, part) in file.keys.iter().zip(folder.split('/')) {
                let value = key.min.as_deref().unwrap_or("__HIVE_DEFAULT_PARTITION__");
                assert_eq!((part, &key.min), (&*format!("{}={value}", key.column), &key.max));
            }
        }
    }
}

#[test]
fn each_value_has_a_folder_in_every_format() {
    for format in [OutputFormat::Parquet, OutputFormat::Ipc, OutputFormat::Pages] {
        for by in [&["int"][..], &["word", "int"], &["flag", "word", "int"]] {
            let (temporary, inputs) = setup();
            let mut job = by_value(job(&inputs, by, 1, &out_dir(&temporary), format));
            job.output.max_file_bytes = Some(20_000);
            // All files are open at once, then those of some values, and then none.
            for (memory_limit, spills) in [(256 << 20, false), (16 << 20, by.len() > 2), (1 << 20, true)] {
                job.memory_limit = memory_limit;
                job.output.existing = ExistingPolicy::Overwrite;
                let summary = run_silently(&job).unwrap();
                assert_eq!(summary.slots_kept, 0);
                if format == OutputFormat::Ipc {
                    assert_eq!(summary.bytes_spilled > 0, spills, "{by:?} in {memory_limit} bytes");
                }
                check_folders(&job, &inputs);
            }
        }
    }
}

/// Returns the values of a key column that has `values` of them, after `first` rows that have three of them or none.
fn late_values(first: usize, rows: usize, values: usize) -> Vec<Option<String>> {
    let value = |row: usize| if row < first { row % 4 } else { row % (values + 1) };
    (0..rows).map(|row| Some(value(row)).filter(|value| *value > 0).map(|value| format!("v{value}"))).collect()
}

/// Writes an input whose first row groups have few values of `k`, unlike the last ones.
fn write_late_values(path: &Path, values: usize) {
    let (first, rows) = (70_000, 90_000);
    let keys: ArrayRef = Arc::new(StringArray::from(late_values(first, rows, values)));
    let numbers: ArrayRef = Arc::new(Int64Array::from_iter_values(0..rows as i64));
    let codes: ArrayRef = Arc::new(Int64Array::from_iter_values((0..rows as i64).map(|row| row % 5)));
    let columns = [("k", keys, true), ("n", numbers, true), ("code", codes, true)];
    write_parquet(path, &[RecordBatch::try_from_iter_with_nullable(columns).unwrap()], 90_000);
}

/// The sample is of the first rows of each row group, so it misses the later values.
#[test]
fn values_beyond_those_that_can_be_open_are_spilled() {
    let temporary = tempdir().unwrap();
    let input = temporary.path().join("in.parquet");
    write_late_values(&input, 300);
    let inputs = [text(&input)];
    for format in [OutputFormat::Parquet, OutputFormat::Ipc] {
        let mut job = by_value(job(&inputs, &["k"], 1, &out_dir(&temporary), format));
        job.output.existing = ExistingPolicy::Overwrite;
        job.memory_limit = 2 << 20;
        let summary = run_silently(&job).unwrap();
        // The rows of the first values are most of all, and none of them is spilled.
        assert!((1..2 << 20).contains(&summary.bytes_spilled), "{}", summary.bytes_spilled);
        assert_eq!(manifest(&job.output.dir).partitions.len(), 301);
        check_folders(&job, &inputs);
        job.output.existing = ExistingPolicy::Resume;
        assert_eq!(run_silently(&job).unwrap().slots_kept, 301);
        for events in [5, 50, 150] {
            job.output.existing = ExistingPolicy::Overwrite;
            let progress = CancelAfter::new(events);
            assert!(matches!(split(&job, &progress, &progress.cancel), Err(DatasetError::Cancelled)));
            check_unfinished(&job.output.dir);
            job.output.existing = ExistingPolicy::Resume;
            run_silently(&job).unwrap();
            check_folders(&job, &inputs);
        }
    }
}

/// There are far more values than files may be open, and more than there are buckets.
#[test]
fn any_number_of_values_takes_few_open_files_and_little_memory() {
    let temporary = tempdir().unwrap();
    let input = temporary.path().join("in.parquet");
    let ids: ArrayRef = Arc::new(Int64Array::from_iter_values((0..6000).map(|row| row * 7 % 3000)));
    let batch = RecordBatch::try_from_iter([("id", ids.clone()), ("x", ids)]).unwrap();
    write_parquet(&input, &[batch], 1000);
    let inputs = [text(&input)];
    let mut job = by_value(job(&inputs, &["id"], 1, &out_dir(&temporary), OutputFormat::Ipc));
    job.memory_limit = 2 << 20;
    run_silently(&job).unwrap();
    assert_eq!(manifest(&job.output.dir).partitions.len(), 3000);
    check_folders(&job, &inputs);
}

#[test]
fn a_run_by_value_that_is_cancelled_is_resumed_or_replaced() {
    let (temporary, inputs) = setup();
    let mut job = by_value(job(&inputs, &["int", "word"], 1, &out_dir(&temporary), OutputFormat::Parquet));
    for (events, existing) in
        [(1, ExistingPolicy::Resume), (150, ExistingPolicy::Resume), (250, ExistingPolicy::Overwrite)]
    {
        job.output.existing = ExistingPolicy::Overwrite;
        let progress = CancelAfter::new(events);
        assert!(matches!(split(&job, &progress, &progress.cancel), Err(DatasetError::Cancelled)));
        check_unfinished(&job.output.dir);
        job.output.existing = existing;
        run_silently(&job).unwrap();
        check_folders(&job, &inputs);
    }
    job.output.existing = ExistingPolicy::Resume;
    assert_eq!(run_silently(&job).unwrap().slots_kept, manifest(&job.output.dir).partitions.len());
    // Nothing is left of the folders.
    job.by = vec!["flag".to_owned()];
    job = by_value(job);
    assert!(matches!(output_error(run_silently(&job)), OutputError::ResumeDiffers { setting, .. } if setting == "by"));
    job.output.existing = ExistingPolicy::Overwrite;
    run_silently(&job).unwrap();
    check_folders(&job, &inputs);
    let names = fs::read_dir(&job.output.dir).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let expected = [".annulus", "flag=__HIVE_DEFAULT_PARTITION__", "flag=false", "flag=true"];
    assert_eq!(names.collect::<BTreeSet<_>>(), expected.map(str::to_owned).into());
}

#[test]
fn files_of_others_in_folders_of_values_are_neither_followed_nor_removed() {
    let (temporary, inputs) = setup();
    let mut job = by_value(job(&inputs, &["flag"], 1, &out_dir(&temporary), OutputFormat::Parquet));
    run_silently(&job).unwrap();
    job.output.existing = ExistingPolicy::Overwrite;
    let notes = job.output.dir.join("flag=true/notes.txt");
    fs::write(&notes, "mine").unwrap();
    let error = output_error(run_silently(&job));
    assert!(matches!(&error, OutputError::Foreign { file, .. } if file == "flag=true/notes.txt"), "{error}");
    fs::remove_file(notes).unwrap();
    check_folders(&job, &inputs);
    #[cfg(unix)]
    {
        let (folder, elsewhere) = (job.output.dir.join("flag=true"), temporary.path().join("elsewhere"));
        fs::rename(&folder, &elsewhere).unwrap();
        std::os::unix::fs::symlink(&elsewhere, &folder).unwrap();
        let error = output_error(run_silently(&job));
        assert!(matches!(&error, OutputError::Foreign { file, .. } if file == "flag=true"), "{error}");
        assert!(elsewhere.join("part-00000.parquet").exists());
    }
}

#[test]
fn columns_that_cannot_name_folders_are_refused() {
    let (temporary, inputs) = setup();
    let job = job(&inputs, &["id"], 1, &out_dir(&temporary), OutputFormat::Parquet);
    let refused = |by: &[&str]| {
        let by: Vec<String> = by.iter().map(|&key| key.to_owned()).collect();
        Placement::new(&PlacementSpec::Values, &job.dataset.schema, &by, VALUE_BUCKETS).unwrap_err().to_string()
    };
    assert!(refused(&["float"]).contains("choose integers"));
    assert!(refused(&["id", "list"]).contains("'list'"));
    assert!(refused(&["id", "id"]).contains("twice"));
    let column: ArrayRef = Arc::new(Int64Array::from(vec![1]));
    let schema = RecordBatch::try_from_iter([("id", column.clone()), ("_x", column)]).unwrap().schema();
    let refused = |by: &[&str]| {
        let by: Vec<String> = by.iter().map(|&key| key.to_owned()).collect();
        Placement::new(&PlacementSpec::Values, &schema, &by, VALUE_BUCKETS).unwrap_err().to_string()
    };
    assert!(refused(&["_x"]).contains("rename"));
    let schema = schema.project(&[0]).unwrap();
    let error =
        Placement::new(&PlacementSpec::Values, &Arc::new(schema), &["id".to_owned()], VALUE_BUCKETS).unwrap_err();
    assert!(error.to_string().contains("no column is left"), "{error}");
}

/// Checks that the rows of a partition's files, one after the other, are in ascending order of
/// `word` with nulls last, and then in descending order of `price`.
fn check_sorted(dir: &Path) {
    for partition in manifest(dir).partitions.iter().filter(|partition| partition.rows > 0) {
        let batches: Vec<_> = partition.files.iter().flat_map(|file| read_file(&dir.join(&file.name))).collect();
        let all = concat_batches(&batches[0].schema(), &batches).unwrap();
        let column = |name: &str| all.column_by_name(name).unwrap().clone();
        let field = |name: &str, descending| {
            let options = SortOptions { descending, nulls_first: descending };
            SortField::new_with_options(column(name).data_type().clone(), options)
        };
        let order = RowConverter::new(vec![field("word", false), field("price", true)]).unwrap();
        let keys = order.convert_columns(&[column("word"), column("price")]).unwrap();
        assert!((1..all.num_rows()).all(|row| keys.row(row - 1) <= keys.row(row)), "partition {}", partition.partition);
    }
}

#[test]
fn rows_are_sorted_within_their_files() {
    for format in [OutputFormat::Parquet, OutputFormat::Ipc, OutputFormat::Pages] {
        for is_by_value in [false, true] {
            let (temporary, inputs) = setup();
            let mut job = job(&inputs, &["int"], 3, &out_dir(&temporary), format);
            if is_by_value {
                job = by_value(job);
            }
            job.sort_by = ["word", "price:desc"].map(|column| column.parse().unwrap()).into();
            job.output.max_file_bytes = Some(20_000);
            job.memory_limit = 2 << 20;
            run_silently(&job).unwrap();
            check_complete(&job.output.dir, &expected(&job, &inputs));
            check_sorted(&job.output.dir);
            job.sort_by.pop();
            job.output.existing = ExistingPolicy::Resume;
            let error = output_error(run_silently(&job));
            assert!(matches!(&error, OutputError::ResumeDiffers { setting, .. } if setting == "sort_by"), "{error}");
        }
    }
}

/// Returns columns of one type, each with three values and a null.
fn keys_of_every_type() -> Vec<ArrayRef> {
    let day = 86_400_000_000;
    let texts = [Some("__HIVE_DEFAULT_PARTITION__"), Some(""), Some("NULL"), None];
    let more_texts = [Some("-0"), Some("a/b=c %41"), Some("2024-01-01"), None];
    let times = TimestampMicrosecondArray::from(vec![Some(day + 500_000), Some(-1), Some(i64::MAX), None]);
    let decimals = Decimal128Array::from(vec![Some(-5), Some(1000), Some(0), None]);
    vec![
        Arc::new(StringArray::from(texts.to_vec())),
        Arc::new(StringViewArray::from(more_texts.to_vec())),
        Arc::new(LargeStringArray::from(vec![Some("1"), Some("2"), Some("03"), None])),
        Arc::new(texts.into_iter().collect::<DictionaryArray<Int32Type>>()),
        Arc::new(BooleanArray::from(vec![Some(true), Some(false), Some(true), None])),
        Arc::new(Int64Array::from(vec![Some(i64::MIN), Some(0), Some(i64::MAX), None])),
        Arc::new(UInt64Array::from(vec![Some(u64::MAX), Some(0), Some(1 << 63), None])),
        Arc::new(Int8Array::from(vec![Some(-128), Some(0), Some(127), None])),
        Arc::new(decimals.clone().with_precision_and_scale(4, 2).unwrap()),
        Arc::new(decimals.with_precision_and_scale(38, 0).unwrap()),
        Arc::new(Date32Array::from(vec![Some(19_723), Some(-719_529), Some(i32::MAX), None])),
        Arc::new(TimestampSecondArray::from(vec![Some(-1), Some(0), Some(1_700_000_000), None])),
        Arc::new(TimestampNanosecondArray::from(vec![Some(1), Some(i64::MIN), Some(i64::MAX), None])),
        Arc::new(times.clone()),
        Arc::new(times.with_timezone("Europe/Zurich")),
    ]
}

#[test]
fn keys_come_back_with_their_types_and_values() {
    for format in [OutputFormat::Parquet, OutputFormat::Ipc, OutputFormat::Pages] {
        for keys in keys_of_every_type() {
            let (temporary, shown) = (tempdir().unwrap(), keys.data_type().to_string());
            let input = temporary.path().join("in.parquet");
            let rows: ArrayRef = Arc::new(Int64Array::from_iter_values(0..keys.len() as i64));
            let batch =
                RecordBatch::try_from_iter_with_nullable([("k", keys.clone(), true), ("i", rows, true)]).unwrap();
            write_parquet(&input, &[batch], 100);
            let job = by_value(job(&[text(&input)], &["k"], 1, &out_dir(&temporary), format));
            let source = job.dataset.schema.field(0).data_type().clone();
            run_silently(&job).unwrap();
            let back = Dataset::open(&[text(&job.output.dir)], &InputOptions::default()).unwrap();
            assert_eq!(*back.schema.field_with_name("k").unwrap().data_type(), source, "{shown}");
            let batches: Vec<_> =
                back.units.iter().flat_map(|unit| unit.read().unwrap()).map(|read| read.unwrap().batch).collect();
            let all = concat_batches(&back.schema, &batches).unwrap();
            let order = sort_to_indices(all.column_by_name("i").unwrap(), None, None).unwrap();
            let found = take(all.column_by_name("k").unwrap(), &order, None).unwrap();
            let expected = cast(&keys, &source).unwrap();
            assert_eq!(&cast(&found, &plain(&source)).unwrap(), &cast(&expected, &plain(&source)).unwrap(), "{shown}");
        }
    }
}

/// Returns the type of a dictionary's values.
fn plain(data_type: &DataType) -> DataType {
    match data_type {
        DataType::Dictionary(_, values) => values.as_ref().clone(),
        other => other.clone(),
    }
}

#[test]
fn without_a_record_types_are_guessed_only_if_no_value_is_lost() {
    let cases = [
        (&["1", "-7", "__HIVE_DEFAULT_PARTITION__"][..], DataType::Int64),
        (&["1", "007"], DataType::Utf8),
        (&["1", "-0"], DataType::Utf8),
        (&["1", ""], DataType::Utf8),
        (&["1", "9223372036854775808"], DataType::Utf8),
        (&["2024-01-01", "2024-12-31"], DataType::Date32),
        (&["2024-01-01", "1"], DataType::Utf8),
        (&["1.50"], DataType::Utf8),
        (&["true"], DataType::Utf8),
        (&["__HIVE_DEFAULT_PARTITION__"], DataType::Utf8),
    ];
    for (values, expected) in cases {
        let folder = tempdir().unwrap();
        for value in values {
            fs::create_dir(folder.path().join(format!("k={value}"))).unwrap();
            let rows: ArrayRef = Arc::new(Int64Array::from(vec![1]));
            let batch = RecordBatch::try_from_iter([("i", rows)]).unwrap();
            write_parquet(&folder.path().join(format!("k={value}/x.parquet")), &[batch], 10);
        }
        let open = || Dataset::open(&[text(folder.path())], &InputOptions::default()).unwrap();
        assert_eq!(*open().schema.field_with_name("k").unwrap().data_type(), expected, "{values:?}");
        let found: BTreeSet<Option<String>> = open()
            .files
            .iter()
            .map(|file| {
                let one = cast(&file.constants[0].1, &DataType::Utf8).unwrap();
                let one = one.as_any().downcast_ref::<StringArray>().unwrap();
                one.iter().next().unwrap().map(str::to_owned)
            })
            .collect();
        let given = values.iter().map(|value| (*value != "__HIVE_DEFAULT_PARTITION__").then(|| (*value).to_owned()));
        assert_eq!(found, given.collect(), "{values:?}");
    }
}

/// Older versions wrote `manifest.json` beside the files.
#[test]
fn a_manifest_in_its_old_place_counts() {
    let (temporary, inputs) = setup();
    let dir = out_dir(&temporary);
    let job_of = |existing| {
        let mut job = by_value(job(&inputs, &["flag"], 1, &dir, OutputFormat::Parquet));
        job.output.existing = existing;
        job
    };
    run_silently(&job_of(ExistingPolicy::Refuse)).unwrap();
    fs::rename(dir.join(".annulus/manifest"), dir.join("manifest.json")).unwrap();
    fs::remove_dir(dir.join(".annulus")).unwrap();
    let type_of_flag = || {
        let dataset = Dataset::open(&[text(&dir)], &InputOptions::default()).unwrap();
        dataset.schema.field_with_name("flag").unwrap().data_type().clone()
    };
    assert_eq!(type_of_flag(), DataType::Boolean);
    assert!(matches!(output_error(run_silently(&job_of(ExistingPolicy::Refuse))), OutputError::Taken { .. }));
    assert_eq!(Verification::begin(&dir).unwrap().run(|_| {}).unwrap().bad, []);
    // An append writes the manifest to its new place.
    run_silently(&job_of(ExistingPolicy::Append)).unwrap();
    assert!(!dir.join("manifest.json").exists() && has_only_manifest(&dir));
    assert_eq!((manifest(&dir).appends.len(), type_of_flag()), (1, DataType::Boolean));
    // Both are there if the append was killed before it could remove the old one.
    fs::write(dir.join("manifest.json"), fs::read(dir.join(".annulus/manifest")).unwrap()).unwrap();
    run_silently(&job_of(ExistingPolicy::Overwrite)).unwrap();
    assert!(!dir.join("manifest.json").exists() && manifest(&dir).appends.is_empty());
}
