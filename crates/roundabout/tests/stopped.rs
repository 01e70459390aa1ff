//! A host that is stopped while its ring is being connected ends at once, whatever it waits for.

use std::{
    io::{self, ErrorKind, Read, Write},
    net::{SocketAddr, TcpListener, TcpStream},
    os::unix::net::{UnixListener, UnixStream},
    sync::mpsc::{Receiver, channel},
    thread,
    time::Duration,
};

use annulus_roundabout::{
    Address, Failure, Host, HostBuilder, HostId, Plaintext, Protect, Reason, RingConfig, RingPosition, RoundaboutError,
    StopHandle, Tls,
    secure::{Authority, HostFiles, HostName, Identity, RingName},
    testing::{Direction, Hello, MESSAGE_BYTES, Message},
};
use socket2::{Domain, SockAddr, Socket, Type};

const SESSION: u64 = 7;
/// The time limit of everything that a host waits for, which no test reaches.
const LONG: Duration = Duration::from_secs(3600);
/// The time after which a test that hangs fails.
const WATCHDOG: Duration = Duration::from_secs(120);

fn config() -> RingConfig {
    RingConfig::default()
        .with_fragment_bytes(4096)
        .with_places(2)
        .with_own(1)
        .with_timeout(LONG)
        .with_connect_timeout(LONG)
}

/// Stops host 0 of 3 as soon as `wait` returns. Checks that the streams end then.
fn stopped<S: Read>(address: Address, protect: &impl Protect, wait: impl FnOnce() -> Vec<S>) {
    stopped_while(wait, |stop_handle| {
        Host::join_ring(
            HostBuilder::new(RingPosition::new(0, 3).unwrap(), SESSION, address)
                .with_config(&config())
                .with_protect(protect)
                .with_stop_handle(stop_handle),
        )
    });
}

fn stopped_while<S: Read>(
    wait: impl FnOnce() -> Vec<S>,
    join: impl FnOnce(&StopHandle) -> Result<Host, RoundaboutError> + Send,
) {
    let stop_handle = StopHandle::default();
    let (ended, ending) = channel();
    let host = stop_handle.clone();
    thread::scope(|scope| {
        scope.spawn(move || ended.send(join(&host).map(drop)));
        let streams = wait();
        stop_handle.stop();
        let error = ending.recv_timeout(WATCHDOG).expect("it ends").unwrap_err();
        assert!(matches!(error, RoundaboutError::Stopped), "{error}");
        streams.into_iter().for_each(assert_ends);
    });
}

/// Checks that the other end is gone.
fn assert_ends(mut stream: impl Read) {
    let read = stream.read(&mut [0]);
    let gone = |error: &io::Error| matches!(error.kind(), ErrorKind::ConnectionReset | ErrorKind::BrokenPipe);
    assert!(matches!(&read, Ok(0)) || read.as_ref().is_err_and(gone), "{read:?}");
}

fn call(address: SocketAddr) -> TcpStream {
    let stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(WATCHDOG)).unwrap();
    stream
}

/// Returns host 0's address, its successor's listener, and the address that host 0 listens at.
fn tcp() -> (Address, TcpListener, SocketAddr) {
    let [listener, successor] = [(); 2].map(|()| TcpListener::bind("127.0.0.1:0").unwrap());
    let own = listener.local_addr().unwrap();
    (Address::Tcp { listener, successor: successor.local_addr().unwrap() }, successor, own)
}

fn hello(from: u16, direction: Direction) -> [u8; MESSAGE_BYTES] {
    let hello =
        Hello { from: HostId(from), hosts: 3, fragment_bytes: 4096, timeout_ms: LONG.as_millis() as u32, direction };
    Message::Hello(hello).encode(SESSION)
}

fn read(stream: &mut impl Read) -> Message {
    let mut bytes = [0; MESSAGE_BYTES];
    stream.read_exact(&mut bytes).unwrap();
    Message::decode(&bytes, SESSION).unwrap()
}

/// Returns when the host accepts connections: by then it also connects to its successor.
fn hears(mut stream: impl Read + Write) {
    // A greeting from a host that is not its predecessor, which it disconnects.
    stream.write_all(&hello(1, Direction::Forward)).unwrap();
    assert_ends(stream);
}

const NOBODY: Vec<TcpStream> = Vec::new();

#[test]
fn neighbours_that_never_come_are_not_waited_for() {
    let (address, successor, own) = tcp();
    drop(successor);
    stopped(address, &Plaintext, || {
        hears(call(own));
        NOBODY
    });
    // Its address is free again.
    TcpListener::bind(own).unwrap();
}

