//! Rings of real hosts, one per thread, over TCP on loopback.

use std::{
    collections::BTreeMap,
    io::{Read, Write},
    net::{TcpListener, TcpStream},
    os::unix::net::UnixListener,
    path::Path,
    sync::{LazyLock, Mutex, mpsc},
    thread,
    time::Duration,
};

use annulus_roundabout::{
    Address, BufferCache, Failure, Fragment, Frame, Host, HostBuilder, HostId, Plaintext, Protect, Reason, Revolution,
    RingConfig, RingPosition, RoundaboutError, Tls,
    secure::{self, Authority, HostFiles, HostName, Identity, Refusal, RingName, SecureError},
    testing::{Announcement, Direction, Hello, MESSAGE_BYTES, Message},
};
#[cfg(feature = "ofi")]
use annulus_roundabout::{
    fabric::FabricOptions,
    testing::{Fabric, connect},
};

const SESSION: u64 = 7;
/// All rings of this process borrow from each other.
static KEPT: LazyLock<BufferCache> = LazyLock::new(|| BufferCache::new(1 << 20));

fn config() -> RingConfig {
    RingConfig::default()
        .with_fragment_bytes(4096)
        .with_places(2)
        .with_own(1)
        .with_timeout(Duration::from_secs(20))
        .with_connect_timeout(Duration::from_secs(20))
}

/// The kind of connection between the hosts of a test.
#[derive(Clone, Copy, Debug)]
enum Net {
    Tcp,
    Tls,
    Unix,
    /// By libfabric.
    #[cfg(feature = "ofi")]
    Fabric(Provider),
}

#[cfg(feature = "ofi")]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Provider {
    Tcp,
    /// Fragments are sealed, with keys from TLS.
    Sealed,
    Shm,
}

const NETS: &[Net] = &[
    Net::Tcp,
    Net::Tls,
    Net::Unix,
    #[cfg(feature = "ofi")]
    Net::Fabric(Provider::Tcp),
    #[cfg(feature = "ofi")]
    Net::Fabric(Provider::Sealed),
    #[cfg(feature = "ofi")]
    Net::Fabric(Provider::Shm),
];

impl Net {
    fn has_certificates(self) -> bool {
        match self {
            Self::Tls => true,
            Self::Tcp | Self::Unix => false,
            #[cfg(feature = "ofi")]
            Self::Fabric(provider) => provider == Provider::Sealed,
        }
    }
}

fn addresses(net: Net, hosts: u16, folder: &Path) -> Vec<Address> {
    if let Net::Unix = net {
        let path = |host| folder.join(format!("host-{host}"));
        let address = |host| Address::Unix {
            listener: UnixListener::bind(path(host)).unwrap(),
            successor: path((host + 1) % hosts),
        };
        return (0..hosts).map(address).collect();
    }
    let listeners: Vec<_> = (0..hosts).map(|_| TcpListener::bind("127.0.0.1:0").unwrap()).collect();
    let mut successors: Vec<_> = listeners.iter().map(|listener| listener.local_addr().unwrap()).collect();
    successors.rotate_left(1);
    let pairs = listeners.into_iter().zip(successors);
    pairs.map(|(listener, successor)| Address::Tcp { listener, successor }).collect()
}

/// Runs `host` on a thread for each host of a ring. Returns the results.
fn ring<T: Send>(net: Net, hosts: u16, config: RingConfig, host: impl Fn(RingPosition, Host) -> T + Sync) -> Vec<T> {
    let folder = tempfile::tempdir().unwrap();
    if net.has_certificates() {
        make_certificates(folder.path(), hosts);
    }
    thread::scope(|scope| {
        let threads: Vec<_> = (0..)
            .zip(addresses(net, hosts, folder.path()))
            .map(|(me, address)| {
                let position = RingPosition::new(me, hosts).unwrap();
                let (host, folder) = (&host, folder.path());
                scope.spawn(move || host(position, start(net, folder, position, &config, address).unwrap()))
            })
            .collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    })
}

fn name(host: HostId) -> HostName {
    HostName::new(format!("h{host}")).unwrap()
}

fn make_certificates(folder: &Path, hosts: u16) {
    let authority = Authority::create(folder, RingName::new("ring").unwrap()).unwrap();
    (0..hosts).for_each(|host| drop(authority.add_host(&name(HostId(host)), &[]).unwrap()));
}

