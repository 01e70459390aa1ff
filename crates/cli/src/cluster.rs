//! The workers of a command that runs queries: those that it names, or processes of this machine.

use std::{
    io::{BufRead, BufReader},
    path::{Path, PathBuf},
    process::{self, Child, Stdio},
    thread::available_parallelism,
    time::Duration,
};

use annulus_distributed::{Connections, DEFAULT_SILENCE, Workers, WorkersError};
use annulus_roundabout::secure::{Authority, HostName, Identity, Role};
use anyhow::{Context, Error, Result, bail};
use serde::Deserialize;
use tempfile::TempDir;

use crate::{child, credentials, errors, notes::note, units};

/// The options by which a command names its workers.
#[derive(Clone, Debug, clap::Args)]
pub struct ClusterArgs {
    /// Run queries on workers, as in 10.0.0.1:7500,10.0.0.2:7500
    ///
    /// Addresses of annulus worker, a file with one in each line, or dns:NAME:PORT for all
    /// addresses of a name. The workers read the files of tables at the same paths.
    #[arg(long, value_name = "LIST", value_parser = parse_workers, conflicts_with = "cluster")]
    pub workers: Option<Workers>,
    /// Run queries on N workers that are started on this machine
    #[arg(long, value_name = "N", value_parser = units::parse_count)]
    pub cluster: Option<usize>,
    /// Folder with the certificate and key of a submitter
    ///
    /// Workers that have certificates take queries from submitters of their ring only. If the
    /// folder has several, name the certificate: DIR/submitter-NAME.pem.
    #[arg(long, value_name = "DIR", requires = "workers")]
    pub certificates: Option<PathBuf>,
    /// The member, beside a folder of certificates: another way to name its certificate
    #[arg(long, value_name = "NAME", requires = "certificates", hide = true)]
    pub name: Option<HostName>,
    /// Seconds without an answer before a worker is lost [default: 10]
    #[arg(long, value_name = "SECONDS", value_parser = units::parse_seconds)]
    pub silence: Option<Duration>,
    /// Times that a query starts again if a worker is lost [default: 2]
    ///
    /// Its rows are held until it has ended. With 0, they are printed as they arrive.
    #[arg(long, value_name = "N")]
    pub retries: Option<usize>,
}

/// The options of a command that asks workers about themselves.
#[derive(Clone, Debug, clap::Args)]
pub struct AskedWorkers {
    /// Workers to ask, as in 10.0.0.1:7500,10.0.0.2:7500
    ///
    /// Addresses of annulus worker, a file with one in each line, or dns:NAME:PORT for all
    /// addresses of a name.
    #[arg(long, value_name = "LIST", value_parser = parse_workers)]
    pub workers: Workers,
    /// Folder with the certificate and key of a submitter
    ///
    /// Workers that have certificates answer members of their ring only. If the folder has several,
    /// name the certificate: DIR/submitter-NAME.pem.
    #[arg(long, value_name = "DIR")]
    pub certificates: Option<PathBuf>,
    /// The member, beside a folder of certificates: another way to name its certificate
    #[arg(long, value_name = "NAME", requires = "certificates", hide = true)]
    pub name: Option<HostName>,
}

impl AskedWorkers {
    /// Returns the workers, which are not asked yet.
    ///
    /// # Errors
    /// If the certificates cannot be used.
    pub fn remote(&self) -> Result<Remote> {
        let connections = connections(DEFAULT_SILENCE, self.certificates.as_deref(), self.name.as_ref())?;
        Ok(Remote { workers: self.workers.clone(), connections, retries: None })
    }
}

/// Returns connections with these certificates, if there are any.
fn connections(silence: Duration, certificates: Option<&Path>, name: Option<&HostName>) -> Result<Connections> {
    let connections = Connections::new(silence).with_restart_receiver(|text| note(text));
    match certificates {
        Some(certificates) => Ok(connections.with_identity(credentials::load(certificates, name, Role::Submitter)?)),
        None => Ok(connections),
    }
}

pub fn parse_workers(list: &str) -> Result<Workers, WorkersError> {
    list.parse()
}

/// The names of the members of a ring that lives as long as a command.
const RING: &str = "local";
const SUBMITTER: &str = "command";

/// Workers, and the connections to them.
#[derive(Clone, Debug)]
pub struct Remote {
    pub workers: Workers,
    pub connections: Connections,
    /// The number of times that a query may start again, if it is given.
    pub retries: Option<usize>,
}

/// The workers of a command. Those that were started for it end when this is dropped.
pub struct Cluster {
    remote: Option<Remote>,
    processes: Vec<Process>,
    /// The certificates of the processes.
    _certificates: Option<TempDir>,
}

impl ClusterArgs {
    /// Returns whether the command is to run on workers.
    pub fn is_given(&self) -> bool {
        self.workers.is_some() || self.cluster.is_some()
    }

