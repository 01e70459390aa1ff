use annulus_exchange::ring::RingProducer;

fn shared_between_threads<T: Sync>() {}

fn main() {
    shared_between_threads::<RingProducer<u32>>();
}
