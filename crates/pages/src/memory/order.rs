//! The memory orderings of the free list, by name.

use annulus_sync::orderings;

orderings! {
    /// A number is free: gives its memory, and its link, to who pops it.
    push = Release;
    /// Takes them.
    pop = Acquire;
}
