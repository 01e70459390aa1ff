//! The command line of `annulus node`.

use std::{path::PathBuf, time::Duration};

use annulus_roundabout::secure::{HostName, RingName};
use clap::{Args, Subcommand};

use crate::units;

#[derive(Args)]
#[command(args_conflicts_with_subcommands = true, arg_required_else_help = true)]
#[command(after_help = "Examples:
  annulus node init-ca --ring sales --folder authority
  annulus node add-host alpha --folder authority
  annulus node add-submitter me --folder authority
  annulus node --ring ring.toml --allow-read /data --allow-write /joined

The last line runs a host of the ring until Ctrl-C. ring.toml is the same on
all machines:
  certificates = 'certs'    # ca.pem, and this machine's certificate and key
  trusted_network = false   # true: rows are sent unencrypted; orders never are
  # fabric = 'tcp'          # send rows by this libfabric provider (feature ofi)
  [[host]]
  name = 'alpha'
  control = '10.0.0.1:7400' # for orders of submitters
  data = '10.0.0.1:7401'    # for rows of the previous host
  # fabric_address = '10.1.0.1'
  [[host]]
  name = 'beta'
  control = '10.0.0.2:7400'
  data = '10.0.0.2:7401'

A host needs ca.pem, host-NAME.pem and host-NAME-key.pem in that folder. Joins
are submitted with annulus join --ring ring.toml, from any machine that has
ca.pem, submitter-NAME.pem and submitter-NAME-key.pem. The authority's key,
ca-key.pem, must not be on a host.

A submitter chooses the files that a join reads and writes, with the rights of
this process. --allow-read and --allow-write limit it to folders; links are
followed first. There is no default: / allows everything, except that keys are
never read.")]
pub struct NodeArgs {
    #[command(subcommand)]
    pub command: Option<NodeCommand>,
    /// The file of the ring that this process is a host of
    #[arg(long, value_name = "FILE", required = true)]
    pub ring: Option<PathBuf>,
    /// This host's name [default: the one whose key is in the folder of certificates]
    #[arg(long, value_name = "NAME")]
    pub name: Option<HostName>,
    /// Folder below which joins may read; can be repeated
    #[arg(long, value_name = "DIR")]
    pub allow_read: Vec<PathBuf>,
    /// Folder below which joins may write their results; can be repeated
    #[arg(long, value_name = "DIR")]
    pub allow_write: Vec<PathBuf>,
    /// Seconds to wait for the other hosts at each step before a join is given up
    #[arg(long, value_name = "SECONDS", default_value = "3600", value_parser = units::parse_seconds)]
    pub step_timeout: Duration,
    /// Seconds without a word from a coordinator after which it counts as gone
    #[arg(long, value_name = "SECONDS", default_value = "5", value_parser = units::parse_seconds)]
    pub timeout: Duration,
}

#[derive(Subcommand)]
pub enum NodeCommand {
    /// Make the certificate authority of a new ring
    InitCa(InitCaArgs),
    /// Make a host's certificate and key, by the ring's authority
    AddHost(AddHostArgs),
    /// Make a certificate and key for submitting joins, by the ring's authority
    AddSubmitter(AddSubmitterArgs),
}

#[derive(Args)]
#[command(after_help = "Example:
  annulus node add-submitter me --folder authority

Makes submitter-NAME.pem and submitter-NAME-key.pem, valid for a year, beside
ca.pem and ca-key.pem. Take ca.pem and these two files to the machine from which
joins are submitted, the key on a safe way. A submitter cannot take the place of
a host, and a host cannot submit joins. Nothing is overwritten.")]
pub struct AddSubmitterArgs {
    /// The submitter's name: 1 to 63 letters, digits, '-', '_' or '.'
    pub name: HostName,
    /// Where the authority's files are
    #[arg(long, value_name = "DIR", default_value = ".")]
    pub folder: PathBuf,
    /// Print a JSON object instead of text
    #[arg(long)]
    pub json: bool,
}

#[derive(Args)]
#[command(after_help = "Examples:
  annulus node init-ca --ring sales
  annulus node init-ca --ring sales --folder /etc/annulus/sales

Makes ca.pem, which every host of the ring needs, and ca-key.pem, which stays with you: whoever has it can add hosts. Nothing is
overwritten.")]
pub struct InitCaArgs {
    /// The ring's name: 1 to 63 letters, digits, '-', '_' or '.'
    #[arg(long, value_name = "NAME")]
    pub ring: RingName,
    /// Where the files go
    #[arg(long, value_name = "DIR", default_value = ".")]
    pub folder: PathBuf,
    /// Print a JSON object instead of text
    #[arg(long)]
    pub json: bool,
}

#[derive(Args)]
#[command(after_help = "Examples:
  annulus node add-host alpha
  annulus node add-host alpha --address 10.0.0.1 --address alpha.example.org --folder /etc/annulus/sales

Makes host-NAME.pem and host-NAME-key.pem, valid for a year, beside ca.pem and ca-key.pem. Take ca.pem and these two files to the host,
the key on a safe way. Nothing is overwritten.")]
pub struct AddHostArgs {
    /// The host's name: 1 to 63 letters, digits, '-', '_' or '.'
    pub host: HostName,
    /// An address or name of the host, for other tools that look at certificates; as often as
    /// needed
    #[arg(long, value_name = "ADDRESS")]
    pub address: Vec<String>,
    /// Where the authority's files are
    #[arg(long, value_name = "DIR", default_value = ".")]
    pub folder: PathBuf,
    /// Print a JSON object instead of text
    #[arg(long)]
    pub json: bool,
}
