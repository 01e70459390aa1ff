#![doc = include_str!("../README.md")]
#![warn(missing_docs)]

mod alarm;
mod arena;
mod config;
mod credits;
mod error;
mod host;
mod kept;
mod link;
mod ring;
mod rotation;
pub mod secure;
mod start;
mod wire;

pub use self::{
    alarm::{Failure, Reason},
    config::{FRAGMENT_BYTES, RingConfig},
    error::RoundaboutError,
    host::{Fragment, Host, OwnedFragment, Revolution, Stopper},
    kept::KeptBuffers,
    link::socket::{Address, Carrier, Clear, Protect, Tls},
    ring::{HostId, MOST_HOSTS, Place},
    rotation::Frame,
    start::Joining,
    wire::{Session, WireError},
};

/// Links over libfabric: RDMA if the network supports it.
#[cfg(feature = "ofi")]
pub mod fabric {
    pub use crate::link::fabric::{FabricError, FabricOptions, leave_signals};
}

/// The parts below a [`Host`], which are not part of the API. The crate's integration tests
/// simulate the state machine, speak the wire protocol as a broken host would, and provide their
/// own links.
#[doc(hidden)]
pub mod testing {
    #[cfg(feature = "ofi")]
    pub use crate::link::fabric::Fabric;
    pub use crate::{
        alarm::Alarm,
        arena::Buffer,
        credits::Credits,
        host::Opened,
        link::{
            Inbox, Incoming, Link,
            alone::Alone,
            socket::{Sockets, connect},
        },
        rotation::{Action, Announcement, Event, Rotation, Slot},
        wire::{Hello, Lane, MESSAGE_BYTES, Message},
    };
}
