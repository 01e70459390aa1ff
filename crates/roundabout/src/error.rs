//! The errors of a ring.

use std::{io, time::Duration};

#[cfg(feature = "ofi")]
use crate::libfabric::FabricError;
use crate::{alarm::Failure, ring::HostId, secure::SecureError, wire::WireError};

/// The reason why a host stopped.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RoundaboutError {
    /// A host failed, and with it the ring.
    #[error("{failure}{}", .detail.as_ref().map(|detail| format!(" ({detail})")).unwrap_or_default())]
    Failed {
        /// The failed host, and the reason.
        failure: Failure,
        /// The observation of this host, if it detected the failure itself.
        detail: Option<String>,
    },
    /// This host was [stopped](crate::StopHandle) before it had reached its neighbours.
    #[error("this host was stopped before it had reached its neighbours")]
    Stopped,
    /// Another host started a revolution after this host finished.
    #[error("host {host} started another revolution after this host finished; every host must run the same number")]
    ExtraRevolution {
        /// The host that still has fragments.
        host: HostId,
    },
    /// An option has an invalid value.
    #[error("{option}: {reason}")]
    Option {
        /// The name of the option.
        option: &'static str,
        /// The allowed values.
        reason: String,
    },
    /// The buffers cannot be allocated.
    #[error("cannot allocate {buffers} buffers of {bytes} bytes; use fewer or smaller ones")]
    Memory {
        /// The number of buffers.
        buffers: u32,
        /// The size of each in bytes.
        bytes: usize,
        /// The error of the operating system.
        source: io::Error,
    },
    /// A thread could not be started.
    #[error("cannot start a thread of the ring; use fewer")]
    Thread {
        /// The error of the operating system.
        source: io::Error,
    },
    /// The successor could not be reached.
    #[error("cannot reach host {host} at {address} within {within:?}; check its address and that it runs")]
    Connect {
        /// The successor.
        host: HostId,
        /// The address.
        address: String,
        /// The time limit.
        within: Duration,
        /// The error of the last attempt.
        source: io::Error,
    },
    /// The predecessor did not connect in time.
    #[error("host {host} did not connect within {within:?}; check that it runs and knows the address of this host")]
    Accept {
        /// The predecessor.
        host: HostId,
        /// The time limit.
        within: Duration,
        /// The error of the last connection from another caller.
        source: io::Error,
    },
    /// The hosts of one machine could not share their buffers.
    #[error("cannot share memory with the other hosts of this machine through host {host}")]
    Handover {
        /// The predecessor.
        host: HostId,
        /// The error of the operating system.
        source: io::Error,
    },
    /// libfabric cannot use the requested network.
    #[cfg(feature = "ofi")]
    #[error("libfabric's provider {provider} cannot {source}")]
    Fabric {
        /// The name of the provider.
        provider: String,
        /// The failed step, and the reason.
        source: FabricError,
    },
    /// A neighbour did not send the address of its endpoint.
    #[cfg(feature = "ofi")]
    #[error("host {host} did not send the address of its endpoint; use libfabric on all hosts")]
    Endpoint {
        /// The neighbour.
        host: HostId,
        /// The error while reading it.
        source: io::Error,
    },
    /// The successor is not the expected host, or refused this one.
    #[error("the connection to host {host} at {address} cannot be secured: {source}")]
    Secure {
        /// The successor.
        host: HostId,
        /// The address.
        address: String,
        /// The error of the handshake.
        source: SecureError,
    },
    /// A neighbour runs with other options.
    #[error("host {host} runs with {option} {theirs}, this host with {ours}; start all hosts with the same value")]
    Differs {
        /// The neighbour.
        host: HostId,
        /// The name of the option.
        option: &'static str,
        /// The value on the neighbour.
        theirs: u64,
        /// The value on this host.
        ours: u64,
    },
    /// A neighbour sent an invalid message while the ring was set up.
    #[error("host {host}: {source}")]
    Wire {
        /// The neighbour.
        host: HostId,
        /// The reason.
        source: WireError,
    },
    /// Another error of the operating system.
    #[error(transparent)]
    Io(#[from] io::Error),
}
