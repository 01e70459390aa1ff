#![doc = include_str!("../README.md")]
#![forbid(unsafe_code)]
#![warn(missing_docs)]

mod cancel;
mod order;

// Models need locks that loom knows, and `Mutex` here has their interface, with poisoning. Code that no
// model runs takes the locks of parking_lot.
#[cfg(loom)]
pub use loom::{
    cell::UnsafeCell,
    hint,
    sync::{Arc, Condvar, Mutex, MutexGuard, atomic},
    thread::yield_now,
    thread_local,
};
#[cfg(not(loom))]
pub use std::{
    hint,
    sync::{Arc, Condvar, Mutex, MutexGuard, atomic},
    thread::yield_now,
    thread_local,
};

pub use cancel::{CancelToken, Cancelled};
pub use order::weakened;

/// The `UnsafeCell` of the standard library, with loom's access by closures, so that one source
/// serves both.
#[cfg(not(loom))]
#[derive(Debug)]
pub struct UnsafeCell<T>(std::cell::UnsafeCell<T>);

#[cfg(not(loom))]
impl<T> UnsafeCell<T> {
    /// Creates a cell that holds `value`.
    #[inline(always)]
    pub const fn new(value: T) -> Self {
        Self(std::cell::UnsafeCell::new(value))
    }
    /// Calls `f` with a pointer to read through.
    #[inline(always)]
    pub fn with<R>(&self, f: impl FnOnce(*const T) -> R) -> R {
        f(self.0.get())
    }
    /// Calls `f` with a pointer to write through.
    #[inline(always)]
    pub fn with_mut<R>(&self, f: impl FnOnce(*mut T) -> R) -> R {
        f(self.0.get())
    }
}
