//! A silent caller does not keep others from being heard.

use std::{
    io::{self, ErrorKind, Read, Write},
    net::{SocketAddr, TcpListener, TcpStream},
    os::unix::net::{UnixListener, UnixStream},
    path::Path,
    thread,
    time::{Duration, Instant},
};

use annulus_roundabout::{
    Address, Host, HostBuilder, HostId, Plaintext, Protect, RingConfig, RingPosition, RoundaboutError, Tls,
    secure::{Authority, HostFiles, HostName, Identity, RingName},
    testing::{Direction, Hello, MESSAGE_BYTES, Message, connect},
};

const SESSION: u64 = 7;
/// More callers than a host hears at a time.
const MANY: usize = 100;
/// The time that each caller is heard at least.
const GRACE: Duration = Duration::from_millis(200);
/// The time after which a test that hangs fails. A host that waited for strangers would wait so long.
const WATCHDOG: Duration = Duration::from_secs(120);

fn config(connect_timeout: Duration) -> RingConfig {
    RingConfig::default()
        .with_fragment_bytes(4096)
        .with_places(2)
        .with_own(1)
        .with_timeout(Duration::from_secs(20))
        .with_connect_timeout(connect_timeout)
}

/// A caller that stays connected without identifying itself.
trait Stranger: Read + Write + Send {}

impl<S: Read + Write + Send> Stranger for S {}

/// Connects `count` strangers. Every other one sends the beginning of a TLS message.
fn strangers<S: Stranger>(count: usize, call: impl Fn() -> io::Result<S>) -> Vec<S> {
    let begin = |number: usize| {
        let mut stranger = call().unwrap();
        if number % 2 == 1 {
            stranger.write_all(&[22, 3, 3, 1, 0]).unwrap();
        }
        stranger
    };
    (0..count).map(begin).collect()
}

fn call(address: SocketAddr) -> io::Result<TcpStream> {
    let stream = TcpStream::connect(address)?;
    stream.set_read_timeout(Some(WATCHDOG))?;
    Ok(stream)
}

/// Checks that the other end is gone, which reads nothing from it.
fn assert_ends(stranger: &mut impl Read) {
    let read = stranger.read(&mut [0]);
    let gone = |error: &io::Error| matches!(error.kind(), ErrorKind::ConnectionReset | ErrorKind::BrokenPipe);
    assert!(matches!(&read, Ok(0)) || read.as_ref().is_err_and(gone), "{read:?}");
}

fn tcp(hosts: usize) -> (Vec<Address>, Vec<SocketAddr>) {
    let listeners: Vec<_> = (0..hosts).map(|_| TcpListener::bind("127.0.0.1:0").unwrap()).collect();
    let own: Vec<_> = listeners.iter().map(|listener| listener.local_addr().unwrap()).collect();
    let successors = own.iter().copied().cycle().skip(1);
    let pairs = listeners.into_iter().zip(successors);
    (pairs.map(|(listener, successor)| Address::Tcp { listener, successor }).collect(), own)
}

/// Runs a host of a ring that must connect.
fn join(me: usize, hosts: usize, config: &RingConfig, address: Address, protect: &impl Protect) {
    let position = RingPosition::new(me as u16, hosts as u16).unwrap();
    let host = Host::join_ring(HostBuilder::new(position, SESSION, address).with_config(config).with_protect(protect))
        .unwrap_or_else(|error| panic!("{me}: {error}"));
    host.finish().unwrap();
}

/// Runs each host of a ring.
fn together(addresses: Vec<Address>, host: impl Fn(usize, usize, &RingConfig, Address) + Sync) {
    let (hosts, config) = (addresses.len(), config(WATCHDOG));
    let (host, config) = (&host, &config);
    thread::scope(|scope| {
        for (me, address) in addresses.into_iter().enumerate() {
            scope.spawn(move || host(me, hosts, config, address));
        }
    });
}

#[test]
fn silent_strangers_do_not_keep_a_ring_from_coming_together_by_tcp() {
    let (addresses, own) = tcp(3);
    let silent: Vec<_> = own.iter().flat_map(|&host| strangers(8, || call(host))).collect();
    together(addresses, |me, hosts, config, address| join(me, hosts, config, address, &Plaintext));
    silent.into_iter().for_each(|mut stranger| assert_ends(&mut stranger));
}

#[test]
fn silent_strangers_do_not_keep_a_ring_from_coming_together_by_tls() {
    let folder = tempfile::tempdir().unwrap();
    let authority = Authority::create(folder.path(), RingName::new("ring").unwrap()).unwrap();
    let identities: Vec<_> = (0..3).map(|host| identity(folder.path(), &authority, host)).collect();
    let (addresses, own) = tcp(3);
    let silent: Vec<_> = own.iter().flat_map(|&host| strangers(8, || call(host))).collect();
    together(addresses, |me, hosts, config, address| {
        let (predecessor, successor) = (name((me + hosts - 1) % hosts), name((me + 1) % hosts));
        join(me, hosts, config, address, &Tls { identity: &identities[me], predecessor, successor })
    });
    silent.into_iter().for_each(|mut stranger| assert_ends(&mut stranger));
}

fn name(host: usize) -> HostName {
    HostName::new(format!("h{host}")).unwrap()
}

fn identity(folder: &Path, authority: &Authority, host: usize) -> Identity {
    authority.add_host(&name(host), &[]).unwrap();
    let files = HostFiles::for_host(folder, &name(host));
    Identity::load(&files.authority, &files.certificate, &files.key).unwrap()
}

