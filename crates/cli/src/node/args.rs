//! The command line of `annulus node`.

use std::path::PathBuf;

use annulus_roundabout::secure::{HostName, RingName};
use clap::{Args, Subcommand};

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
