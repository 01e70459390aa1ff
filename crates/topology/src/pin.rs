//! Pins threads to CPUs.

use std::marker::PhantomData;

use crate::{CpuList, TopologyError};

/// Keeps a thread on its CPUs. When it is dropped, the thread may again run where it could before.
///
/// It cannot be sent to another thread:
///
/// ```compile_fail
/// fn send(_: impl Send) {}
/// send(annulus_topology::pin_current_thread([0]));
/// ```
#[derive(Debug)]
#[must_use = "the thread is pinned until this is dropped"]
pub struct PinGuard {
    before: CpuList,
    /// The affinity is that of one thread.
    _of_this_thread: PhantomData<*const ()>,
}

impl Drop for PinGuard {
    fn drop(&mut self) {
        // The CPUs were allowed before. If the system has taken them away since, it has given the
        // thread others.
        system::set(&self.before).ok();
    }
}

/// Pins the calling thread to `cpus`: from now on it runs on these alone. Threads that it starts
/// afterwards inherit that.
///
/// ```no_run
/// use annulus_topology::{Policy, Topology, pin_current_thread};
///
/// let placement = Topology::detect().place(1, 1, Policy::Compact);
/// let _pinned = pin_current_thread([placement.producers()[0].cpu])?;
/// # Ok::<(), annulus_topology::TopologyError>(())
/// ```
///
/// # Errors
/// - [`TopologyError::NoCpus`] if `cpus` is empty.
/// - [`TopologyError::NotAllowed`] names the CPUs that the system refuses. The thread's CPUs are
///   unchanged.
/// - [`TopologyError::NotSupported`] on other systems than Linux.
pub fn pin_current_thread(cpus: impl IntoIterator<Item = usize>) -> Result<PinGuard, TopologyError> {
    let cpus: CpuList = cpus.into_iter().collect();
    if cpus.is_empty() {
        return Err(TopologyError::NoCpus);
    }
    let before = system::get(&cpus)?;
    let pinned = PinGuard { before, _of_this_thread: PhantomData };
    system::set(&cpus)?;
    // The system leaves out CPUs that it does not allow, and fails only if none is left.
    let refused = cpus.difference(&system::get(&cpus)?);
    if refused.is_empty() { Ok(pinned) } else { Err(TopologyError::NotAllowed { cpus, refused }) }
}

/// Returns the CPUs that the calling thread may run on. `None` if the system does not report them.
pub(crate) fn affinity() -> Option<CpuList> {
    system::get(&CpuList::default()).ok()
}

#[cfg(target_os = "linux")]
mod system {
    use nix::{
        errno::Errno,
        sched::{CpuSet, sched_getaffinity, sched_setaffinity},
        unistd::Pid,
    };

    use crate::{CpuList, TopologyError};

    /// The calling thread.
    const THIS: Pid = Pid::from_raw(0);

    /// Returns the calling thread's CPUs. An error says that they were read to pin it to `cpus`.
    pub(super) fn get(cpus: &CpuList) -> Result<CpuList, TopologyError> {
        let set = sched_getaffinity(THIS).map_err(|errno| failure(cpus, errno))?;
        Ok((0..CpuSet::count()).filter(|&cpu| set.is_set(cpu) == Ok(true)).collect())
    }

    /// Sets the calling thread's CPUs.
    pub(super) fn set(cpus: &CpuList) -> Result<(), TopologyError> {
        let mut set = CpuSet::new();
        for cpu in cpus.iter() {
            // A CPU beyond what a set holds is left out, and thereby refused like others that do not exist.
            set.set(cpu).ok();
        }
        sched_setaffinity(THIS, &set).map_err(|errno| failure(cpus, errno))
    }

    fn failure(cpus: &CpuList, errno: Errno) -> TopologyError {
        match errno {
            // None of the CPUs is allowed.
            Errno::EINVAL => TopologyError::NotAllowed { cpus: cpus.clone(), refused: cpus.clone() },
            errno => TopologyError::System { cpus: cpus.clone(), source: errno.into() },
        }
    }
}

#[cfg(not(target_os = "linux"))]
mod system {
    use crate::{CpuList, TopologyError};

    pub(super) fn get(_: &CpuList) -> Result<CpuList, TopologyError> {
        Err(TopologyError::NotSupported)
    }

    pub(super) fn set(_: &CpuList) -> Result<(), TopologyError> {
        Err(TopologyError::NotSupported)
    }
}
