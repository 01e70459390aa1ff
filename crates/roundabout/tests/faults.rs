//! Disturbances that a ring must tolerate: late hosts, broken neighbours, callbacks that panic. A
//! test that might hang runs on its own thread, and ends with a failure.

use std::{
    io::{Read, Write},
    net::{TcpListener, TcpStream},
    os::unix::net::UnixListener,
    panic::{AssertUnwindSafe, catch_unwind},
    path::Path,
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering::Relaxed},
        mpsc::{Receiver, RecvTimeoutError, channel},
    },
    thread,
    time::{Duration, Instant},
};

use annulus_roundabout::{
    Address, BufferCache, Failure, Frame, Host, HostBuilder, HostId, Plaintext, Reason, RingConfig, RingPosition,
    RoundaboutError,
    testing::{
        Announcement, Buffer, Delivery, Direction, Hello, Inbox, Link, MESSAGE_BYTES, Message, OpenLink,
        SingleHostLink, Slot, Sockets, connect,
    },
};

const SESSION: u64 = 7;
/// The time after which a test that hangs fails.
const WATCHDOG: Duration = Duration::from_secs(120);
/// The time after which a silent host counts as failed: long, so that a slow machine fails no test.
const TIMEOUT: Duration = Duration::from_secs(10);

fn config() -> RingConfig {
    RingConfig::default()
        .with_fragment_bytes(4096)
        .with_places(2)
        .with_own(1)
        .with_timeout(TIMEOUT)
        .with_connect_timeout(Duration::from_secs(30))
}

/// Runs on a thread that is abandoned if it hangs.
fn watched<T: Send + 'static>(run: impl FnOnce() -> T + Send + 'static) -> Receiver<T> {
    let (done, is_done) = channel();
    thread::spawn(move || done.send(run()));
    is_done
}

fn start(position: RingPosition, config: &RingConfig, address: Address) -> Result<Host, RoundaboutError> {
    Host::join_ring(HostBuilder::new(position, SESSION, address).with_config(config))
}

fn tcp(hosts: usize) -> Vec<Address> {
    let listeners: Vec<_> = (0..hosts).map(|_| TcpListener::bind("127.0.0.1:0").unwrap()).collect();
    let mut successors: Vec<_> = listeners.iter().map(|listener| listener.local_addr().unwrap()).collect();
    successors.rotate_left(1);
    let pairs = listeners.into_iter().zip(successors);
    pairs.map(|(listener, successor)| Address::Tcp { listener, successor }).collect()
}

fn unix(folder: &Path, hosts: usize) -> Vec<Address> {
    let path = |host: usize| folder.join(format!("host-{host}"));
    (0..hosts)
        .map(|host| Address::Unix {
            listener: UnixListener::bind(path(host)).unwrap(),
            successor: path((host + 1) % hosts),
        })
        .collect()
}

/// Starts one host of four later than the timeout, but well within `connect_timeout`. The host
/// opposite it has both neighbours.
fn late(addresses: Vec<Address>) {
    let timeout = Duration::from_secs(2);
    let run = |me: usize, address: Address| {
        watched(move || {
            let position = RingPosition::new(me as u16, 4).unwrap();
            let config = config().with_timeout(timeout);
            start(position, &config, address).and_then(Host::finish).map_err(|error| error.to_string())
        })
    };
    let mut late = None;
    let mut others = Vec::new();
    for (me, address) in addresses.into_iter().enumerate() {
        if me == 2 { late = Some(address) } else { others.push((me, run(me, address))) }
    }
    let early = others[0].1.recv_timeout(timeout * 3 / 2);
    assert_eq!(early, Err(RecvTimeoutError::Timeout), "host 0 ended before host 2 was there");
    let late = run(2, late.unwrap());
    assert_eq!(late.recv_timeout(WATCHDOG), Ok(Ok(())));
    for (me, host) in others {
        assert_eq!(host.recv_timeout(WATCHDOG), Ok(Ok(())), "host {me}");
    }
}

#[test]
fn a_late_host_is_waited_for_by_tcp() {
    late(tcp(4));
}

#[test]
fn a_late_host_is_waited_for_by_unix_sockets() {
    let folder = tempfile::tempdir().unwrap();
    late(unix(folder.path(), 4));
}

