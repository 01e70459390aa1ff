//! The memory orderings of the free list, by name.

use annulus_sync::orderings;

orderings! {
    /// Pushes a free number: passes its memory and its link to the thread that pops it.
    push = Release;
    /// Pops a number: receives its memory and its link.
    pop = Acquire;
}
