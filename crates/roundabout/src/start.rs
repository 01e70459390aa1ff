//! Starting a host: alone, or together with its neighbours.

#[cfg(feature = "ofi")]
use crate::link::fabric::{Fabric, FabricOptions};
use crate::{
    config::RingConfig,
    error::RoundaboutError,
    host::{Host, Stopper},
    kept::KeptBuffers,
    link::{
        alone::Alone,
        socket::{Address, Clear, Protect, Sockets, connect_until},
    },
    ring::Place,
    wire::Session,
};

impl Host {
    /// Starts the only host of a ring of one. Its fragments are joined here and sent nowhere.
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
        Self::alone_with(config, &KeptBuffers::default())
    }

    /// Starts such a host, which borrows buffers that outlive it.
    ///
    /// # Errors
    /// As for [`alone`](Self::alone).
    pub fn alone_with(config: &RingConfig, kept: &KeptBuffers) -> Result<Self, RoundaboutError> {
        let config = config.checked()?;
        Self::start(Place::ALONE, config, |_| Alone::open(&config, kept))
    }

    /// Connects to both neighbours and starts the host, as `joining` describes.
    ///
    /// Allocates `own` + `places` buffers of `fragment_bytes`, or borrows them
    /// ([`with_kept_buffers`](Joining::with_kept_buffers)). With Unix sockets buffers are handed over
    /// instead of copied, and all of them hold own fragments. The only host of a ring needs no
    /// neighbour: its address is ignored, and it has `own` buffers.
    ///
    /// # Errors
    /// If an option is invalid, memory is short, or a neighbour is not reached in time, is not the
    /// expected host, or runs with other options. [`RoundaboutError::Stopped`] if the host was
    /// stopped. With libfabric, also if it lacks the provider or refuses.
    pub fn join_ring<P: Protect>(joining: Joining<'_, P>) -> Result<Self, RoundaboutError> {
        let Joining { place, session, config, address, protect, stopper, kept, .. } = joining;
        unless_stopped((place, &config, &kept), &stopper, |config| {
            #[cfg(feature = "ofi")]
            if let Some(options) = joining.fabric {
                let fabric = Fabric::open(options, &config, &kept)?;
                let none = KeptBuffers::default();
                let connections = connect_until(place, session, (&config, &none), address, protect, &stopper)?;
                // The neighbours have not sent the addresses of their endpoints yet.
                let _waiting = stopper.waits(&connections.sockets())?;
                return Self::start(place, config, |inbox| fabric.start(place, session, &config, connections, inbox));
            }
            let shared = matches!(address, Address::Unix { .. });
            let config = if shared { config.handing_over() } else { config };
            let connections = connect_until(place, session, (&config, &kept), address, protect, &stopper)?;
            Self::start(place, config, |inbox| Sockets::start(place, session, (&config, &kept), connections, inbox))
        })
    }
}

/// The way a host joins its ring. By default connections are unprotected, and options are those of
/// [`RingConfig::default`].
#[must_use]
pub struct Joining<'a, P: Protect = Clear> {
    place: Place,
    session: Session,
    config: RingConfig,
    address: Address,
    protect: &'a P,
    stopper: Stopper,
    kept: KeptBuffers,
    #[cfg(feature = "ofi")]
    fabric: Option<&'a FabricOptions<'a>>,
}

impl Joining<'_> {
    /// Returns the entry of the host at `place`, with sockets at `address`. All hosts of a run pass
    /// the same `session`, a number that no other run uses.
    pub fn new(place: Place, session: Session, address: Address) -> Self {
        Self {
            place,
            session,
            config: RingConfig::default(),
            address,
            protect: &Clear,
            stopper: Stopper::default(),
            kept: KeptBuffers::default(),
            #[cfg(feature = "ofi")]
            fabric: None,
        }
    }
}

impl<'a, P: Protect> Joining<'a, P> {
    /// Sets the options of the ring, the same on all hosts.
    pub fn with_config(self, config: &RingConfig) -> Self {
        Self { config: *config, ..self }
    }

    /// Sets the protection of connections.
    pub fn with_protect<Q: Protect>(self, protect: &'a Q) -> Joining<'a, Q> {
        Joining {
            place: self.place,
            session: self.session,
            config: self.config,
            address: self.address,
            protect,
            stopper: self.stopper,
            kept: self.kept,
            #[cfg(feature = "ofi")]
            fabric: self.fabric,
        }
    }

    /// Sets a stopper, which stops the host at any time: while it connects to its neighbours, and
    /// later.
    pub fn with_stopper(self, stopper: &Stopper) -> Self {
        Self { stopper: stopper.clone(), ..self }
    }

    /// Borrows buffers that outlive the ring.
    pub fn with_kept_buffers(self, kept: &KeptBuffers) -> Self {
        Self { kept: kept.clone(), ..self }
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
    (place, config, kept): (Place, &RingConfig, &KeptBuffers),
    stopper: &Stopper,
    join: impl FnOnce(RingConfig) -> Result<Host, RoundaboutError>,
) -> Result<Host, RoundaboutError> {
    let joined = match place.hosts() {
        1 => Host::alone_with(config, kept),
        _ => config.checked().and_then(join),
    };
    let joined = joined.inspect(|host| host.is_stopped_by(stopper));
    if stopper.is_stopped() { Err(RoundaboutError::Stopped) } else { joined }
}
