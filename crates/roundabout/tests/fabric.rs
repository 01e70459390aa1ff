//! The errors of a host that cannot use libfabric.
#![cfg(feature = "ofi")]

use std::{net::TcpListener, thread, time::Duration};

use annulus_roundabout::{
    Address, BufferCache, Host, HostId, Plaintext, RingConfig, RingPosition, RoundaboutError,
    fabric::FabricOptions,
    testing::{Fabric, Sockets, connect},
};

const SESSION: u64 = 5;

fn config() -> RingConfig {
    let timeout = Duration::from_secs(20);
    RingConfig::default()
        .with_fragment_bytes(4096)
        .with_places(2)
        .with_own(1)
        .with_timeout(timeout)
        .with_connect_timeout(timeout)
}

/// Starts both hosts of an unencrypted ring, each with an endpoint if there are options for one.
fn start(options: [Option<FabricOptions<'static>>; 2]) -> [Option<RoundaboutError>; 2] {
    start_with(&BufferCache::default(), options)
}

fn start_with(cache: &BufferCache, options: [Option<FabricOptions<'static>>; 2]) -> [Option<RoundaboutError>; 2] {
    let listeners = [(); 2].map(|()| TcpListener::bind("127.0.0.1:0").unwrap());
    let addresses = [1, 0].map(|successor: usize| listeners[successor].local_addr().unwrap());
    let hosts: Vec<_> = (0..)
        .zip(listeners.into_iter().zip(addresses).zip(options))
        .map(|(me, ((listener, successor), options))| {
            let cache = cache.clone();
            thread::spawn(move || {
                let (position, config) = (RingPosition::new(me, 2).unwrap(), config());
                let fabric = options.map(|options| Fabric::open(&options, &config, &cache)).transpose()?;
                let connections =
                    connect(position, SESSION, &config, Address::Tcp { listener, successor }, &Plaintext)?;
                let started = match fabric {
                    Some(fabric) => Host::start(position, config, |inbox| {
                        fabric.start(position, SESSION, &config, connections, inbox)
                    }),
                    None => {
                        let buffers = (&config, &cache);
                        Host::start(position, config, |inbox| {
                            Sockets::start(position, SESSION, buffers, connections, inbox)
                        })
                    }
                };
                started?.finish()
            })
        })
        .collect();
    let mut errors = hosts.into_iter().map(|host| host.join().unwrap().err());
    [(); 2].map(|()| errors.next().unwrap())
}

fn tcp(sealed: bool) -> Option<FabricOptions<'static>> {
    Some(FabricOptions::new("tcp").with_node("127.0.0.1").with_sealed(sealed))
}

#[test]
fn a_ring_of_both_turns() {
    let [first, second] = start([tcp(false), tcp(false)]);
    assert!(first.is_none() && second.is_none(), "{first:?}, {second:?}");
}

#[test]
fn the_next_ring_borrows_registered_buffers() {
    let cache = BufferCache::new(1 << 20);
    let bytes: Vec<usize> = (0..3)
        .map(|_| {
            let [first, second] = start_with(&cache, [tcp(false), tcp(false)]);
            assert!(first.is_none() && second.is_none(), "{first:?}, {second:?}");
            cache.bytes()
        })
        .collect();
    assert!(bytes[0] > 0 && bytes.iter().all(|&later| later == bytes[0]), "{bytes:?}");
}

#[test]
fn without_tls_nothing_can_be_sealed() {
    let [first, second] = start([tcp(true), tcp(false)]);
    let error = first.unwrap();
    assert!(matches!(error, RoundaboutError::Option { option: "sealed fragments", .. }), "{error}");
    // The other host names the one that left.
    let error = second.unwrap();
    assert!(matches!(error, RoundaboutError::Endpoint { host: HostId(0), .. }), "{error}");
}

#[test]
fn a_neighbour_without_an_endpoint_is_named() {
    let [first, _] = start([tcp(false), None]);
    let error = first.unwrap();
    let expected = matches!(error, RoundaboutError::Wire { host: HostId(1), .. } | RoundaboutError::Endpoint { .. });
    assert!(expected, "{error}");
}

#[test]
fn a_provider_that_is_not_there_is_named() {
    let error = Fabric::open(&FabricOptions::new("nowhere"), &config(), &BufferCache::default()).err().unwrap();
    assert!(error.to_string().starts_with("libfabric's provider nowhere cannot find such a provider: "), "{error}");
}