fn identity(folder: &Path, host: HostId) -> Identity {
    let files = HostFiles::for_host(folder, &name(host));
    Identity::load(&files.authority, &files.certificate, &files.key).unwrap()
}

fn start(
    net: Net,
    folder: &Path,
    position: RingPosition,
    config: &RingConfig,
    address: Address,
) -> Result<Host, RoundaboutError> {
    if !net.has_certificates() {
        return start_over(net, &Plaintext, position, config, address);
    }
    let identity = identity(folder, position.me());
    let (predecessor, successor) = (name(position.predecessor()), name(position.successor()));
    start_over(net, &Tls { identity: &identity, predecessor, successor }, position, config, address)
}

fn start_over(
    net: Net,
    protect: &impl Protect,
    position: RingPosition,
    config: &RingConfig,
    address: Address,
) -> Result<Host, RoundaboutError> {
    match net {
        #[cfg(feature = "ofi")]
        Net::Fabric(provider) if position.hosts() > 1 => start_fabric(provider, protect, position, config, address),
        _ => {
            let joining = HostBuilder::new(position, SESSION, address).with_config(config).with_protect(protect);
            Host::join_ring(joining.with_buffer_cache(&KEPT))
        }
    }
}

#[cfg(feature = "ofi")]
fn start_fabric(
    provider: Provider,
    protect: &impl Protect,
    position: RingPosition,
    config: &RingConfig,
    address: Address,
) -> Result<Host, RoundaboutError> {
    let (name, node) = match provider {
        Provider::Tcp | Provider::Sealed => ("tcp", Some("127.0.0.1")),
        Provider::Shm => ("shm", None),
    };
    let options = FabricOptions::new(name).with_node(node).with_sealed(provider == Provider::Sealed);
    let fabric = Fabric::open(&options, config, &KEPT)?;
    let connections = connect(position, SESSION, config, address, protect)?;
    Host::start(position, *config, |inbox| fabric.start(position, SESSION, config, connections, inbox))
}

/// Fills one of a host's fragments: byte 0 counts the hosts that saw it. Its number and more bytes
/// follow.
fn fill(bytes: &mut [u8], me: HostId, number: u32) -> usize {
    let length = 5 + (number as usize * 37 + usize::from(me.0) * 11) % (bytes.len() - 5);
    bytes[0] = 0;
    bytes[1..5].copy_from_slice(&number.to_le_bytes());
    bytes[5..length].fill((number as u8) ^ (me.0 as u8));
    length
}

fn check(fragment: &mut Fragment<'_>, hosts: u16, me: HostId) -> (HostId, u32) {
    let origin = fragment.frame.origin;
    let number = u32::from_le_bytes(fragment.bytes[1..5].try_into().unwrap());
    let mut expected = vec![0; 4096];
    let length = fill(&mut expected, origin, number);
    let hops = (me.0 + hosts - origin.0) % hosts;
    expected[0] = hops as u8;
    assert_eq!(fragment.bytes, &expected[..length]);
    assert_eq!(fragment.is_last, hops + 1 == hosts);
    fragment.bytes[0] += 1;
    (origin, number)
}

#[test]
fn every_host_sees_every_fragment_as_the_one_before_left_it() {
    for (hosts, net) in (1..=5u16).flat_map(|hosts| NETS.iter().map(move |&net| (hosts, net))) {
        let seen = ring(net, hosts, config(), |position, mut host| {
            let mut all = Vec::new();
            for revolution in 0..3u32 {
                let count = u32::from(position.me().0 * 7 % 5) * 9 + revolution;
                let mut next = 0;
                let mut seen: BTreeMap<(HostId, u32), u32> = BTreeMap::new();
                let turned = host.revolve(
                    |bytes| {
                        let number = next;
                        next += 1;
                        Ok((number < count).then(|| fill(bytes, position.me(), number)))
                    },
                    |mut fragment| {
                        *seen.entry(check(&mut fragment, hosts, position.me())).or_default() += 1;
                        Ok::<_, RoundaboutError>(())
                    },
                );
                let Revolution { injected, joined, .. } = turned.unwrap();
                assert_eq!((injected, joined), (u64::from(count), seen.len() as u64));
                assert!(seen.values().all(|&times| times == 1));
                all.push(seen.into_keys().collect::<Vec<_>>());
            }
            host.finish().unwrap();
            all
        });
        for revolution in 0..3 {
            let injected: usize = (0..hosts).map(|me| usize::from(me * 7 % 5) * 9 + revolution).sum();
            assert!(seen.iter().all(|host| host[revolution].len() == injected), "{hosts} hosts, {net:?}");
        }
    }
}

