//! Copies of pipes.

use std::{
    fs::{self, File},
    io::{self, BufRead, Read, stdin},
    path::Path,
    thread,
};

use annulus_dataset::{Format, extension_of};
use anyhow::{Context, Result, anyhow};
use tokio::{sync::oneshot, task::spawn_blocking};

/// Returns whether an input is standard input or another pipe, which can be read once and not
/// sought.
pub fn is_pipe(path: &str) -> bool {
    path == "-" || fs::metadata(path).is_ok_and(|found| !found.is_file() && !found.is_dir())
}

/// Returns whether standard input is a stream of Arrow, which is read as it comes. It waits for the
/// first byte.
pub async fn is_arrow_stream(format: Option<Format>) -> bool {
    let begins_so = || {
        let mut input = stdin().lock();
        // A failure is reported when the input is read.
        let marks = |bytes: &[u8]| bytes.first() == Some(&0xff) && bytes.get(1).is_none_or(|byte| *byte == 0xff);
        input.fill_buf().is_ok_and(marks)
    };
    matches!(format, None | Some(Format::Ipc)) && apart(begins_so).await.unwrap_or(false)
}

/// Runs `work` in a thread of its own: one that waits for a writer does not delay the end of the
/// command.
async fn apart<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> Result<T> {
    let (sender, result) = oneshot::channel();
    thread::spawn(move || sender.send(work()));
    result.await.context("the reader has panicked")
}

/// Copies a pipe to a file that begins with `to`, and returns its path. The extension is that of
/// `format`, or of what the bytes show.
///
/// # Errors
/// If the pipe cannot be read, or the disk is full.
pub async fn copy(pipe: &str, to: &Path, format: Option<Format>) -> Result<String> {
    let (from, into) = (pipe.to_owned(), to.to_owned());
    apart(move || write(&from, &into)).await?.with_context(|| format!("cannot read '{pipe}'"))?;
    renamed(to, format).await
}

fn write(pipe: &str, to: &Path) -> io::Result<u64> {
    let mut from: Box<dyn Read> = if pipe == "-" { Box::new(stdin()) } else { Box::new(File::open(pipe)?) };
    io::copy(&mut from, &mut File::create_new(to)?)
}

/// Gives a file whose name does not tell its format an extension that does, and returns its path. A
/// folder stays as it is.
///
/// # Errors
/// If it cannot be read.
pub async fn with_extension(path: &Path) -> Result<String> {
    if path.is_dir() || Format::of_path(path).is_some() { text_of(path) } else { renamed(path, None).await }
}

async fn renamed(path: &Path, format: Option<Format>) -> Result<String> {
    let from = path.to_owned();
    let renamed = spawn_blocking(move || {
        let mut name = from.clone().into_os_string();
        name.push(format!(".{}", extension_of(&from, format)?));
        fs::rename(&from, &name)?;
        Ok::<_, io::Error>(name)
    });
    let name = renamed.await.context("the reader has panicked")?.context("cannot read a copy of an input")?;
    text_of(Path::new(&name))
}

fn text_of(path: &Path) -> Result<String> {
    path.to_str().map(str::to_owned).ok_or_else(|| anyhow!("'{}' is not UTF-8", path.display()))
}
