//! Connections to rustls's own streams. The records that this crate seals and opens, and the keys
//! that it exports, conform to TLS.

use std::{
    io::{self, Read, Write},
    net::TcpStream,
    ops::DerefMut,
    thread,
};

use annulus_roundabout::secure::{Identity, Secure, SecureError, accept_within, connect_within};
use rustls::{AlertDescription, ConnectionCommon, SideData, Stream, version::TLS13};

use crate::common::{Credentials, LONG, Ring, client, connection, host, name, server, sockets};

fn parties() -> (Ring, Identity, Credentials) {
    let ring = Ring::new("one");
    let (identity, peer) = (ring.identity("a"), ring.issue(|params| name(params, "annulus://one/b")));
    (ring, identity, peer)
}

/// Returns data in which every byte depends on its position.
fn data(bytes: usize) -> Vec<u8> {
    (0..bytes).map(|position| (position * 31 + position / 251) as u8).collect()
}

const ROUNDS: usize = 8;
const TO_US: usize = 400_001;
const FROM_US: usize = 100_003;

/// A socket, and the number of bytes read from it.
struct Counted(TcpStream, usize);

impl Read for Counted {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let bytes = self.0.read(into)?;
        self.1 += bytes;
        Ok(bytes)
    }
}

impl Write for Counted {
    fn write(&mut self, data: &[u8]) -> io::Result<usize> {
        self.0.write(data)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.0.flush()
    }
}

/// The bytes on the wire for this side's data, to which each record adds 22, and for a key update.
const DATA_WIRE: usize = FROM_US + FROM_US.div_ceil(16_384) * 22;
const UPDATE_WIRE: usize = 5 + 22;

/// The peer's part: in each round it sends data, changes its keys, asks this side to do the same,
/// and reads data. Then both sides close the connection.
fn converse<S: SideData>(connection: &mut impl DerefMut<Target = ConnectionCommon<S>>, socket: TcpStream) -> [u8; 32] {
    let mut socket = Counted(socket, 0);
    let mut stream = Stream::new(connection, &mut socket);
    let mut start = None;
    for round in 0..ROUNDS {
        stream.write_all(&data(TO_US)).unwrap();
        stream.conn.refresh_traffic_keys().unwrap();
        stream.flush().unwrap();
        // After the handshake.
        start.get_or_insert(stream.sock.1);
        let mut read = vec![0; FROM_US];
        stream.read_exact(&mut read).unwrap();
        assert!(read == data(FROM_US), "round {round}");
    }
    // A key update requested after the data of a round may be read after the answer: then the requests
    // of two rounds have one answer (RFC 8446, 4.6.3), and that of the last may have none.
    let came = stream.sock.1 - start.unwrap();
    let updates = (came - ROUNDS * DATA_WIRE) / UPDATE_WIRE;
    assert_eq!(came, ROUNDS * DATA_WIRE + updates * UPDATE_WIRE, "records of other sizes came");
    assert!((1..=ROUNDS).contains(&updates), "{updates} key updates came");
    let key = stream.conn.export_keying_material([0; 32], b"label", Some(b"context")).unwrap();
    stream.conn.send_close_notify();
    stream.flush().unwrap();
    // A clean end; otherwise this is an error.
    assert_eq!(stream.read(&mut [0]).unwrap(), 0);
    key
}

/// This side's part.
fn answer(mut secure: Secure) -> [u8; 32] {
    for _ in 0..ROUNDS {
        let mut read = vec![0; TO_US];
        secure.read_exact(&mut read).unwrap();
        assert!(read == data(TO_US));
        secure.write_all(&data(FROM_US)).unwrap();
    }
    assert_eq!(secure.read(&mut [0]).unwrap(), 0);
    secure.close().unwrap();
    secure.export(b"label", b"context").unwrap()
}

#[test]
fn with_a_server_of_rustls() {
    let (_ring, identity, peer) = parties();
    let (socket, other) = sockets();
    thread::scope(|scope| {
        let key = scope.spawn(|| {
            let mut server = server(&peer, &TLS13);
            server.writer().write_all(b"welcome").unwrap();
            converse(&mut server, other)
        });
        let secure = connect_within(socket, &identity, &host("b"), LONG).unwrap();
        assert_eq!(answer(secure), key.join().unwrap());
    });
}

#[test]
fn with_a_client_of_rustls() {
    let (_ring, identity, peer) = parties();
    let (socket, mut other) = sockets();
    thread::scope(|scope| {
        let key = scope.spawn(|| {
            let mut client = client(Some(&peer), &TLS13);
            let mut welcome = [0; 7];
            Stream::new(&mut client, &mut other).read_exact(&mut welcome).unwrap();
            assert_eq!(&welcome, b"welcome");
            converse(&mut client, other)
        });
        let (secure, name) = accept_within(socket, &identity, LONG).unwrap();
        assert_eq!(name, host("b"));
        assert_eq!(answer(secure), key.join().unwrap());
    });
}

#[test]
fn exported_keys_are_for_both_ends_one_label_one_context_one_connection() {
    let (a, b) = connection();
    let (c, _) = connection();
    let key = a.export(b"slots", b"0").unwrap();
    assert_eq!(key, b.export(b"slots", b"0").unwrap());
    for other in [
        a.export(b"slots", b"1").unwrap(),
        a.export(b"slot", b"0").unwrap(),
        a.export(b"slots", b"").unwrap(),
        c.export(b"slots", b"0").unwrap(),
    ] {
        assert_ne!(key, other);
    }
}

#[test]
fn a_peer_that_gives_up_is_no_end_of_data() {
    let (_ring, identity, peer) = parties();
    let (socket, mut other) = sockets();
    thread::scope(|scope| {
        scope.spawn(|| {
            let mut server = server(&peer, &TLS13);
            server.writer().write_all(b"welcomedata").unwrap();
            let mut stream = Stream::new(&mut server, &mut other);
            stream.flush().unwrap();
            // Not a record: rustls sends an alert, and this side reports it.
            let mut refused = Vec::new();
            assert!(stream.read_to_end(&mut refused).is_err());
        });
        let mut secure = connect_within(socket, &identity, &host("b"), LONG).unwrap();
        let mut data = [0; 4];
        secure.read_exact(&mut data).unwrap();
        assert_eq!(&data, b"data");
        (&mut secure.stream()).write_all(&[23, 3, 3, 0, 30]).unwrap();
        (&mut secure.stream()).write_all(&[7; 30]).unwrap();
        for _ in 0..2 {
            let error = secure.read(&mut data).unwrap_err();
            let error = error.get_ref().and_then(|error| error.downcast_ref::<SecureError>()).unwrap();
            assert!(matches!(error, SecureError::RefusedUs(AlertDescription::BadRecordMac)), "{error}");
        }
    });
}
