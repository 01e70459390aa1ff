//! Datasets and journals of version 1, whose settings are texts by name.

use std::{fs, path::Path};

use annulus_dataset::{
    CancelToken, Dataset, ExistingPolicy, InputOptions, JobSpec, KeyRule, NoLayout, NoProgress, OutputFormat,
    OutputOptions, PlacementRule, SortColumn, Verification, split,
};
use arrow::datatypes::DataType;
use tempfile::tempdir;

use crate::support::*;

const MANIFEST: &str = r#"{
  "version": 1,
  "settings": {
    "by": "k,t",
    "compression": "none",
    "format": "csv",
    "input": "the inputs",
    "into": "2",
    "max_file_size": "none",
    "on_bad_row": "fail or skip",
    "placement": "{\"version\":1,\"rule\":\"hash\",\"texts_as_views\":true}",
    "sort_by": "t,k:desc"
  },
  "columns": [
    { "name": "k", "type": "Int64", "nullable": true },
    { "name": "t", "type": "Utf8", "nullable": true }
  ],
  "rows": 4,
  "rows_bad": 0,
  "bytes": 24,
  "quarantine": null,
  "partitions": [
    {
      "partition": 0,
      "rows": 1,
      "bytes": 8,
      "files": [
        { "name": "part-00000.csv", "rows": 1, "bytes": 8, "checksum": "xxh64:792008e739dd54a8", "keys": [] }
      ]
    },
    {
      "partition": 1,
      "rows": 3,
      "bytes": 16,
      "files": [
        { "name": "part-00001.csv", "rows": 3, "bytes": 16, "checksum": "xxh64:aef7a6a547dfa9a8", "keys": [] }
      ]
    }
  ],
  "hot_keys": []
}"#;

/// Writes the dataset of the manifest.
fn write_dataset(dir: &Path) {
    fs::create_dir_all(dir.join(".annulus")).unwrap();
    fs::write(dir.join("part-00000.csv"), "k,t\n4,d\n").unwrap();
    fs::write(dir.join("part-00001.csv"), "k,t\n1,a\n2,b\n3,c\n").unwrap();
    fs::write(dir.join(".annulus/manifest"), MANIFEST).unwrap();
}

fn is_whole(dir: &Path) -> bool {
    Verification::begin(dir).unwrap().run(|_| {}).unwrap().bad.is_empty()
}

fn open(dir: &Path) -> Dataset {
    Dataset::open(&[text(dir)], &InputOptions::default()).unwrap()
}

#[test]
fn a_dataset_is_verified_read_by_its_key_and_appended_to() {
    let temporary = tempdir().unwrap();
    let dir = temporary.path().join("parts");
    write_dataset(&dir);
    assert!(is_whole(&dir));
    let layout = open(&dir).layout.unwrap();
    assert_eq!((&layout.keys[..], layout.partitions.len()), (&["k".to_owned(), "t".to_owned()][..], 2));
    assert_eq!(layout.rule, KeyRule::Hash { types: vec![DataType::Int64, DataType::Utf8View] });

    let more = temporary.path().join("more.csv");
    fs::write(&more, "k,t\n4,d\n5,e\n1,a\n").unwrap();
    let append = |by: &[&str]| {
        let mut output = OutputOptions::new(&dir, OutputFormat::Csv);
        output.existing = ExistingPolicy::Append;
        let mut spec = JobSpec::new(vec![text(&more)], output);
        spec.by = by.iter().map(|&key| key.to_owned()).collect();
        spec.into = Some(2);
        spec.sort_by = SortColumn::parse_list("t,k:desc").unwrap();
        split(&spec.plan().unwrap(), &NoProgress, &CancelToken::new())
    };
    let error = output_error(append(&["t"])).to_string();
    assert!(error.contains("`by` is 't', but 'k,t' in the dataset"), "{error}");
    let manifest = append(&["k", "t"]).unwrap().manifest;
    assert_eq!((manifest.version, manifest.rows), (2, 7));
    let first = manifest.settings.partition().expect("settings of a split");
    assert_eq!((&first.by[..], first.into.map(Into::into)), (&["k".to_owned(), "t".to_owned()][..], Some(2_usize)));
    assert_eq!(first.placement, PlacementRule::Hash { texts_as_views: true, hash: None });
    let dataset = open(&dir);
    assert_eq!(dataset.layout.unwrap().partitions.concat().len(), dataset.files.len());
    let equal_keys = fs::read_to_string(dir.join("part-00000.append-1.csv")).unwrap();
    assert!(equal_keys.contains("4,d") && !equal_keys.contains("1,a"), "{equal_keys}");
    assert!(is_whole(&dir));
}

