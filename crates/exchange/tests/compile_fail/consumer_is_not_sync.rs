use annulus_exchange::ring::RingConsumer;

fn shared_between_threads<T: Sync>() {}

fn main() {
    shared_between_threads::<RingConsumer<u32>>();
}
