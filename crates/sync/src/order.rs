//! The memory orderings of a protocol, by name, so that its `PROTOCOL.md` can say which Acquire
//! reads which Release.
//!
//! Under loom the one that the environment variable `ANNULUS_WEAKEN` names becomes `Relaxed` (a
//! fence: nothing), so that `ci/loom.sh` can show that a model fails without it. Otherwise each is
//! a constant.

/// Functions that return an ordering: `name = Ordering;`.
#[macro_export]
macro_rules! orderings {
    ($($(#[$doc:meta])* $name:ident = $strong:ident;)*) => {
        $($(#[$doc])* #[inline(always)] pub(super) fn $name() -> $crate::atomic::Ordering {
            use $crate::atomic::Ordering;
            if $crate::weakened(stringify!($name)) { Ordering::Relaxed } else { Ordering::$strong }
        })*
    };
}

/// Functions that are a sequentially consistent fence: `name;`.
#[macro_export]
macro_rules! fences {
    ($($(#[$doc:meta])* $name:ident;)*) => {
        $($(#[$doc])* #[inline(always)] pub(super) fn $name() {
            use $crate::atomic::{Ordering, fence};
            if !$crate::weakened(stringify!($name)) { fence(Ordering::SeqCst) }
        })*
    };
}

/// Whether the ordering of this name is to be weakened; only a program built with `--cfg loom` can
/// ask for it.
#[cfg(not(loom))]
#[inline(always)]
pub const fn weakened(_name: &str) -> bool {
    false
}

/// Whether `ANNULUS_WEAKEN` names this ordering.
#[cfg(loom)]
pub fn weakened(name: &str) -> bool {
    static NAME: std::sync::OnceLock<Option<String>> = std::sync::OnceLock::new();
    NAME.get_or_init(|| std::env::var("ANNULUS_WEAKEN").ok()).as_deref() == Some(name)
}
