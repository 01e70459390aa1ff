//! A folder for each value, and rows that are sorted within their files.

use std::{collections::BTreeSet, fs, path::Path, sync::Arc};

use annulus_dataset::{
    DatasetError, Existing, Job, OutputError, OutputFormat, Placement, PlacementSpec, VALUE_BUCKETS, split,
};
use arrow::{
    array::{ArrayRef, Int64Array, RecordBatch},
    compute::{SortOptions, concat_batches},
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
            let summary = run_silently(&job).unwrap();
            assert!(summary.bytes_spilled > 0 && summary.slots_kept == 0);
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
    for (events, existing) in [(1, Existing::Resume), (150, Existing::Resume), (250, Existing::Overwrite)] {
        job.output.existing = Existing::Overwrite;
        let progress = CancelAfter::new(events);
        assert!(matches!(split(&job, &progress, &progress.cancel), Err(DatasetError::Cancelled)));
        check_unfinished(&job.output.dir);
        job.output.existing = existing;
        run_silently(&job).unwrap();
        check_folders(&job, &inputs);
    }
    job.output.existing = Existing::Resume;
    assert_eq!(run_silently(&job).unwrap().slots_kept, manifest(&job.output.dir).partitions.len());
    // Nothing is left of the folders.
    job.by = vec!["flag".to_owned()];
    job = by_value(job);
    assert!(matches!(output_error(run_silently(&job)), OutputError::ResumeDiffers { setting, .. } if setting == "by"));
    job.output.existing = Existing::Overwrite;
    run_silently(&job).unwrap();
    check_folders(&job, &inputs);
    let names = fs::read_dir(&job.output.dir).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let expected = ["flag=__HIVE_DEFAULT_PARTITION__", "flag=false", "flag=true", "manifest.json"];
    assert_eq!(names.collect::<BTreeSet<_>>(), expected.map(str::to_owned).into());
}

#[test]
fn files_of_others_in_folders_of_values_are_neither_followed_nor_removed() {
    let (temporary, inputs) = setup();
    let mut job = by_value(job(&inputs, &["flag"], 1, &out_dir(&temporary), OutputFormat::Parquet));
    run_silently(&job).unwrap();
    job.output.existing = Existing::Overwrite;
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
            job.output.existing = Existing::Resume;
            let error = output_error(run_silently(&job));
            assert!(matches!(&error, OutputError::ResumeDiffers { setting, .. } if setting == "sort_by"), "{error}");
        }
    }
}
