//! The meeting of the tasks of a join around a ring, where they learn of each other.
//!
//! Each task registers with one worker, which the plan names, when it has read its stationary rows. All
//! tasks get the same answer when the last one has registered. The registration of a task that goes away
//! while it waits is withdrawn.

use std::{
    collections::HashMap,
    num::NonZeroUsize,
    path::PathBuf,
    sync::{Arc, Weak},
    time::Duration,
};

use annulus_cyclo::AlgorithmSizes;
use annulus_roundabout::secure::Role;
use datafusion::error::DataFusionError;
use parking_lot::Mutex;
use serde::{Deserialize, Serialize};
use tokio::{sync::watch, time::timeout};
use uuid::Uuid;

use crate::net::Ask;

/// The provider of libfabric for the processes of a machine.
const SHARED_MEMORY: &str = "shm";
/// The longest time that a task waits for the others, which may have many more rows to read.
const LONGEST_WAIT: Duration = Duration::from_secs(60 * 60);

/// The registration of a task, which has read its stationary rows.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Registration {
    /// The identifiers of the execution of the query and of the join.
    pub(crate) join: String,
    /// The task's number, from 0.
    pub(crate) index: u16,
    /// The number of tasks.
    pub(crate) count: u16,
    /// The URL of the task's worker.
    pub(crate) worker: String,
    /// The address at which the task waits for its predecessor in the ring.
    pub(crate) address: String,
    /// The address for a predecessor on the same machine.
    pub(crate) local: Option<LocalAddress>,
    /// The provider of libfabric that the task can use.
    pub(crate) fabric: Option<String>,
    /// The stationary rows of its largest part.
    pub(crate) rows: u64,
    /// The number of parts of its stationary rows.
    pub(crate) parts: u32,
    /// The size of the fragments for which the task has memory.
    pub(crate) fragment_bytes: u32,
    /// The memory for a filter of keys.
    pub(crate) filter_bytes: u64,
    /// The silence after which it considers another task lost.
    pub(crate) silence: Duration,
}

impl Ask for Registration {
    const NAME: &'static str = "Meet";
    type Answer = RingAgreement;

    fn needed_role(&self) -> Option<(Role, &'static str)> {
        Some((Role::Host, "join"))
    }
}

/// The parameters of a ring, on which all tasks agree after their meeting.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct RingAgreement {
    /// A number unique to this ring.
    pub(crate) session: u64,
    /// The tasks, by their numbers.
    pub(crate) hosts: Vec<RingHost>,
    /// The most stationary rows of a part.
    pub(crate) rows: u64,
    /// The stationary rows of a part of all tasks together.
    pub(crate) part_rows: u64,
    /// The number of parts of the stationary rows of all tasks.
    pub(crate) parts: u32,
    /// The size of fragments.
    pub(crate) fragment_bytes: u32,
    /// The most memory of a filter of keys.
    pub(crate) filter_bytes: u64,
    /// The silence after which a task is considered lost: the longest that a task allows.
    pub(crate) silence: Duration,
}

/// An address for processes of the same machine and user.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct LocalAddress {
    /// An identifier that processes of other machines, users and containers do not share.
    pub(crate) machine: String,
    pub(crate) path: PathBuf,
}

/// A task of the ring.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct RingHost {
    pub(crate) worker: String,
    pub(crate) address: String,
    pub(crate) local: Option<LocalAddress>,
    pub(crate) fabric: Option<String>,
    /// The name in its certificate, if it has one.
    pub(crate) member: Option<String>,
}

impl RingAgreement {
    /// Returns the number of parts of the stationary side, and so of revolutions.
    pub(crate) fn part_count(&self) -> NonZeroUsize {
        NonZeroUsize::new(self.parts as usize).unwrap_or(NonZeroUsize::MIN)
    }

    /// Returns whether all tasks are on one machine, in processes of one user.
    pub(crate) fn is_local(&self) -> bool {
        self.shared_value(|host| host.local.as_ref().map(|local| &*local.machine)).is_some()
    }

    /// Returns the nanoseconds to send a byte to the next task: 0 in shared memory, where rows stay in place.
    pub(crate) fn send_ns(&self) -> f64 {
        if self.is_local() && self.fabric().is_none() { 0.0 } else { AlgorithmSizes::NETWORK_SEND_NS }
    }

    /// Returns the provider of libfabric, if all tasks have the same one. The provider for shared memory
    /// needs one machine, as the ring's own shared memory does.
    pub(crate) fn fabric(&self) -> Option<&str> {
        let fabric = self.shared_value(|host| host.fabric.as_deref());
        fabric.filter(|&provider| provider != SHARED_MEMORY || self.is_local())
    }

