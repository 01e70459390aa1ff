//! What the models share: a waker that loom sees, and the bound of a model.

use std::{
    sync::Arc,
    task::{Context, Poll, Wake, Waker},
};

use loom::{sync::Notify, thread};

/// Wakes the thread of the model that waits for it.
pub struct Bell(pub Notify);

impl Wake for Bell {
    fn wake(self: Arc<Self>) {
        self.0.notify();
    }
    /// Called by a handle that wakes itself, to check again after the others have run.
    fn wake_by_ref(self: &Arc<Self>) {
        self.0.notify();
        thread::yield_now();
    }
}

/// Calls `poll` until it is ready, and lets the thread of the model wait in between.
pub fn block_on<R>(mut poll: impl FnMut(&mut Context<'_>) -> Poll<R>) -> R {
    let bell = Arc::new(Bell(Notify::new()));
    let waker = Waker::from(Arc::clone(&bell));
    let mut cx = Context::from_waker(&waker);
    loop {
        if let Poll::Ready(result) = poll(&mut cx) {
            return result;
        }
        bell.0.wait();
    }
}

/// Checks `body` with every interleaving of at most this number of preemptions.
pub fn model(preemptions: usize, body: impl Fn() + Send + Sync + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = builder.preemption_bound.or(Some(preemptions));
    builder.max_branches = 20_000;
    builder.check(body);
}