    /// Checks the options against each other.
    ///
    /// # Errors
    /// If one of them is for workers, and there are none.
    pub fn check(&self) -> Result<()> {
        if self.retries.is_some() && !self.is_given() {
            bail!("--retries needs --workers or --cluster");
        }
        Ok(())
    }

    /// Starts workers if the command asks for it, each with this much memory for operators.
    ///
    /// # Errors
    /// If a worker does not start.
    pub fn start(&self, memory_bytes: Option<usize>) -> Result<Cluster> {
        let silence = self.silence.unwrap_or(DEFAULT_SILENCE);
        let connections = connections(silence, self.certificates.as_deref(), self.name.as_ref())?;
        if let Some(count) = self.cluster {
            let mut cluster = Cluster::local(count, memory_bytes, connections)?;
            cluster.remote.iter_mut().for_each(|remote| remote.retries = self.retries);
            return Ok(cluster);
        }
        let retries = self.retries;
        let remote = self.workers.clone().map(|workers| Remote { workers, connections, retries });
        Ok(Cluster { remote, processes: Vec::new(), _certificates: None })
    }
}

impl Cluster {
    /// Starts `count` workers on this machine. They have certificates that nobody else has: other users
    /// reach the loopback interface, too.
    fn local(count: usize, memory_bytes: Option<usize>, connections: Connections) -> Result<Self> {
        let certificates = TempDir::new().context("cannot create a folder for certificates")?;
        let folder = certificates.path();
        let authority = Authority::create(folder, RING.parse()?)?;
        authority.add_submitter(&SUBMITTER.parse()?)?;
        let threads = available_parallelism().map_or(1, |cores| cores.get().div_ceil(count));
        let mut processes = Vec::new();
        for number in 1..=count {
            let name: HostName = format!("worker-{number}").parse()?;
            let certificate = authority.add_host(&name, &[])?.certificate;
            let started = Process::start(&certificate, threads, memory_bytes);
            processes.push(started.with_context(|| format!("cannot start worker {number}"))?);
        }
        let workers = Workers::new(processes.iter().map(|process| &process.address))?;
        let connections = connections.with_identity(Identity::in_folder(folder, Role::Submitter, None)?);
        let remote = Some(Remote { workers, connections, retries: None });
        Ok(Self { remote, processes, _certificates: Some(certificates) })
    }

    /// Returns the workers, if the command has any.
    pub fn remote(&self) -> Option<&Remote> {
        self.remote.as_ref()
    }

    /// Asks the workers that the command names whether they take queries, because small queries do without them.
    /// Those that do not are named on standard error, and queries run without them until they do.
    ///
    /// # Errors
    /// If none answers.
    pub async fn greet(&self) -> Result<()> {
        let Some(Remote { workers, connections, .. }) = self.remote().filter(|_| self.processes.is_empty()) else {
            return Ok(());
        };
        let answers = connections.survey(workers.urls()).await;
        let lost: Vec<Error> = answers.into_iter().filter_map(|answer| answer.err().map(Error::from)).collect();
        if lost.len() == workers.urls().len() {
            return lost.into_iter().next().map_or(Ok(()), |error| Err(error.context("no worker answers")));
        }
        lost.iter().for_each(|error| note(format_args!("{}; queries run on the others", errors::text(error))));
        Ok(())
    }
}

/// A worker that is a process of this machine. It ends when this is dropped.
struct Process {
    child: Child,
    address: String,
}

/// What a worker prints when it listens.
#[derive(Deserialize)]
struct StartReport {
    listening: String,
}

impl Process {
    fn start(certificate: &Path, threads: usize, memory_bytes: Option<usize>) -> Result<Self> {
        let mut command = child::program()?;
        command.args(["worker", "--listen", "127.0.0.1:0", "--allow-read", "/", "--allow-write", "/"]);
        command.arg("--certificates").arg(certificate);
        command.arg(format!("--threads={threads}")).arg(format!("--child-of={}", process::id()));
        command.args(memory_bytes.map(|bytes| format!("--memory-limit={bytes}")));
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        // Only this process gets Ctrl-C, and ends its workers.
        #[cfg(unix)]
        std::os::unix::process::CommandExt::process_group(&mut command, 0);
        let mut process = Self { child: command.spawn().context("cannot start a process")?, address: String::new() };
        let Some(output) = process.child.stdout.take() else { bail!("it has no output") };
        let mut line = String::new();
        BufReader::new(output).read_line(&mut line).context("cannot read its address")?;
        if line.is_empty() {
            bail!("it ended before it printed its address");
        }
        let started: StartReport = serde_json::from_str(&line).context("cannot read its address")?;
        process.address = started.listening;
        Ok(process)
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        // All end at once.
        self.processes.iter_mut().for_each(|process| drop(process.child.stdin.take()));
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // Its input ends, and it removes its spilled files. It may have ended already.
        drop(self.child.stdin.take());
        self.child.wait().ok();
    }
}
