//! Models of the paper's ring, of the queues of pairs, and of the barrier. Loom runs them through
//! every interleaving up to a number of preemptions. The queues themselves are not ours:
//! `src/queues/` has that of the models.
#![cfg(loom)]

#[path = "../../../crates/exchange/tests/bell/mod.rs"]
mod bell;
#[path = "../../../crates/exchange/tests/models/mod.rs"]
mod models;

use annulus_exchange::transport::{Handles, Shape};
use annulus_transports::{Rival, transport};
use models::{
    harness::{Model, Number, shape},
    scenarios::{
        a_consumer_leaves, a_free_slot_in_one_queue, a_full_transport, a_laggard_reads_again, a_slow_consumer, a_stop,
        a_stop_before_the_end, a_stop_for_a_producer, an_input_that_pauses, by_the_consumer, one_of_two_leaves,
        one_to_one, two_consumers, two_producers,
    },
};

const PAIRS: Model = Model { handles: pairs, preemptions: 2, yields: false };
const BARRIER: Model = Model { handles: barrier, preemptions: 3, yields: false };
const PAPER: Model = Model { handles: paper, preemptions: 2, yields: true };

fn pairs(shape: Shape) -> Handles<Number> {
    transport(Rival::Spsc.strategy(), shape).expect("a transport")
}

fn barrier(shape: Shape) -> Handles<Number> {
    transport(Rival::Batch.strategy(), shape).expect("a transport")
}

fn paper(shape: Shape) -> Handles<Number> {
    transport(Rival::PaperRing.strategy(), shape).expect("a transport")
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
fn pairs_free_slot_in_the_first() {
    a_free_slot_in_one_queue(&Model { preemptions: 3, ..PAIRS }, 0);
}

#[test]
fn pairs_free_slot_in_the_second() {
    a_free_slot_in_one_queue(&Model { preemptions: 3, ..PAIRS }, 1);
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