/// The streams of an impostor: two to the host, two from it.
struct Impostor {
    out: Vec<TcpStream>,
    incoming: Vec<TcpStream>,
}

/// Runs host 0 of two beside an impostor. Returns how the host ends, and the impostor.
fn against(
    config: RingConfig,
    places: u32,
    behave: impl FnOnce(&mut Impostor),
    honest: impl FnOnce(Host) -> Result<(), RoundaboutError> + Send + 'static,
) -> (Receiver<Result<(), String>>, Impostor) {
    let mut addresses = tcp(2);
    let (Some(Address::Tcp { listener, successor }), Some(address)) = (addresses.pop(), addresses.pop()) else {
        unreachable!()
    };
    let host = watched(move || {
        let host = start(RingPosition::new(0, 2).unwrap(), &config, address);
        host.and_then(honest).map_err(|error| error.to_string())
    });
    let (fragment_bytes, timeout_ms) = (config.fragment_bytes, config.timeout.as_millis() as u32);
    let mut out = Vec::from([Direction::Forward, Direction::Back].map(|direction| {
        let mut stream = TcpStream::connect(successor).unwrap();
        let hello = Message::Hello(Hello { from: HostId(1), hosts: 2, fragment_bytes, timeout_ms, direction });
        stream.write_all(&hello.encode(SESSION)).unwrap();
        stream
    }));
    let mut bytes = [0; MESSAGE_BYTES];
    let incoming = Vec::from([(); 2].map(|()| {
        let (mut stream, _) = listener.accept().unwrap();
        stream.read_exact(&mut bytes).unwrap();
        stream.write_all(&Message::Welcome { places, fragment_bytes, timeout_ms }.encode(SESSION)).unwrap();
        stream
    }));
    out.iter_mut().for_each(|stream| stream.read_exact(&mut bytes).unwrap());
    for round in [1, 2] {
        let _ = out[0].write_all(&Message::Ready(round).encode(SESSION));
    }
    let mut impostor = Impostor { out, incoming };
    behave(&mut impostor);
    (host, impostor)
}

fn one_revolution(mut host: Host) -> Result<(), RoundaboutError> {
    host.revolve(|_| Ok(None), |_| Ok::<_, RoundaboutError>(()))?;
    host.finish()
}

/// A neighbour says goodbye and leaves before it has sent everything that this host needs.
#[test]
fn a_goodbye_too_early_is_a_failure() {
    let goodbye = |impostor: &mut Impostor| {
        let goodbye = Message::Goodbye.encode(SESSION);
        impostor.out[0].write_all(&goodbye).unwrap();
        impostor.incoming[1].write_all(&goodbye).unwrap();
        impostor.out.clear();
        impostor.incoming.clear();
    };
    let (host, _impostor) = against(config(), 2, goodbye, one_revolution);
    let ended = host.recv_timeout(WATCHDOG);
    assert!(ended.as_ref().is_ok_and(Result::is_err), "{ended:?}");
}

/// A neighbour reports the failure of a host that the ring does not have.
#[test]
fn a_failure_of_nobody_is_the_neighbours() {
    let failure = Message::Failure(Failure { host: HostId(999), reason: Reason::Silent });
    let tell = |impostor: &mut Impostor| impostor.out[0].write_all(&failure.encode(SESSION)).unwrap();
    let (host, _impostor) = against(config(), 2, tell, one_revolution);
    let error = host.recv_timeout(WATCHDOG).unwrap().unwrap_err();
    assert!(error.starts_with("host 1 has failed"), "{error}");
}

/// A successor without any room would make the host wait for ever.
#[test]
fn a_welcome_without_room_is_refused() {
    let mut addresses = tcp(2);
    let (Some(Address::Tcp { listener, .. }), Some(address)) = (addresses.pop(), addresses.pop()) else {
        unreachable!()
    };
    let host = watched(move || {
        start(RingPosition::new(0, 2).unwrap(), &config(), address).err().map(|error| error.to_string())
    });
    let (mut stream, _) = listener.accept().unwrap();
    stream.read_exact(&mut [0; MESSAGE_BYTES]).unwrap();
    let timeout_ms = TIMEOUT.as_millis() as u32;
    let welcome = Message::Welcome { places: 0, fragment_bytes: 4096, timeout_ms };
    stream.write_all(&welcome.encode(SESSION)).unwrap();
    // At once, although no host connects to this one.
    let error = host.recv_timeout(WATCHDOG).unwrap().unwrap();
    assert!(error.contains("too few frames"), "{error}");
}

