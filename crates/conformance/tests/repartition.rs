//! For DataFusion's own logic tests that show a repartition, the exchange gets the same verdict as
//! stock DataFusion.

use std::process::Command;

#[test]
fn files_that_show_a_repartition_keep_their_verdict() {
    let program = env!("CARGO_BIN_EXE_annulus-conformance");
    let run = Command::new(program).arg("--only-repartition").output().expect("the program was built with this test");
    let (report, errors) = (String::from_utf8_lossy(&run.stdout), String::from_utf8_lossy(&run.stderr));
    assert!(run.status.success(), "{report}\n{errors}");
}
