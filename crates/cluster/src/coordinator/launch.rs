//! How hosts are started.

use std::{
    io::{self, Read, Write},
    path::PathBuf,
    process::{Child, Command, Stdio},
};

use tempfile::TempDir;

use crate::{control::Neighbours, error::ClusterError};

/// Starts the hosts of a ring.
pub trait Launch {
    /// How many there are.
    fn hosts(&self) -> usize;

    /// How people call one.
    fn name(&self, host: usize) -> String {
        format!("host {host}")
    }

    /// The number of its folder of the result. A host that was lost may still have its own in its
    /// hands, so that none of those that start over has its number.
    fn member(&self, host: usize) -> usize {
        host
    }

    /// Starts one, which carries out orders by [`host::serve`](crate::host::serve).
    ///
    /// # Errors
    /// If it cannot be started.
    fn start(&self, host: usize) -> Result<HostProcess, ClusterError>;

    /// Starts all.
    ///
    /// # Errors
    /// If one cannot be started; the others end.
    fn start_all(&self) -> Result<Vec<HostProcess>, ClusterError> {
        (0..self.hosts()).map(|host| self.start(host)).collect()
    }

    /// How hosts find their neighbours.
    fn neighbours(&self) -> Neighbours;
}

/// A host that runs.
pub struct HostProcess {
    /// Takes its orders. When it is dropped, the host ends.
    pub orders: Box<dyn Write + Send>,
    /// Gives its reports.
    pub reports: Box<dyn Read + Send>,
    /// Ends it.
    pub handle: Box<dyn HostHandle>,
}

/// Ends a host.
pub trait HostHandle: Send {
    /// Waits for it to end, at once if it is told to be killed; says how it ended, if that was not
    /// well.
    fn end(&mut self, kill: bool) -> Option<String>;

    /// Whether it does nothing any more once it has been [ended](Self::end).
    fn is_certain(&self) -> bool {
        true
    }
}

/// Processes of this machine, which share their buffers.
pub struct LocalProcesses {
    hosts: usize,
    program: PathBuf,
    arguments: Vec<String>,
    folder: TempDir,
}

/// The path of a socket has at most 107 bytes.
const LONGEST_FOLDER: usize = 95;

impl LocalProcesses {
    /// So many processes of a program that calls [`host::serve`](crate::host::serve) on its
    /// standard input and output.
    ///
    /// # Errors
    /// If there can be no folder for their sockets.
    pub fn new(hosts: usize, program: PathBuf, arguments: Vec<String>) -> Result<Self, ClusterError> {
        let mut builder = tempfile::Builder::new();
        let refuse = |error| ClusterError::Option {
            option: "TMPDIR",
            reason: format!("there can be no folder for the sockets of hosts: {error}"),
        };
        let mut folder = builder.prefix("annulus-ring-").tempdir().map_err(refuse)?;
        if folder.path().as_os_str().len() > LONGEST_FOLDER {
            folder = builder.tempdir_in("/tmp")?;
        }
        Ok(Self { hosts, program, arguments, folder })
    }
}

impl Launch for LocalProcesses {
    fn hosts(&self) -> usize {
        self.hosts
    }

    fn start(&self, host: usize) -> Result<HostProcess, ClusterError> {
        let mut command = Command::new(&self.program);
        command.args(&self.arguments).stdin(Stdio::piped()).stdout(Stdio::piped());
        // Ctrl-C is for the coordinator, which ends its hosts in good order.
        #[cfg(unix)]
        std::os::unix::process::CommandExt::process_group(&mut command, 0);
        let started = |source| ClusterError::Start { host, source };
        let mut child = command.spawn().map_err(started)?;
        let pipes = (child.stdin.take(), child.stdout.take());
        let (Some(orders), Some(reports)) = pipes else {
            return Err(started(io::ErrorKind::BrokenPipe.into()));
        };
        Ok(HostProcess { orders: Box::new(orders), reports: Box::new(reports), handle: Box::new(Process(child)) })
    }

    fn neighbours(&self) -> Neighbours {
        Neighbours::Folder(self.folder.path().to_owned())
    }
}

struct Process(Child);

impl HostHandle for Process {
    fn end(&mut self, kill: bool) -> Option<String> {
        if kill {
            // It may have ended by itself.
            self.0.kill().ok();
        }
        match self.0.wait() {
            Ok(status) if status.success() => None,
            Ok(status) => Some(format!("its process ended with {status}")),
            Err(error) => Some(format!("its process cannot be waited for: {error}")),
        }
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.end(true);
    }
}
