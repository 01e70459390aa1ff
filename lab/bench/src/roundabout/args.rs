//! The command line of `annulus-lab bench roundabout`.

#[cfg(feature = "ofi")]
use annulus_roundabout::fabric::FabricOptions;
use annulus_terminal::units;
use clap::{Args, ValueEnum};

const DEFAULT_WAYS: &str =
    if cfg!(feature = "ofi") { "plain,tcp,rustls,tls,shared,ofi-tcp,ofi-shm" } else { "plain,tcp,rustls,tls,shared" };

const EXAMPLES: &str = "\
Examples:
  annulus-lab bench roundabout
  annulus-lab bench roundabout --elements 64K,1M,4M --bytes 8G --rounds 9
  annulus-lab bench roundabout --ways plain,tcp --json

Elements go from one host to the next: figure 5 of Frey, Goncalves, Kersten
and Teubner, A Spinning Join That Does Not Get Dizzy, which shows the
throughput by the size of a transfer. Both hosts are threads of this process,
connected by loopback. Every byte is checked once for each way and size. Then
all ways run in turn, each round starting with the next one; the receiver
reads the first and last bytes of every element.

Columns of --json:
  way, element_bytes, elements
  gb_per_s       10^9 bytes of elements per second, median of the rounds
  ratio          gb_per_s / gb_per_s of the plain stream, for the same size
  spread         interquartile range of the rounds / their median
  too_short      whether the median round took under 1 ms: then gb_per_s means
                 little";

/// What the benchmark measures, and how often.
#[derive(Args, Clone, Debug)]
#[command(after_long_help = EXAMPLES)]
pub struct RoundaboutArgs {
    /// Sizes of an element
    ///
    /// An element fills a buffer.
    #[arg(
        long,
        value_name = "SIZE",
        value_delimiter = ',',
        default_value = "4K,16K,64K,256K,1M,4M",
        value_parser = parse_element
    )]
    pub elements: Vec<u32>,
    /// Bytes that each run sends
    ///
    /// At least two elements for each buffer of a host.
    #[arg(long, value_name = "SIZE", default_value = "2G", value_parser = units::parse_size)]
    pub bytes: usize,
    /// Ways to send
    #[arg(long, value_name = "WAY", value_delimiter = ',', default_value = DEFAULT_WAYS)]
    pub ways: Vec<Transport>,
    /// Provider of the ways ofi and ofi-sealed
    ///
    /// A provider of libfabric; PROVIDER@ADDRESS if it needs an address.
    #[cfg(feature = "ofi")]
    #[arg(long, value_name = "PROVIDER", default_value = "tcp@127.0.0.1")]
    pub fabric: String,
    /// Receive buffers of each host
    #[arg(long, default_value_t = 6, value_name = "N", value_parser = clap::value_parser!(u32).range(2..=65536))]
    pub places: u32,
    /// Send buffers of each host
    ///
    /// With the way shared, the buffers of --places serve for sending, too.
    #[arg(long, default_value_t = 4, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=65536))]
    pub own: u32,
    /// Timed runs of each way
    #[arg(long, default_value = "5", value_name = "N", value_parser = units::parse_count)]
    pub rounds: usize,
    /// Print one JSON object per line instead of a table
    #[arg(long)]
    pub json: bool,
}

/// How elements are sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Transport {
    /// A TCP stream between two threads, written element by element
    Plain,
    /// A ring of two hosts over TCP
    Tcp,
    /// A TLS 1.3 stream (AES-128-GCM) of rustls, written element by element
    Rustls,
    /// A ring of two hosts over TLS 1.3, with certificates on both sides
    Tls,
    /// A ring of two hosts that pass buffers in shared memory
    Shared,
    /// A ring over libfabric's TCP provider
    #[cfg(feature = "ofi")]
    OfiTcp,
    /// A ring over libfabric's shared-memory provider
    #[cfg(feature = "ofi")]
    OfiShm,
    /// A ring over libfabric's provider for RDMA devices
    #[cfg(feature = "ofi")]
    OfiVerbs,
    /// A ring over the provider of --fabric
    #[cfg(feature = "ofi")]
    Ofi,
    /// A ring over the provider of --fabric, with encrypted elements
    #[cfg(feature = "ofi")]
    OfiSealed,
}

impl Transport {
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
            Self::OfiVerbs => "ofi-verbs",
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
    pub(crate) fn fabric(self, named: &str) -> Option<FabricOptions<'_>> {
        let name = match self {
            Self::OfiTcp => "tcp@127.0.0.1",
            Self::OfiShm => "shm",
            Self::OfiVerbs => "verbs;ofi_rxm",
            Self::Ofi | Self::OfiSealed => named,
            _ => return None,
        };
        Some(FabricOptions::named(name).with_sealed(self == Self::OfiSealed))
    }
}

/// Reads the size of a ring's buffer.
pub fn parse_element(text: &str) -> Result<u32, String> {
    match units::parse_size(text)? {
        bytes @ 4096..=1_073_741_824 => Ok(bytes as u32),
        _ => Err(format!("size '{text}' is out of range: expected 4K to 1G")),
    }
}
