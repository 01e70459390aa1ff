//! The folder of the result: its owner, and its contents.

use std::{fs, path::Path, sync::Arc};

use arrow::{
    array::{ArrayRef, Int64Array, NullArray, RecordBatch},
    datatypes::{DataType, Field, Schema},
    ipc::writer::FileWriter,
};
use rand::{SeedableRng, rngs::StdRng};
use tempfile::TempDir;

use crate::{
    support::{Annulus, Done, names, workers::TINY},
    tables::{Shape, rows_of_files, write_parquet},
};

const JOIN: [&str; 7] = ["join", "a", "b", "--on", "k", "--output", "out"];
/// Two workers, and a task of each.
const ON_TWO: [&str; 4] = ["--cluster", "2", TINY[0], TINY[1]];

/// Creates folders a and b with a Parquet file each.
fn inputs() -> TempDir {
    let folder = tempfile::tempdir().expect("a folder");
    let mut rng = StdRng::seed_from_u64(1);
    for name in ["a", "b"] {
        let shape = Shape { rows: 200, keys: 40, nulls: 0.1, skewed: false };
        write_parquet(&folder.path().join(name), &shape.table(&mut rng, name == "a"), 2, 100);
    }
    folder
}

fn join(folder: &Path, options: &[&str]) -> Annulus {
    Annulus::new(JOIN.iter().chain(options)).at(folder)
}

/// Checks that the errors of a command have a text.
#[track_caller]
pub fn assert_says(done: &Done, text: &str) {
    assert!(done.stderr.contains(text), "no '{text}' in: {}", done.stderr);
}

#[test]
fn a_finished_result_is_refused_or_replaced_as_a_whole() {
    let folder = inputs();
    let output = folder.path().join("out");
    join(folder.path(), &[]).succeeds();
    let rows = rows_of_files(&output);
    assert_says(&join(folder.path(), &[]).fails(), "--overwrite");
    assert_eq!(rows_of_files(&output), rows);
    join(folder.path(), &[&ON_TWO[..], &["--type", "left", "--overwrite"]].concat()).succeeds();
    assert_eq!(names(&output), [".annulus", "host-00", "host-01"]);
    assert!(rows_of_files(&output).len() > rows.len());
    join(folder.path(), &["--overwrite"]).succeeds();
    assert_eq!(names(&output), [".annulus", "host-00"]);
    assert_eq!(rows_of_files(&output), rows);
}

#[test]
fn a_result_can_be_the_next_joins_input() {
    let folder = inputs();
    join(folder.path(), &ON_TWO).succeeds();
    let rows = rows_of_files(&folder.path().join("out"));
    let again = ["join", "out", "b", "--on", "k", "--type", "semi", "--output", "kept"];
    Annulus::new(again).at(folder.path()).succeeds();
    assert_eq!(rows_of_files(&folder.path().join("kept")), rows);
}

#[test]
fn a_result_without_rows_can_be_the_next_joins_input() {
    let folder = inputs();
    let none = ["join", "a", "b", "--on", "k", "--where", "a.k < 0", "--output", "none"];
    Annulus::new(none).at(folder.path()).succeeds();
    let again = ["join", "none", "b", "--on", "k", "--type", "right", "--output", "kept"];
    Annulus::new(again).at(folder.path()).succeeds();
    assert_eq!(rows_of_files(&folder.path().join("kept")).len(), 200);
}

#[test]
fn a_result_that_is_not_whole_is_no_input() {
    let folder = inputs();
    join(folder.path(), &ON_TWO).succeeds();
    let host = folder.path().join("out/host-01");
    let part = names(&host).into_iter().find(|name| name.ends_with(".parquet")).map(|name| host.join(name));
    let part = part.expect("a file");
    let again = ["join", "out", "b", "--on", "k", "--output", "kept"];
    fs::rename(&part, folder.path().join("part")).expect("it is moved");
    assert_says(&Annulus::new(again).at(folder.path()).fails(), ".annulus/manifest names it");
    fs::write(&part, "PAR1").expect("a file");
    assert_says(&Annulus::new(again).at(folder.path()).fails(), "it has 4 bytes");
    fs::remove_file(folder.path().join("out/.annulus/manifest")).expect("it is removed");
    fs::remove_file(folder.path().join("out/host-01/.annulus/manifest")).expect("it is removed");
    fs::remove_file(&part).expect("it is removed");
    Annulus::new(again).at(folder.path()).succeeds();
}

