//! Memory for copies of fragments, one at a time.

use arrow::buffer::{Buffer, MutableBuffer};

/// Memory for a copy of a fragment, reused for the next one. A copy is needed because columns may
/// outlive the fragment, in batches with views.
#[derive(Default)]
pub(crate) struct Spare {
    memory: Option<MutableBuffer>,
    lent: Option<Buffer>,
}

impl Spare {
    pub(crate) fn copy(&mut self, bytes: &[u8]) -> Buffer {
        let mut memory = self.memory.take().unwrap_or_else(|| MutableBuffer::new(bytes.len()));
        memory.clear();
        memory.extend_from_slice(bytes);
        let buffer = Buffer::from(memory);
        self.lent = Some(buffer.clone());
        buffer
    }

    /// Takes the memory back, if nothing refers to it any more.
    pub(crate) fn reclaim(&mut self) {
        self.memory = self.lent.take().and_then(|buffer| buffer.into_mutable().ok());
    }
}