/// Closing takes as long as the timeout for a silent neighbour, not as long as reading all waiting
/// data.
#[test]
fn a_slow_successor_does_not_hold_up_the_end() {
    let config = config().with_fragment_bytes(64 << 20).with_own(2).with_timeout(Duration::from_millis(500));
    let read = Arc::new(AtomicUsize::new(0));
    let has_read = Arc::clone(&read);
    let trickle = move |impostor: &mut Impostor| {
        let mut slow = impostor.incoming[0].try_clone().unwrap();
        let mut alive = [&impostor.out[0], &impostor.incoming[1]].map(|stream| stream.try_clone().unwrap());
        thread::spawn(move || {
            let mut bytes = vec![0; 128 << 10];
            while let Ok(count @ 1..) = slow.read(&mut bytes) {
                has_read.fetch_add(count, Relaxed);
                let _ = alive.each_mut().map(|stream| stream.write_all(&Message::Heartbeat.encode(SESSION)));
                // A real delay: this host is slow.
                thread::sleep(Duration::from_millis(100));
            }
        });
    };
    let (host, _impostor) = against(config, 2, trickle, move |mut host: Host| {
        let mut joined = 0;
        let give_up = |_: annulus_roundabout::Fragment<'_>| {
            joined += 1;
            if joined == 2 { Err(RoundaboutError::Stopped) } else { Ok(()) }
        };
        let _ = host.revolve(|bytes| Ok(Some(bytes.len())), give_up);
        drop(host);
        Ok(())
    });
    assert!(host.recv_timeout(WATCHDOG).is_ok(), "it hangs");
    // To read all takes this successor 50 seconds at least.
    assert!(read.load(Relaxed) < 64 << 20, "it ended when all was read");
}

/// A link that sends nothing.
struct Nowhere(Mutex<Vec<Buffer>>);

impl Link for Nowhere {
    fn send(&self, _: Slot, buffer: Buffer, _: Frame, _: usize) {
        self.0.lock().unwrap().push(buffer);
    }
    fn retire(&self, _: Slot, _: Buffer, _: Frame) {}
    fn announce(&self, _: Announcement) {}
    fn alarm(&self, _: Failure) {}
    fn close(&self) {}
}

fn nowhere(position: RingPosition) -> (Host, Arc<dyn Inbox>) {
    let mut kept = None;
    let host = Host::start(position, config(), |inbox| {
        kept = Some(Arc::clone(inbox));
        Ok(OpenLink {
            link: Nowhere(Mutex::default()),
            own: SingleHostLink::open(&config(), &BufferCache::default())?.own,
            credits: 0,
        })
    });
    (host.unwrap(), kept.unwrap())
}

/// Credits come from the successor.
#[test]
fn who_promises_too_much_room_is_named() {
    let (mut host, inbox) = nowhere(RingPosition::new(0, 4).unwrap());
    inbox.put(Delivery::Credited(u32::MAX));
    inbox.put(Delivery::Credited(1));
    let error = host.revolve(|_| Ok(None), |_| Ok::<_, RoundaboutError>(())).unwrap_err();
    assert!(error.to_string().starts_with("host 1 has failed"), "{error}");
}

/// An error of this host's own callback is not its neighbour's failure.
#[test]
fn a_source_that_goes_on_after_its_end_is_not_the_neighbours_failure() {
    let config = config().with_own(2);
    let mut host = Host::start(RingPosition::new(0, 4).unwrap(), config, |_| {
        Ok(OpenLink {
            link: Nowhere(Mutex::default()),
            own: SingleHostLink::open(&config, &BufferCache::default())?.own,
            credits: 2,
        })
    })
    .unwrap();
    let mut answers = [None, Some(0)].into_iter();
    let turned = watched(move || {
        host.revolve(|_| Ok(answers.next().unwrap()), |_| Ok::<_, RoundaboutError>(()))
            .map_err(|error| error.to_string())
    });
    // Its fragment after the end is ignored. So it waits for the other hosts, which do not exist.
    assert_eq!(turned.recv_timeout(Duration::from_millis(300)).err(), Some(RecvTimeoutError::Timeout));
}

