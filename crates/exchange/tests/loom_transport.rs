//! Models of the queues' waiting, and of the rings per domain. Loom runs them through every
//! interleaving up to a number of preemptions. The queues themselves are not ours:
//! `src/transport/queues/kind/` has that of the models.
#![cfg(loom)]

mod bell;
mod models;

use annulus_exchange::{
    Strategy,
    transport::{Handles, Shape, transport},
};
use models::{
    harness::{Model, Number, shape, two_rings},
    scenarios::{
        a_consumer_leaves, a_consumer_leaves_with_the_reason, a_consumer_reads_once, a_full_transport,
        a_laggard_reads_again, a_slow_consumer, a_stop, a_stop_before_the_end, a_stop_for_a_producer,
        an_input_that_pauses, by_a_producer, by_the_consumer, one_of_two_leaves, two_consumers, two_producers,
        two_producers_wait, values_for_one,
    },
};

const QUEUES: Model = Model { handles: queues, preemptions: 2, yields: false };
const DOMAINS: Model = Model { handles: domains, ..QUEUES };

fn queues(shape: Shape) -> Handles<Number> {
    transport(Strategy::Channel, shape).expect("a transport")
}

fn domains(shape: Shape) -> Handles<Number> {
    transport(Strategy::RingPerDomain, shape).expect("a transport")
}

#[test]
fn queue_full() {
    a_full_transport(&Model { preemptions: 1, ..QUEUES }, &[1], 2);
}

#[test]
fn queue_two_producers() {
    two_producers(&QUEUES, shape(2, 1, 2), &[], &[11]);
}

#[test]
fn queue_two_producers_wait() {
    two_producers_wait(&Model { preemptions: 1, ..QUEUES });
}

#[test]
fn queue_slow_consumer() {
    a_slow_consumer(&QUEUES, shape(1, 2, 1), 0, &[1], &[2]);
}

#[test]
fn queue_values_for_one() {
    values_for_one(&Model { preemptions: 1, ..QUEUES });
}

#[test]
fn queue_two_consumers() {
    two_consumers(&Model { preemptions: 1, yields: true, ..QUEUES }, &[1], &[2]);
}

#[test]
fn queue_laggard_reads_again() {
    a_laggard_reads_again(&Model { preemptions: 3, ..QUEUES }, &[1]);
}

#[test]
fn queue_stop() {
    a_stop(&QUEUES, shape(1, 1, 1), 0);
}

#[test]
fn queue_stop_before_the_end() {
    a_stop_before_the_end(&QUEUES, 2);
}

#[test]
fn queue_consumer_reads_once() {
    a_consumer_reads_once(&Model { preemptions: 3, ..QUEUES });
}

#[test]
fn queue_consumer_stops() {
    a_stop_for_a_producer(&Model { preemptions: 3, ..QUEUES }, shape(1, 1, 1), 0, by_the_consumer);
}

#[test]
fn queue_consumer_leaves() {
    a_consumer_leaves(&Model { preemptions: 3, ..QUEUES });
}

#[test]
fn queue_one_of_two_leaves() {
    one_of_two_leaves(&Model { preemptions: 1, ..QUEUES });
}

#[test]
fn queue_input_pauses() {
    an_input_that_pauses(&QUEUES, shape(1, 1, 1), 0);
}

#[test]
fn domains_two_producers() {
    two_producers(&DOMAINS, two_rings(1), &[1], &[11]);
}

#[test]
fn domains_slow_consumer() {
    a_slow_consumer(&DOMAINS, two_rings(2), 1, &[1], &[2, 3]);
}

#[test]
fn domains_stop() {
    a_stop(&Model { preemptions: 3, ..DOMAINS }, two_rings(1), 1);
}

#[test]
fn domains_consumer_stops() {
    a_stop_for_a_producer(&Model { preemptions: 3, ..DOMAINS }, two_rings(1), 1, by_the_consumer);
}

#[test]
fn domains_producer_stops() {
    a_stop_for_a_producer(&Model { preemptions: 3, ..DOMAINS }, two_rings(1), 1, by_a_producer);
}

#[test]
fn domains_consumer_leaves_with_the_reason() {
    a_consumer_leaves_with_the_reason(&Model { preemptions: 3, ..DOMAINS }, two_rings(1));
}

#[test]
fn domains_first_input_pauses() {
    an_input_that_pauses(&DOMAINS, two_rings(1), 0);
}

#[test]
fn domains_second_input_pauses() {
    an_input_that_pauses(&DOMAINS, two_rings(1), 1);
}
