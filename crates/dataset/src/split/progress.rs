//! The progress of a run.

/// Receives the progress of a run, from all of its threads.
pub trait Progress: Sync {
    /// A batch of `rows` rows was read, from about `input_bytes` bytes of the inputs.
    fn read(&self, rows: u64, input_bytes: u64) {
        let _ = (rows, input_bytes);
    }

    /// All inputs have been read. The files of `slots` partitions remain to be finished.
    fn finishing(&self, slots: usize) {
        let _ = slots;
    }

    /// The files of one partition have been finished.
    fn finished(&self) {}
}

/// A [`Progress`] that ignores what it receives.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoProgress;

impl Progress for NoProgress {}