    /// Returns the value of all tasks, if it is the same.
    fn shared_value<'a>(&'a self, value: impl Fn(&'a RingHost) -> Option<&'a str>) -> Option<&'a str> {
        let mut values = self.hosts.iter().map(value);
        let first = values.next().flatten();
        first.filter(|_| values.all(|value| value == first))
    }
}

/// The meetings at a worker.
#[derive(Clone, Debug)]
pub(crate) struct Meetings {
    all: Arc<Mutex<HashMap<String, Weak<Meeting>>>>,
    longest_wait: Duration,
}

impl Default for Meetings {
    fn default() -> Self {
        Self { all: Arc::default(), longest_wait: LONGEST_WAIT }
    }
}

#[derive(Debug)]
struct Meeting {
    seats: Mutex<Vec<Option<WaitingTask>>>,
    agreement: watch::Sender<Option<Arc<RingAgreement>>>,
}

/// A task that waits.
#[derive(Clone, Debug)]
struct WaitingTask {
    registration: Registration,
    /// The name in its certificate.
    member: Option<String>,
}

/// The seat of a task, which is free again when this is dropped.
struct Seat<'a> {
    meeting: &'a Meeting,
    index: usize,
}

impl Drop for Seat<'_> {
    fn drop(&mut self) {
        self.meeting.seats.lock()[self.index] = None;
    }
}

/// A meeting that cannot take place.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum MeetingError {
    #[error("task {index} of {count}")]
    Number { index: usize, count: usize },
    #[error("a join of {count} tasks and of {other}")]
    Counts { count: usize, other: u16 },
    #[error("task {index} of a join came twice")]
    Twice { index: usize },
    #[error("only {present} of {count} tasks of a join came within {waited:?}")]
    Missing { present: usize, count: usize, waited: Duration },
}

impl From<MeetingError> for DataFusionError {
    fn from(error: MeetingError) -> Self {
        Self::Execution(error.to_string())
    }
}

impl Meetings {
    /// Registers a task, and waits until all tasks of the join have registered. `member` is the name in the
    /// task's certificate.
    ///
    /// # Errors
    /// If tasks contradict each other, or do not come.
    pub(crate) async fn meet(
        &self,
        registration: Registration,
        member: Option<String>,
    ) -> Result<RingAgreement, MeetingError> {
        let (index, count) = (usize::from(registration.index), usize::from(registration.count));
        if index >= count {
            return Err(MeetingError::Number { index, count });
        }
        let meeting = self.enter(&registration.join, count);
        let mut agreed = meeting.agreement.subscribe();
        let _seat = meeting.sit(registration, member)?;
        let all = timeout(self.longest_wait, agreed.wait_for(Option::is_some)).await;
        let missing = || {
            let present = meeting.seats.lock().iter().flatten().count();
            MeetingError::Missing { present, count, waited: self.longest_wait }
        };
        // The sender is in the meeting, so the channel does not close.
        let all = all.map_err(|_| missing())?.map_err(|_| missing())?;
        all.as_deref().cloned().ok_or_else(missing)
    }

    fn enter(&self, join: &str, count: usize) -> Arc<Meeting> {
        let mut meetings = self.all.lock();
        if let Some(meeting) = meetings.get(join).and_then(Weak::upgrade) {
            return meeting;
        }
        meetings.retain(|_, meeting| meeting.strong_count() > 0);
        let meeting = Arc::new(Meeting { seats: Mutex::new(vec![None; count]), agreement: watch::Sender::new(None) });
        meetings.insert(join.to_owned(), Arc::downgrade(&meeting));
        meeting
    }
}

impl Meeting {
    fn sit(&self, registration: Registration, member: Option<String>) -> Result<Seat<'_>, MeetingError> {
        let index = usize::from(registration.index);
        let mut seats = self.seats.lock();
        let count = seats.len();
        if count != usize::from(registration.count) {
            return Err(MeetingError::Counts { count, other: registration.count });
        }
        match seats.get_mut(index) {
            Some(seat @ None) => *seat = Some(WaitingTask { registration, member }),
            _ => return Err(MeetingError::Twice { index }),
        }
        let all: Option<Vec<_>> = seats.iter().map(Option::as_ref).collect();
        if let Some(all) = all {
            self.agreement.send_replace(Some(Arc::new(agreement(&all))));
        }
        drop(seats);
        Ok(Seat { meeting: self, index })
    }
}

