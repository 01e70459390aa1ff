//! The command line of `annulus bench roundabout`.

#[cfg(feature = "ofi")]
use annulus_roundabout::fabric::FabricOptions;
use annulus_terminal::units;
use clap::{Args, ValueEnum};

const DEFAULT_WAYS: &str =
    if cfg!(feature = "ofi") { "plain,tcp,rustls,tls,shared,ofi-tcp,ofi-shm" } else { "plain,tcp,rustls,tls,shared" };

/// Options of `annulus bench roundabout`.
#[derive(Args, Clone, Debug)]
#[command(after_help = "Examples:
  annulus bench roundabout
  annulus bench roundabout --elements 64K,1M,4M --bytes 8G --rounds 9
  annulus bench roundabout --ways plain,tcp --json

Measures the throughput from one host to the next by the size of an element, as figure 5 of \
'A Spinning Join That Does Not Get Dizzy' (Frey, Goncalves, Kersten, Teubner) does. Both hosts are \
threads of this process, connected by loopback. For each way and size, a first run checks every \
byte. Then all ways run in turn; each round starts with the next way. In these runs the receiver \
checks the first and last bytes of every element.

Ways:
  plain   a TCP stream between two threads, element by element: the rival of tcp
  tcp     a roundabout of two hosts over TCP
  rustls  a TLS 1.3 stream of rustls (AES-128-GCM), otherwise as plain: the rival of tls
  tls     a roundabout over TLS 1.3 with certificates on both sides
  shared  a roundabout over Unix sockets, which hand over buffers in shared memory
With the cargo feature ofi, also roundabouts over libfabric:
  ofi-tcp, ofi-shm  the providers tcp and shm
  ofi, ofi-sealed   the provider of --fabric, without and with encryption

Columns of --json:
  way, element_bytes, elements
  gb_per_s     1e9 bytes of elements per second, median of the rounds
  ratio        gb_per_s divided by that of plain with elements of the same size
  spread       interquartile range of the rounds, divided by their median
  too_short    whether the median round took less than 1 ms: then gb_per_s means little")]
pub struct RoundaboutArgs {
    /// Sizes of an element, each of which fills a buffer
    #[arg(long, value_name = "SIZE", value_delimiter = ',', default_value = "4K,16K,64K,256K,1M,4M")]
    #[arg(value_parser = parse_element)]
    pub elements: Vec<u32>,
    /// Bytes that each run sends; at least two elements for each buffer of a host
    #[arg(long, value_name = "SIZE", default_value = "2G", value_parser = units::parse_size)]
    pub bytes: usize,
    /// Ways to send them
    #[arg(long, value_name = "WAY", value_delimiter = ',', default_value = DEFAULT_WAYS)]
    pub ways: Vec<Way>,
    /// libfabric's provider for the ways ofi and ofi-sealed, and its address if it has one
    #[cfg(feature = "ofi")]
    #[arg(long, value_name = "PROVIDER[@ADDRESS]", default_value = "tcp@127.0.0.1")]
    pub fabric: String,
    /// Buffers of each host for incoming elements
    #[arg(long, default_value_t = 6, value_name = "N", value_parser = clap::value_parser!(u32).range(2..=65536))]
    pub places: u32,
    /// Buffers of each host for elements that it injects; with shared, those of --places come on
    /// top
    #[arg(long, default_value_t = 4, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=65536))]
    pub own: u32,
    /// Timed runs of each way
    #[arg(long, default_value = "5", value_name = "R", value_parser = units::parse_count)]
    pub rounds: usize,
    /// Print one JSON object a line instead of a table
    #[arg(long)]
    pub json: bool,
}

/// A way to send elements.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Way {
    /// A TCP stream
    Plain,
    /// A roundabout over TCP
    Tcp,
    /// A TLS stream of rustls
    Rustls,
    /// A roundabout over TLS
    Tls,
    /// A roundabout in shared memory
    Shared,
    /// A roundabout over libfabric's TCP
    #[cfg(feature = "ofi")]
    OfiTcp,
    /// A roundabout over libfabric's shared memory
    #[cfg(feature = "ofi")]
    OfiShm,
    /// A roundabout over the provider of --fabric
    #[cfg(feature = "ofi")]
    Ofi,
    /// The same, encrypted
    #[cfg(feature = "ofi")]
    OfiSealed,
}

impl Way {
    /// Returns its word on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Self::Plain => "plain",
            Self::Tcp => "tcp",
            Self::Rustls => "rustls",
            Self::Tls => "tls",
            Self::Shared => "shared",
            #[cfg(feature = "ofi")]
            Self::OfiTcp => "ofi-tcp",
            #[cfg(feature = "ofi")]
            Self::OfiShm => "ofi-shm",
            #[cfg(feature = "ofi")]
            Self::Ofi => "ofi",
            #[cfg(feature = "ofi")]
            Self::OfiSealed => "ofi-sealed",
        }
    }

    /// Returns whether hosts have certificates.
    pub(super) fn is_secure(self) -> bool {
        match self {
            Self::Tls => true,
            #[cfg(feature = "ofi")]
            Self::OfiSealed => true,
            _ => false,
        }
    }

    /// Returns libfabric's options; `named` is the argument of `--fabric`.
    #[cfg(feature = "ofi")]
    pub(super) fn fabric(self, named: &str) -> Option<FabricOptions<'_>> {
        let (provider, node) = match self {
            Self::OfiTcp => ("tcp", Some("127.0.0.1")),
            Self::OfiShm => ("shm", None),
            Self::Ofi | Self::OfiSealed => {
                named.split_once('@').map_or((named, None), |(provider, node)| (provider, Some(node)))
            }
            _ => return None,
        };
        Some(FabricOptions::new(provider).with_node(node).with_sealed(self == Self::OfiSealed))
    }
}

/// Reads the size of a ring's buffer.
pub fn parse_element(text: &str) -> Result<u32, String> {
    match units::parse_size(text)? {
        bytes @ 4096..=1_073_741_824 => Ok(bytes as u32),
        _ => Err(format!("size '{text}' is out of range: expected 4K to 1G")),
    }
}
