//! Models of the queues' waiting, of the paper's ring, and of the rings per domain. Loom runs them
//! through every interleaving up to a number of preemptions. The queues themselves are not ours:
//! `queues/kind/` has those of the models.

mod harness;
mod scenarios;

use self::{
    harness::{BARRIER, DOMAINS, Model, PAIRS, PAPER, QUEUES, shape, two_rings},
    scenarios::{
        a_consumer_leaves, a_consumer_leaves_with_the_reason, a_consumer_reads_once, a_full_transport,
        a_laggard_reads_again, a_slow_consumer, a_stop, a_stop_before_the_end, a_stop_for_a_producer,
        an_input_that_pauses, one_of_two_leaves, one_to_one, room_in_one_queue, two_consumers, two_producers,
        two_producers_wait, values_for_one,
    },
};
use super::Handles;

/// The consumer stops the transport.
fn by_the_consumer((_, receivers): &mut Handles<harness::Number>) {
    receivers[0].stop(harness::reason());
}

/// The first of the other producers stops the transport.
fn by_a_producer((senders, _): &mut Handles<harness::Number>) {
    senders[0].stop(harness::reason());
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
fn pairs_full() {
    a_full_transport(&Model { preemptions: 1, ..PAIRS }, &[1, 2], 3);
}

#[test]
fn pairs_two_producers() {
    two_producers(&PAIRS, shape(2, 1, 1), &[], &[11]);
}

#[test]
fn pairs_slow_consumer() {
    a_slow_consumer(&PAIRS, shape(2, 2, 1), 1, &[1, 2], &[3]);
}

#[test]
fn pairs_laggard_reads_again() {
    a_laggard_reads_again(&Model { preemptions: 3, ..PAIRS }, &[1, 2]);
}

#[test]
fn pairs_room_in_the_first() {
    room_in_one_queue(&Model { preemptions: 3, ..PAIRS }, 0);
}

#[test]
fn pairs_room_in_the_second() {
    room_in_one_queue(&Model { preemptions: 3, ..PAIRS }, 1);
}

#[test]
fn pairs_stop_before_the_end() {
    a_stop_before_the_end(&PAIRS, 2);
}

#[test]
fn pairs_consumer_stops() {
    a_stop_for_a_producer(&Model { preemptions: 3, ..PAIRS }, shape(2, 1, 1), 1, by_the_consumer);
}

#[test]
fn pairs_first_input_pauses() {
    an_input_that_pauses(&PAIRS, shape(2, 1, 1), 0);
}

#[test]
fn pairs_second_input_pauses() {
    an_input_that_pauses(&PAIRS, shape(2, 1, 1), 1);
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

#[test]
fn barrier_two_producers() {
    two_producers(&BARRIER, shape(2, 1, 1), &[1], &[11, 12]);
}

#[test]
fn barrier_stop() {
    a_stop(&BARRIER, shape(1, 1, 1), 0);
}

#[test]
fn barrier_stop_before_the_end() {
    a_stop_before_the_end(&BARRIER, 1);
}

#[test]
fn paper_one_to_one() {
    one_to_one(&PAPER, &[1, 2]);
}

#[test]
fn paper_two_producers_one_slot() {
    two_producers(&PAPER, shape(2, 1, 1), &[1], &[11]);
}

#[test]
fn paper_two_producers_two_slots() {
    two_producers(&PAPER, shape(2, 1, 2), &[1], &[11, 12]);
}

#[test]
fn paper_slow_consumer() {
    // One value more than the ring holds with a group that was found full.
    a_slow_consumer(&PAPER, shape(1, 2, 1), 0, &[], &[1, 2, 3]);
}

#[test]
fn paper_two_consumers() {
    two_consumers(&Model { preemptions: 3, ..PAPER }, &[1], &[2]);
}

#[test]
fn paper_stop() {
    a_stop(&PAPER, shape(1, 1, 1), 0);
}

#[test]
fn paper_stop_before_the_end() {
    a_stop_before_the_end(&PAPER, 2);
}

#[test]
fn paper_consumer_stops() {
    a_stop_for_a_producer(&Model { yields: false, ..PAPER }, shape(1, 1, 1), 0, by_the_consumer);
}

#[test]
fn paper_consumer_leaves() {
    a_consumer_leaves(&Model { yields: false, ..PAPER });
}

#[test]
fn paper_one_of_two_leaves() {
    one_of_two_leaves(&Model { preemptions: 3, ..PAPER });
}

#[test]
fn paper_input_pauses() {
    an_input_that_pauses(&PAPER, shape(1, 1, 2), 0);
}