#[test]
fn a_size_that_does_not_fit_is_an_error() {
    let mut host = Host::single_host(&config()).unwrap();
    let turned = catch_unwind(AssertUnwindSafe(|| {
        host.revolve(|bytes| Ok(Some(bytes.len() + 1)), |_| Ok::<_, RoundaboutError>(()))
    }));
    assert!(turned.is_ok_and(|turned| turned.is_err()));
}

/// A caller that catches panics keeps the host. The host must not hang, nor keep the ring waiting.
#[test]
fn after_a_panic_of_the_join_nothing_works_any_more() {
    let ended = watched(|| {
        let mut host = Host::single_host(&config()).unwrap();
        let caught = catch_unwind(AssertUnwindSafe(|| {
            host.revolve(|_| Ok(Some(1)), |_| -> Result<(), RoundaboutError> { panic!("in the join") })
        }));
        assert!(caught.is_err());
        host.finish().is_err()
    });
    assert_eq!(ended.recv_timeout(WATCHDOG), Ok(true));
}

/// The predecessor runs with other options, which is detected at once. The successor does not
/// exist.
#[test]
fn what_differs_is_said_at_once() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let unused = TcpListener::bind("127.0.0.1:0").unwrap();
    let (address, successor) = (listener.local_addr().unwrap(), unused.local_addr().unwrap());
    drop(unused);
    let config = config().with_connect_timeout(Duration::from_secs(4));
    let begin = Instant::now();
    let host = watched(move || {
        let address = Address::Tcp { listener, successor };
        connect(RingPosition::new(0, 3).unwrap(), SESSION, &config, address, &Plaintext).map(drop)
    });
    let mut stream = TcpStream::connect(address).unwrap();
    let timeout_ms = TIMEOUT.as_millis() as u32;
    let hello = Hello { from: HostId(2), hosts: 4, fragment_bytes: 4096, timeout_ms, direction: Direction::Forward };
    stream.write_all(&Message::Hello(hello).encode(SESSION)).unwrap();
    let error = host.recv_timeout(WATCHDOG).unwrap().unwrap_err();
    let took = begin.elapsed();
    assert!(matches!(error, RoundaboutError::Differs { host: HostId(2), .. }), "after {took:?}: {error}");
}

#[test]
fn a_time_without_end_is_refused() {
    let config = config().with_connect_timeout(Duration::MAX);
    let error = start(RingPosition::new(0, 2).unwrap(), &config, tcp(2).remove(0)).err().unwrap();
    assert!(error.to_string().contains("connect timeout"), "{error}");
}

/// A step fails after the link was made, and the link is dropped. Its threads end, and the
/// neighbours are notified.
#[test]
fn a_link_that_is_dropped_is_a_failure() {
    let mut addresses = tcp(2);
    let (other, own) = (addresses.pop().unwrap(), addresses.pop().unwrap());
    let host = watched(move || {
        start(RingPosition::new(0, 2).unwrap(), &config(), own)
            .and_then(one_revolution)
            .map_err(|error| error.to_string())
    });
    let position = RingPosition::new(1, 2).unwrap();
    let connections = connect(position, SESSION, &config(), other, &Plaintext).unwrap();
    let failed = Host::start::<Sockets>(position, config(), |inbox| {
        drop(Sockets::start(position, SESSION, (&config(), &BufferCache::default()), connections, inbox)?);
        Err(RoundaboutError::Stopped)
    });
    assert!(failed.is_err());
    let ended = host.recv_timeout(WATCHDOG);
    assert!(ended.as_ref().is_ok_and(Result::is_err), "{ended:?}");
}

/// Hosts must agree on the timeout, as on the size of fragments: a host with a shorter timeout
/// would consider the other silent.
#[test]
fn other_timeouts_are_refused() {
    let mut hosts = tcp(2).into_iter().enumerate().map(|(me, address)| {
        let timeout = [TIMEOUT / 2, TIMEOUT][me];
        let config = config().with_timeout(timeout);
        let position = RingPosition::new(me as u16, 2).unwrap();
        watched(move || start(position, &config, address).map(drop))
    });
    let (one, _other) = (hosts.next().unwrap(), hosts.next().unwrap());
    let ended = one.recv_timeout(WATCHDOG).unwrap();
    assert!(matches!(ended, Err(RoundaboutError::Differs { .. })), "{ended:?}");
}

