//! A reader gets the data that was written, or an error.

use std::{
    io::{self, Read, Write},
    net::{Shutdown, TcpStream},
    thread,
};

use annulus_roundabout::secure::{Secure, SecureError, accept_within, connect_within};
use proptest::prelude::*;
use rand::{Rng, SeedableRng, rngs::StdRng};

use crate::common::{LONG, Ring, connection, host, sockets};

fn random(seed: u64, bytes: usize) -> Vec<u8> {
    let mut data = vec![0; bytes];
    StdRng::seed_from_u64(seed).fill(&mut data[..]);
    data
}

/// Returns whether an error says that data may be missing.
fn is_truncated(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::UnexpectedEof
        && matches!(error.get_ref().and_then(|e| e.downcast_ref()), Some(SecureError::Truncated))
}

/// Returns whether an error says that records are not those that were sent.
fn is_forged(error: &io::Error) -> bool {
    matches!(error.get_ref().and_then(|e| e.downcast_ref()), Some(SecureError::Tls(_)))
}

#[test]
fn big_transfers_arrive_whole_either_way() {
    let (a, b) = connection();
    for (mut sender, mut receiver) in [(a, b), {
        let (a, b) = connection();
        (b, a)
    }] {
        let data = random(1, 32 << 20);
        thread::scope(|scope| {
            scope.spawn(|| {
                sender.write_all(&data).unwrap();
                sender.close().unwrap();
            });
            let mut read = Vec::new();
            receiver.read_to_end(&mut read).unwrap();
            assert!(read == data);
        });
        // Further reads return the end, too.
        assert_eq!(receiver.read(&mut [0]).unwrap(), 0);
        assert_eq!(sender.write(b"more").unwrap_err().kind(), io::ErrorKind::BrokenPipe);
    }
}

#[test]
fn both_ways_at_once() {
    let (mut a, mut b) = connection();
    thread::scope(|scope| {
        scope.spawn(|| {
            for round in 0..2000u32 {
                b.write_all(&round.to_le_bytes()).unwrap();
                let mut answer = [0; 4];
                b.read_exact(&mut answer).unwrap();
                assert_eq!(u32::from_le_bytes(answer), round + 1);
            }
            b.close().unwrap();
        });
        let mut number = [0; 4];
        while a.read(&mut number[..1]).unwrap() == 1 {
            a.read_exact(&mut number[1..]).unwrap();
            a.write_all(&(u32::from_le_bytes(number) + 1).to_le_bytes()).unwrap();
        }
    });
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn pieces_of_any_size(
        writes in prop::collection::vec(
            prop::collection::vec(prop_oneof![0..40usize, 16_000..17_000usize, 0..600_000usize], 1..4),
            1..6,
        ),
        reads in prop::collection::vec(prop_oneof![1..40usize, 16_000..17_000usize, 1..600_000usize], 1..6),
    ) {
        let (mut sender, mut receiver) = connection();
        let pieces: Vec<Vec<Vec<u8>>> = writes
            .iter()
            .enumerate()
            .map(|(w, sizes)| sizes.iter().enumerate().map(|(s, bytes)| random((w * 10 + s) as u64, *bytes)).collect())
            .collect();
        let expected = pieces.concat().concat();
        let read = thread::scope(|scope| {
            scope.spawn(|| {
                for piece in pieces.iter().flatten() {
                    let written = sender.write(piece).unwrap();
                    assert_eq!(written, piece.len(), "everything is taken");
                }
                sender.close().unwrap();
            });
            let mut read = Vec::new();
            for size in reads.iter().cycle() {
                let start = read.len();
                read.resize(start + size, 0);
                let bytes = receiver.read(&mut read[start..]).unwrap();
                read.truncate(start + bytes);
                if bytes == 0 {
                    break;
                }
            }
            read
        });
        prop_assert!(read == expected);
    }
}

#[test]
fn an_end_without_farewell_is_an_error() {
    let (mut sender, mut receiver) = connection();
    sender.write_all(b"all there is").unwrap();
    drop(sender);
    let mut read = Vec::new();
    let error = receiver.read_to_end(&mut read).unwrap_err();
    assert_eq!(read, b"all there is");
    assert!(is_truncated(&error), "{error:?}");
    assert!(is_truncated(&receiver.read(&mut [0]).unwrap_err()));
}

