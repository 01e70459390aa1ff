//! Runs the built command.
#![allow(dead_code, reason = "each test file uses a part")]

#[cfg(target_os = "linux")]
pub mod processes;
pub mod workers;

use std::{
    ffi::OsStr,
    fs,
    io::{BufRead, BufReader, Read, Write},
    path::Path,
    process::{Child, ChildStderr, ChildStdout, Command, Output, Stdio},
};

/// The program under test: this package's own.
pub const PROGRAM: &str = match (option_env!("CARGO_BIN_EXE_annulus"), option_env!("CARGO_BIN_EXE_annulus-lab")) {
    (Some(program), _) | (None, Some(program)) => program,
    (None, None) => panic!("the package has neither program"),
};

/// A command to run, with empty standard input by default.
pub struct Annulus(Command);

/// The output of a command.
pub struct Done {
    pub stdout: String,
    pub stderr: String,
}

/// Returns the command of a program and its first arguments, without input, and with its output at hand.
fn piped(program: &[&str]) -> Command {
    let mut command = Command::new(program[0]);
    command.args(&program[1..]).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

impl Annulus {
    pub fn new<S: AsRef<OsStr>>(arguments: impl IntoIterator<Item = S>) -> Self {
        // As from a terminal, even if `nohup` runs the tests.
        Self::by(&["env", "--default-signal=HUP"], arguments)
    }

    /// Lets another program run it, after these arguments.
    pub fn by<S: AsRef<OsStr>>(program: &[&str], arguments: impl IntoIterator<Item = S>) -> Self {
        let mut command = piped(program);
        command.arg(PROGRAM).args(arguments);
        Self(command)
    }

    /// Runs it in `folder`.
    pub fn at(mut self, folder: &Path) -> Self {
        self.0.current_dir(folder);
        self
    }

    /// Makes it keep temporary files in `folder`.
    pub fn temp(self, folder: &Path) -> Self {
        self.env("TMPDIR", folder)
    }

    /// Gives it an environment variable.
    pub fn env(mut self, name: &str, value: &Path) -> Self {
        self.0.env(name, value);
        self
    }

    /// Runs it in a network namespace.
    pub fn within(self, namespace: &str) -> Self {
        let mut command = piped(&["ip", "netns", "exec", namespace]);
        command.arg(self.0.get_program()).args(self.0.get_args());
        for (name, value) in self.0.get_envs() {
            command.env(name, value.expect("a value"));
        }
        if let Some(folder) = self.0.get_current_dir() {
            command.current_dir(folder);
        }
        Self(command)
    }

    #[track_caller]
    pub fn succeeds(mut self) -> Done {
        expect_code(&mut self.0.output().expect("annulus starts"), 0)
    }

    #[track_caller]
    pub fn fails(mut self) -> Done {
        expect_code(&mut self.0.output().expect("annulus starts"), 1)
    }

    /// Returns its output: `Ok` if it succeeds, `Err` otherwise.
    pub fn tries(mut self) -> Result<Done, Done> {
        let output = self.0.output().expect("annulus starts");
        let text = |bytes: Vec<u8>| String::from_utf8(bytes).expect("text");
        let done = Done { stdout: text(output.stdout), stderr: text(output.stderr) };
        if output.status.success() { Ok(done) } else { Err(done) }
    }

    /// Makes it read a file as its standard input.
    pub fn reads(mut self, path: &Path) -> Self {
        self.0.stdin(fs::File::open(path).expect("a file"));
        self
    }

    /// Runs it with `content` as its standard input, through a pipe.
    #[track_caller]
    pub fn input(mut self, content: impl AsRef<[u8]>) -> Done {
        let mut child = self.0.stdin(Stdio::piped()).spawn().expect("annulus starts");
        child.stdin.take().expect("a pipe").write_all(content.as_ref()).expect("annulus reads");
        expect_code(&mut child.wait_with_output().expect("annulus ends"), 0)
    }

    pub fn start(mut self) -> Running {
        let mut child = self.0.spawn().expect("annulus starts");
        let (stdout, stderr) = (child.stdout.take().map(BufReader::new), child.stderr.take().map(BufReader::new));
        Running { child, stdout, stderr }
    }
}

#[track_caller]
fn expect_code(output: &mut Output, code: i32) -> Done {
    let stdout = String::from_utf8(std::mem::take(&mut output.stdout)).expect("text");
    let stderr = String::from_utf8(std::mem::take(&mut output.stderr)).expect("text");
    assert_eq!(output.status.code(), Some(code), "stdout: {stdout}\nstderr: {stderr}");
    Done { stdout, stderr }
}

/// A running command, which is killed if the test ends first.
pub struct Running {
    child: Child,
    stdout: Option<BufReader<ChildStdout>>,
    stderr: Option<BufReader<ChildStderr>>,
}

impl Running {
    /// Reads lines until one contains `text`.
    #[track_caller]
    pub fn wait_for(&mut self, text: &str) {
        let lines = self.stdout.as_mut().expect("an open pipe").by_ref().lines();
        assert!(lines.map_while(Result::ok).any(|line| line.contains(text)), "it ended without '{text}'");
    }

    /// Reads lines of standard error until one contains `text`.
    #[track_caller]
    pub fn wait_for_stderr(&mut self, text: &str) {
        let mut said = String::new();
        let stderr = self.stderr.as_mut().expect("an open pipe");
        while !said.contains(text) {
            assert_ne!(stderr.read_line(&mut said).expect("text"), 0, "it ended without '{text}': {said}");
        }
    }

    /// Reads standard error until a line contains `text`, and returns that line.
    #[track_caller]
    pub fn line_of_stderr(&mut self, text: &str) -> String {
        let lines = self.stderr.as_mut().expect("an open pipe").by_ref().lines();
        let line = lines.map_while(Result::ok).find(|line| line.contains(text));
        line.unwrap_or_else(|| panic!("it ended without '{text}'"))
    }

    /// Sends a signal, and waits for the command to end. `code` is what a shell would report.
    #[track_caller]
    pub fn end_by(mut self, signal: &str, code: i32) {
        self.signal(signal);
        let status = self.child.wait().expect("annulus ends");
        let found = status.code().or_else(|| std::os::unix::process::ExitStatusExt::signal(&status).map(|n| 128 + n));
        assert_eq!(found, Some(code));
    }

    /// Waits for an effect of the command outside its pipes.
    #[track_caller]
    pub fn wait_until(&mut self, condition: impl Fn() -> bool) {
        while !condition() {
            assert_eq!(self.child.try_wait().expect("a child"), None, "it ended too early");
            std::thread::yield_now();
        }
    }

    /// Waits until the command has computed for two seconds.
    #[cfg(target_os = "linux")]
    pub fn wait_until_busy(&mut self) {
        let stat = format!("/proc/{}/stat", self.child.id());
        // Time in user mode is field 14; the name, field 2, ends in a bracket. A tick is a hundredth of a
        // second.
        let ticks =
            || -> Option<u64> { fs::read_to_string(&stat).ok()?.split_once(") ")?.1.split(' ').nth(11)?.parse().ok() };
        self.wait_until(|| ticks() > Some(200));
    }

    pub fn close_stdout(&mut self) {
        self.stdout = None;
    }

    #[cfg(unix)]
    pub fn signal(&self, name: &str) {
        let sent = Command::new("kill").args(["-s", name, &self.child.id().to_string()]).status();
        assert!(sent.expect("kill runs").success());
    }

    pub fn id(&self) -> u32 {
        self.child.id()
    }

    pub fn has_ended(&mut self) -> bool {
        self.child.try_wait().expect("a child").is_some()
    }

    pub fn exit_code(&mut self) -> Option<i32> {
        self.child.wait().expect("annulus ends").code()
    }

    pub fn stderr(&mut self) -> String {
        let mut text = String::new();
        self.stderr.as_mut().expect("a pipe").read_to_string(&mut text).expect("text");
        text
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // It has already ended unless the test failed.
        self.child.kill().ok();
        self.child.wait().ok();
    }
}

/// Checks that `command` with each of these options fails with a message, and writes nothing. It
/// runs in a folder that has the file `file`.
#[track_caller]
pub fn expect_refused(command: &str, cases: &[(&[&str], &str)]) {
    let folder = tempfile::tempdir().expect("a folder");
    fs::write(folder.path().join("file"), "").expect("write");
    for (options, expected) in cases {
        let done = Annulus::new([command].iter().chain(*options)).at(folder.path()).fails();
        assert!(done.stderr.contains(expected), "{options:?}: {}", done.stderr);
    }
    assert_eq!(names(folder.path()), ["file"]);
}

/// Returns whether there is a file in `folder` or below.
pub fn has_file(folder: &Path) -> bool {
    // Folders may vanish while they are being read.
    fs::read_dir(folder)
        .is_ok_and(|entries| entries.flatten().any(|entry| entry.path().is_file() || has_file(&entry.path())))
}

/// Returns the names in a folder, including hidden ones, sorted.
pub fn names(folder: &Path) -> Vec<String> {
    let entries = fs::read_dir(folder).expect("a folder");
    let mut names: Vec<_> =
        entries.map(|entry| entry.expect("an entry").file_name().to_string_lossy().into_owned()).collect();
    names.sort();
    names
}
