//! Starting a host: alone, or together with its neighbours.

#[cfg(feature = "ofi")]
use crate::link::fabric::{Fabric, FabricOptions};
use crate::{
    config::RingConfig,
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
    /// Starts the only host of a ring of one. Its fragments are joined here and go nowhere.
    /// Allocates [`own`](RingConfig::own) buffers.
    ///
    /// ```
    /// use annulus_roundabout::{Host, RingConfig, RoundaboutError};
    ///
    /// let mut host = Host::alone(&RingConfig::default())?;
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
    pub fn alone(config: &RingConfig) -> Result<Self, RoundaboutError> {
        let config = config.checked()?;
        Self::start(Place::ALONE, config, |_| Alone::open(&config))
    }

    /// Connects to both neighbours by sockets and starts the host at `place`. All hosts of a run
    /// pass the same `session`, a number that no other run uses.
    ///
    /// Allocates `own` + `places` buffers of `fragment_bytes`. With Unix sockets buffers are handed
    /// over instead of copied, and all of them hold own fragments. The only host of a ring needs no
    /// neighbour: its `address` is ignored, and it allocates `own` buffers.
    ///
    /// # Errors
    /// If an option is invalid, memory is short, or a neighbour is not reached in time, is not the
    /// expected host, or runs with other options.
    pub fn join_ring(
        place: Place,
        session: Session,
        config: &RingConfig,
        address: Address,
        protect: &impl Protect,
    ) -> Result<Self, RoundaboutError> {
        Self::join_ring_until(place, session, config, address, protect, &Stopper::default())
    }

    /// Like [`join_ring`](Self::join_ring), for a host that `stopper` can stop at any time: while
    /// it looks for its neighbours, and later.
    ///
    /// # Errors
    /// As [`join_ring`](Self::join_ring), and [`RoundaboutError::Stopped`] if it was stopped.
    pub fn join_ring_until(
        place: Place,
        session: Session,
        config: &RingConfig,
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

    /// Like [`join_ring_until`](Self::join_ring_until), but sends fragments through libfabric. All
    /// other messages use sockets: TCP, with TLS if fragments are to be sealed.
    ///
    /// # Errors
    /// As [`join_ring_until`](Self::join_ring_until), and if libfabric lacks the provider or
    /// refuses.
    #[cfg(feature = "ofi")]
    pub fn join_ring_by_fabric(
        place: Place,
        session: Session,
        config: &RingConfig,
        address: Address,
        protect: &impl Protect,
        options: &FabricOptions<'_>,
        stopper: &Stopper,
    ) -> Result<Self, RoundaboutError> {
        unless_stopped(place, config, stopper, |config| {
            let fabric = Fabric::open(options, &config)?;
            let connections = connect_until(place, session, &config, address, protect, stopper)?;
            // The neighbours have yet to send the addresses of their endpoints.
            let _waiting = stopper.waits(&connections.sockets())?;
            Self::start(place, config, |inbox| fabric.start(place, session, &config, connections, inbox))
        })
    }
}

/// Starts a host that is alone, or one that `join` connects. A stopped host returns
/// [`RoundaboutError::Stopped`], whatever error the stop caused on the way.
fn unless_stopped(
    place: Place,
    config: &RingConfig,
    stopper: &Stopper,
    join: impl FnOnce(RingConfig) -> Result<Host, RoundaboutError>,
) -> Result<Host, RoundaboutError> {
    let joined = match place.hosts() {
        1 => Host::alone(config),
        _ => config.checked().and_then(join),
    };
    let joined = joined.inspect(|host| host.is_stopped_by(stopper));
    if stopper.is_stopped() { Err(RoundaboutError::Stopped) } else { joined }
}
