//! Where the tasks of a join learn of each other.
//!
//! Each task comes to one worker, which the plan names, when its stationary rows are read. All get the
//! same answer when the last one has come. A task that goes away while it waits leaves its seat.

use std::{
    collections::HashMap,
    path::PathBuf,
    sync::{Arc, Weak},
    time::Duration,
};

use annulus_cyclo::AlgorithmSizes;
use parking_lot::Mutex;
use serde::{Deserialize, Serialize};
use tokio::{sync::watch, time::timeout};
use uuid::Uuid;

/// The provider of libfabric for the processes of a machine.
const SHARED_MEMORY: &str = "shm";
/// The longest time that a task waits for the others, which may have many more rows to read.
const LONGEST_WAIT: Duration = Duration::from_secs(60 * 60);

/// A task that has read its stationary rows.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Present {
    /// The join, and the execution of its query.
    pub(crate) join: String,
    /// The task's number, from 0.
    pub(crate) index: u16,
    /// The number of tasks.
    pub(crate) count: u16,
    /// The URL of the task's worker.
    pub(crate) worker: String,
    /// Where the task waits for its predecessor in the ring.
    pub(crate) address: String,
    /// Where it waits for one of the same machine.
    pub(crate) local: Option<LocalAddress>,
    /// The provider of libfabric that it has.
    pub(crate) fabric: Option<String>,
    /// The stationary rows of its largest part.
    pub(crate) rows: u64,
    /// The number of parts of its stationary rows.
    pub(crate) parts: u32,
    /// The size of the fragments for which it has memory.
    pub(crate) fragment_bytes: u32,
    /// The memory that it has for a filter of keys.
    pub(crate) filter_bytes: u64,
    /// The silence after which it takes another one for lost.
    pub(crate) silence: Duration,
}

/// What all tasks know after their meeting.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Met {
    /// A number that no other ring has.
    pub(crate) session: u64,
    /// The tasks, by their numbers.
    pub(crate) hosts: Vec<MetHost>,
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
    /// The silence after which a task is lost: the longest that one of them allows.
    pub(crate) silence: Duration,
}

/// An address for processes of the same machine and user.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct LocalAddress {
    /// What no process of another machine, user or container has.
    pub(crate) machine: String,
    pub(crate) path: PathBuf,
}

/// A task of the ring.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct MetHost {
    pub(crate) worker: String,
    pub(crate) address: String,
    pub(crate) local: Option<LocalAddress>,
    pub(crate) fabric: Option<String>,
    /// The name in its certificate, if it has one.
    pub(crate) member: Option<String>,
}

impl Met {
    /// Returns whether all tasks are on one machine, in processes of one user.
    pub(crate) fn is_local(&self) -> bool {
        self.of_all(|host| host.local.as_ref().map(|local| &*local.machine)).is_some()
    }

    /// Returns the nanoseconds to send a byte to the next task: 0 in shared memory, where rows stay in place.
    pub(super) fn send_ns(&self) -> f64 {
        if self.is_local() && self.fabric().is_none() { 0.0 } else { AlgorithmSizes::NETWORK_SEND_NS }
    }

    /// Returns the provider of libfabric that all tasks have. The one for shared memory needs one
    /// machine, as the ring's own shared memory does.
    pub(crate) fn fabric(&self) -> Option<&str> {
        let fabric = self.of_all(|host| host.fabric.as_deref());
        fabric.filter(|&provider| provider != SHARED_MEMORY || self.is_local())
    }

    /// Returns what all tasks have, if it is the same.
    fn of_all<'a>(&'a self, value: impl Fn(&'a MetHost) -> Option<&'a str>) -> Option<&'a str> {
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
    seats: Mutex<Vec<Option<Seated>>>,
    met: watch::Sender<Option<Arc<Met>>>,
}

/// A task, and the name in its certificate.
type Seated = (Present, Option<String>);

/// A seat, until this is dropped.
struct Seat<'a>(&'a Meeting, usize);

impl Drop for Seat<'_> {
    fn drop(&mut self) {
        self.0.seats.lock()[self.1] = None;
    }
}

impl Meetings {
    /// Waits until all tasks of the join are present. `member` is the name in the task's certificate.
    ///
    /// # Errors
    /// If tasks contradict each other, or do not come.
    pub(crate) async fn meet(&self, present: Present, member: Option<String>) -> Result<Met, String> {
        let (index, count) = (usize::from(present.index), usize::from(present.count));
        if index >= count {
            return Err(format!("task {index} of {count}"));
        }
        let meeting = self.enter(&present.join, count);
        let mut met = meeting.met.subscribe();
        let _seat = meeting.sit(present, member)?;
        let all = timeout(self.longest_wait, met.wait_for(Option::is_some)).await;
        let missing = || {
            let present = meeting.seats.lock().iter().flatten().count();
            format!("only {present} of {count} tasks of a join came within {:?}", self.longest_wait)
        };
        // The sender is in the meeting, so the channel does not close.
        let all = all.map_err(|_| missing())?.map_err(|error| error.to_string())?;
        all.as_deref().cloned().ok_or_else(missing)
    }

