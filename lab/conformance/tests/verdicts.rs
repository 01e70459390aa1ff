//! For DataFusion's own logic tests that show a repartition, or that are about joins, Annulus gets
//! the same verdict as stock DataFusion.

use std::process::Command;

fn run(arguments: &[&str]) {
    let program = env!("CARGO_BIN_EXE_annulus-conformance");
    let run = Command::new(program).args(arguments).output().expect("the program was built with this test");
    let (report, errors) = (String::from_utf8_lossy(&run.stdout), String::from_utf8_lossy(&run.stderr));
    assert!(run.status.success(), "{report}\n{errors}");
}

#[test]
fn files_that_show_a_repartition_keep_their_verdict() {
    run(&["--only-repartition"]);
}

#[test]
fn files_about_joins_keep_their_verdict_with_joins_on_annulus() {
    run(&["--joins", "always", "join", "subquery", "dynamic_filter", "cte", "tpch"]);
}
