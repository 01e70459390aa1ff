//! The command line of `annulus bench join`.

use clap::Args;

use crate::{roundabout::parse_element, units};

/// What is measured, and how often.
#[derive(Args, Clone, Debug)]
#[command(after_help = "Examples:
  annulus bench join
  annulus bench join --rows 5M --hosts 1,2,4,6 --threads 1
  annulus bench join --rows 500k --zipf 0.9 --hosts 1,6 --json

Two tables of 12-byte tuples (a key of 4 bytes, a number of 8), half of it on each host, are joined on equal keys around a ring of \
hosts, as in Frey, Goncalves, Kersten and Teubner, A Spinning Join That Does Not Get Dizzy (figures 7 and 9). Hosts are threads \
of this process which hand over buffers in shared memory; they prepare one after the other, so that their times do not depend on \
each other. What comes out is counted and its numbers are summed, and compared with an independent answer.

Columns of --json, medians of the rounds:
  hosts, rows, threads, zipf
  matches       rows of the result
  setup_s       seconds of the host that took longest to prepare its part
  join_s        seconds of the revolution
  waiting_share time that hosts waited for data, by the time of the revolution, on average
  waiting_first_share, waiting_last_share
                of that, until the first fragment of another host had come, and when a host had joined all its own ones
  total_s       setup_s + join_s
  host_mb       most bytes that a host's part of the tables has, in units of 1024 x 1024")]
pub struct JoinArgs {
    /// Rows of each table, like 500k or 20M
    #[arg(long, value_name = "N", default_value = "5M", value_parser = units::parse_tuples)]
    pub rows: u64,
    /// Numbers of hosts
    #[arg(long, value_name = "T", value_delimiter = ',', default_value = "1,2,3,4,5,6", value_parser = clap::value_parser!(u16).range(1..=1024))]
    pub hosts: Vec<u16>,
    /// Threads that join on each host
    #[arg(long, value_name = "N", default_value = "1", value_parser = units::parse_count)]
    pub threads: usize,
    /// Keys by Zipf's law with this exponent, over 2^20 keys [default: even, over as many keys as rows]
    #[arg(long, value_name = "S")]
    pub zipf: Option<f64>,
    /// Bytes of a ring's buffer
    #[arg(long, value_name = "SIZE", default_value = "1M", value_parser = parse_element)]
    pub element: u32,
    /// Timed runs
    #[arg(long, default_value = "3", value_name = "R", value_parser = units::parse_count)]
    pub rounds: usize,
    /// Print one JSON object a line instead of a table
    #[arg(long)]
    pub json: bool,
}