#[test]
fn neighbours_of_one_machine_that_never_come_are_not_waited_for() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("host-0");
    let listener = UnixListener::bind(&path).unwrap();
    let address = Address::Unix { listener, successor: folder.path().join("host-1") };
    stopped(address, &Plaintext, || {
        hears(UnixStream::connect(&path).unwrap());
        NOBODY
    });
}

/// The successor is like one behind a network that drops everything.
#[test]
fn a_successor_that_does_not_answer_is_not_waited_for() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let own = listener.local_addr().unwrap();
    let full = Socket::new(Domain::IPV4, Type::STREAM, None).unwrap();
    full.bind(&SockAddr::from("127.0.0.1:0".parse::<SocketAddr>().unwrap())).unwrap();
    full.listen(0).unwrap();
    let successor = full.local_addr().unwrap().as_socket().unwrap();
    let mut waiting = Vec::new();
    while let Ok(stream) = TcpStream::connect_timeout(&successor, Duration::from_millis(200)) {
        waiting.push(stream);
        assert!(waiting.len() < 10, "it takes them all");
    }
    stopped(Address::Tcp { listener, successor }, &Plaintext, || {
        hears(call(own));
        NOBODY
    });
}

/// Opens a connection from the predecessor and one to the successor, on which nothing is sent.
fn silent(successor: TcpListener, own: SocketAddr, mut begin: impl FnMut(&mut TcpStream)) -> Vec<TcpStream> {
    let predecessor = call(own);
    let (mut to, _) = successor.accept().unwrap();
    begin(&mut to);
    vec![predecessor, to]
}

#[test]
fn neighbours_that_say_nothing_are_not_waited_for() {
    let (address, successor, own) = tcp();
    stopped(address, &Plaintext, || silent(successor, own, |to| assert!(matches!(read(to), Message::Hello(_)))));
}

#[test]
fn neighbours_that_say_nothing_are_not_waited_for_by_tls() {
    let folder = tempfile::tempdir().unwrap();
    let authority = Authority::create(folder.path(), RingName::new("ring").unwrap()).unwrap();
    let [me, successor_name, predecessor] = ["h0", "h1", "h2"].map(|name| HostName::new(name).unwrap());
    authority.add_host(&me, &[]).unwrap();
    let files = HostFiles::for_host(folder.path(), &me);
    let identity = Identity::load(&files.authority, &files.certificate, &files.key).unwrap();
    let (address, successor, own) = tcp();
    stopped(address, &Tls { identity: &identity, predecessor, successor: successor_name }, || {
        let read_all = |to: &mut TcpStream| {
            // Reads a TLS record, so that no unread data turns the end into a reset.
            let mut header = [0; 5];
            to.read_exact(&mut header).unwrap();
            to.read_exact(&mut vec![0; u16::from_be_bytes([header[3], header[4]]).into()]).unwrap();
        };
        silent(successor, own, read_all)
    });
}

/// More strangers than it hears at a time.
#[test]
fn many_strangers_are_not_heard_out() {
    let (address, successor, own) = tcp();
    stopped(address, &Plaintext, || {
        let mut streams: Vec<_> = (0..100).map(|_| call(own)).collect();
        let (mut to, _) = successor.accept().unwrap();
        read(&mut to);
        streams.push(to);
        streams
    });
}

/// Greets host 0 as its successor does.
fn welcome<S: Read + Write>(mut stream: S, direction: Direction) -> S {
    assert!(matches!(read(&mut stream), Message::Hello(hello) if hello.direction == direction));
    let welcome = Message::Welcome { places: 2, fragment_bytes: 4096, timeout_ms: LONG.as_millis() as u32 };
    stream.write_all(&welcome.encode(SESSION)).unwrap();
    stream
}

/// Greets host 0 as both neighbours. Returns first the streams that it reads fragments from, then
/// those that it writes them to.
fn greet<S: Read + Write>(call: impl Fn() -> S, accept: impl Fn() -> S) -> Vec<S> {
    let lanes = [Direction::Forward, Direction::Back];
    let mut incoming = lanes.map(|direction| {
        let mut stream = call();
        stream.write_all(&hello(2, direction)).unwrap();
        stream
    });
    let mut out = lanes.map(|direction| welcome(accept(), direction));
    for stream in &mut incoming {
        assert!(matches!(read(stream), Message::Welcome { .. }));
    }
    // It has connected to both.
    assert_eq!(read(&mut out[0]), Message::Ready(1));
    let [forward_in, back_out] = incoming;
    let [forward_out, back_in] = out;
    vec![forward_in, forward_out, back_in, back_out]
}

#[test]
fn a_predecessor_that_never_comes_is_not_waited_for() {
    let (address, successor, own) = tcp();
    stopped(address, &Plaintext, || {
        let streams = Vec::from(
            [Direction::Forward, Direction::Back].map(|direction| welcome(successor.accept().unwrap().0, direction)),
        );
        hears(call(own));
        streams
    });
}

