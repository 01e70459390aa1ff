use std::cell::Cell;

use annulus_exchange::ring::{RingConfig, ring};

fn main() {
    ring::<Cell<u32>>(RingConfig::new(1, 2).with_groups(1).with_slots(1));
}
