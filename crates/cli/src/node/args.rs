//! The command line of `annulus node`.

use std::{path::PathBuf, time::Duration};

use annulus_roundabout::secure::{HostName, RingName};
use clap::{Args, Subcommand};

#[derive(Args)]
#[command(args_conflicts_with_subcommands = true, arg_required_else_help = true)]
#[command(after_help = "Examples:
  annulus node init-ca --ring sales --folder certs
  annulus node add-host alpha --folder certs
  annulus node --ring ring.toml --name alpha           be host alpha of this ring, until Ctrl-C

ring.toml is the same on all hosts:
  certificates = 'certs'     # ca.pem, and this host's host-alpha.pem and host-alpha-key.pem; a path from this file on
  trusted_network = false    # true: rows go from host to host in the clear; orders never do
  fabric = 'verbs;ofi_rxm'   # if there: rows by this provider of libfabric (a build with the feature ofi), sealed unless in the clear
  [[host]]
  name = 'alpha'
  control = '10.0.0.1:7400'  # takes orders, from members of the ring alone
  data = '10.0.0.1:7401'     # takes rows from the host before it
  fabric_address = '10.1.0.1'  # of its interface to the fabric, where there is one
  [[host]]
  name = 'beta'
  control = '10.0.0.2:7400'
  data = '10.0.0.2:7401'

Joins are submitted with annulus join --ring ring.toml, from any machine that has the certificate of a member.")]
pub struct NodeArgs {
    #[command(subcommand)]
    pub command: Option<NodeCommand>,
    /// The file of the ring that this process is a host of
    #[arg(long, value_name = "FILE", required = true)]
    pub ring: Option<PathBuf>,
    /// This host's name [default: the one whose key is in the folder of certificates]
    #[arg(long, value_name = "NAME")]
    pub name: Option<HostName>,
    /// Seconds without a word from a coordinator after which it counts as gone
    #[arg(long, value_name = "SECONDS", default_value = "5", value_parser = crate::units::parse_seconds)]
    pub timeout: Duration,
}

#[derive(Subcommand)]
pub enum NodeCommand {
    /// Make the certificate authority of a new ring
    InitCa(InitCaArgs),
    /// Make a host's certificate and key, by the ring's authority
    AddHost(AddHostArgs),
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
    /// An address or name of the host, for other tools that look at certificates; as often as needed
    #[arg(long, value_name = "ADDRESS")]
    pub address: Vec<String>,
    /// Where the authority's files are
    #[arg(long, value_name = "DIR", default_value = ".")]
    pub folder: PathBuf,
    /// Print a JSON object instead of text
    #[arg(long)]
    pub json: bool,
}