/// Returns the agreement of tasks, in the order of their numbers.
fn agreement(all: &[&WaitingTask]) -> RingAgreement {
    let tasks = || all.iter().map(|task| &task.registration);
    let host = |WaitingTask { registration, member }: &WaitingTask| RingHost {
        worker: registration.worker.clone(),
        address: registration.address.clone(),
        local: registration.local.clone(),
        fabric: registration.fabric.clone(),
        member: member.clone(),
    };
    RingAgreement {
        session: Uuid::new_v4().as_u64_pair().0,
        hosts: all.iter().copied().map(host).collect(),
        rows: tasks().map(|task| task.rows).max().unwrap_or_default(),
        part_rows: tasks().map(|task| task.rows).sum(),
        parts: tasks().map(|task| task.parts).max().unwrap_or_default().max(1),
        fragment_bytes: tasks().map(|task| task.fragment_bytes).min().unwrap_or_default(),
        filter_bytes: tasks().map(|task| task.filter_bytes).min().unwrap_or_default(),
        silence: tasks().map(|task| task.silence).max().unwrap_or_default(),
    }
}

#[cfg(test)]
mod tests {
    use futures::{FutureExt, future::join_all};

    use super::*;

    fn registration(index: u16, count: u16) -> Registration {
        let (join, worker, address) = ("join".to_owned(), format!("http://w:{index}"), format!("w:7{index}"));
        let (rows, fragment_bytes) = (10 * u64::from(index), 1000 - u32::from(index));
        let local = Some(LocalAddress { machine: "one".to_owned(), path: PathBuf::from(format!("/{index}")) });
        let (parts, silence) = (u32::from(index), Duration::from_secs(u64::from(index)));
        let (filter_bytes, fabric) = (7 + u64::from(index), Some("tcp".to_owned()));
        Registration {
            join,
            index,
            count,
            worker,
            address,
            local,
            fabric,
            rows,
            parts,
            fragment_bytes,
            filter_bytes,
            silence,
        }
    }

    #[tokio::test]
    async fn all_tasks_learn_the_same() {
        let meetings = Meetings::default();
        let all = (0..3).map(|index| meetings.meet(registration(index, 3), Some(format!("host{index}"))));
        let all: Vec<_> = join_all(all).await.into_iter().map(Result::unwrap).collect();
        for agreed in &all {
            assert_eq!((agreed.session, &agreed.hosts), (all[0].session, &all[0].hosts));
            assert_eq!((agreed.rows, agreed.part_rows, agreed.parts), (20, 30, 2));
            assert_eq!((agreed.fragment_bytes, agreed.filter_bytes), (998, 7));
            assert_eq!(agreed.fabric(), Some("tcp"));
            assert!(agreed.is_local() && agreed.silence == Duration::from_secs(2));
            assert!(agreed.send_ns() > 0.0, "libfabric copies rows");
        }
        let second = RingHost {
            worker: "http://w:1".to_owned(),
            address: "w:71".to_owned(),
            local: registration(1, 3).local,
            fabric: Some("tcp".to_owned()),
            member: Some("host1".to_owned()),
        };
        assert_eq!(all[0].hosts[1], second);
        let mut apart = all[0].clone();
        apart.hosts.iter_mut().for_each(|host| host.fabric = Some("shm".to_owned()));
        assert_eq!(apart.fabric(), Some("shm"));
        apart.hosts[2].local = None;
        assert_eq!(apart.fabric(), None, "they are not on one machine");
        apart.hosts[1].fabric = Some("verbs".to_owned());
        assert!(!apart.is_local() && apart.fabric().is_none());
        assert_eq!(apart.send_ns(), AlgorithmSizes::NETWORK_SEND_NS);
        // The next execution of a join meets anew.
        let again = join_all((0..2).map(|index| meetings.meet(registration(index, 2), None))).await;
        assert!(again.into_iter().all(|agreed| agreed.unwrap().session != all[0].session));
    }

    #[tokio::test]
    async fn the_registration_of_a_task_that_goes_away_is_withdrawn() {
        let meetings = Meetings::default();
        assert!(meetings.meet(registration(0, 2), None).now_or_never().is_none());
        let both = join_all((0..2).map(|index| meetings.meet(registration(index, 2), None))).await;
        assert!(both.into_iter().all(|agreed| agreed.is_ok()));
    }

    #[tokio::test]
    async fn tasks_that_contradict_each_other_are_refused() {
        let meetings = Meetings::default();
        let mut waits = Box::pin(meetings.meet(registration(0, 2), None));
        assert!(waits.as_mut().now_or_never().is_none());
        assert!(meetings.meet(registration(0, 2), None).await.unwrap_err().to_string().contains("twice"));
        assert!(meetings.meet(registration(1, 3), None).await.unwrap_err().to_string().contains("of 2 tasks and of 3"));
        assert!(meetings.meet(registration(3, 3), None).await.unwrap_err().to_string().contains("task 3 of 3"));
    }

    #[tokio::test]
    async fn a_task_does_not_wait_for_ever() {
        let meetings = Meetings { longest_wait: Duration::ZERO, ..Meetings::default() };
        let error = meetings.meet(registration(0, 2), None).await.unwrap_err().to_string();
        assert!(error.contains("only 1 of 2 tasks"), "{error}");
    }
}
