//! Calls of the embedder's code, mainly wake-ups, that must all be made even if one panics.

use std::{
    any::Any,
    panic::{AssertUnwindSafe, catch_unwind, resume_unwind},
    thread,
};

/// Makes independent calls, and keeps the first panic until all of them have been made.
#[derive(Default)]
#[must_use = "a panic is lost unless `finish` is called"]
pub struct AllCalls {
    panic: Option<Box<dyn Any + Send>>,
}

impl AllCalls {
    /// Makes a call. Returns `None` if it panicked.
    pub fn call<R>(&mut self, call: impl FnOnce() -> R) -> Option<R> {
        match catch_unwind(AssertUnwindSafe(call)) {
            Ok(result) => Some(result),
            Err(panic) => {
                self.panic.get_or_insert(panic);
                None
            }
        }
    }

    /// Resumes the first panic, if there was one. A thread that is unwinding already has a panic
    /// of its own, so this one is dropped.
    pub fn finish(self) {
        if let Some(panic) = self.panic
            && !thread::panicking()
        {
            resume_unwind(panic);
        }
    }
}
