//! One run: sends elements from one host to the other, in one of the ways.

use std::{
    io::{Read, Write},
    net::{SocketAddr, TcpListener, TcpStream},
    os::unix::net::UnixListener,
    path::Path,
    sync::Arc,
    thread,
    time::{Duration, Instant},
};

use annulus_roundabout::{
    Address, Host, HostBuilder, Plaintext, Protect, RingConfig, RingPosition, RoundaboutError, Tls,
    secure::{Authority, HostName, Identity, RingName},
};
use anyhow::{Context, Result, anyhow, ensure};

use super::{
    args::Transport,
    meter::{Meter, MeteredSockets, MeteredStream},
    rival::Rustls,
};
use crate::Stop;

/// One run.
pub(super) struct Run<'a> {
    pub(super) way: Transport,
    pub(super) config: RingConfig,
    pub(super) elements: u64,
    /// Whether every byte is written and checked, instead of only the first and last ones.
    pub(super) checked: bool,
    pub(super) stop: &'a Stop,
    /// Measures the time on cores.
    pub(super) meter: Option<&'a Arc<Meter>>,
    #[cfg(feature = "ofi")]
    pub(super) fabric: &'a str,
}

const SESSION: u64 = 1;

impl Run<'_> {
    /// Returns the seconds from the first to the last element that is read.
    ///
    /// # Errors
    /// If an element was changed on the way, or a host fails.
    pub(super) fn seconds(&self) -> Result<f64> {
        match self.way {
            Transport::Plain => self.streams(dial, |listener| Ok(listener.accept()?.0)),
            Transport::Rustls => {
                let rival = Rustls::new()?;
                self.streams(|address| rival.connect(address), |listener| rival.accept(listener))
            }
            _ => self.ring(),
        }
    }

    /// Sends the elements through a stream, one by one.
    fn streams<W: Write, R: Read>(
        &self,
        connect: impl Fn(SocketAddr) -> Result<W> + Send,
        accept: impl Fn(&TcpListener) -> Result<R>,
    ) -> Result<f64> {
        let listener = TcpListener::bind("127.0.0.1:0")?;
        let address = listener.local_addr()?;
        let bytes = self.config.fragment_bytes as usize;
        thread::scope(|scope| {
            let writer = scope.spawn(move || {
                let mut stream = MeteredStream::new(connect(address)?, self.meter);
                let mut element = vec![0; bytes];
                for number in 0..self.elements {
                    self.write(&mut element, number);
                    stream.write_all(&element)?;
                }
                stream.flush()?;
                anyhow::Ok(())
            });
            let mut stream = MeteredStream::new(accept(&listener)?, self.meter);
            let mut element = vec![0; bytes];
            let mut start = None;
            for number in 0..self.elements {
                stream.read_exact(&mut element)?;
                start.get_or_insert_with(Instant::now);
                self.check(&element, number)?;
            }
            let seconds = start.map_or(0.0, |start| start.elapsed().as_secs_f64());
            writer.join().map_err(|_| anyhow!("the writer has panicked"))??;
            Ok(seconds)
        })
    }

    fn ring(&self) -> Result<f64> {
        let folder = tempfile::tempdir().context("cannot make a folder for sockets and certificates")?;
        let identities = if self.way.is_secure() { Some(identities(folder.path())?) } else { None };
        let identities = identities.as_ref();
        let addresses = match self.way {
            Transport::Shared => {
                let paths = [0, 1].map(|host| folder.path().join(format!("host-{host}")));
                let [first, second] = &paths;
                [(first, second), (second, first)].map(|(own, successor)| {
                    anyhow::Ok(Address::Unix { listener: UnixListener::bind(own)?, successor: successor.clone() })
                })
            }
            _ => {
                let [first, second] = [TcpListener::bind("127.0.0.1:0")?, TcpListener::bind("127.0.0.1:0")?];
                let addresses = (first.local_addr()?, second.local_addr()?);
                [(first, addresses.1), (second, addresses.0)]
                    .map(|(listener, successor)| anyhow::Ok(Address::Tcp { listener, successor }))
            }
        };
        let [first, second] = addresses;
        let (first, second) = (first?, second?);
        thread::scope(|scope| {
            let sender = scope.spawn(|| self.host(0, first, identities));
            let received = self.host(1, second, identities);
            sender.join().map_err(|_| anyhow!("a host has panicked"))??;
            Ok(received?.as_secs_f64())
        })
    }

    /// Runs host `me`. Host 0 sends everything and host 1 reads it. Returns the time from the first
    /// to the last element.
    fn host(&self, me: u16, address: Address, identities: Option<&[Identity; 2]>) -> Result<Duration> {
        let Some(identities) = identities else {
            let metering = self.meter.map(MeteredSockets);
            return match metering {
                Some(metering) => self.protected_host(me, address, &metering),
                None => self.protected_host(me, address, &Plaintext),
            };
        };
        let identity = &identities[usize::from(me)];
        let other = &identities[usize::from(1 - me)].member().host;
        self.protected_host(me, address, &Tls { identity, predecessor: other.clone(), successor: other.clone() })
    }

    fn protected_host(&self, me: u16, address: Address, protect: &impl Protect) -> Result<Duration> {
        let position = RingPosition::new(me, 2).context("two hosts")?;
        let mut host = self.start(position, address, protect)?;
        let (mut next, mut read) = (0, 0);
        let (mut start, mut end) = (None, Instant::now());
        host.revolve(
            |buffer| {
                if me != 0 || next == self.elements {
                    return Ok(None);
                }
                self.write(buffer, next);
                next += 1;
                Ok(Some(buffer.len()))
            },
            |fragment| {
                if me == 1 {
                    start.get_or_insert_with(Instant::now);
                    self.check(fragment.bytes, read)?;
                    read += 1;
                    end = Instant::now();
                }
                anyhow::Ok(())
            },
        )
        .map_err(|error| error.context(format!("host {me}")))?;
        host.finish()
            .or_else(|error| if self.stop.is_cancelled() { Ok(()) } else { Err::<(), RoundaboutError>(error) })?;
        Ok(start.map_or(Duration::ZERO, |start| end - start))
    }

    fn start(&self, position: RingPosition, address: Address, protect: &impl Protect) -> Result<Host, RoundaboutError> {
        let config = &self.config;
        #[cfg(feature = "ofi")]
        if let Some(options) = self.way.fabric(self.fabric) {
            return Host::join_ring(
                HostBuilder::new(position, SESSION, address)
                    .with_config(config)
                    .with_protect(protect)
                    .with_fabric(&options),
            );
        }
        Host::join_ring(HostBuilder::new(position, SESSION, address).with_config(config).with_protect(protect))
    }

    /// Writes an element.
    pub(super) fn write(&self, element: &mut [u8], number: u64) {
        let _application = self.meter.map(|meter| {
            if number == 0 {
                meter.start();
            }
            meter.application()
        });
        if self.checked {
            let words = element.chunks_exact_mut(8).zip(number.wrapping_mul(0x9E37_79B9)..);
            words.for_each(|(word, value)| word.copy_from_slice(&value.to_le_bytes()));
        }
        element[..8].copy_from_slice(&number.to_le_bytes());
        let end = element.len() - 8;
        element[end..].copy_from_slice(&number.to_le_bytes());
    }

    fn check(&self, element: &[u8], number: u64) -> Result<()> {
        self.stop.check()?;
        let application = self.meter.map(|meter| meter.application());
        let bytes = number.to_le_bytes();
        let inner = element.len() / 8 - 1;
        let values = number.wrapping_mul(0x9E37_79B9)..;
        let mut words = element.chunks_exact(8).zip(values).take(inner).skip(1);
        let whole = !self.checked || words.all(|(word, value)| word == value.to_le_bytes());
        ensure!(whole && element.starts_with(&bytes) && element.ends_with(&bytes), "element {number} is damaged");
        drop(application);
        if let Some(meter) = self.meter.filter(|_| number + 1 == self.elements) {
            meter.end();
        }
        Ok(())
    }
}

/// Connects by TCP, and sends small packets at once.
pub(super) fn dial(address: SocketAddr) -> Result<TcpStream> {
    let stream = TcpStream::connect(address)?;
    stream.set_nodelay(true)?;
    Ok(stream)
}

/// Makes the certificates of both hosts.
fn identities(folder: &Path) -> Result<[Identity; 2]> {
    let authority = Authority::create(folder, RingName::new("bench")?)?;
    let identity = |name: &str| {
        let files = authority.add_host(&HostName::new(name)?, &[])?;
        anyhow::Ok(Identity::load(&files.authority, &files.certificate, &files.key)?)
    };
    Ok([identity("first")?, identity("second")?])
}
