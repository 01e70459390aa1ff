//! A run that is killed.

use std::{
    fs,
    path::Path,
    process::{Command, Stdio},
    thread,
};

/// Starts `command` and kills it when the file `partial` has more than `results` results. Returns
/// what is left in the file, whose last line may be cut short.
pub fn killed_after(results: usize, command: &mut Command, partial: &Path) -> String {
    let mut child = command.stderr(Stdio::null()).spawn().expect("it starts");
    loop {
        let text = fs::read_to_string(partial).unwrap_or_default();
        if text.lines().count() > results + 1 {
            child.kill().expect("it runs");
            child.wait().expect("it ends");
            return fs::read_to_string(partial).expect("it is left");
        }
        assert!(child.try_wait().expect("a child").is_none(), "it ended with {text}");
        thread::yield_now();
    }
}
