//! Buffers in shared memory, used by one ring after another. The only test of its process: it sees all
//! shared memory there is.

use std::{collections::BTreeSet, fs, os::unix::net::UnixListener, thread, time::Duration};

use annulus_roundabout::{Address, BufferCache, Host, HostBuilder, HostId, RingConfig, RingPosition, RoundaboutError};

/// Returns the numbers of the shared memory that this process maps.
fn memory() -> BTreeSet<String> {
    let maps = fs::read_to_string("/proc/self/maps").unwrap();
    let of_rings = maps.lines().filter(|line| line.contains("memfd:annulus-roundabout"));
    of_rings.map(|line| line.split_whitespace().nth(4).unwrap().to_owned()).collect()
}

/// Runs a ring of two hosts, of which the last may give up with a fragment of the first.
fn ring(cache: &BufferCache, gives_up: bool) {
    let folder = tempfile::tempdir().unwrap();
    let path = |host: u16| folder.path().join(host.to_string());
    let listeners = [0, 1].map(|host| UnixListener::bind(path(host)).unwrap());
    let timeout = Duration::from_secs(20);
    let config = RingConfig::default()
        .with_fragment_bytes(4096)
        .with_places(2)
        .with_own(2)
        .with_timeout(timeout)
        .with_connect_timeout(timeout);
    thread::scope(|scope| {
        for (me, listener) in (0..).zip(listeners) {
            let address = Address::Unix { listener, successor: path(1 - me) };
            let joining = HostBuilder::new(RingPosition::new(me, 2).unwrap(), 1, address).with_config(&config);
            let mut host_left = 9;
            scope.spawn(move || {
                let mut host = Host::join_ring(joining.with_buffer_cache(cache)).unwrap();
                let fill = |bytes: &mut [u8]| {
                    host_left -= 1;
                    Ok((host_left > 0).then_some(bytes.len()))
                };
                let turned = host.revolve(fill, |fragment| match fragment.frame.origin {
                    HostId(0) if me == 1 && gives_up => Err(RoundaboutError::Stopped),
                    _ => Ok(()),
                });
                assert_eq!(turned.is_err(), gives_up);
                if !gives_up {
                    host.finish().unwrap();
                }
            });
        }
    });
}

#[test]
fn the_next_ring_of_a_machine_borrows_what_came_back() {
    let cache = BufferCache::new(1 << 20);
    ring(&cache, false);
    let first = memory();
    assert_eq!(first.len(), 2);
    ring(&cache, false);
    assert_eq!(memory(), first);
    ring(&cache, true);
    ring(&cache, false);
    let last = memory();
    assert_eq!(last.len(), 2);
    assert!(first.intersection(&last).count() < 2, "the first host's buffer stayed away");
    ring(&BufferCache::default(), false);
    assert_eq!(memory(), last);
    drop(cache);
    assert!(memory().is_empty());
}
