//! `annulus join --nearest`, and `JOIN ... NEAREST` in `annulus sql`.

use std::fs;

use annulus_dataset::Manifest;
use tempfile::TempDir;

use crate::support::Annulus;

const SHOPS: &str = "name,x,y\nnorth,0,10\nsouth,0,-10\neast,10,0\n";
const HOMES: &str = "id,x,y\n1,1,9\n2,9,1\n3,0,-1\n4,,0\n";
const BY: &str = "BY DISTANCE power(h.x - s.x, 2) + power(h.y - s.y, 2)";

fn inputs() -> TempDir {
    let folder = tempfile::tempdir().expect("a folder");
    for (name, text) in [("shops.csv", SHOPS), ("homes.csv", HOMES)] {
        fs::write(folder.path().join(name), text).expect("a file");
    }
    folder
}

#[test]
fn each_row_has_its_nearest_ones() {
    let folder = inputs();
    for (nearest, kind, expected) in [
        (BY.to_owned(), "inner", "id,name\n1,north\n2,east\n3,south\n"),
        (BY.to_owned(), "left", "id,name\n1,north\n2,east\n3,south\n4,\n"),
        (format!("2 {BY}"), "inner", "id,name\n1,east\n1,north\n2,east\n2,north\n3,east\n3,south\n"),
        ("BY SIMILARITY h.y * s.y".to_owned(), "inner", "id,name\n1,north\n2,north\n3,south\n4,"),
    ] {
        let join = ["join", "h=homes.csv", "s=shops.csv", "--nearest", &nearest, "--type", kind, "--output", "out"];
        let select = ["--select", "h.id, s.name", "--format", "csv", "--overwrite"];
        Annulus::new([&join[..], &select].concat()).at(folder.path()).succeeds();
        let sorted = "SELECT * FROM 'out/' ORDER BY id, name";
        let found = Annulus::new(["sql", "--format", "csv", sorted]).at(folder.path()).succeeds().stdout;
        assert!(found.starts_with(expected), "{nearest}, {kind}: {found}");
    }
    let manifest = fs::read_to_string(Manifest::path_in(&folder.path().join("out"))).expect("a manifest");
    assert!(manifest.contains("\"nearest\": \"1 BY SIMILARITY h.y * s.y\""), "{manifest}");
}

#[test]
fn sql_has_it_where_a_join_stands() {
    let folder = inputs();
    let query = format!(
        "SELECT h.id, s.name FROM 'homes.csv' h JOIN 'shops.csv' s EXACT NEAREST {} ORDER BY h.id",
        BY.trim_start()
    );
    let expected = "id,name\n1,north\n2,east\n3,south\n";
    let found = Annulus::new(["sql", "--format", "csv", &query]).at(folder.path()).succeeds().stdout;
    assert_eq!(found, expected);
    let statements = format!("CREATE VIEW v AS {query}; COPY (FROM v) TO 'out.csv' STORED AS CSV; FROM 'out.csv'");
    let found = Annulus::new(["sql", "--format", "csv", &statements]).at(folder.path()).succeeds().stdout;
    assert!(found.ends_with(expected), "{found}");
    let plan = Annulus::new(["sql", &format!("EXPLAIN {query}")]).at(folder.path()).succeeds().stdout;
    assert!(plan.contains("NearestJoinExec"), "{plan}");
}

#[test]
fn what_cannot_be_joined_says_why() {
    let folder = inputs();
    for (options, expected) in [
        (&["--nearest", "nearby"][..], "expected an optional number of rows"),
        (&["--nearest", "0 BY DISTANCE a.x - b.x"], "from 1 to 100000"),
        (&["--nearest", "BY DISTANCE a.z"], "z"),
        (&["--nearest", "BY DISTANCE a.x - b.x", "--type", "full"], "expected inner or left"),
        (&["--nearest", "BY DISTANCE a.x - b.x", "--on", "x"], "cannot be used with"),
    ] {
        let join = [&["join", "homes.csv", "shops.csv", "--output", "out"][..], options].concat();
        let error = Annulus::new(join).at(folder.path()).fails().stderr;
        assert!(error.contains(expected), "{options:?}: {error}");
        assert!(!folder.path().join("out").exists());
    }
}
