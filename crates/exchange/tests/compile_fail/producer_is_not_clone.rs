use annulus_exchange::ring::RingProducer;

fn twice(handle: &RingProducer<u32>) -> RingProducer<u32> {
    Clone::clone(handle)
}

fn main() {}
