//! The command line of `annulus-lab bench join`.

use std::{net::SocketAddr, path::PathBuf};

#[cfg(feature = "ofi")]
use annulus_roundabout::fabric::FabricOptions;
use annulus_terminal::units;
use clap::{Args, ValueEnum};

#[cfg(feature = "ofi")]
use crate::roundabout::Transport;
use crate::roundabout::parse_element;

const EXAMPLES: &str = "\
Examples:
  annulus-lab bench join
  annulus-lab bench join --rows 20M --hosts 1,2,3,6 --one-at-a-time
  annulus-lab bench join --rows 500k --zipf 0.9 --hosts 1,6 --json
  annulus-lab bench join --data band --rows 1M --hosts 1 --threads 2
  annulus-lab bench join --data tpch --scale 1 --save tables

Two tables are joined around a ring of hosts, as in Frey, Goncalves, Kersten
and Teubner, A Spinning Join That Does Not Get Dizzy. Each host has an equal
part of both. Hosts are threads of this process. They prepare their parts one
after the other, so that these times do not influence each other, and then
join together, sharing the cores. With --one-at-a-time, each host joins while
the others are idle, and receives the others' fragments from a second thread,
as if it had the machine to itself. Result rows are counted and their numbers
are added up, and both are compared with an independent answer.

Columns of --json; medians of the rounds, of the host with the largest value:
  data, by, link, hosts, threads, buffers, zipf, one_at_a_time
  rows, probe_rows   rows of the stationary and of the rotating table
  matches, sum       rows of the result, and the sum of all their numbers
  setup_s            seconds to prepare a host's part of both tables
  setup_cpu_s        seconds of setup_s on a core, the least of the rounds;
                     other work on the machine affects it less (Linux, with
                     --one-at-a-time --threads 1)
  join_s             seconds of the revolution
  join_cpu_s         average seconds of it on a core (with --threads 1)
  waiting_share      average time that hosts waited for data / join_s
  waiting_least_share, waiting_most_share
                     the same of the rounds with the smallest and the largest
  waiting_first_share, waiting_last_share
                     the part of it before the first fragment of another host
                     came, and the part after a host had joined all its own
  total_s            setup_s + join_s
  host_probed        rows that a host probed, on any machine
  host_compared      pairs of rows that it compared, in a bucket or in the
                     band; with host_probed, the work of a host
  host_mb            memory of a host in MiB: its prepared part, tables and
                     ring buffers
  fragments, fragments_mb
                     fragments that a host joined, and their MiB
  peak_mb            most memory taken while a host prepared, without its input
                     (Linux, with --one-at-a-time)
  cpu_load           time on cores in the revolution / time of all cores
  cpu_s              seconds on cores, for setup and revolution of all hosts
                     (both on Linux, without --one-at-a-time)
  too_short          whether setup or join took under 1 ms: then their times
                     mean little";

/// What the benchmark measures, and how often.
#[derive(Args, Clone, Debug)]
#[command(after_long_help = EXAMPLES)]
pub struct JoinArgs {
    /// Tables to join
    #[arg(long, value_name = "TABLES", default_value = "even")]
    pub data: Data,
    /// Rows of each table, such as 500k or 20M
    #[arg(long, value_name = "N", default_value = "5M", value_parser = units::parse_tuples)]
    pub rows: u64,
    /// Scale factor of the tpch tables
    #[arg(long, value_name = "SF", default_value = "1", value_parser = parse_scale)]
    pub scale: f64,
    /// Exponent of a Zipf distribution of keys [default: uniform]
    ///
    /// With it there are 2^20 keys, otherwise as many as rows.
    #[arg(long, value_name = "S")]
    pub zipf: Option<f64>,
    /// Join algorithm; bands are always sorted
    #[arg(long, value_name = "ALGORITHM", default_value = "hash")]
    pub by: By,
    /// Numbers of hosts
    #[arg(
        long,
        value_name = "N",
        value_delimiter = ',',
        default_value = "1,2,3,4,5,6",
        value_parser = clap::value_parser!(u16).range(1..=1024)
    )]
    pub hosts: Vec<u16>,
    /// Join threads of each host
    #[arg(long, value_name = "N", default_value = "1", value_parser = units::parse_count)]
    pub threads: usize,
    /// Links between hosts
    #[arg(long, value_name = "LINK", default_value = "shared")]
    pub link: Link,
    /// Let one host work at a time
    #[arg(long)]
    pub one_at_a_time: bool,
    /// Size of a ring's buffer
    #[arg(long, value_name = "SIZE", default_value = "1M", value_parser = parse_element)]
    pub element: u32,
    /// Buffers of each host
    #[arg(long, value_name = "N", default_value = "16", value_parser = clap::value_parser!(u32).range(3..=1 << 16))]
    pub buffers: u32,
    /// Timed runs
    #[arg(long, default_value = "3", value_name = "N", value_parser = units::parse_count)]
    pub rounds: usize,
    /// Run as one host of a ring of processes (with --place)
    ///
    /// The addresses on which all hosts listen, in order, such as 10.0.0.1:7000,10.0.0.2:7000. The
    /// hosts join once, and each prints one line of JSON. TCP connections are unencrypted: use this
    /// only in networks that you trust.
    #[arg(
        long,
        value_name = "ADDRESS",
        value_delimiter = ',',
        requires = "place",
        conflicts_with_all = ["one_at_a_time", "save"]
    )]
    pub ring: Vec<SocketAddr>,
    /// Position of this host in --ring, from 0
    #[arg(long, value_name = "N", requires = "ring")]
    pub place: Option<u16>,
    /// Only write both tables to this folder, as Arrow files
    #[arg(long, value_name = "DIR")]
    pub save: Option<PathBuf>,
    /// Print one JSON object per line instead of a table
    #[arg(long)]
    pub json: bool,
}

/// The tables to join.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Data {
    /// 12 bytes a row: a uniform or Zipf key of 4, and a number of 8
    Even,
    /// Orders (stationary) and lineitem of TPC-H, by order key
    Tpch,
    /// As even; right.key is from left.key to left.key + 9, ten matches a row
    Band,
}

/// The join algorithm.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum By {
    /// Hash join
    Hash,
    /// Sort-merge join
    Sort,
}

/// The links between neighbours.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Link {
    /// Buffers in shared memory
    Shared,
    /// TCP
    Tcp,
    /// TLS over TCP
    Tls,
    /// Libfabric's TCP provider
    #[cfg(feature = "ofi")]
    OfiTcp,
    /// Libfabric's shared-memory provider
    #[cfg(feature = "ofi")]
    OfiShm,
    /// Libfabric's provider for RDMA devices
    #[cfg(feature = "ofi")]
    OfiVerbs,
}

#[cfg(feature = "ofi")]
impl Link {
    /// Returns libfabric's options, if fragments go through it.
    pub(super) fn fabric(self) -> Option<FabricOptions<'static>> {
        let way = match self {
            Self::OfiTcp => Transport::OfiTcp,
            Self::OfiShm => Transport::OfiShm,
            Self::OfiVerbs => Transport::OfiVerbs,
            Self::Shared | Self::Tcp | Self::Tls => return None,
        };
        way.fabric("")
    }
}

fn parse_scale(text: &str) -> Result<f64, String> {
    match text.parse() {
        Ok(scale) if (0.001..=100.0).contains(&scale) => Ok(scale),
        _ => Err(format!("invalid scale '{text}': expected 0.001 to 100")),
    }
}