/// A host that stays long in its join still tells that it is alive.
#[test]
fn a_long_join_is_no_silence() {
    let (heard, is_heard) = channel();
    let listen = move |impostor: &mut Impostor| {
        let mut stream = impostor.out[1].try_clone().unwrap();
        let mut alive = [&impostor.out[0], &impostor.incoming[1]].map(|stream| stream.try_clone().unwrap());
        let heartbeat = Message::Heartbeat.encode(SESSION);
        thread::spawn(move || {
            let mut bytes = [0; MESSAGE_BYTES];
            while stream.read_exact(&mut bytes).is_ok() {
                if bytes == heartbeat && heard.send(()).is_err() {
                    break;
                }
                let _ = alive.each_mut().map(|stream| stream.write_all(&heartbeat));
            }
        });
    };
    let (host, _impostor) = against(config(), 2, listen, move |mut host: Host| {
        let mut is_first = true;
        host.revolve(
            |_| Ok(std::mem::take(&mut is_first).then_some(0)),
            |_| {
                // One heartbeat may have been sent before the join began.
                let heard = [(); 2].map(|()| is_heard.recv_timeout(WATCHDOG));
                assert_eq!(heard, [Ok(()); 2]);
                Err(RoundaboutError::Stopped)
            },
        )?;
        Ok(())
    });
    let error = host.recv_timeout(WATCHDOG).unwrap().unwrap_err();
    assert_eq!(error, RoundaboutError::Stopped.to_string());
}

/// Many small rings. Each ends in order, or every host names the one that gave up. `ANNULUS_RINGS`
/// sets the number of rings.
#[test]
fn rings_end_as_they_should() {
    use rand::{Rng, SeedableRng, rngs::StdRng};
    let seeds = std::env::var("ANNULUS_RINGS").ok().and_then(|text| text.parse().ok()).unwrap_or(20_u64);
    for seed in 0..seeds {
        let mut random = StdRng::seed_from_u64(seed);
        let hosts = random.random_range(2..=6_usize);
        let config = config().with_places(random.random_range(2..=4)).with_own(random.random_range(1..=3));
        let folder = tempfile::tempdir().unwrap();
        let addresses = if random.random() { unix(folder.path(), hosts) } else { tcp(hosts) };
        let victim = random.random_bool(0.5).then(|| random.random_range(0..hosts));
        let after = random.random_range(0..40_u32);
        let running: Vec<_> = addresses
            .into_iter()
            .enumerate()
            .map(|(me, address)| {
                let counts: Vec<u32> = (0..3).map(|_| random.random_range(0..12)).collect();
                watched(move || {
                    let mut host = start(RingPosition::new(me as u16, hosts as u16).unwrap(), &config, address)?;
                    let mut joined = 0;
                    for mut left in counts {
                        let fill = |_: &mut [u8]| {
                            let more = left > 0;
                            left = left.saturating_sub(1);
                            Ok(more.then_some(0))
                        };
                        host.revolve(fill, |_| {
                            joined += 1;
                            if victim == Some(me) && joined > after { Err(RoundaboutError::Stopped) } else { Ok(()) }
                        })?;
                    }
                    if victim == Some(me) {
                        return Err(RoundaboutError::Stopped);
                    }
                    host.finish()
                })
            })
            .collect();
        for (me, host) in running.into_iter().enumerate() {
            let ended = host.recv_timeout(WATCHDOG).unwrap_or_else(|_| panic!("seed {seed}: host {me} hangs"));
            let right = match &ended {
                Ok(()) => victim.is_none(),
                Err(RoundaboutError::Stopped) => victim == Some(me),
                Err(RoundaboutError::Failed { failure, .. }) => {
                    victim == Some(failure.host.index()) && failure.reason == Reason::GaveUp
                }
                Err(_) => false,
            };
            assert!(right, "seed {seed}: host {me} of {hosts}, victim {victim:?}: {ended:?}");
        }
    }
}
