//! The rings of cache domains, with values of the tests' own.

use std::{
    cell::RefCell,
    task::{Context, Poll, Waker},
};

use annulus_exchange::{
    Strategy,
    ring::Admission,
    transport::{Parcel, Sender, Shape, rings_in_domains, transport},
};

struct Number;

impl Parcel for Number {}

/// Polls until the producer may send, at most a few times.
fn admitted(sender: &mut dyn Sender<Number>) -> bool {
    let mut cx = Context::from_waker(Waker::noop());
    (0..8).any(|_| matches!(sender.poll_ready(&mut cx, &mut |_, _, _| Ok(())), Poll::Ready(Ok(Admission::Granted))))
}

/// Lets a producer send values until it is not admitted any more. Returns their number.
fn fill(sender: &mut dyn Sender<Number>) -> usize {
    (0..100).take_while(|_| admitted(sender) && sender.try_send(Number).is_ok()).count()
}

/// Returns the producers that share a ring with `first`, and the values that one alone can fill it
/// with. `make` creates the handles.
fn sharing(make: impl Fn() -> Vec<Box<dyn Sender<Number>>>, first: usize) -> (Vec<usize>, usize) {
    let (mut shared, mut capacity) = (Vec::new(), 0);
    for other in 0..make().len() {
        let mut senders = make();
        capacity = fill(&mut *senders[first]);
        // A producer that was admitted before may send once more.
        if fill(&mut *senders[other]) <= 1 {
            shared.push(other);
        }
    }
    (shared, capacity)
}

/// The domains are those of pinned threads: crates/topology/tests/placement.rs has the machines.
#[test]
fn producers_of_a_domain_share_a_ring() {
    let two_chiplets = [0, 0, 0, 0, 1, 1, 1, 1, 0, 1, 0, 1, 0, 1, 0, 1];
    let unequal = [2, 2, 0, 1, 2, 0, 2, 2];
    for domains in [&two_chiplets[..], &unequal, &[5], &[1, 0]] {
        for first in 0..domains.len() {
            let receivers = RefCell::default();
            let make = || {
                let (senders, made) = rings_in_domains(Shape::new(domains.len(), 2), domains).unwrap();
                *receivers.borrow_mut() = made;
                senders
            };
            let (shared, capacity) = sharing(make, first);
            let expected: Vec<_> = (0..domains.len()).filter(|index| domains[*index] == domains[first]).collect();
            // Two groups with a slot for each of its producers.
            assert_eq!((&shared, capacity), (&expected, 2 * expected.len()), "{domains:?}");
        }
    }
    let wrong = rings_in_domains::<Number>(Shape::new(2, 1), &[0]).err().unwrap();
    assert_eq!(wrong.to_string(), "invalid domains '1 numbers': give one for each producer");
}

#[test]
fn without_domains_blocks_of_producers_share_a_ring() {
    for (producers, domains, blocks) in [(4, 2, vec![2, 2]), (5, 2, vec![3, 2]), (2, 4, vec![1, 1]), (3, 1, vec![3])] {
        let receivers = RefCell::default();
        let make = || {
            let shape = Shape::new(producers, 1).with_domains(domains);
            let (senders, made) = transport(Strategy::RingPerDomain, shape).unwrap();
            *receivers.borrow_mut() = made;
            senders
        };
        let mut first = 0;
        for block in blocks {
            assert_eq!(sharing(make, first).0, (first..first + block).collect::<Vec<_>>(), "{producers}, {domains}");
            first += block;
        }
        assert_eq!(first, producers);
    }
}