/// One host's join fails, or the host is dropped in the middle. All others name it.
#[test]
fn everyone_learns_who_has_given_up() {
    for (drops, net) in NETS.iter().flat_map(|&net| [(false, net), (true, net)]) {
        let failures = ring(net, 4, config(), |position, mut host| {
            let mut joined = 0;
            let failed = host.revolve(
                |bytes| Ok(Some(fill(bytes, position.me(), 0))),
                |_| {
                    joined += 1;
                    if position.me() == HostId(2) && joined == 30 { Err(RoundaboutError::Stopped) } else { Ok(()) }
                },
            );
            if position.me() == HostId(2) && !drops {
                // It stays until the others have been notified.
                assert!(matches!(host.finish(), Err(RoundaboutError::Failed { .. })));
            }
            failed.unwrap_err()
        });
        for (host, failure) in failures.into_iter().enumerate() {
            match failure {
                RoundaboutError::Failed { failure, .. } => {
                    assert_eq!(failure.host, HostId(2), "host {host}: {failure}");
                }
                other => assert!(host == 2 && matches!(other, RoundaboutError::Stopped), "host {host}: {other}"),
            }
        }
    }
}

/// The two connections of a host that greets, and then behaves as the test requires.
struct Impostor {
    out: Vec<TcpStream>,
    incoming: Vec<TcpStream>,
}

/// Runs a ring of two with an impostor. Returns how the other host ends.
fn against(config: RingConfig, behave: impl FnOnce(&mut Impostor) + Send) -> RoundaboutError {
    let nothing = |mut host: Host| host.revolve(|_| Ok(None), |_| Ok::<_, RoundaboutError>(())).unwrap_err();
    beside(config, behave, nothing)
}

/// Runs a ring of two with an impostor, which stays until the other host is done.
fn beside<T>(config: RingConfig, behave: impl FnOnce(&mut Impostor) + Send, honest: impl FnOnce(Host) -> T) -> T {
    let run = honest;
    let listeners = [(); 2].map(|()| TcpListener::bind("127.0.0.1:0").unwrap());
    let addresses = [0, 1].map(|at: usize| listeners[at].local_addr().unwrap());
    let [honest, other] = listeners;
    let ended = Mutex::new(());
    thread::scope(|scope| {
        let until_it_ends = ended.lock().unwrap();
        let impostor = scope.spawn(|| {
            let hello = |direction| {
                Message::Hello(Hello {
                    from: HostId(1),
                    hosts: 2,
                    fragment_bytes: 4096,
                    timeout_ms: config.timeout.as_millis() as u32,
                    direction,
                })
            };
            let out = [Direction::Forward, Direction::Back].map(|direction| {
                let mut stream = TcpStream::connect(addresses[0]).unwrap();
                stream.write_all(&hello(direction).encode(SESSION)).unwrap();
                stream
            });
            let mut bytes = [0; MESSAGE_BYTES];
            let incoming = [(); 2].map(|()| {
                let (mut stream, _) = other.accept().unwrap();
                stream.read_exact(&mut bytes).unwrap();
                let timeout_ms = config.timeout.as_millis() as u32;
                let welcome = Message::Welcome { places: 2, fragment_bytes: 4096, timeout_ms };
                stream.write_all(&welcome.encode(SESSION)).unwrap();
                stream
            });
            let mut out = Vec::from(out);
            out.iter_mut().for_each(|stream| stream.read_exact(&mut bytes).unwrap());
            for round in [1, 2] {
                out[0].write_all(&Message::Ready(round).encode(SESSION)).unwrap();
            }
            let mut incoming = Vec::from(incoming);
            incoming[0].read_exact(&mut [0; 2 * MESSAGE_BYTES]).unwrap();
            let mut impostor = Impostor { out, incoming };
            behave(&mut impostor);
            drop(ended.lock());
        });
        let position = RingPosition::new(0, 2).unwrap();
        let address = Address::Tcp { listener: honest, successor: addresses[1] };
        let result = run(Host::join_ring(HostBuilder::new(position, SESSION, address).with_config(&config)).unwrap());
        drop(until_it_ends);
        impostor.join().unwrap();
        result
    })
}