/// The input would be deleted before it is read.
#[test]
fn an_input_in_the_output_folder_is_refused() {
    let folder = inputs();
    join(folder.path(), &[]).succeeds();
    let rows = rows_of_files(&folder.path().join("out"));
    // The number of the file depends on which thread has written.
    let files = names(&folder.path().join("out/host-00"));
    let file = files.iter().find(|name| name.ends_with(".parquet")).expect("a file");
    for input in ["out", "./out/../out/host-00", &format!("out/host-00/{file}")] {
        let again = ["join", input, "b", "--on", "k", "--output", "out", "--overwrite"];
        assert_says(&Annulus::new(again).at(folder.path()).fails(), "is an input, and lies in 'out'");
        assert_eq!(rows_of_files(&folder.path().join("out")), rows);
    }
}

#[test]
fn files_of_others_are_refused_and_kept() {
    let folder = inputs();
    let output = folder.path().join("out");
    for file in ["mine.txt", "host-00/mine.txt", "host-mine/mine.txt"] {
        let path = output.join(file);
        fs::create_dir_all(path.parent().expect("a folder")).expect("a folder");
        fs::write(&path, "mine").expect("a file");
        for options in [&[][..], &["--overwrite"]] {
            let refused = join(folder.path(), options).fails();
            assert_says(&refused, "out");
            assert_eq!(fs::read_to_string(&path).expect("it is still there"), "mine");
            assert!(!output.join(".annulus").exists());
        }
        fs::remove_dir_all(&output).expect("it is removed");
    }
}

/// The dataset's name begins like those of hosts' folders.
#[test]
fn a_dataset_of_others_in_the_folder_is_no_hosts() {
    let folder = inputs();
    let theirs = folder.path().join("out/host-backup");
    fs::create_dir_all(&theirs).expect("a folder");
    assert_says(&join(folder.path(), &[]).fails(), "host-backup");
    assert!(theirs.exists());
    let split = ["partition", "a", "--by", "k", "--into", "2", "--output", "out/host-backup"];
    Annulus::new(split).at(folder.path()).succeeds();
    let rows = rows_of_files(&theirs);
    assert_says(&join(folder.path(), &["--overwrite"]).fails(), "host-backup");
    assert_eq!(rows_of_files(&theirs), rows);
}

#[test]
fn a_folder_in_use_is_refused_and_left_alone() {
    let folder = inputs();
    let hidden = folder.path().join("out/.annulus");
    fs::create_dir_all(&hidden).expect("a folder");
    let lock = fs::File::create(hidden.join("lock")).expect("a file");
    lock.lock().expect("it is free");
    for options in [&[][..], &["--overwrite"]] {
        assert_says(&join(folder.path(), options).fails(), "another run is writing to 'out'");
        assert_eq!(names(&folder.path().join("out")), [".annulus"]);
    }
    drop(lock);
    join(folder.path(), &[]).succeeds();
}

#[test]
fn an_empty_folder_outlasts_a_join_that_fails() {
    let folder = inputs();
    fs::write(folder.path().join("bad.csv"), "k,text\n1,a\n2,b,c\n").expect("a file");
    fs::create_dir(folder.path().join("mine")).expect("a folder");
    for output in ["mine", "its"] {
        for more in [&[][..], &ON_TWO] {
            let join = ["join", "bad.csv", "b", "--on", "k", "--output", output];
            assert_says(&Annulus::new(join.iter().chain(more)).at(folder.path()).fails(), "bad.csv");
        }
    }
    assert_eq!(names(&folder.path().join("mine")), [""; 0]);
    assert!(!folder.path().join("its").exists());
}

