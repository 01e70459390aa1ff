//! The command's output on a terminal, which `script` provides, and elsewhere.
#![cfg(target_os = "linux")]

mod support;

use std::{
    fs,
    io::{Read, Write},
    path::Path,
    process::{Command, Stdio},
};

use support::Annulus;
use unicode_width::UnicodeWidthStr;

/// Runs `annulus ARGUMENTS` in `folder` on a terminal of this width with `typed` on its keyboard.
/// Returns everything that it prints.
fn on_terminal(folder: &Path, columns: usize, arguments: &str, typed: &str, no_color: bool) -> String {
    let run = format!("stty cols {columns} rows 40; exec {} {arguments}", env!("CARGO_BIN_EXE_annulus"));
    let mut command = Command::new("script");
    command.args(["--quiet", "--return", "--command", &run, "/dev/null"]).current_dir(folder);
    command.env_remove("NO_COLOR").env("TERM", "xterm-256color").env("HOME", folder);
    if no_color {
        command.env("NO_COLOR", "1");
    }
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("script starts");
    child.stdin.take().expect("a pipe").write_all(typed.as_bytes()).expect("script reads");
    String::from_utf8(child.wait_with_output().expect("script ends").stdout).expect("text")
}

/// Runs the shell in `folder` on a terminal: waits for each text, and then types the next one. Returns
/// everything that it prints.
#[track_caller]
fn converse(folder: &Path, steps: &[(&str, &str)]) -> String {
    let run = format!("stty cols 100 rows 40; exec {} sql", env!("CARGO_BIN_EXE_annulus"));
    let mut command = Command::new("script");
    command.args(["--quiet", "--return", "--command", &run, "/dev/null"]).current_dir(folder);
    command.env("NO_COLOR", "1").env("TERM", "xterm-256color").env("HOME", folder);
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("script starts");
    let (mut keyboard, mut screen) = (child.stdin.take().expect("a pipe"), child.stdout.take().expect("a pipe"));
    let (mut shown, mut seen) = (Vec::new(), 0);
    for (expected, typed) in steps {
        loop {
            let found = shown[seen..].windows(expected.len()).position(|part| part == expected.as_bytes());
            if let Some(place) = found {
                seen += place + expected.len();
                break;
            }
            let mut more = [0; 4096];
            let count = screen.read(&mut more).expect("text");
            assert_ne!(count, 0, "no '{expected}' in {}", String::from_utf8_lossy(&shown));
            shown.extend_from_slice(&more[..count]);
        }
        keyboard.write_all(typed.as_bytes()).expect("script reads");
    }
    screen.read_to_end(&mut shown).expect("text");
    child.wait().expect("script ends");
    String::from_utf8(shown).expect("text")
}

/// Returns whether `text` sets a colour or another rendition of characters.
fn has_colour(text: &str) -> bool {
    let sequences = text.split("\x1b[").skip(1);
    sequences
        .into_iter()
        .any(|rest| rest.find(|c: char| c.is_ascii_alphabetic()).is_some_and(|at| rest[at..].starts_with('m')))
}

/// Returns the lines of `text` as they finally appear on the screen.
fn lines(text: &str) -> Vec<&str> {
    text.lines()
        .map(|line| line.rsplit(['\r', '\x1b']).next().unwrap_or_default())
        .map(|line| line.trim_start_matches("[2K"))
        .collect()
}

fn folder() -> tempfile::TempDir {
    let folder = tempfile::tempdir().expect("a folder");
    let rows: String = (0..100).map(|n| format!("{n},{}\n", n % 7)).collect();
    fs::write(folder.path().join("rows.csv"), format!("id,key\n{rows}")).expect("write");
    folder
}

#[test]
fn tables_fit_the_terminal() {
    let folder = folder();
    let long = "a_folder_with_a_name_that_is_longer_than_the_terminal_is_wide";
    for arguments in [
        "sql \"SELECT repeat('x', 99) AS wide, 1 AS n\"".to_owned(),
        format!("partition rows.csv --by key --into 2 -o {long}"),
        "join rows.csv r=rows.csv --on id -o joined".to_owned(),
        "join rows.csv r=rows.csv --where 'a.id BETWEEN r.id - 5 AND r.id + 5' -o near --cluster 2".to_owned(),
    ] {
        let shown = on_terminal(folder.path(), 60, &arguments, "", false);
        for line in lines(&shown) {
            assert!(line.width() <= 60, "{arguments}: {} columns: {line}\n{shown}", line.width());
        }
        assert!(lines(&shown).iter().any(|line| !line.is_empty()), "{arguments}");
    }
}