/// Makes a connection whose records from a to b go through `relay`, which gets them one by one.
fn relayed(relay: impl FnOnce(&mut dyn FnMut() -> Option<Vec<u8>>, &mut TcpStream) + Send) -> (Vec<u8>, io::Error) {
    let ring = Ring::new("one");
    let (a, b) = (ring.identity("a"), ring.identity("b"));
    let ((near, mut near_relay), (mut far_relay, far)) = (sockets(), sockets());
    thread::scope(|scope| {
        let (mut back_from, mut back_to) = (far_relay.try_clone().unwrap(), near_relay.try_clone().unwrap());
        scope.spawn(move || io::copy(&mut back_from, &mut back_to));
        scope.spawn(move || {
            let mut next = || {
                let mut header = [0; 5];
                near_relay.read_exact(&mut header).ok()?;
                let mut record = header.to_vec();
                record.resize(5 + usize::from(u16::from_be_bytes([header[3], header[4]])), 0);
                near_relay.read_exact(&mut record[5..]).ok()?;
                Some(record)
            };
            relay(&mut next, &mut far_relay);
            drop(far_relay.shutdown(Shutdown::Both));
            // Reads on, so that the sender is not blocked.
            while next().is_some() {}
            drop(near_relay.shutdown(Shutdown::Both));
        });
        scope.spawn(move || {
            let mut sender = connect_within(near, &a, &host("b"), LONG).unwrap();
            let sent = sender.write_all(&random(3, 200_000)).and_then(|()| sender.close());
            drop(sent);
        });
        let (mut receiver, _) = accept_within(far, &b, LONG).unwrap();
        let mut read = Vec::new();
        let error = receiver.read_to_end(&mut read).unwrap_err();
        if is_forged(&error) {
            assert!(is_forged(&receiver.read(&mut [0]).unwrap_err()), "once refused is refused");
        }
        (read, error)
    })
}

/// Passes on the records of the handshake, which are all up to the first full one. Returns that
/// one.
fn first_full(next: &mut dyn FnMut() -> Option<Vec<u8>>, to: &mut TcpStream) -> Vec<u8> {
    loop {
        let record = next().expect("no data was sent");
        if record.len() > 16_384 {
            return record;
        }
        to.write_all(&record).unwrap();
    }
}

#[test]
fn a_cut_in_a_record_is_an_end_without_farewell() {
    for cut in [1, 5, 6, 16_000] {
        let (read, error) = relayed(move |next, to| {
            let first = first_full(next, to);
            to.write_all(&first).unwrap();
            let second = next().unwrap();
            to.write_all(&second[..cut]).unwrap();
        });
        assert!(is_truncated(&error), "cut after {cut}: {error:?}");
        assert!(read == random(3, 200_000)[..16_384]);
    }
}

#[test]
fn records_that_were_touched_are_refused() {
    type Touch = fn(Vec<u8>, &mut dyn FnMut() -> Option<Vec<u8>>) -> Vec<Vec<u8>>;
    let touches: [(&str, Touch, usize); 8] = [
        (
            "a bit",
            |mut record, _| {
                record[9_000] ^= 1;
                vec![record]
            },
            0,
        ),
        (
            "the tag",
            |mut record, _| {
                *record.last_mut().unwrap() ^= 128;
                vec![record]
            },
            0,
        ),
        ("twice", |record, _| vec![record.clone(), record], 1),
        ("left out", |_, next| vec![next().unwrap()], 0),
        ("swapped", |record, next| vec![next().unwrap(), record], 0),
        (
            "shorter",
            |mut record, _| {
                record.truncate(5 + 100);
                record[3..5].copy_from_slice(&[0, 100]);
                vec![record]
            },
            0,
        ),
        ("empty", |record, _| vec![vec![23, 3, 3, 0, 0], record], 0),
        ("too long", |record, _| vec![vec![23, 3, 3, 0x41, 1], record], 0),
    ];
    for (what, touch, whole) in touches {
        let (read, error) = relayed(move |next, to| {
            let first = first_full(next, to);
            for record in touch(first, next) {
                to.write_all(&record).unwrap();
            }
            // If it were accepted, the rest would follow.
            while let Some(record) = next() {
                if to.write_all(&record).is_err() {
                    break;
                }
            }
        });
        assert!(is_forged(&error), "{what}: {error:?}");
        assert!(read == random(3, 200_000)[..whole * 16_384], "{what}");
    }
}

#[test]
fn connections_can_move_between_threads() {
    fn is_send<T: Send>() {}
    is_send::<Secure>();
}