#[test]
fn a_neighbour_that_says_nothing_is_silent() {
    let config = config().with_timeout(Duration::from_millis(200));
    let error = against(config, |_| {});
    assert!(error.to_string().ends_with("host 1 has failed: it stopped responding"), "{error}");
    let RoundaboutError::Failed { failure, .. } = error else { panic!("another error") };
    assert_eq!(failure, Failure { host: HostId(1), reason: Reason::Silent });
}

#[test]
fn a_neighbour_that_goes_without_goodbye_has_closed() {
    let error = against(config(), |impostor| impostor.incoming.clear());
    let RoundaboutError::Failed { failure, .. } = error else { panic!("{error}") };
    assert_eq!(failure, Failure { host: HostId(1), reason: Reason::Closed });
}

/// A neighbour that needs nothing more may be gone before it gets the last credits.
#[test]
fn a_neighbour_that_has_said_goodbye_may_be_gone() {
    // It is random which thread notices first.
    (0..50).for_each(|_| said_goodbye());
}

fn said_goodbye() {
    let (gone, is_gone) = mpsc::channel();
    let behave = |impostor: &mut Impostor| {
        let announcement =
            |revolution, fragments| Message::Announcement(Announcement { revolution, origin: HostId(1), fragments });
        let frame = |sequence| Message::Fragment(Frame { revolution: 0, origin: HostId(1), sequence }, 0);
        for message in [frame(0), frame(1), announcement(0, 2), announcement(1, 0), Message::Goodbye] {
            impostor.out[0].write_all(&message.encode(SESSION)).unwrap();
        }
        impostor.incoming[1].write_all(&Message::Goodbye.encode(SESSION)).unwrap();
        impostor.incoming.clear();
        impostor.out.clear();
        gone.send(()).unwrap();
    };
    beside(config(), behave, |mut host| {
        is_gone.recv().unwrap();
        let turned = host.revolve(|_| Ok(None), |_| Ok::<_, RoundaboutError>(()));
        assert_eq!(turned.unwrap().joined, 2);
        host.finish().unwrap();
    });
}

#[test]
fn a_neighbour_that_breaks_the_protocol_is_named() {
    let frame = |sequence| Frame { revolution: 0, origin: HostId(1), sequence };
    let cases: [(usize, Vec<u8>, &str); 6] = [
        (0, vec![7; MESSAGE_BYTES], "not a message of a roundabout"),
        (0, Message::Heartbeat.encode(8).to_vec(), "another run"),
        (0, Message::Fragment(frame(0), 4097).encode(SESSION).to_vec(), "4097 bytes"),
        (0, Message::Fragment(frame(1), 0).encode(SESSION).to_vec(), "out of turn"),
        (
            0,
            Message::Welcome { places: 1, fragment_bytes: 1, timeout_ms: 1 }.encode(SESSION).to_vec(),
            "does not carry",
        ),
        (0, Message::Credit(1).encode(SESSION).to_vec(), "does not carry"),
    ];
    for (direction, bytes, expected) in cases {
        // The forward direction is the impostor's own connection.
        let error = against(config(), |impostor| impostor.out[direction].write_all(&bytes).unwrap());
        let RoundaboutError::Failed { failure, .. } = &error else { panic!("{error}") };
        assert_eq!(*failure, Failure { host: HostId(1), reason: Reason::Broke });
        assert!(error.to_string().contains(expected), "{error}");
    }
}

#[test]
fn who_is_not_there_is_named() {
    let config = config().with_connect_timeout(Duration::from_millis(100));
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    // The listener never accepts: the connection is established and stays silent.
    let successor = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = Address::Tcp { listener, successor: successor.local_addr().unwrap() };
    let error =
        Host::join_ring(HostBuilder::new(RingPosition::new(0, 3).unwrap(), SESSION, address).with_config(&config))
            .err()
            .unwrap();
    assert!(matches!(error, RoundaboutError::Connect { host: HostId(1), .. }), "{error}");
}

