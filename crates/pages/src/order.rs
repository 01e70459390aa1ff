//! The memory orderings of a protocol, by name, so that its `PROTOCOL.md` can say which Acquire reads which Release.
//!
//! Under loom the one that the environment variable `ANNULUS_WEAKEN` names becomes `Relaxed`, so that `ci/loom.sh` can show
//! that a model fails without it. Otherwise each is a constant.

/// Functions that return an ordering: `name = Ordering;`.
macro_rules! orderings {
    ($($(#[$doc:meta])* $name:ident = $strong:ident;)*) => {
        $($(#[$doc])* #[inline(always)] pub(super) fn $name() -> crate::sync::atomic::Ordering {
            use crate::sync::atomic::Ordering;
            if crate::order::weakened(stringify!($name)) { Ordering::Relaxed } else { Ordering::$strong }
        })*
    };
}

pub(crate) use orderings;

#[cfg(not(loom))]
#[inline(always)]
pub(crate) const fn weakened(_name: &str) -> bool {
    false
}

#[cfg(loom)]
pub(crate) fn weakened(name: &str) -> bool {
    static NAME: std::sync::OnceLock<Option<String>> = std::sync::OnceLock::new();
    NAME.get_or_init(|| std::env::var("ANNULUS_WEAKEN").ok()).as_deref() == Some(name)
}
