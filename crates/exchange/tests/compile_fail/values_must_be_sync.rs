use std::cell::Cell;

use annulus_exchange::ring::{RingConfig, ring};

fn main() {
    ring::<Cell<u32>>(RingConfig { producers: 1, consumers: 2, groups: 1, slots: 1 });
}