#[test]
fn mistakes_are_explained_and_leave_nothing() {
    let folder = inputs();
    let cases: [(&[&str], &[&str]); 14] = [
        (&["a", "b", "--on", "no"], &["'no'", "k, g, t"]),
        (&["a", "none.parquet", "--on", "k"], &["none.parquet"]),
        (&["a", "b"], &["--on", "--where"]),
        (&["a", "b", "--on", "k=g"], &["'k = g'", "Int32", "Utf8", "--types"]),
        (&["a", "b", "--where", "a.k = b.g"], &["CAST(b.g", "Int"]),
        (&["a", "b", "--on", "k", "--suffix", ""], &["--suffix"]),
        (&["a", "b", "--on", "k", "--memory-limit", "1M"], &["--memory-limit", "--threads"]),
        (&["a", "b", "--where", "a.t + b.t"], &["true or false"]),
        (&["a", "b", "--where", "NULL"], &["Null", "true or false"]),
        (&["a", "b", "--where", "a.t < c.t"], &["c.t"]),
        (&["a", "b", "--where", "a.x < random()"], &["random()", "changes with each call"]),
        (&["x=a", "x=b", "--on", "k"], &["'x'", "NAME=PATH"]),
        (&["a", "b", "--on", "k", "--output", "a/out"], &["'a/out'", "the input 'a' would read", "outside all inputs"]),
        (&["a", "b/*", "--on", "k", "--output", "b/out/deep"], &["'b/out/deep'", "'b/*'"]),
    ];
    for (arguments, expected) in cases {
        let output: &[&str] = if arguments.contains(&"--output") { &["join"] } else { &["join", "--output", "out"] };
        let arguments = output.iter().chain(arguments);
        let done = Annulus::new(arguments).at(folder.path()).fails();
        expected.iter().for_each(|text| assert_says(&done, text));
        assert_eq!(names(folder.path()), ["a", "b"]);
    }
}

#[test]
fn a_csv_file_with_other_delimiters_and_a_missing_folder_for_spilled_rows_are_explained() {
    let folder = inputs();
    fs::write(folder.path().join("other.csv"), "n;k\n1;2\n1;2;3\n").expect("a file");
    let other = ["join", "other.csv", "a", "--on", "k", "--output", "out"];
    assert_says(&Annulus::new(other).at(folder.path()).fails(), "--delimiter ';'");
    assert_says(&join(folder.path(), &[]).temp(Path::new("/not/there")).fails(), "/not/there");
}

/// The rows are read while results are being written.
#[test]
fn a_row_that_cannot_be_read_late_fails_the_join_and_nothing_is_left() {
    let folder = inputs();
    let good: String = (0..100_000).map(|row| format!("{row},{}\n", row % 40)).collect();
    fs::write(folder.path().join("late.csv"), format!("n,k\n{good}x,1\n")).expect("a file");
    for more in [&[][..], &ON_TWO] {
        let late = ["join", "late.csv", "a", "--on", "k", "--output", "out", "--types", "n=int"];
        let failed = Annulus::new(late.iter().chain(more)).at(folder.path()).fails();
        assert_says(&failed, "late.csv");
        assert_says(&failed, "line 100002");
        assert!(!folder.path().join("out").exists());
    }
}

/// As a column that is null in every row of a file has it.
#[test]
fn a_predicate_without_a_type_is_refused() {
    let folder = inputs();
    let null =
        Arc::new(Schema::new(vec![Field::new("k", DataType::Int64, true), Field::new("n", DataType::Null, true)]));
    let columns: Vec<ArrayRef> = vec![Arc::new(Int64Array::from(vec![1, 2])), Arc::new(NullArray::new(2))];
    let batch = RecordBatch::try_new(Arc::clone(&null), columns).expect("a batch");
    let file = fs::File::create(folder.path().join("n.arrow")).expect("a file");
    let mut writer = FileWriter::try_new(file, &null).expect("a writer");
    writer.write(&batch).and_then(|()| writer.finish()).expect("it is written");
    let join = ["join", "n.arrow", "b", "--where", "a.n", "--output", "out"];
    assert_says(&Annulus::new(join).at(folder.path()).fails(), "'a.n' is of type Null, and must be true or false");
}

