#![doc = include_str!("../README.md")]
#![warn(missing_docs)]

mod alarm;
mod arena;
mod buffer_cache;
mod config;
mod credits;
mod error;
mod host;
#[cfg(feature = "ofi")]
mod libfabric;
mod link;
mod ring;
mod rotation;
pub mod secure;
mod start;
mod stop;
mod wire;

pub use self::{
    alarm::{Failure, Reason},
    buffer_cache::BufferCache,
    config::{FRAGMENT_BYTES, RingConfig},
    error::RoundaboutError,
    host::{Fragment, Host, OwnedFragment, Revolution},
    link::socket::{Address, Carrier, Plaintext, Protect, Tls},
    ring::{HostId, MOST_HOSTS, RingPosition},
    rotation::Frame,
    start::HostBuilder,
    stop::StopHandle,
    wire::{Session, WireError},
};

/// Links over libfabric: RDMA if the network supports it.
#[cfg(feature = "ofi")]
pub mod fabric {
    pub use crate::{
        libfabric::{FabricError, leave_signals},
        link::fabric::FabricOptions,
    };
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
        link::{
            Delivery, Inbox, Link, OpenLink,
            single_host::SingleHostLink,
            socket::{Sockets, connect},
        },
        rotation::{Action, Announcement, Event, Rotation, Slot},
        wire::{Direction, Hello, MESSAGE_BYTES, Message},
    };
}
