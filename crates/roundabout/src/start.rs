//! How a host comes into its ring.

#[cfg(feature = "ofi")]
use crate::link::fabric::{Fabric, Options};
use crate::{
    config::Config,
    error::RoundaboutError,
    host::{Host, Stopper},
    link::{
        alone::Alone,
        socket::{Address, Protect, Sockets, connect_until},
    },
    ring::Place,
    wire::Session,
};

impl Host {
    /// Connects to both neighbours by sockets, and starts a host. With Unix sockets buffers are handed over, so that this host's own
    /// are those for places, too ([`Config::handing_over`]). One host is alone, and its address is not used. Takes
    /// `own` and `places` buffers of `fragment_bytes`; alone, `own`.
    ///
    /// # Errors
    /// If an option cannot be, there is not enough memory, or a neighbour is not there in time, is another than it should be, or runs
    /// with other options.
    pub fn join_ring(
        place: Place,
        session: Session,
        config: &Config,
        address: Address,
        protect: &impl Protect,
    ) -> Result<Self, RoundaboutError> {
        Self::join_ring_until(place, session, config, address, protect, &Stopper::default())
    }

    /// As [`join_ring`](Self::join_ring), and `stopper` ends it, from now on to the host's end.
    ///
    /// # Errors
    /// As of [`join_ring`](Self::join_ring), and [`RoundaboutError::Stopped`] if it was stopped.
    pub fn join_ring_until(
        place: Place,
        session: Session,
        config: &Config,
        address: Address,
        protect: &impl Protect,
        stopper: &Stopper,
    ) -> Result<Self, RoundaboutError> {
        unless_stopped(place, config, stopper, |config| {
            let shared = matches!(address, Address::Unix { .. });
            let config = if shared { config.handing_over() } else { config };
            let connections = connect_until(place, session, &config, address, protect, stopper)?;
            Self::start(place, config, |inbox| Sockets::start(place, session, &config, connections, inbox))
        })
    }

    /// As [`join_ring_until`](Self::join_ring_until), but fragments go by libfabric, and only the rest by sockets: TCP, and by TLS if
    /// fragments are to be sealed.
    ///
    /// # Errors
    /// As of [`join_ring_until`](Self::join_ring_until), and if libfabric has no such provider, or it refuses.
    #[cfg(feature = "ofi")]
    pub fn join_ring_by_fabric(
        place: Place,
        session: Session,
        config: &Config,
        address: Address,
        protect: &impl Protect,
        options: &Options<'_>,
        stopper: &Stopper,
    ) -> Result<Self, RoundaboutError> {
        unless_stopped(place, config, stopper, |config| {
            let fabric = Fabric::open(options, &config)?;
            let connections = connect_until(place, session, &config, address, protect, stopper)?;
            // The neighbours' endpoints are still to be told.
            let _waiting = stopper.waits(&connections.sockets())?;
            Self::start(place, config, |inbox| fabric.start(place, session, &config, connections, inbox))
        })
    }
}

/// A host that is alone, or one that `join` connects. One that is stopped says so, whatever it saw of it.
fn unless_stopped(
    place: Place,
    config: &Config,
    stopper: &Stopper,
    join: impl FnOnce(Config) -> Result<Host, RoundaboutError>,
) -> Result<Host, RoundaboutError> {
    let joined = config.checked().and_then(|config| match place.hosts() {
        1 => Host::start(place, config, |_| Alone::open(&config)),
        _ => join(config),
    });
    let joined = joined.inspect(|host| host.is_stopped_by(stopper));
    if stopper.is_stopped() { Err(RoundaboutError::Stopped) } else { joined }
}
