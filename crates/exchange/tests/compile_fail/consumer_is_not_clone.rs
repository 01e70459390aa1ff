use annulus_exchange::ring::RingConsumer;

fn twice(handle: &RingConsumer<u32>) -> RingConsumer<u32> {
    Clone::clone(handle)
}

fn main() {}
