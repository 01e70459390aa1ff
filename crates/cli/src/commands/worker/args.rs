//! The command line of `annulus worker`.

use std::{path::PathBuf, time::Duration};

use annulus_roundabout::secure::{HostName, RingName};
use clap::{Args, Subcommand};

use crate::{cluster::AskedWorkers, units};

const EXAMPLES: &str = "\
Examples:
  annulus worker --allow-read /data
  annulus worker --listen 10.0.0.1:7500 --certificates certs \\
    --allow-read /data --memory-limit 8G
  annulus worker --config worker.toml --status 10.0.0.1:7501
  annulus sql --workers 10.0.0.1:7500,10.0.0.2:7500 --certificates certs \\
    \"SELECT count(*) FROM '/data/orders/'\"

The worker runs parts of the queries that annulus sql --workers sends, until
Ctrl-C or SIGTERM. Then it refuses new queries, and running ones get --drain
seconds to end. A second signal ends the worker at once.

It reads the files that queries name, at the same paths as on the machine that
sends them, so a shared folder or a URL (s3:// and others) suits best. Local
files must be below a folder of --allow-read, after symbolic links are
resolved. It writes its own spill files, and the results of annulus join below
the folders of --allow-write. Queries cannot read the keys of certificates.

With certificates, only submitters may send queries, and connections are
encrypted (annulus help workers says how to make certificates). Without them,
anyone who reaches the address can run queries. So a worker without
certificates listens beyond this machine only with --insecure.

For joins around a ring, workers connect to each other at ports that the
system chooses.

A file of --config has the same options; the command line takes precedence:
  listen = \"10.0.0.1:7500\"
  allow-read = [\"/data\", \"/more\"]
  memory-limit = \"8G\"";

#[derive(Args)]
#[command(args_conflicts_with_subcommands = true, subcommand_negates_reqs = true)]
#[command(arg_required_else_help = true, after_long_help = EXAMPLES)]
pub struct WorkerArgs {
    #[command(subcommand)]
    pub command: Option<WorkerCommand>,
    /// Address; port 0 takes a free one
    #[arg(long, value_name = "HOST:PORT", default_value = "127.0.0.1:7500")]
    pub listen: String,
    /// File with the options of this command, in TOML
    #[arg(long, value_name = "FILE")]
    pub config: Option<PathBuf>,
    /// Folder that queries may read from; required without --config
    ///
    /// Can be repeated.
    #[arg(long, value_name = "DIR", required_unless_present = "config")]
    pub allow_read: Vec<PathBuf>,
    /// Folder that annulus join may write to; can be repeated
    #[arg(long, value_name = "DIR")]
    pub allow_write: Vec<PathBuf>,
    /// Folder with the certificate and key of this host
    ///
    /// It needs ca.pem, host-NAME.pem and host-NAME-key.pem, which init-ca and add-host make.
    /// Connections are then encrypted, and only members of the same ring are served. If the folder
    /// has several hosts, name the certificate: DIR/host-NAME.pem.
    #[arg(long, value_name = "DIR")]
    pub certificates: Option<PathBuf>,
    /// The member, beside a folder of certificates: another way to name its certificate
    #[arg(long, value_name = "NAME", requires = "certificates", hide = true)]
    pub name: Option<HostName>,
    /// Listen beyond this machine without certificates
    ///
    /// Connections are not encrypted, and anyone who reaches the address can run queries.
    #[arg(long, conflicts_with = "certificates")]
    pub insecure: bool,
    /// Memory for operators, such as 512M or 2G [default: unlimited]
    ///
    /// For all queries together. Operators that need more spill to disk or fail.
    #[arg(long = "memory-limit", value_name = "SIZE", value_parser = units::parse_size)]
    pub memory_bytes: Option<usize>,
    /// Disk space for spilled rows, such as 40G [default: 100G]
    #[arg(long = "disk-limit", value_name = "SIZE", value_parser = units::parse_size)]
    pub disk_bytes: Option<usize>,
    /// Largest number of queries at a time [default: unlimited]
    ///
    /// Further queries are refused with an error.
    #[arg(long, value_name = "N", value_parser = units::parse_count)]
    pub max_queries: Option<usize>,
    /// Address for probes, metrics and a page that shows the queries
    ///
    /// By HTTP: /healthz, /readyz, /metrics for Prometheus, /status.json, and the page at /. It is
    /// not encrypted, and shows plans to anyone who reaches it.
    #[arg(long, value_name = "HOST:PORT")]
    pub status: Option<String>,
    /// Libfabric provider for joins that go around a ring of workers
    ///
    /// Such as verbs;ofi_rxm, efa, tcp or shm, with an address of this host if the provider needs
    /// one. The ring uses it if all workers of a join name the same provider. With certificates,
    /// rows are encrypted.
    #[cfg(feature = "ofi")]
    #[arg(long, value_name = "PROVIDER[@ADDRESS]")]
    pub fabric: Option<String>,
    /// Threads that run queries [default: cores]
    #[arg(long, value_name = "N", value_parser = units::parse_threads)]
    pub threads: Option<usize>,
    /// Seconds without a message until a peer is lost
    #[arg(long, value_name = "SECONDS", default_value = "10", value_parser = units::parse_seconds)]
    pub silence: Duration,
    /// Seconds that running queries get after a signal
    #[arg(long, value_name = "SECONDS", default_value = "30", value_parser = units::parse_seconds)]
    pub drain: Duration,
    /// Serve the process with this id, which started this one: print the address to standard
    /// output, and end with standard input
    #[arg(long, hide = true)]
    pub child_of: Option<u32>,
}

#[derive(Subcommand)]
pub enum WorkerCommand {
    /// Create the certificate authority of a new ring of workers
    InitCa(InitCaArgs),
    /// Create the certificate and key of a worker
    AddHost(AddHostArgs),
    /// Create a certificate and key for submitting queries
    AddSubmitter(AddSubmitterArgs),
    /// Check whether workers answer
    Ping(PingArgs),
    /// Show the queries, memory and disk space of workers
    Status(StatusArgs),
}

const PING_EXAMPLES: &str = "\
Examples:
  annulus worker ping --workers 10.0.0.1:7500,10.0.0.2:7500
  annulus worker ping --workers workers.txt --certificates certs --wait 30

Prints the version of each worker. The exit code is 1 if one does not answer.";

#[derive(Args)]
#[command(after_long_help = PING_EXAMPLES)]
pub struct PingArgs {
    #[command(flatten)]
    pub asked: AskedWorkers,
    /// Seconds to wait for workers that are starting [default: 0]
    #[arg(long, value_name = "SECONDS", value_parser = units::parse_seconds)]
    pub wait: Option<Duration>,
    /// Print one JSON object per worker, for programs
    #[arg(long)]
    pub json: bool,
}

const STATUS_EXAMPLES: &str = "\
Examples:
  annulus worker status --workers 10.0.0.1:7500,10.0.0.2:7500
  annulus worker status --workers workers.txt --certificates certs --json
  annulus worker status --workers workers.txt --page 127.0.0.1:7502

Prints the workers, and the queries that run on them. The exit code is 1 if a
worker does not answer.

With --page, serves a page until Ctrl-C, which shows the workers, the queries
with their stages, and joins that go around a ring. By HTTP: the page at /,
/status.json, /healthz, and /readyz, which is 200 while all workers take
queries. It is not encrypted, and shows plans to anyone who reaches it.";

#[derive(Args)]
#[command(after_long_help = STATUS_EXAMPLES)]
pub struct StatusArgs {
    #[command(flatten)]
    pub asked: AskedWorkers,
    /// Serve the status as a web page at this address
    ///
    /// Port 0 takes a free port, which is printed.
    #[arg(long, value_name = "HOST:PORT", conflicts_with = "json")]
    pub page: Option<String>,
    /// Print the status as one JSON object, for programs
    #[arg(long)]
    pub json: bool,
}

const SUBMITTER_EXAMPLES: &str = "\
Example:
  annulus worker add-submitter me --folder authority

Creates submitter-NAME.pem and submitter-NAME-key.pem, valid for one year,
beside ca.pem and ca-key.pem. Copy ca.pem and these two files to the machine
that submits queries; keep the key secret. A submitter cannot act as a host,
and a host cannot submit queries. Existing files are never overwritten.";

#[derive(Args)]
#[command(after_long_help = SUBMITTER_EXAMPLES)]
pub struct AddSubmitterArgs {
    /// Name of the submitter: 1 to 63 letters, digits, '-', '_' or '.'
    pub name: HostName,
    /// Folder of the authority, which gets the files
    #[arg(long, value_name = "DIR", default_value = ".")]
    pub folder: PathBuf,
    /// Print the paths of the files as one JSON object
    #[arg(long)]
    pub json: bool,
}

const CA_EXAMPLES: &str = "\
Examples:
  annulus worker init-ca --ring sales
  annulus worker init-ca --ring sales --folder /etc/annulus/sales

Creates ca.pem, which every member of the ring needs, and ca-key.pem. Keep
ca-key.pem secret and off the hosts: anyone who has it can add members.
Existing files are never overwritten.";

#[derive(Args)]
#[command(after_long_help = CA_EXAMPLES)]
pub struct InitCaArgs {
    /// Name of the workers' ring: 1 to 63 letters, digits, '-', '_' or '.'
    #[arg(long, value_name = "NAME")]
    pub ring: RingName,
    /// Folder for the files
    #[arg(long, value_name = "DIR", default_value = ".")]
    pub folder: PathBuf,
    /// Print the paths of the files as one JSON object
    #[arg(long)]
    pub json: bool,
}

const HOST_EXAMPLES: &str = "\
Examples:
  annulus worker add-host alpha
  annulus worker add-host alpha --address 10.0.0.1 --address alpha.example.org \\
    --folder /etc/annulus/sales

Creates host-NAME.pem and host-NAME-key.pem, valid for one year, beside ca.pem
and ca-key.pem. Copy ca.pem and these two files to the host; keep the key
secret. Existing files are never overwritten.";

#[derive(Args)]
#[command(after_long_help = HOST_EXAMPLES)]
pub struct AddHostArgs {
    /// Name of the host: 1 to 63 letters, digits, '-', '_' or '.'
    pub host: HostName,
    /// Address or DNS name in the certificate; can be repeated
    ///
    /// Annulus itself checks only the host's name. Other tools that read the certificate may check
    /// its addresses.
    #[arg(long, value_name = "ADDRESS")]
    pub address: Vec<String>,
    /// Folder of the authority, which gets the files
    #[arg(long, value_name = "DIR", default_value = ".")]
    pub folder: PathBuf,
    /// Print the paths of the files as one JSON object
    #[arg(long)]
    pub json: bool,
}
