//! A ring of two hosts in one process, connected by TCP. Each host sends three fragments around,
//! and both hosts print all six: `cargo run -p annulus-roundabout --example two_hosts`

use std::{net::TcpListener, thread};

use annulus_roundabout::{Address, Fragment, Host, HostBuilder, RingPosition, RoundaboutError};

/// A number that all hosts of one run share.
const SESSION: u64 = 1;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let listeners = [TcpListener::bind("127.0.0.1:0")?, TcpListener::bind("127.0.0.1:0")?];
    let [to_first, to_second] = [listeners[0].local_addr()?, listeners[1].local_addr()?];
    let [first, second] = listeners;
    thread::scope(|scope| {
        let other = scope.spawn(|| run(1, Address::Tcp { listener: second, successor: to_first }));
        run(0, Address::Tcp { listener: first, successor: to_second })?;
        other.join().expect("host 1 panicked")
    })?;
    Ok(())
}

/// Runs host `me`: one revolution, then the orderly end.
fn run(me: u16, address: Address) -> Result<(), RoundaboutError> {
    let position = RingPosition::new(me, 2).expect("host 0 or 1 of 2");
    let mut host = Host::join_ring(HostBuilder::new(position, SESSION, address))?;

    let mut texts = (0..3).map(|number| format!("fragment {number} of host {me}"));
    let fill = |buffer: &mut [u8]| {
        let Some(text) = texts.next() else { return Ok(None) };
        buffer[..text.len()].copy_from_slice(text.as_bytes());
        Ok(Some(text.len()))
    };
    let join = |fragment: Fragment<'_>| {
        println!("host {me} joins {}", String::from_utf8_lossy(fragment.bytes));
        Ok::<_, RoundaboutError>(())
    };
    let revolution = host.revolve(fill, join)?;
    println!("host {me} sent {} fragments and joined {}", revolution.injected, revolution.joined);
    host.finish()
}
