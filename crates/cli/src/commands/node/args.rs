//! The command line of `annulus node`.

use std::{path::PathBuf, time::Duration};

use annulus_roundabout::secure::{HostName, RingName};
use clap::{Args, Subcommand};

use crate::units;

const EXAMPLES: &str = "\
Examples:
  annulus node init-ca --ring sales --folder authority
  annulus node add-host alpha --folder authority
  annulus node add-submitter me --folder authority
  annulus node --ring ring.toml --allow-read /data --allow-write /joined

The last command runs a host of the ring until Ctrl-C. All hosts and
submitters have the same ring.toml:
  certificates = 'certs'      # folder of ca.pem and this host's certificate
  trusted_network = false     # true: rows are sent unencrypted
  # fabric = 'tcp'            # libfabric provider for rows (feature ofi)
  [[host]]
  name = 'alpha'
  control = '10.0.0.1:7400'   # accepts joins from submitters
  data = '10.0.0.1:7401'      # receives rows from the previous host
  # fabric_address = '10.1.0.1'
  [[host]]
  name = 'beta'
  control = '10.0.0.2:7400'
  data = '10.0.0.2:7401'

A host needs ca.pem, host-NAME.pem and host-NAME-key.pem in the folder of
certificates. A submitter needs ca.pem, submitter-NAME.pem and
submitter-NAME-key.pem; it runs annulus join --ring ring.toml on any machine.
The authority's key, ca-key.pem, must not be on a host. Control messages are
always encrypted.

A submitter chooses the files that a join reads and writes, and the node opens
them with its own rights. --allow-read and --allow-write restrict it to
folders, after symbolic links are resolved. There is no default: use / to
allow all folders. Keys are never read.

More: annulus help ring";

#[derive(Args)]
#[command(args_conflicts_with_subcommands = true, arg_required_else_help = true)]
#[command(after_long_help = EXAMPLES)]
pub struct NodeArgs {
    #[command(subcommand)]
    pub command: Option<NodeCommand>,
    /// Run a host of the ring that this file describes
    #[arg(long, value_name = "FILE", required = true)]
    pub ring: Option<PathBuf>,
    /// Name of this host
    ///
    /// By default, the host whose key is in the folder of certificates.
    #[arg(long, value_name = "NAME")]
    pub name: Option<HostName>,
    /// Folder that joins may read from; can be repeated
    #[arg(long, value_name = "DIR")]
    pub allow_read: Vec<PathBuf>,
    /// Folder that joins may write to; can be repeated
    #[arg(long, value_name = "DIR")]
    pub allow_write: Vec<PathBuf>,
    /// Seconds to wait for the other hosts at each step
    #[arg(long, value_name = "SECONDS", default_value = "3600", value_parser = units::parse_seconds)]
    pub step_timeout: Duration,
    /// Seconds of silence after which a coordinator is lost
    #[arg(long, value_name = "SECONDS", default_value = "5", value_parser = units::parse_seconds)]
    pub timeout: Duration,
}

#[derive(Subcommand)]
pub enum NodeCommand {
    /// Create the certificate authority of a new ring
    InitCa(InitCaArgs),
    /// Create the certificate and key of a host
    AddHost(AddHostArgs),
    /// Create a certificate and key for submitting joins
    AddSubmitter(AddSubmitterArgs),
}

const SUBMITTER_EXAMPLES: &str = "\
Example:
  annulus node add-submitter me --folder authority

Creates submitter-NAME.pem and submitter-NAME-key.pem, valid for one year,
beside ca.pem and ca-key.pem. Copy ca.pem and these two files to the machine
that submits joins; keep the key secret. A submitter cannot act as a host, and
a host cannot submit joins. Existing files are never overwritten.";

#[derive(Args)]
#[command(after_long_help = SUBMITTER_EXAMPLES)]
pub struct AddSubmitterArgs {
    /// Name of the submitter: 1 to 63 letters, digits, '-', '_' or '.'
    pub name: HostName,
    /// Folder of the authority
    #[arg(long, value_name = "DIR", default_value = ".")]
    pub folder: PathBuf,
    /// Print a JSON object instead of text
    #[arg(long)]
    pub json: bool,
}

const CA_EXAMPLES: &str = "\
Examples:
  annulus node init-ca --ring sales
  annulus node init-ca --ring sales --folder /etc/annulus/sales

Creates ca.pem, which every member of the ring needs, and ca-key.pem. Keep
ca-key.pem secret and off the hosts: anyone who has it can add members.
Existing files are never overwritten.";

#[derive(Args)]
#[command(after_long_help = CA_EXAMPLES)]
pub struct InitCaArgs {
    /// Name of the ring: 1 to 63 letters, digits, '-', '_' or '.'
    #[arg(long, value_name = "NAME")]
    pub ring: RingName,
    /// Folder for the files
    #[arg(long, value_name = "DIR", default_value = ".")]
    pub folder: PathBuf,
    /// Print a JSON object instead of text
    #[arg(long)]
    pub json: bool,
}

const HOST_EXAMPLES: &str = "\
Examples:
  annulus node add-host alpha
  annulus node add-host alpha --address 10.0.0.1 --address alpha.example.org \\
    --folder /etc/annulus/sales

Creates host-NAME.pem and host-NAME-key.pem, valid for one year, beside ca.pem
and ca-key.pem. Copy ca.pem and these two files to the host; keep the key
secret. Existing files are never overwritten.";

#[derive(Args)]
#[command(after_long_help = HOST_EXAMPLES)]
pub struct AddHostArgs {
    /// Name of the host: 1 to 63 letters, digits, '-', '_' or '.'
    pub host: HostName,
    /// Address or DNS name for the certificate; can be repeated
    ///
    /// Annulus itself checks only the host's name. Other tools that read the certificate may check
    /// its addresses.
    #[arg(long, value_name = "ADDRESS")]
    pub address: Vec<String>,
    /// Folder of the authority
    #[arg(long, value_name = "DIR", default_value = ".")]
    pub folder: PathBuf,
    /// Print a JSON object instead of text
    #[arg(long)]
    pub json: bool,
}