#[test]
fn silent_strangers_do_not_keep_a_ring_from_coming_together_by_unix_sockets() {
    let folder = tempfile::tempdir().unwrap();
    let path = |host: usize| folder.path().join(format!("host-{}", host % 3));
    let address = |host| Address::Unix { listener: UnixListener::bind(path(host)).unwrap(), successor: path(host + 1) };
    let addresses = (0..3).map(address).collect();
    let silent: Vec<_> = (0..3).flat_map(|host| strangers(8, || UnixStream::connect(path(host)))).collect();
    together(addresses, |me, hosts, config, address| join(me, hosts, config, address, &Plaintext));
    silent.into_iter().for_each(|mut stranger| assert_ends(&mut stranger));
}

fn hello(from: u16, hosts: u16, direction: Direction) -> [u8; MESSAGE_BYTES] {
    let hello = Hello { from: HostId(from), hosts, fragment_bytes: 4096, timeout_ms: 20_000, direction };
    Message::Hello(hello).encode(SESSION)
}

/// Strangers connect before the predecessor and after it, more than are heard at a time. The
/// predecessor still has time to be heard.
#[test]
fn many_strangers_do_not_crowd_the_predecessor_out() {
    // The successor listens and does not answer, so the host continues to wait for it.
    let [listener, successor] = [(); 2].map(|()| TcpListener::bind("127.0.0.1:0").unwrap());
    let own = listener.local_addr().unwrap();
    let address = Address::Tcp { listener, successor: successor.local_addr().unwrap() };
    let mut silent = strangers(MANY / 2, || call(own));
    let mut lanes = [Direction::Forward, Direction::Back].map(|direction| {
        let mut stream = call(own).unwrap();
        stream.write_all(&hello(1, 2, direction)).unwrap();
        stream
    });
    silent.extend(strangers(MANY / 2, || call(own)));
    let (config, begin) = (config(WATCHDOG), Instant::now());
    thread::scope(|scope| {
        let host = scope
            .spawn(move || connect(RingPosition::new(0, 2).unwrap(), SESSION, &config, address, &Plaintext).map(drop));
        lanes.iter_mut().for_each(|stream| stream.read_exact(&mut [0; MESSAGE_BYTES]).unwrap());
        // Earlier callers have had their grace period.
        assert!(begin.elapsed() >= GRACE, "{:?}", begin.elapsed());
        // It has heard its predecessor and disconnects all others, although it is not done.
        silent.iter_mut().for_each(assert_ends);
        assert!(!host.is_finished());
        // The successor is gone.
        drop(successor);
        let error = host.join().unwrap().unwrap_err();
        assert!(matches!(error, RoundaboutError::Connect { host: HostId(1), .. }), "{error}");
    });
}

/// Runs host 0 of 3 whose port has silent strangers, and returns how it ends; they must not delay
/// it. Its successor listens, or does not exist.
fn error_of(within: Duration, listens: bool, provoke: impl FnOnce(SocketAddr, Option<TcpListener>)) -> RoundaboutError {
    let [listener, successor] = [(); 2].map(|()| TcpListener::bind("127.0.0.1:0").unwrap());
    let own = listener.local_addr().unwrap();
    let address = Address::Tcp { listener, successor: successor.local_addr().unwrap() };
    let successor = listens.then_some(successor);
    let mut silent = strangers(8, || call(own));
    let error = thread::scope(|scope| {
        let host =
            scope.spawn(|| connect(RingPosition::new(0, 3).unwrap(), SESSION, &config(within), address, &Plaintext));
        provoke(own, successor);
        host.join().unwrap().map(drop).unwrap_err()
    });
    silent.iter_mut().for_each(assert_ends);
    error
}

#[test]
fn what_differs_is_said_though_strangers_are_heard() {
    let error = error_of(WATCHDOG, false, |own, _| {
        // It expects another number of hosts, and stays connected.
        let mut predecessor = call(own).unwrap();
        predecessor.write_all(&hello(2, 4, Direction::Forward)).unwrap();
        assert_ends(&mut predecessor);
    });
    assert!(matches!(error, RoundaboutError::Differs { host: HostId(2), .. }), "{error}");
}

/// Accepts a connection, and answers with a welcome for `places` frames.
fn welcome(listener: &TcpListener, places: u32) -> TcpStream {
    let (mut stream, _) = listener.accept().unwrap();
    stream.read_exact(&mut [0; MESSAGE_BYTES]).unwrap();
    let welcome = Message::Welcome { places, fragment_bytes: 4096, timeout_ms: 20_000 };
    stream.write_all(&welcome.encode(SESSION)).unwrap();
    stream
}

#[test]
fn a_successor_that_is_none_is_named_though_strangers_are_heard() {
    let error = error_of(WATCHDOG, true, |_, successor| drop(welcome(&successor.unwrap(), 0)));
    assert!(matches!(error, RoundaboutError::Wire { host: HostId(1), .. }), "{error}");
}

#[test]
fn the_time_to_connect_holds_though_strangers_are_heard() {
    let error = error_of(Duration::from_millis(300), true, |_, successor| {
        let successor = successor.unwrap();
        drop([(); 2].map(|()| welcome(&successor, 2)));
    });
    assert!(matches!(error, RoundaboutError::Accept { host: HostId(2), .. }), "{error}");
}