#[test]
fn hosts_with_other_options_say_so() {
    let listeners = [(); 2].map(|()| TcpListener::bind("127.0.0.1:0").unwrap());
    let addresses = [0, 1].map(|at: usize| listeners[at].local_addr().unwrap());
    let errors = thread::scope(|scope| {
        let threads: Vec<_> = (0..)
            .zip(listeners)
            .map(|(me, listener)| {
                let config = config().with_fragment_bytes(4096 * (1 + u32::from(me)));
                let address = Address::Tcp { listener, successor: addresses[1 - usize::from(me)] };
                let position = RingPosition::new(me, 2).unwrap();
                scope.spawn(move || {
                    Host::join_ring(HostBuilder::new(position, SESSION, address).with_config(&config)).err().unwrap()
                })
            })
            .collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect::<Vec<_>>()
    });
    for error in errors {
        assert!(matches!(error, RoundaboutError::Differs { option: "fragment bytes", .. }), "{error}");
    }
}

/// Strangers connect first: one that sends unknown bytes, one that sends the right greeting
/// unencrypted, and one with a certificate of another ring. The ring is connected nevertheless.
#[test]
fn strangers_do_not_disturb() {
    let (folder, other) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    make_certificates(folder.path(), 2);
    make_certificates(other.path(), 2);
    let listeners = [(); 2].map(|()| TcpListener::bind("127.0.0.1:0").unwrap());
    let addresses = [0, 1].map(|at: usize| listeners[at].local_addr().unwrap());
    let mut garbage = TcpStream::connect(addresses[0]).unwrap();
    garbage.write_all(&[7; 4096]).unwrap();
    let mut clear = TcpStream::connect(addresses[0]).unwrap();
    let hello =
        Hello { from: HostId(1), hosts: 2, fragment_bytes: 4096, timeout_ms: 20_000, direction: Direction::Forward };
    clear.write_all(&Message::Hello(hello).encode(SESSION)).unwrap();
    let foreign = TcpStream::connect(addresses[0]).unwrap();
    thread::scope(|scope| {
        let refused =
            scope.spawn(|| secure::connect(foreign, &identity(other.path(), HostId(1)), &name(HostId(0))).unwrap_err());
        let [first, second] = listeners;
        let host = |me, listener| {
            let address = Address::Tcp { listener, successor: addresses[1 - usize::from(me)] };
            let folder = folder.path();
            scope.spawn(move || {
                let position = RingPosition::new(me, 2).unwrap();
                start(Net::Tls, folder, position, &config(), address).unwrap().finish().unwrap();
            })
        };
        let first = host(0, first);
        // The second host comes later: a ring that is complete hangs up on strangers.
        let refused = refused.join().unwrap();
        assert!(matches!(refused, SecureError::Refused(Refusal::Stranger { .. })), "{refused}");
        let second = host(1, second);
        first.join().unwrap();
        second.join().unwrap();
    });
}

/// The addresses of two hosts were exchanged.
#[test]
fn the_wrong_host_of_the_right_ring_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    make_certificates(folder.path(), 3);
    let config = config().with_connect_timeout(Duration::from_secs(2));
    let listeners = [(); 3].map(|()| TcpListener::bind("127.0.0.1:0").unwrap());
    let addresses = [0, 1, 2].map(|at: usize| listeners[at].local_addr().unwrap());
    let errors = thread::scope(|scope| {
        let hosts: Vec<_> = (0..)
            .zip(listeners)
            .map(|(me, listener)| {
                // Each connects to the one before it.
                let address = Address::Tcp { listener, successor: addresses[usize::from((me + 2) % 3)] };
                let (folder, config) = (folder.path(), &config);
                scope.spawn(move || {
                    start(Net::Tls, folder, RingPosition::new(me, 3).unwrap(), config, address).err().unwrap()
                })
            })
            .collect();
        hosts.into_iter().map(|host| host.join().unwrap()).collect::<Vec<_>>()
    });
    // The host that detects the error first has failed for the others.
    let wrong = |error: &&RoundaboutError| {
        matches!(error, RoundaboutError::Secure { source: SecureError::Refused(Refusal::WrongHost { .. }), .. })
    };
    assert!(errors.iter().any(|error| wrong(&error)), "{errors:?}");
}
