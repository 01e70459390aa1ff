//! The command line of `annulus bench roundabout`.

#[cfg(feature = "ofi")]
use annulus_roundabout::fabric::FabricOptions;
use annulus_terminal::units;
use clap::{Args, ValueEnum};

const DEFAULT_WAYS: &str =
    if cfg!(feature = "ofi") { "plain,tcp,rustls,tls,shared,ofi-tcp,ofi-shm" } else { "plain,tcp,rustls,tls,shared" };

/// What is measured, and how often.
#[derive(Args, Clone, Debug)]
#[command(after_help = "Examples:
  annulus bench roundabout
  annulus bench roundabout --elements 64K,1M,4M --bytes 8G --rounds 9
  annulus bench roundabout --ways plain,tcp --json

Elements go from one host to the next, which is the last hop of the first figure of Frey, Goncalves, Kersten and Teubner, A \
Spinning Join That Does Not Get Dizzy (figure 5): throughput by the size of a transfer. Both hosts are threads of this process, \
connected by loopback. Every byte is checked once for each way and size; then all ways run in turn, each round beginning with \
the next one, and the receiver reads the first and last bytes of every element.

Ways:
  plain   a TCP stream between two threads, written and read element by element: what the roundabout's is compared with
  tcp     a roundabout of two hosts over TCP
  rustls  a TLS 1.3 stream of rustls's own (AES-128-GCM) between two threads, as plain: what tls is compared with
  tls     a roundabout over TLS 1.3 with certificates on both sides
  shared  a roundabout of two hosts over Unix sockets, which hand over buffers in shared memory
  ofi-tcp, ofi-shm, ofi, ofi-sealed
          if built with the feature ofi, a roundabout over libfabric's providers tcp and shm, over that of --fabric, and over the \
same with sealed elements

Columns of --json:
  way, element_bytes, elements
  gb_per_s     1e9 bytes of elements a second, median of the rounds
  ratio        that by the one of the plain stream with elements of the same size
  spread       interquartile range of the rounds, by the median")]
pub struct RoundaboutArgs {
    /// Sizes of an element, of which each fills a buffer
    #[arg(long, value_name = "SIZE", value_delimiter = ',', default_value = "4K,16K,64K,256K,1M,4M", value_parser = parse_element)]
    pub elements: Vec<u32>,
    /// Bytes that each run sends
    #[arg(long, value_name = "SIZE", default_value = "2G", value_parser = units::parse_size)]
    pub bytes: usize,
    /// How they are sent
    #[arg(long, value_name = "WAY", value_delimiter = ',', default_value = DEFAULT_WAYS)]
    pub ways: Vec<Way>,
    /// Which of libfabric's providers the ways ofi and ofi-sealed use, and at which address, if it
    /// has such
    #[cfg(feature = "ofi")]
    #[arg(long, value_name = "PROVIDER[@ADDRESS]", default_value = "tcp@127.0.0.1")]
    pub fabric: String,
    /// Buffers for what comes in at each host
    #[arg(long, default_value_t = 6, value_name = "N", value_parser = clap::value_parser!(u32).range(2..=65536))]
    pub places: u32,
    /// Buffers that each host injects from; shared, those of --places are its own, too
    #[arg(long, default_value_t = 4, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=65536))]
    pub own: u32,
    /// Timed runs of each way
    #[arg(long, default_value = "5", value_name = "R", value_parser = units::parse_count)]
    pub rounds: usize,
    /// Print one JSON object a line instead of a table
    #[arg(long)]
    pub json: bool,
}

/// How elements are sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Way {
    /// A TCP stream
    Plain,
    /// A roundabout over TCP
    Tcp,
    /// A TLS stream of rustls's own
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
    /// The same, sealed
    #[cfg(feature = "ofi")]
    OfiSealed,
}

impl Way {
    /// Its word.
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

    /// Whether hosts show certificates.
    pub(super) fn is_secure(self) -> bool {
        match self {
            Self::Tls => true,
            #[cfg(feature = "ofi")]
            Self::OfiSealed => true,
            _ => false,
        }
    }

    /// What libfabric is asked for; `named` is the argument of `--fabric`.
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
        _ => Err(format!("'{text}' is out of range; choose from 4K to 1G")),
    }
}
