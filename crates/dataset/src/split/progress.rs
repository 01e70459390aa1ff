//! How far a run is.

/// Receives how far a run is, from all of its threads.
pub trait Progress: Sync {
    /// A batch was read: so many rows, from so many bytes of the inputs (about).
    fn read(&self, rows: u64, input_bytes: u64) {
        let _ = (rows, input_bytes);
    }

    /// All inputs are read, and so many files' ends are to be written.
    fn finishing(&self, slots: usize) {
        let _ = slots;
    }

    /// One of them is.
    fn finished(&self) {}
}

/// Nobody is interested.
#[derive(Clone, Copy, Debug, Default)]
pub struct Silent;

impl Progress for Silent {}
