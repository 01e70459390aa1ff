//! The reason why a task of a join ended early.

use annulus_cyclo::CycloError;
use annulus_join::JoinError;
use annulus_roundabout::{Failure, Reason, RoundaboutError};
use datafusion::{common::exec_datafusion_err, error::DataFusionError};
use url::Url;

use crate::state::{RingAgreement, TaskAccess};

/// The reason why a task of a join ended early.
pub(super) struct RingFailure {
    pub(super) error: DataFusionError,
    /// Whether another task has left the ring. If it failed, its own error says more than this one.
    pub(super) has_another_left: bool,
}

impl From<DataFusionError> for RingFailure {
    fn from(error: DataFusionError) -> Self {
        Self { error, has_another_left: false }
    }
}

/// An error of the task itself.
impl From<CycloError> for RingFailure {
    fn from(error: CycloError) -> Self {
        Self::from(match error {
            CycloError::Join(JoinError::Outside(error)) => match error.downcast::<DataFusionError>() {
                Ok(error) => *error,
                Err(error) => DataFusionError::External(error),
            },
            CycloError::Join(JoinError::Arrow(error)) => error.into(),
            error => DataFusionError::External(Box::new(error)),
        })
    }
}

/// Returns an error of this crate for code of `annulus-join`.
pub(super) fn into_join(error: DataFusionError) -> JoinError {
    JoinError::Outside(Box::new(error))
}

/// The point of view of a task on failures of its ring.
#[derive(Clone, Copy)]
pub(super) struct Witness<'a> {
    /// The number of the task.
    pub(super) index: usize,
    pub(super) agreement: &'a RingAgreement,
    pub(super) access: Option<&'a TaskAccess>,
}

impl Witness<'_> {
    /// Returns the failure of the ring. It names the worker of the task that is to blame, unless that is the
    /// witness itself.
    pub(super) fn failure(&self, error: CycloError) -> RingFailure {
        let (Failure { host, reason }, detail) = match error {
            CycloError::Ring(RoundaboutError::Failed { failure, detail }) if failure.host.index() != self.index => {
                (failure, detail)
            }
            error => return error.into(),
        };
        let detail = detail.map(|detail| format!(" ({detail})")).unwrap_or_default();
        let error = exec_datafusion_err!("it has left a join around a ring: {reason}{detail}");
        let worker = self.agreement.hosts.get(host.index()).and_then(|host| Url::parse(&host.worker).ok());
        let error = match (worker, self.access) {
            (Some(worker), Some(access)) if matches!(reason, Reason::Closed | Reason::Silent) => {
                access.connections.name_lost(&worker, error)
            }
            (Some(worker), Some(access)) => access.connections.name_worker(&worker, error),
            _ => error,
        };
        RingFailure { error, has_another_left: reason == Reason::GaveUp }
    }
}
