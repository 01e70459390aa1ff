//! Starting a host: alone, or together with its neighbours.

#[cfg(feature = "ofi")]
use crate::link::fabric::{Fabric, FabricOptions};
use crate::{
    buffer_cache::BufferCache,
    config::RingConfig,
    error::RoundaboutError,
    host::Host,
    link::{
        single_host::SingleHostLink,
        socket::{Address, Plaintext, Protect, Sockets, connect_until},
    },
    ring::RingPosition,
    stop::StopHandle,
    wire::Session,
};

impl Host {
    /// Starts the only host of a ring of one. Its fragments are joined here and sent nowhere.
    /// Allocates [`own`](RingConfig::own) buffers.
    ///
    /// ```
    /// use annulus_roundabout::{Host, RingConfig, RoundaboutError};
    ///
    /// let mut host = Host::single_host(&RingConfig::default())?;
    /// let (mut left, mut sum) = (vec![3, 2, 1], 0);
    /// let fill = |buffer: &mut [u8]| Ok(left.pop().map(|byte| {
    ///     buffer[0] = byte;
    ///     1
    /// }));
    /// host.revolve(fill, |fragment| {
    ///     sum += u32::from(fragment.bytes[0]);
    ///     Ok::<_, RoundaboutError>(())
    /// })?;
    /// host.finish()?;
    /// assert_eq!(sum, 6);
    /// # Ok::<_, RoundaboutError>(())
    /// ```
    ///
    /// # Errors
    /// If an option is invalid or memory is short.
    pub fn single_host(config: &RingConfig) -> Result<Self, RoundaboutError> {
        Self::single_host_with(config, &BufferCache::default())
    }

    /// Starts such a host, which borrows buffers that outlive it.
    ///
    /// # Errors
    /// As for [`single_host`](Self::single_host).
    pub fn single_host_with(config: &RingConfig, cache: &BufferCache) -> Result<Self, RoundaboutError> {
        let config = config.checked()?;
        Self::start(RingPosition::SINGLE, config, |_| SingleHostLink::open(&config, cache))
    }

    /// Connects to both neighbours and starts the host, as `joining` describes.
    ///
    /// Allocates `own` + `places` buffers of `fragment_bytes`, or borrows them
    /// ([`with_buffer_cache`](HostBuilder::with_buffer_cache)). With Unix sockets buffers are handed over
    /// instead of copied, and all of them hold own fragments. The only host of a ring needs no
    /// neighbour: its address is ignored, and it has `own` buffers.
    ///
    /// # Errors
    /// If an option is invalid, memory is short, or a neighbour is not reached in time, is not the
    /// expected host, or runs with other options. [`RoundaboutError::Stopped`] if the host was
    /// stopped. With libfabric, also if it lacks the provider or refuses.
    pub fn join_ring<P: Protect>(joining: HostBuilder<'_, P>) -> Result<Self, RoundaboutError> {
        let HostBuilder { position, session, config, address, protect, stop_handle, cache, .. } = joining;
        unless_stopped((position, &config, &cache), &stop_handle, |config| {
            #[cfg(feature = "ofi")]
            if let Some(options) = joining.fabric {
                let fabric = Fabric::open(options, &config, &cache)?;
                let none = BufferCache::default();
                let connections = connect_until(position, session, (&config, &none), address, protect, &stop_handle)?;
                // The neighbours have not sent the addresses of their endpoints yet.
                let _waiting = stop_handle.waits(&connections.sockets())?;
                return Self::start(position, config, |inbox| {
                    fabric.start(position, session, &config, connections, inbox)
                });
            }
            let shared = matches!(address, Address::Unix { .. });
            let config = if shared { config.handing_over() } else { config };
            let connections = connect_until(position, session, (&config, &cache), address, protect, &stop_handle)?;
            Self::start(position, config, |inbox| {
                Sockets::start(position, session, (&config, &cache), connections, inbox)
            })
        })
    }
}

/// The way a host joins its ring. By default connections are unprotected, and options are those of
/// [`RingConfig::default`].
#[must_use]
pub struct HostBuilder<'a, P: Protect = Plaintext> {
    position: RingPosition,
    session: Session,
    config: RingConfig,
    address: Address,
    protect: &'a P,
    stop_handle: StopHandle,
    cache: BufferCache,
    #[cfg(feature = "ofi")]
    fabric: Option<&'a FabricOptions<'a>>,
}

impl HostBuilder<'_> {
    /// Returns the entry of the host at `place`, with sockets at `address`. All hosts of a run pass
    /// the same `session`, a number that no other run uses.
    pub fn new(position: RingPosition, session: Session, address: Address) -> Self {
        Self {
            position,
            session,
            config: RingConfig::default(),
            address,
            protect: &Plaintext,
            stop_handle: StopHandle::default(),
            cache: BufferCache::default(),
            #[cfg(feature = "ofi")]
            fabric: None,
        }
    }
}

impl<'a, P: Protect> HostBuilder<'a, P> {
    /// Sets the options of the ring, the same on all hosts.
    pub fn with_config(self, config: &RingConfig) -> Self {
        Self { config: *config, ..self }
    }

    /// Sets the protection of connections.
    pub fn with_protect<Q: Protect>(self, protect: &'a Q) -> HostBuilder<'a, Q> {
        HostBuilder {
            position: self.position,
            session: self.session,
            config: self.config,
            address: self.address,
            protect,
            stop_handle: self.stop_handle,
            cache: self.cache,
            #[cfg(feature = "ofi")]
            fabric: self.fabric,
        }
    }

    /// Sets a stop_handle, which stops the host at any time: while it connects to its neighbours, and
    /// later.
    pub fn with_stop_handle(self, stop_handle: &StopHandle) -> Self {
        Self { stop_handle: stop_handle.clone(), ..self }
    }

    /// Borrows buffers that outlive the ring.
    pub fn with_buffer_cache(self, cache: &BufferCache) -> Self {
        Self { cache: cache.clone(), ..self }
    }

    /// Sends fragments through libfabric. All other messages use sockets: TCP, with TLS if
    /// fragments are to be sealed.
    #[cfg(feature = "ofi")]
    pub fn with_fabric(self, options: &'a FabricOptions<'a>) -> Self {
        Self { fabric: Some(options), ..self }
    }
}

/// Starts a host that is alone, or one that `join` connects. A stopped host returns
/// [`RoundaboutError::Stopped`], whatever error the stop caused.
fn unless_stopped(
    (position, config, cache): (RingPosition, &RingConfig, &BufferCache),
    stop_handle: &StopHandle,
    join: impl FnOnce(RingConfig) -> Result<Host, RoundaboutError>,
) -> Result<Host, RoundaboutError> {
    let joined = match position.hosts() {
        1 => Host::single_host_with(config, cache),
        _ => config.checked().and_then(join),
    };
    let joined = joined.inspect(|host| host.is_stopped_by(stop_handle));
    if stop_handle.is_stopped() { Err(RoundaboutError::Stopped) } else { joined }
}