#[test]
fn a_ring_that_does_not_come_together_is_not_waited_for() {
    let (address, successor, own) = tcp();
    stopped(address, &Plaintext, || greet(|| call(own), || successor.accept().unwrap().0));
}

#[test]
fn memory_that_is_not_shared_is_not_waited_for() {
    let folder = tempfile::tempdir().unwrap();
    let path = |host: usize| folder.path().join(format!("host-{host}"));
    let [listener, successor] = [0, 1].map(|host| UnixListener::bind(path(host)).unwrap());
    stopped(Address::Unix { listener, successor: path(1) }, &Plaintext, || {
        let mut streams = greet(|| UnixStream::connect(path(0)).unwrap(), || successor.accept().unwrap().0);
        for round in [1, 2] {
            streams[0].write_all(&Message::Ready(round).encode(SESSION)).unwrap();
        }
        assert_eq!(read(&mut streams[1]), Message::Ready(2));
        // Its own arena is sent around, and no other arrives.
        assert!(matches!(read(&mut streams[1]), Message::Arena { origin: HostId(0), .. }));
        streams
    });
}

#[cfg(feature = "ofi")]
#[test]
fn endpoints_that_are_not_told_are_not_waited_for() {
    use annulus_roundabout::fabric::FabricOptions;
    let (address, successor, own) = tcp();
    let options = FabricOptions::new("tcp").with_node("127.0.0.1");
    let wait = || {
        let mut streams = greet(|| call(own), || successor.accept().unwrap().0);
        for round in [1, 2] {
            streams[0].write_all(&Message::Ready(round).encode(SESSION)).unwrap();
        }
        assert_eq!(read(&mut streams[1]), Message::Ready(2));
        // It sends its own address to both.
        for at in [1, 3] {
            let Message::Endpoint { bytes, .. } = read(&mut streams[at]) else { panic!("no endpoint") };
            streams[at].read_exact(&mut vec![0; bytes as usize]).unwrap();
        }
        streams
    };
    stopped_while(wait, |stop_handle| {
        let position = RingPosition::new(0, 3).unwrap();
        Host::join_ring(
            HostBuilder::new(position, SESSION, address)
                .with_config(&config())
                .with_fabric(&options)
                .with_stop_handle(stop_handle),
        )
    });
}

#[test]
fn a_host_that_was_stopped_before_does_not_begin() {
    let stop_handle = StopHandle::default();
    stop_handle.stop();
    for hosts in [1, 3] {
        let position = RingPosition::new(0, hosts).unwrap();
        let joined = Host::join_ring(
            HostBuilder::new(position, SESSION, tcp().0).with_config(&config()).with_stop_handle(&stop_handle),
        );
        assert!(matches!(joined.err(), Some(RoundaboutError::Stopped)), "{hosts} hosts");
    }
}

/// A stop also ends a host whose ring is connected, and its neighbours are notified.
#[test]
fn a_host_is_stopped_in_its_ring() {
    let [one, other] = [(); 2].map(|()| TcpListener::bind("127.0.0.1:0").unwrap());
    let addresses = [&other, &one].map(|listener| listener.local_addr().unwrap());
    let stop_handle = StopHandle::default();
    let join = |me, listener, successor| {
        let (position, address) = (RingPosition::new(me, 2).unwrap(), Address::Tcp { listener, successor });
        Host::join_ring(
            HostBuilder::new(position, SESSION, address).with_config(&config()).with_stop_handle(&stop_handle),
        )
    };
    let [own, others] = addresses;
    let [host, other] = thread::scope(|scope| {
        let host = scope.spawn(|| join(0, one, own).unwrap());
        // This one is not stopped itself.
        let other = Address::Tcp { listener: other, successor: others };
        let other =
            Host::join_ring(HostBuilder::new(RingPosition::new(1, 2).unwrap(), SESSION, other).with_config(&config()))
                .unwrap();
        [host.join().unwrap(), other]
    });
    let finish = |host: Host| {
        let (ended, ending) = channel();
        thread::spawn(move || ended.send(host.finish()));
        ending
    };
    // It cannot finish before the other one does.
    let ending = finish(host);
    stop_handle.stop();
    let error = |ending: Receiver<Result<(), _>>| ending.recv_timeout(WATCHDOG).expect("it ends").unwrap_err();
    let errors: [RoundaboutError; 2] = [error(ending), error(finish(other))];
    let failed = Failure { host: HostId(0), reason: Reason::GaveUp };
    for error in errors {
        assert!(matches!(error, RoundaboutError::Failed { failure, .. } if failure == failed), "{error}");
    }
}
