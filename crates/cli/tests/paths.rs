//! Paths of files: with `..`, links, and characters that URLs and globs give a meaning.
#![cfg(unix)]

mod support;

use std::{fs, os::unix::fs::symlink, path::Path};

use support::Annulus;

/// Creates `x.parquet` with three rows beside the folders `sub/deep`, and the link `link` to `sub/deep`.
fn folder() -> tempfile::TempDir {
    let folder = tempfile::tempdir().expect("a folder");
    let at = folder.path();
    fs::create_dir_all(at.join("sub/deep")).expect("folders");
    symlink("sub/deep", at.join("link")).expect("a link");
    for file in ["x.parquet", "x.csv", "x.json"] {
        Annulus::new(["sql", "SELECT value AS k FROM range(3)", "-o", file]).at(at).succeeds();
    }
    folder
}

/// Returns the number that a query prints.
#[track_caller]
fn number(folder: &Path, arguments: &[&str]) -> String {
    let done = Annulus::new(["sql", "--format", "csv"].iter().chain(arguments)).at(folder).succeeds();
    done.stdout.lines().last().expect("a row").to_owned()
}

#[test]
fn files_are_found_above_the_folder() {
    let folder = folder();
    let sub = folder.path().join("sub");
    let absolute = format!("{}/sub/deep/../../x.parquet", folder.path().display());
    for path in
        ["../x.parquet", "./../x.parquet", "deep/../../x.parquet", "../x.csv", "../x.json", "../*.parquet", &absolute]
    {
        assert_eq!(number(&sub, &[&format!("SELECT count(*) FROM '{path}'")]), "3", "{path}");
        assert_eq!(number(&sub, &["-t", &format!("t={path}"), "SELECT count(*) FROM t"]), "3", "{path}");
    }
    for path in ["../x.parquet", &absolute, "../*.parquet"] {
        let create = format!("CREATE EXTERNAL TABLE t STORED AS PARQUET LOCATION '{path}'; SELECT count(*) FROM t");
        assert_eq!(number(&sub, &[&create]), "3", "{path}");
    }
    // The system follows the link before it goes up.
    symlink("../../x.parquet", folder.path().join("sub/linked.parquet")).expect("a link");
    fs::copy(folder.path().join("x.parquet"), folder.path().join("sub/up.parquet")).expect("a copy");
    for from in ["FROM 'link/../up.parquet'", "FROM 'link/./../up.parquet'"] {
        assert_eq!(number(folder.path(), &[&format!("SELECT count(*) {from}")]), "3", "{from}");
    }
    let create = "CREATE EXTERNAL TABLE t STORED AS PARQUET LOCATION 'link/../up.parquet'; SELECT count(*) FROM t";
    assert_eq!(number(folder.path(), &[create]), "3");
}

#[test]
fn commands_read_and_write_above_the_folder() {
    let folder = folder();
    let sub = folder.path().join("sub");
    let done = |arguments: &[&str]| drop(Annulus::new(arguments).at(&sub).succeeds());
    done(&["join", "../x.parquet", "y=../x.parquet", "--on", "k", "--output", "../joined"]);
    done(&["partition", "../x.parquet", "--by", "k", "--into", "2", "--output", "../parts"]);
    done(&["join", "../parts", "y=../parts", "--on", "k", "--output", "../again", "--cluster", "2"]);
    done(&["verify", "../parts"]);
    done(&["sql", "-o", "../out.parquet", "FROM '../joined'"]);
    done(&["sql", "COPY (SELECT * FROM '../parts') TO '../copied.parquet'"]);
    for name in ["joined", "parts", "again", "out.parquet", "copied.parquet"] {
        assert_eq!(number(&sub, &[&format!("SELECT count(*) FROM '../{name}'")]), "3", "{name}");
    }
}

#[test]
fn names_have_any_character() {
    let folder = folder();
    for name in ["a b", "a#b", "a%20b", "a?b", "a*b", "a[1]b", "a+b&c=d;e", "ä'b", "a\\b", "a%zz"] {
        for extension in ["parquet", "csv"] {
            let file = format!("{name}.{extension}");
            fs::copy(folder.path().join(format!("x.{extension}")), folder.path().join(&file)).expect("a copy");
            let quoted = file.replace('\'', "''");
            assert_eq!(number(folder.path(), &[&format!("SELECT count(*) FROM '{quoted}'")]), "3", "{file}");
            let table = format!("t={file}");
            assert_eq!(number(folder.path(), &["-t", &table, "SELECT count(*) FROM t"]), "3", "{file}");
            let new = format!("new {quoted}");
            Annulus::new(["sql", &format!("COPY (SELECT 7 AS k) TO '{new}'")]).at(folder.path()).succeeds();
            assert_eq!(number(folder.path(), &[&format!("SELECT k FROM '{new}'")]), "7", "{file}");
        }
        let quoted = name.replace('\'', "''");
        let location =
            format!("CREATE EXTERNAL TABLE t STORED AS PARQUET LOCATION '{quoted}.parquet'; SELECT count(*) FROM t");
        assert_eq!(number(folder.path(), &[&location]), "3", "{name}");
    }
}

#[test]
fn rows_know_their_file() {
    let folder = folder();
    let at = folder.path();
    fs::create_dir(at.join("files")).expect("a folder");
    for extension in ["parquet", "csv", "json"] {
        for part in ["1", "2"] {
            let copy = at.join(format!("files/{extension}-{part}.{extension}"));
            fs::copy(at.join(format!("x.{extension}")), copy).expect("a copy");
        }
        let query = |more: &str| {
            format!(
                "SELECT regexp_replace(input_file_name(), '.*/', '') AS f, count(*) AS n, sum(k) AS s \
                 FROM 'files/{extension}-*.{extension}' {more} GROUP BY 1 ORDER BY 1"
            )
        };
        let done = Annulus::new(["sql", "--format", "csv", &query("WHERE k > 0")]).at(at).succeeds();
        assert_eq!(done.stdout, format!("f,n,s\n{extension}-1.{extension},2,3\n{extension}-2.{extension},2,3\n"));
        let done = Annulus::new(["sql", "--format", "csv", &query("")]).at(at).succeeds();
        assert_eq!(done.stdout, format!("f,n,s\n{extension}-1.{extension},3,3\n{extension}-2.{extension},3,3\n"));
        let all = format!("SELECT DISTINCT input_file_name() AS f FROM 'x.{extension}'");
        let name = number(at, &[&all]);
        let real = at.canonicalize().expect("a path").join(format!("x.{extension}"));
        assert!(real.display().to_string().ends_with(&name) && name.contains('/'), "{name}");
    }
}
