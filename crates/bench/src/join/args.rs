//! The command line of `annulus bench join`.

use std::{net::SocketAddr, path::PathBuf};

use annulus_terminal::units;
use clap::{Args, ValueEnum};

use crate::roundabout::parse_element;

/// Options of `annulus bench join`.
#[derive(Args, Clone, Debug)]
#[command(after_help = "Examples:
  annulus bench join
  annulus bench join --rows 20M --hosts 1,2,3,6 --one-at-a-time
  annulus bench join --rows 500k --zipf 0.9 --hosts 1,6 --json
  annulus bench join --data band --rows 1M --hosts 1 --threads 2
  annulus bench join --data tpch --scale 1 --save tables

Joins two tables around a ring of hosts, with an equal part of both on each host, as in 'A Spinning \
Join That Does Not Get Dizzy' (Frey, Goncalves, Kersten, Teubner). Hosts are threads of this \
process. They prepare one after the other, so that their times are independent. Then they turn \
together and share the cores. With --one-at-a-time, each host joins while no other does, and a \
second thread sends the others' fragments, as if the host had the machine to itself. The result's \
rows and the sum of its numbers are compared with an independent answer.

Tables of --data:
  even   12 bytes a row: a key of 4 and a number of 8; as many keys as rows, or --zipf
  tpch   orders (stationary) and lineitem, by order key, with the numbers of customer and part
  band   as even, joined where right.key is between left.key and left.key + 9: ten matches a row

Columns of --json. Values are medians of the rounds. Those of hosts are of the host with the most.
  data, by, link, hosts, threads, buffers, zipf, one_at_a_time
  rows, probe_rows   rows of the stationary table and of the rotating table
  matches, sum       rows of the result, and the sum of all their numbers
  setup_s            seconds to prepare a host's part of both tables
  setup_cpu_s        the part of setup_s on a core, least of the rounds
                     (--one-at-a-time --threads 1, on Linux)
  join_s             seconds of the revolution
  waiting_share      time that hosts waited for data, divided by join_s, on average
  waiting_first_share, waiting_last_share
                     the parts before the first fragment of another host came, and after a host
                     had joined all its own fragments
  total_s            setup_s + join_s
  host_probed        rows of the rotating table that a host probed
  host_compared      pairs that a host compared: rows in one bucket, or in the band
  host_mb            memory of a host: its prepared part and its ring buffers, in units of
                     1024 x 1024 bytes
  peak_mb            most memory taken while a host prepared, without its input
                     (--one-at-a-time, on Linux)
  cpu_load           time on cores during the revolution, divided by that of all cores
  cpu_s              seconds on cores, setup and revolution of all hosts
                     (cpu_load and cpu_s not with --one-at-a-time, on Linux)")]
pub struct JoinArgs {
    /// Tables to join
    #[arg(long, value_name = "TABLES", default_value = "even")]
    pub data: Data,
    /// Rows of each table, like 500k or 20M
    #[arg(long, value_name = "N", default_value = "5M", value_parser = units::parse_tuples)]
    pub rows: u64,
    /// Scale of TPC-H, which decides its rows
    #[arg(long, value_name = "SF", default_value = "1", value_parser = parse_scale)]
    pub scale: f64,
    /// Draw keys by Zipf's law with this exponent, from 2^20 keys [default: evenly, from as many keys
    /// as rows]
    #[arg(long, value_name = "S")]
    pub zipf: Option<f64>,
    /// How matches are found; a band is always joined by sorting
    #[arg(long, value_name = "WAY", default_value = "hash")]
    pub by: By,
    /// Numbers of hosts
    #[arg(long, value_name = "T", value_delimiter = ',', default_value = "1,2,3,4,5,6")]
    #[arg(value_parser = clap::value_parser!(u16).range(1..=1024))]
    pub hosts: Vec<u16>,
    /// Threads of each host
    #[arg(long, value_name = "N", default_value = "1", value_parser = units::parse_count)]
    pub threads: usize,
    /// How hosts are connected
    #[arg(long, value_name = "LINK", default_value = "shared")]
    pub link: Link,
    /// Let only one host work at a time
    #[arg(long)]
    pub one_at_a_time: bool,
    /// Bytes of a ring buffer
    #[arg(long, value_name = "SIZE", default_value = "1M", value_parser = parse_element)]
    pub element: u32,
    /// Buffers of each host
    #[arg(long, value_name = "N", default_value = "16", value_parser = clap::value_parser!(u32).range(3..=1 << 16))]
    pub buffers: u32,
    /// Timed runs
    #[arg(long, default_value = "3", value_name = "R", value_parser = units::parse_count)]
    pub rounds: usize,
    /// Run as host --place of a ring of processes. ADDRESS is where each host listens, in order,
    /// like 10.0.0.1:7000,10.0.0.2:7000. Connections are unencrypted TCP, for trusted networks
    /// only. Joins once and prints a line of JSON
    #[arg(long, value_name = "ADDRESS", value_delimiter = ',')]
    #[arg(requires = "place", conflicts_with_all = ["one_at_a_time", "save"])]
    pub ring: Vec<SocketAddr>,
    /// This host's place in --ring, from 0
    #[arg(long, value_name = "N", requires = "ring")]
    pub place: Option<u16>,
    /// Only write both tables into this folder as Arrow files, for other programs to join
    #[arg(long, value_name = "DIR")]
    pub save: Option<PathBuf>,
    /// Print one JSON object a line instead of a table
    #[arg(long)]
    pub json: bool,
}

/// The tables that are joined.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Data {
    /// Tuples of 12 bytes, on equal keys
    Even,
    /// Orders and lineitem of TPC-H
    Tpch,
    /// Tuples of 12 bytes, within a band
    Band,
}

/// A way to find matching rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum By {
    /// A hash join
    Hash,
    /// A sort-merge join
    Sort,
}

/// A way to connect neighbours.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Link {
    /// Handing over buffers in shared memory
    Shared,
    /// TCP
    Tcp,
    /// TLS over TCP
    Tls,
}

fn parse_scale(text: &str) -> Result<f64, String> {
    match text.parse() {
        Ok(scale) if (0.001..=100.0).contains(&scale) => Ok(scale),
        _ => Err(format!("invalid scale '{text}': expected 0.001 to 100")),
    }
}
