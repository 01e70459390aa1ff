//! Whether all files can be open at once.

/// Files that the process has open besides the output: inputs, runs, standard streams, the embedder's.
const OTHER_FILES: usize = 128;

/// Whether `files` open files of at least `floor_bytes` each fit in `memory_bytes`, and may be open at once. Raises the
/// process's soft limit of open files as far as it must and may.
pub(crate) fn fit(files: usize, floor_bytes: usize, memory_bytes: usize) -> bool {
    files.saturating_mul(floor_bytes) <= memory_bytes && may_open(files + OTHER_FILES)
}

#[cfg(unix)]
fn may_open(files: usize) -> bool {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    let wanted = files as u64;
    let Rlimit { current, maximum } = getrlimit(Resource::Nofile);
    if current.is_none_or(|current| current >= wanted) {
        return true;
    }
    maximum.is_none_or(|maximum| maximum >= wanted)
        && setrlimit(Resource::Nofile, Rlimit { current: Some(wanted), maximum }).is_ok()
}

#[cfg(not(unix))]
fn may_open(files: usize) -> bool {
    files <= 512
}
