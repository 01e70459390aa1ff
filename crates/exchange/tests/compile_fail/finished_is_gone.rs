use annulus_exchange::ring::RingProducer;

fn after_the_end(producer: RingProducer<u32>) {
    let mut producer = producer;
    producer.finish();
    let _ = producer.try_send(1);
}

fn main() {}