#[test]
fn nothing_is_cut_or_drawn_elsewhere() {
    let folder = folder();
    let wide = "x".repeat(300);
    let done = Annulus::new(["sql", &format!("SELECT '{wide}' AS wide")]).succeeds();
    assert!(done.stdout.contains(&wide) && done.stderr.is_empty(), "{}{}", done.stdout, done.stderr);
    let done = Annulus::new(["partition", "rows.csv", "--by=key", "--into=2", "-o", &wide[..200]]).at(folder.path());
    let done = done.succeeds();
    assert!(done.stdout.contains(&wide[..200]) && done.stderr.is_empty(), "{}{}", done.stdout, done.stderr);
    assert!(!has_colour(&Annulus::new(["--help"]).succeeds().stdout));
}

#[test]
fn no_color_has_no_colours() {
    let folder = folder();
    for (arguments, typed) in [
        ("--help", ""),
        ("sql --ouput", ""),
        ("sql", "SELECT 'text' AS one;\r\\q\r"),
        ("partition rows.csv --by key --into 2 -o parts --overwrite", ""),
    ] {
        let shown = on_terminal(folder.path(), 80, arguments, typed, true);
        assert!(!has_colour(&shown), "{arguments}: {shown:?}");
    }
    // Checks that `has_colour` finds colours where there are some.
    assert!(has_colour(&on_terminal(folder.path(), 80, "--help", "", false)));
    assert!(has_colour(&on_terminal(folder.path(), 80, "sql", "SELECT 'text' AS one;\r\\q\r", false)));
}

#[test]
fn the_shell_asks_for_the_rest_of_a_statement() {
    let folder = folder();
    let shown = converse(
        folder.path(),
        &[
            ("\\? for help", ""),
            ("annulus> ", "SELECT 'one\r"),
            ("      '> ", "' AS a,\r"),
            ("    ...> ", "\\?\r"),
            ("list the tables", ""),
            ("    ...> ", "help\r"),
            ("list the tables", ""),
            ("    ...> ", ".tables\r"),
            ("0 rows", ""),
            ("    ...> ", "2 AS b;\r"),
            ("1 row", ""),
            ("annulus> ", "SELEC\r"),
            ("    ...> ", "quit\r"),
        ],
    );
    assert!(!shown.contains("error"), "{shown}");
}

#[test]
fn plans_fit_the_terminal() {
    let folder = folder();
    let query = "SELECT a.id, count(*) AS number_of_rows_of_this_key, sum(b.key) FROM 'rows.csv' a JOIN 'rows.csv' b \
                 ON a.id = b.id JOIN 'rows.csv' c ON b.id = c.id WHERE a.key > 2 GROUP BY a.id ORDER BY 2";
    let plan = |columns: usize, query: &str| {
        let shown = on_terminal(folder.path(), columns, &format!("sql \"{query}\""), "", true);
        for line in lines(&shown).iter().filter(|line| line.starts_with(['|', '+'])) {
            assert!(line.width() <= columns, "{} columns: {line}\n{shown}", line.width());
        }
        shown
    };
    let tree = plan(100, "EXPLAIN SELECT count(*) FROM 'rows.csv'");
    assert!(tree.contains("┌────") && !tree.contains("logical_plan"), "{tree}");
    let long = plan(60, &format!("EXPLAIN {query}"));
    assert!(
        long.contains("logical_plan") && !long.contains('┌') && long.contains("number_of_rows_of_this_key"),
        "{long}"
    );
    let measured = plan(60, &format!("EXPLAIN ANALYZE {query}"));
    assert!(measured.contains("output_rows=56") && !measured.contains("(0.000 s)"), "{measured}");
    // Elsewhere, plans are as they were.
    let done = Annulus::new(["sql", &format!("EXPLAIN {query}")]).at(folder.path()).succeeds();
    assert!(done.stdout.contains("logical_plan") && done.stdout.lines().any(|line| line.width() > 100));
}

#[test]
fn a_topic_is_shown_page_by_page() {
    let folder = folder();
    // A pager that shows the first line only.
    let run = format!("PAGER='head -n 1' exec {} help queries", env!("CARGO_BIN_EXE_annulus"));
    let mut script = Command::new("script");
    let script = script.args(["--quiet", "--return", "--command", &run, "/dev/null"]).current_dir(folder.path());
    let output = script.stdin(Stdio::null()).output().expect("script runs");
    assert_eq!(String::from_utf8(output.stdout).expect("text").lines().count(), 1);
    assert!(Annulus::new(["help", "queries"]).succeeds().stdout.lines().count() > 100);
}
