//! The command line of `annulus bench join`.

use std::{net::SocketAddr, path::PathBuf};

use annulus_terminal::units;
use clap::{Args, ValueEnum};

use crate::roundabout::parse_element;

/// What is measured, and how often.
#[derive(Args, Clone, Debug)]
#[command(after_help = "Examples:
  annulus bench join
  annulus bench join --rows 20M --hosts 1,2,3,6 --one-at-a-time
  annulus bench join --rows 500k --zipf 0.9 --hosts 1,6 --json
  annulus bench join --data band --rows 1M --hosts 1 --threads 2
  annulus bench join --data tpch --scale 1 --save tables

Two tables are joined around a ring of hosts, an equal part of both on each, as in Frey, Goncalves, Kersten and Teubner, A \
Spinning Join That Does Not Get Dizzy. Hosts are threads of this process. They prepare one after the other, so that these times \
do not depend on each other, and then turn together, sharing the cores; with --one-at-a-time each host joins while no other \
does, and gets the others' fragments from a second thread, as if it had the machine for itself. What comes out is counted and \
its numbers are summed, and compared with an independent answer.

Tables of --data:
  even   12 bytes a row: a key of 4, even over as many keys as rows or by --zipf, and a number of 8
  tpch   orders (which stay) and lineitem, by order key, with the number of the customer and of the part
  band   as even; joined where right.key is from left.key to left.key + 9: ten matches of each row

Columns of --json, medians of the rounds; those of hosts are of the one that has most:
  data, by, link, hosts, threads, buffers, zipf, one_at_a_time
  rows, probe_rows   of the table that stays, and of the one that goes around
  matches, sum       rows of the result, and the sum of all their numbers
  setup_s            seconds to prepare a host's part of both tables
  setup_cpu_s        of them those on a core, the least of the rounds: other work on the machine weighs less on it
                     (--one-at-a-time --threads 1, on Linux)
  join_s             seconds of the revolution
  waiting_share      time that hosts waited for data, by the time of the revolution, on average
  waiting_first_share, waiting_last_share
                     of that, until the first fragment of another host had come, and when a host had joined all its own ones
  total_s            setup_s + join_s
  host_probed        rows that came by a host, whatever the machine
  host_compared      pairs of rows that it compared: those in one bucket, or in the band; with host_probed the work of a host
  host_mb            memory of a host: its part prepared, tables and ring buffers; units of 1024 x 1024
  peak_mb            most memory taken while a host prepared, its input not included (--one-at-a-time, on Linux)
  cpu_load           time on cores during the revolution, by what all cores have
  cpu_s              seconds on cores, of setup and revolution of all hosts (both not with --one-at-a-time, on Linux)")]
pub struct JoinArgs {
    /// What is joined
    #[arg(long, value_name = "TABLES", default_value = "even")]
    pub data: Data,
    /// Rows of each table, like 500k or 20M
    #[arg(long, value_name = "N", default_value = "5M", value_parser = units::parse_tuples)]
    pub rows: u64,
    /// Scale of TPC-H, instead of rows
    #[arg(long, value_name = "SF", default_value = "1", value_parser = parse_scale)]
    pub scale: f64,
    /// Keys by Zipf's law with this exponent, over 2^20 keys [default: even, over as many keys as
    /// rows]
    #[arg(long, value_name = "S")]
    pub zipf: Option<f64>,
    /// How rows are found; a band always by sorting
    #[arg(long, value_name = "WAY", default_value = "hash")]
    pub by: By,
    /// Numbers of hosts
    #[arg(long, value_name = "T", value_delimiter = ',', default_value = "1,2,3,4,5,6", value_parser = clap::value_parser!(u16).range(1..=1024))]
    pub hosts: Vec<u16>,
    /// Threads that join on each host
    #[arg(long, value_name = "N", default_value = "1", value_parser = units::parse_count)]
    pub threads: usize,
    /// How hosts are connected
    #[arg(long, value_name = "LINK", default_value = "shared")]
    pub link: Link,
    /// Let one host work at a time
    #[arg(long)]
    pub one_at_a_time: bool,
    /// Bytes of a ring's buffer
    #[arg(long, value_name = "SIZE", default_value = "1M", value_parser = parse_element)]
    pub element: u32,
    /// Buffers of each host
    #[arg(long, value_name = "N", default_value = "16", value_parser = clap::value_parser!(u32).range(3..=1 << 16))]
    pub buffers: u32,
    /// Timed runs
    #[arg(long, default_value = "3", value_name = "R", value_parser = units::parse_count)]
    pub rounds: usize,
    /// Be one host of a ring of processes, the one at --place: where all its hosts listen, in
    /// order, like 10.0.0.1:7000,10.0.0.2:7000. Connected by TCP in the clear, so for networks
    /// of your own; joins once and prints a line of JSON
    #[arg(long, value_name = "ADDRESS", value_delimiter = ',', requires = "place", conflicts_with_all = ["one_at_a_time", "save"])]
    pub ring: Vec<SocketAddr>,
    /// Which host of --ring this is, from 0
    #[arg(long, value_name = "N", requires = "ring")]
    pub place: Option<u16>,
    /// Only write both tables into this folder as Arrow files, for others to join
    #[arg(long, value_name = "DIR")]
    pub save: Option<PathBuf>,
    /// Print one JSON object a line instead of a table
    #[arg(long)]
    pub json: bool,
}

/// What is joined.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Data {
    /// Tuples of 12 bytes, on equal keys
    Even,
    /// Orders and lineitem of TPC-H
    Tpch,
    /// Tuples of 12 bytes, within a band
    Band,
}

/// How the rows are found that match.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum By {
    /// A hash join
    Hash,
    /// A sort-merge join
    Sort,
}

/// How neighbours are connected.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Link {
    /// Buffers in shared memory are handed over
    Shared,
    /// TCP
    Tcp,
    /// TLS over TCP
    Tls,
}

fn parse_scale(text: &str) -> Result<f64, String> {
    match text.parse() {
        Ok(scale) if (0.001..=100.0).contains(&scale) => Ok(scale),
        _ => Err(format!("'{text}' is no scale; choose 0.001 to 100")),
    }
}
