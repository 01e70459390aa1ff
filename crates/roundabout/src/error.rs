//! What may go wrong in a ring.

use std::{io, time::Duration};

#[cfg(feature = "ofi")]
use crate::link::fabric::FabricError;
use crate::{alarm::Failure, ring::HostId, secure::SecureError, wire::WireError};

/// Why a host stops.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RoundaboutError {
    /// A host is out, and so the ring.
    #[error("{failure}{}", .detail.as_ref().map(|detail| format!(" ({detail})")).unwrap_or_default())]
    Failed {
        /// Which host, and why.
        failure: Failure,
        /// What this host saw of it.
        detail: Option<String>,
    },
    /// This host was [stopped](crate::host::Stopper) while it was looking for its neighbours, or before.
    #[error("this host was stopped before its ring was together")]
    Stopped,
    /// This host has finished, and another makes one more revolution.
    #[error("host {host} turns on, and this one has finished; all hosts make as many revolutions")]
    TurnsOn {
        /// The host that still has fragments.
        host: HostId,
    },
    /// An option that cannot be.
    #[error("{option}: {reason}")]
    Option {
        /// The option.
        option: &'static str,
        /// Why not, and what can be.
        reason: String,
    },
    /// There is not enough memory for the buffers.
    #[error("cannot allocate {buffers} buffers of {bytes} bytes; use fewer or smaller ones")]
    Memory {
        /// Buffers.
        buffers: u32,
        /// Bytes of each.
        bytes: usize,
        /// Why.
        source: io::Error,
    },
    /// The successor could not be reached.
    #[error("host {host} at {address} cannot be reached within {within:?}; is it running, and the address right?")]
    Connect {
        /// The successor.
        host: HostId,
        /// Its address.
        address: String,
        /// How long it was tried.
        within: Duration,
        /// What the last try gave.
        source: io::Error,
    },
    /// The predecessor has not connected.
    #[error("host {host} has not connected within {within:?}; is it running, and does it know this host's address?")]
    Accept {
        /// The predecessor.
        host: HostId,
        /// How long it was waited for.
        within: Duration,
        /// What came instead, the last time.
        source: io::Error,
    },
    /// The hosts of a machine could not share their buffers.
    #[error("cannot share memory with the other hosts of this machine, by way of host {host}")]
    Handover {
        /// The predecessor.
        host: HostId,
        /// Why.
        source: io::Error,
    },
    /// The network that libfabric was to use cannot be used.
    #[cfg(feature = "ofi")]
    #[error("libfabric's provider {provider} cannot {source}")]
    Fabric {
        /// libfabric's name of it.
        provider: String,
        /// What it cannot, and why.
        source: FabricError,
    },
    /// A neighbour has not told where its endpoint is.
    #[cfg(feature = "ofi")]
    #[error("host {host} has not told where its endpoint is; does it use the fabric, too?")]
    Endpoint {
        /// The neighbour.
        host: HostId,
        /// What came instead.
        source: io::Error,
    },
    /// The successor is not who it should be, or does not take this host for who it is.
    #[error("the connection to host {host} at {address} cannot be secured: {source}")]
    Secure {
        /// The successor.
        host: HostId,
        /// Its address.
        address: String,
        /// Why.
        source: SecureError,
    },
    /// A neighbour's ring is another one.
    #[error("host {host} runs with {option} {theirs} and this one with {ours}; start all hosts with the same")]
    Differs {
        /// The neighbour.
        host: HostId,
        /// What differs.
        option: &'static str,
        /// There.
        theirs: u64,
        /// Here.
        ours: u64,
    },
    /// What came while the ring was put together is no message of ours.
    #[error("host {host}: {source}")]
    Wire {
        /// The neighbour.
        host: HostId,
        /// What is wrong.
        source: WireError,
    },
    /// The operating system refuses something else.
    #[error(transparent)]
    Io(#[from] io::Error),
}