    fn enter(&self, join: &str, count: usize) -> Arc<Meeting> {
        let mut meetings = self.all.lock();
        if let Some(meeting) = meetings.get(join).and_then(Weak::upgrade) {
            return meeting;
        }
        meetings.retain(|_, meeting| meeting.strong_count() > 0);
        let meeting = Arc::new(Meeting { seats: Mutex::new(vec![None; count]), met: watch::Sender::new(None) });
        meetings.insert(join.to_owned(), Arc::downgrade(&meeting));
        meeting
    }
}

impl Meeting {
    fn sit(&self, present: Present, member: Option<String>) -> Result<Seat<'_>, String> {
        let index = usize::from(present.index);
        let mut seats = self.seats.lock();
        let count = seats.len();
        if count != usize::from(present.count) {
            return Err(format!("a join of {count} tasks and of {}", present.count));
        }
        match seats.get_mut(index) {
            Some(seat @ None) => *seat = Some((present, member)),
            _ => return Err(format!("task {index} of a join came twice")),
        }
        let all: Option<Vec<_>> = seats.iter().map(Option::as_ref).collect();
        if let Some(all) = all {
            self.met.send_replace(Some(Arc::new(met(&all))));
        }
        drop(seats);
        Ok(Seat(self, index))
    }
}

fn met(all: &[&Seated]) -> Met {
    let tasks = || all.iter().map(|(present, _)| present);
    let host = |(present, member): &&Seated| MetHost {
        worker: present.worker.clone(),
        address: present.address.clone(),
        local: present.local.clone(),
        fabric: present.fabric.clone(),
        member: member.clone(),
    };
    Met {
        session: Uuid::new_v4().as_u64_pair().0,
        hosts: all.iter().map(host).collect(),
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

    fn present(index: u16, count: u16) -> Present {
        let (join, worker, address) = ("join".to_owned(), format!("http://w:{index}"), format!("w:7{index}"));
        let (rows, fragment_bytes) = (10 * u64::from(index), 1000 - u32::from(index));
        let local = Some(LocalAddress { machine: "one".to_owned(), path: PathBuf::from(format!("/{index}")) });
        let (parts, silence) = (u32::from(index), Duration::from_secs(u64::from(index)));
        let (filter_bytes, fabric) = (7 + u64::from(index), Some("tcp".to_owned()));
        Present {
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
        let all = (0..3).map(|index| meetings.meet(present(index, 3), Some(format!("host{index}"))));
        let all: Vec<_> = join_all(all).await.into_iter().map(Result::unwrap).collect();
        for met in &all {
            assert_eq!((met.session, &met.hosts), (all[0].session, &all[0].hosts));
            assert_eq!((met.rows, met.part_rows, met.parts), (20, 30, 2));
            assert_eq!((met.fragment_bytes, met.filter_bytes), (998, 7));
            assert_eq!(met.fabric(), Some("tcp"));
            assert!(met.is_local() && met.silence == Duration::from_secs(2));
            assert!(met.send_ns() > 0.0, "libfabric copies rows");
        }
        let second = MetHost {
            worker: "http://w:1".to_owned(),
            address: "w:71".to_owned(),
            local: present(1, 3).local,
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
        let again = join_all((0..2).map(|index| meetings.meet(present(index, 2), None))).await;
        assert!(again.into_iter().all(|met| met.unwrap().session != all[0].session));
    }

    #[tokio::test]
    async fn a_task_that_goes_away_leaves_its_seat() {
        let meetings = Meetings::default();
        assert!(meetings.meet(present(0, 2), None).now_or_never().is_none());
        let both = join_all((0..2).map(|index| meetings.meet(present(index, 2), None))).await;
        assert!(both.into_iter().all(|met| met.is_ok()));
    }

    #[tokio::test]
    async fn tasks_that_contradict_each_other_are_refused() {
        let meetings = Meetings::default();
        let mut waits = Box::pin(meetings.meet(present(0, 2), None));
        assert!(waits.as_mut().now_or_never().is_none());
        assert!(meetings.meet(present(0, 2), None).await.unwrap_err().contains("twice"));
        assert!(meetings.meet(present(1, 3), None).await.unwrap_err().contains("of 2 tasks and of 3"));
        assert!(meetings.meet(present(3, 3), None).await.unwrap_err().contains("task 3 of 3"));
    }

    #[tokio::test]
    async fn a_task_does_not_wait_for_ever() {
        let meetings = Meetings { longest_wait: Duration::from_millis(1), ..Meetings::default() };
        let error = meetings.meet(present(0, 2), None).await.unwrap_err();
        assert!(error.contains("only 1 of 2 tasks"), "{error}");
    }
}
