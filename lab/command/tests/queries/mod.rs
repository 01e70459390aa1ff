//! The queries of ClickBench, which are not part of this repository.

use std::{path::PathBuf, process::Command};

/// Returns a file with the queries that DataFusion tests.
pub fn clickbench() -> String {
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/../clickbench/queries");
    let file = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("clickbench.sql");
    let output = Command::new(script).arg(&file).output().expect("python3 runs");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    file.to_str().expect("Unicode").to_owned()
}