/// All workers use the time of the command.
#[test]
fn a_predicate_may_ask_for_the_time() {
    let folder = inputs();
    join(folder.path(), &[]).succeeds();
    let rows = rows_of_files(&folder.path().join("out"));
    for past in [
        "now() > TIMESTAMP '2020-01-01'",
        "current_date > DATE '2020-01-01'",
        "current_timestamp > TIMESTAMP '2020-01-01'",
    ] {
        join(folder.path(), &[&ON_TWO[..], &["--overwrite", "--where", past]].concat()).succeeds();
        assert_eq!(rows_of_files(&folder.path().join("out")), rows, "{past}");
    }
    join(folder.path(), &["--overwrite", "--where", "now() < TIMESTAMP '2020-01-01'"]).succeeds();
    assert_eq!(rows_of_files(&folder.path().join("out")), [""; 0]);
}

#[test]
fn doubles_are_joined_with_decimals() {
    let folder = tempfile::tempdir().expect("a folder");
    for (file, values) in [
        ("a.parquet", "(1.25e0), ('Infinity'::double), ('NaN'::double), (3e30)"),
        ("b.parquet", "(1.25::decimal(10, 2)), (2::decimal(10, 2))"),
    ] {
        let values = format!("SELECT * FROM (VALUES {values}) AS t (k)");
        Annulus::new(["sql", &values, "--output", file]).at(folder.path()).succeeds();
    }
    for condition in [["--on", "k"], ["--where", "a.k < b.k"]] {
        let join = ["join", "a.parquet", "b.parquet", "--output", "out", "--overwrite"];
        Annulus::new(join.into_iter().chain(condition)).at(folder.path()).succeeds();
        let rows = rows_of_files(&folder.path().join("out"));
        let other = if condition[0] == "--on" { "1.25" } else { "2.00" };
        assert_eq!(rows, [format!("1.25|{other}")], "{condition:?}");
    }
}

#[test]
fn the_memory_that_is_demanded_is_enough() {
    let folder = inputs();
    for threads in ["1", "3"] {
        let with = |limit: &str| join(folder.path(), &["--threads", threads, "--overwrite", "--memory-limit", limit]);
        let error = with("1K").fails().stderr;
        let (before, _) = error.split_once(" MiB").unwrap_or_else(|| panic!("no amount: {error}"));
        let amount = format!("{}M", before.rsplit(' ').next().unwrap_or_default());
        with(&amount).succeeds();
    }
}

#[test]
fn types_that_are_wrong_for_a_condition_are_explained() {
    let folder = tempfile::tempdir().expect("a folder");
    for (name, rows) in [("a", "1,2020-01-01T10:00:00\n"), ("b", "1,noon\n")] {
        fs::write(folder.path().join(name).with_extension("csv"), format!("id,time\n{rows}")).expect("a file");
    }
    let cases: [(&[&str], &[&str]); 4] = [
        (
            &["a.csv", "b.csv", "--where", "a.time BETWEEN b.time - INTERVAL '5 minutes' AND b.time"],
            &["'b.time' is text", "--types time=timestamp", "to_timestamp(b.time)"],
        ),
        (
            &["a.csv", "b=a.csv", "--where", "abs(a.time - b.time) <= INTERVAL '5 minutes'"],
            &["cannot use the predicate", "abs takes numbers", "BETWEEN b.t - INTERVAL '5 minutes'"],
        ),
        (&["a.csv", "b.csv", "--on", "a.id=b.id"], &["--on: no column 'a.id'", "write id, without the name"]),
        (&["a.csv", "b.csv", "--on", "id=b.id"], &["--on: no column 'b.id'", "write id, without the name"]),
    ];
    for (arguments, expected) in cases {
        let done = Annulus::new(["join", "--explain"].iter().chain(arguments)).at(folder.path()).fails();
        expected.iter().for_each(|text| assert_says(&done, text));
    }
}

#[test]
fn sides_of_one_name_are_refused() {
    for sides in [["x.csv", "a=y.csv"], ["b=x.csv", "y.csv"], ["t=x.csv", "t=y.csv"]] {
        let refused = Annulus::new(["join", sides[0], sides[1], "--on", "id", "--explain"]).fails();
        assert!(
            refused.stderr.contains("are both named '") && refused.stderr.contains("NAME=PATH"),
            "{}",
            refused.stderr
        );
    }
}

#[test]
fn help_has_examples() {
    let done = Annulus::new(["join", "--help"]).succeeds();
    assert!(done.stdout.contains("Examples:\n  annulus join "), "{}", done.stdout);
}
