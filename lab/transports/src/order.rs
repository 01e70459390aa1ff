//! The memory orderings that the paper's ring and the barrier share, by name. The protocol of the
//! ring says what each fence stands between.

use annulus_sync::fences;

fences! {
    /// A consumer: waker registered, then "is there a value? does a producer wait?".
    fence_rival_value;
    /// A producer: waker registered, then "is there a free slot? does a consumer starve?".
    fence_rival_slot;
    /// A handle: a group published or freed, a lease given back, a stop or an end stored, then
    /// "does any handle wait?".
    fence_rival_event;
}