/// A comma separates names, or is a part of one.
#[test]
fn keys_with_commas_are_read_unless_they_are_ambiguous() {
    let temporary = tempdir().unwrap();
    let dir = temporary.path().join("parts");
    write_dataset(&dir);
    let layout_with = |column: &str| {
        for (file, rows) in [("part-00000.csv", "4,d,8\n"), ("part-00001.csv", "1,a,8\n2,b,8\n3,c,8\n")] {
            fs::write(dir.join(file), format!("k,t,\"{column}\"\n{rows}")).unwrap();
        }
        let lengths = [(16, 6), (8, 2)].map(|(bytes, of_rows)| (bytes, bytes + column.len() + 3 + of_rows));
        let column = format!("{{ \"name\": \"{column}\", \"type\": \"Int64\", \"nullable\": true }},");
        let mut manifest = MANIFEST.replace("\"columns\": [", &format!("\"columns\": [ {column}"));
        for (before, now) in lengths {
            manifest = manifest.replace(&format!("\"bytes\": {before},"), &format!("\"bytes\": {now},"));
        }
        fs::write(dir.join(".annulus/manifest"), manifest).unwrap();
        open(&dir).layout
    };
    assert_eq!(layout_with("a,b").unwrap().keys, ["k", "t"]);
    let ambiguous = layout_with("k,t").unwrap_err();
    assert_eq!(ambiguous, NoLayout::Ambiguous("k,t".to_owned()));
    assert!(ambiguous.to_string().starts_with("a column has a comma in its name, so the key 'k,t' is ambiguous"));
    let input = temporary.path().join("more.csv");
    fs::write(&input, "k,t,\"k,t\"\n4,d,1\n").unwrap();
    let mut job = job(&[text(&input)], &["k,t"], 2, &dir, OutputFormat::Csv);
    for (existing, expected) in [
        (ExistingPolicy::Append, "so the key 'k,t' of the dataset is ambiguous; partition it again"),
        (ExistingPolicy::Resume, "`by` is '\"k,t\"', but was 'k,t', in which a comma may be a part of a name"),
    ] {
        job.output.existing = existing;
        let error = output_error(run_silently(&job)).to_string();
        assert!(error.contains(expected), "{error}");
    }
}

#[test]
fn a_journal_is_resumed() {
    let (temporary, inputs) = setup();
    let dir = out_dir(&temporary);
    let mut job = job(&inputs, &["id", "int"], 150, &dir, OutputFormat::Parquet);
    let progress = CancelAfter::new(160);
    split(&job, &progress, &progress.cancel).expect_err("it is cancelled");
    let journal = dir.join(".annulus/journal.jsonl");
    let found = fs::read_to_string(&journal).unwrap();
    let (_, entries) = found.split_once('\n').unwrap();
    let header = |by: &str| {
        let placement = r#"{"version":1,"rule":"hash","texts_as_views":false}"#;
        let input = job.dataset.fingerprint.as_ref().unwrap();
        let settings = serde_json::json!({
            "by": by, "compression": "snappy", "format": "parquet", "input": input, "into": "150",
            "max_file_size": "none", "on_bad_row": "fail or skip", "placement": placement,
        });
        format!("{{\"annulus_journal\":1,\"settings\":{settings}}}\n")
    };
    job.output.existing = ExistingPolicy::Resume;
    fs::write(&journal, header("int") + entries).unwrap();
    let error = output_error(run_silently(&job)).to_string();
    assert!(error.contains("`by` is 'id,int', but was 'int'"), "{error}");
    fs::write(&journal, header("id,int") + entries).unwrap();
    assert!(run_silently(&job).unwrap().slots_kept > 50);
    check_complete(&dir, &expected(&job, &inputs));
}
