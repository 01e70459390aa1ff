//! The memory orderings of a protocol, by name. Its `PROTOCOL.md` can then say which Acquire reads
//! which Release.
//!
//! Under loom, the environment variable `ANNULUS_WEAKEN` names one that becomes `Relaxed`, or no
//! fence at all. So `ci/loom.sh` can show that a model fails without it. Otherwise each is a
//! constant.

/// Defines functions that return an ordering: `name = Ordering;`.
#[macro_export]
macro_rules! orderings {
    ($($(#[$doc:meta])* $name:ident = $strong:ident;)*) => {
        $($(#[$doc])* #[inline(always)] pub(super) fn $name() -> $crate::atomic::Ordering {
            use $crate::atomic::Ordering;
            if $crate::weakened(stringify!($name)) { Ordering::Relaxed } else { Ordering::$strong }
        })*
    };
}

/// Defines functions that are a sequentially consistent fence: `name;`.
#[macro_export]
macro_rules! fences {
    ($($(#[$doc:meta])* $name:ident;)*) => {
        $($(#[$doc])* #[inline(always)] pub(super) fn $name() {
            use $crate::atomic::{Ordering, fence};
            if !$crate::weakened(stringify!($name)) { fence(Ordering::SeqCst) }
        })*
    };
}

/// Returns whether the ordering of this name is weakened. Only a program built with `--cfg loom`
/// can weaken one.
#[cfg(not(loom))]
#[inline(always)]
pub const fn weakened(_name: &str) -> bool {
    false
}

/// Returns whether `ANNULUS_WEAKEN` names this ordering.
#[cfg(loom)]
pub fn weakened(name: &str) -> bool {
    static NAME: std::sync::OnceLock<Option<String>> = std::sync::OnceLock::new();
    NAME.get_or_init(|| std::env::var("ANNULUS_WEAKEN").ok()).as_deref() == Some(name)
}
