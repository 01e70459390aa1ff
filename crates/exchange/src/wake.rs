//! Wake-ups and other calls of the embedder's code that are all made, whichever of them panics.

use std::{
    any::Any,
    panic::{AssertUnwindSafe, catch_unwind, resume_unwind},
    thread,
};

/// Makes calls that do not depend on each other, and keeps the first panic until all are made.
#[derive(Default)]
#[must_use = "a panic is lost unless `finish` is called"]
pub(crate) struct AllCalls {
    panic: Option<Box<dyn Any + Send>>,
}

impl AllCalls {
    /// Makes a call; `None` if it panicked.
    pub(crate) fn call<R>(&mut self, call: impl FnOnce() -> R) -> Option<R> {
        match catch_unwind(AssertUnwindSafe(call)) {
            Ok(result) => Some(result),
            Err(panic) => {
                self.panic.get_or_insert(panic);
                None
            }
        }
    }

    /// Goes on with the first panic, if there was one. A thread that unwinds already has a panic of
    /// its own.
    pub(crate) fn finish(self) {
        if let Some(panic) = self.panic
            && !thread::panicking()
        {
            resume_unwind(panic);
        }
    }
}
