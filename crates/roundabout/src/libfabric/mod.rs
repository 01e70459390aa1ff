//! Endpoints of libfabric and memory that is registered with it: what links by libfabric are built
//! of.

mod endpoint;
mod left_behind;
mod same_process;

pub use self::endpoint::leave_signals;
pub(crate) use self::{
    endpoint::{ADDRESS_MAX, Endpoint, FabricDevice, Peer, RegisteredArena},
    left_behind::remove,
};

/// A step that libfabric cannot do, and the reason.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{step}: {reason}")]
pub struct FabricError {
    step: String,
    reason: String,
}

impl FabricError {
    pub(crate) fn new(step: impl Into<String>, reason: impl Into<String>) -> Self {
        Self { step: step.into(), reason: reason.into() }
    }
}
