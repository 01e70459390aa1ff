//! The way of a task into the ring: it registers, meets the other tasks, and connects to its neighbours.

use std::{env, time::Duration};

use annulus_roundabout::{Host, StopHandle};
use datafusion::{
    common::{exec_datafusion_err, exec_err},
    error::Result,
};

use super::{
    budget::MemoryBudget,
    failure::{RingFailure, Witness},
    ring::{self, RingListener},
    stationary::StationarySide,
    task::TaskSetup,
};
use crate::state::{Registration, RingAgreement, TaskAccess};

/// A task that has read its stationary side.
pub(super) struct Arrival<'a> {
    pub(super) setup: &'a TaskSetup,
    /// The access of the task, if it is on a worker.
    pub(super) access: Option<&'a TaskAccess>,
    /// The silence after which it considers other tasks lost.
    pub(super) silence: Duration,
    pub(super) stopper: &'a StopHandle,
}

impl Arrival<'_> {
    /// Waits for the other tasks, and connects to the neighbours of this one.
    ///
    /// # Errors
    /// If the other tasks do not come, or cannot be reached.
    pub(super) fn meet(
        &self,
        stationary: &StationarySide,
        budget: &MemoryBudget,
    ) -> Result<(RingAgreement, Host), RingFailure> {
        let registration = self.registration(stationary, budget)?;
        match (registration.count, self.access) {
            (1, _) => self.single_host(&registration),
            (_, Some(access)) => self.connect(access, registration),
            (_, None) => Err(exec_datafusion_err!("a task of a join does not know the other workers").into()),
        }
    }

    /// Returns the registration of the task, without its addresses.
    fn registration(&self, stationary: &StationarySide, budget: &MemoryBudget) -> Result<Registration> {
        Ok(Registration {
            join: self.setup.ring.id.clone(),
            index: task_number(self.setup.index)?,
            count: task_number(self.setup.count)?,
            worker: String::new(),
            address: String::new(),
            local: None,
            fabric: None,
            rows: stationary.largest_part(),
            parts: u32::try_from(stationary.parts()).unwrap_or(u32::MAX),
            fragment_bytes: budget.fragment_bytes as u32,
            filter_bytes: budget.filter_bytes(),
            silence: self.silence,
        })
    }

    /// Returns a ring without other tasks.
    fn single_host(&self, registration: &Registration) -> Result<(RingAgreement, Host), RingFailure> {
        let Registration { rows, parts, fragment_bytes, filter_bytes, silence, .. } = *registration;
        let (session, hosts, part_rows) = (0, Vec::new(), rows);
        let agreement = RingAgreement { session, hosts, rows, part_rows, parts, fragment_bytes, filter_bytes, silence };
        let buffers = self.access.map(|access| access.state.buffers.clone()).unwrap_or_default();
        let host = Host::single_host_with(&ring::config(fragment_bytes, silence), &buffers);
        let host = host.map_err(|error| self.witness(&agreement).failure(error.into()))?;
        Ok((agreement, host))
    }

    /// Waits for the other tasks, and connects to the neighbours.
    fn connect(&self, access: &TaskAccess, registration: Registration) -> Result<(RingAgreement, Host), RingFailure> {
        let TaskSetup { ring, context, cancel, runtime, .. } = self.setup;
        let transport = access.connections.ring();
        // Tasks of one machine meet in the first folder for spilled rows that will do. Files left by a killed
        // process are cleaned up with the spill directory.
        let folders: Vec<_> = match transport.shares_memory {
            true => context.runtime_env().disk_manager.temp_dir_paths().into_iter().chain([env::temp_dir()]).collect(),
            false => Vec::new(),
        };
        let listening = RingListener::start(&access.worker, &folders).map_err(|error| {
            let error = exec_datafusion_err!("it cannot listen for other workers: {error}");
            access.connections.name_worker(&access.worker, error)
        })?;
        let (index, join) = (registration.index, format!("{}/{}", access.execution, registration.join));
        let (address, local) = (listening.address.clone(), listening.local());
        let fabric = transport.fabric.as_deref().and_then(|name| name.split('@').next()).map(str::to_owned);
        let worker = access.worker.to_string();
        let registration = Registration { join, worker, address, local, fabric, ..registration };
        let agreement = runtime.block_on(async {
            tokio::select! {
                biased;
                () = cancel.cancelled() => exec_err!("the join was ended"),
                agreed = access.meet(&ring.meeting_at, registration) => agreed,
            }
        })?;
        let host = ring::connect(&agreement, index, listening, access, self.stopper);
        let host = host.map_err(|error| self.witness(&agreement).failure(error))?;
        Ok((agreement, host))
    }

    fn witness<'a>(&'a self, agreement: &'a RingAgreement) -> Witness<'a> {
        Witness { index: self.setup.index, agreement, access: self.access }
    }
}

fn task_number(number: usize) -> Result<u16> {
    u16::try_from(number)
        .map_err(|_| exec_datafusion_err!("a ring supports at most {} tasks, but the join has {number}", u16::MAX))
}
