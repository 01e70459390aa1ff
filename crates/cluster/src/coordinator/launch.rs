//! Starts hosts.

use std::{
    io::{self, Read, Write},
    path::PathBuf,
    process::{Child, Command, Stdio},
};

use tempfile::TempDir;

use crate::{control::Neighbours, error::ClusterError};

/// Starts the hosts of a ring.
pub trait Launch {
    /// Returns the number of hosts.
    fn hosts(&self) -> usize;

    /// Returns the name of a host for messages.
    fn name(&self, host: usize) -> String {
        format!("host {host}")
    }

    /// Returns a text by which hosts are sorted before a join enters them. All joins enter hosts in
    /// this order, regardless of the order in a ring file.
    fn entry_key(&self, host: usize) -> String {
        let _ = host;
        String::new()
    }

    /// Returns the number of a host's folder in the result. A lost host may still write to its
    /// folder, so a join that restarts without it does not use that number.
    fn member(&self, host: usize) -> usize {
        host
    }

    /// Starts a host, which runs [`host::serve`](crate::host::serve).
    ///
    /// # Errors
    /// If the host cannot be started.
    fn start(&self, host: usize) -> Result<HostProcess, ClusterError>;

    /// Starts all hosts.
    ///
    /// # Errors
    /// If a host cannot be started. The others end.
    fn start_all(&self) -> Result<Vec<HostProcess>, ClusterError> {
        (0..self.hosts()).map(|host| self.start(host)).collect()
    }

    /// Returns how hosts find their neighbours.
    fn neighbours(&self) -> Neighbours;
}

/// A running host.
pub struct HostProcess {
    /// The writer of its orders. When it is dropped, the host ends.
    pub orders: Box<dyn Write + Send>,
    /// The reader of its reports.
    pub reports: Box<dyn Read + Send>,
    /// The handle that ends it.
    pub handle: Box<dyn HostHandle>,
}

/// The handle of a host's process or connections, which ends the host.
pub trait HostHandle: Send {
    /// Waits for the host to end, and kills it first if `kill` is set. Returns how it ended, unless
    /// it ended normally.
    fn end(&mut self, kill: bool) -> Option<String>;

    /// Returns whether the host has certainly ended after [`end`](Self::end).
    fn is_certain(&self) -> bool {
        true
    }
}

/// Hosts that are processes of this machine and share their buffers.
pub struct LocalProcesses {
    hosts: usize,
    program: PathBuf,
    arguments: Vec<String>,
    folder: TempDir,
}

/// The longest path of a folder for sockets: the path of a socket has at most 107 bytes.
const LONGEST_FOLDER: usize = 95;

impl LocalProcesses {
    /// Returns `hosts` processes of a program that calls [`host::serve`](crate::host::serve) on its
    /// standard input and output.
    ///
    /// # Errors
    /// If the folder for their sockets cannot be created.
    pub fn new(hosts: usize, program: PathBuf, arguments: Vec<String>) -> Result<Self, ClusterError> {
        let mut builder = tempfile::Builder::new();
        let refuse = |error| ClusterError::Option {
            option: "TMPDIR",
            reason: format!("cannot create a folder for the sockets of hosts: {error}"),
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
        // Only the coordinator gets Ctrl-C, and ends its hosts.
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
            // It may have ended already.
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
