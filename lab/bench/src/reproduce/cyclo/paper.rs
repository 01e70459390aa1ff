//! Numbers from the paper's text. Bars and lines without a number in the text are left out.

/// The paper's machines (section V-A).
pub(super) const MACHINES: &str = "six blade servers with a quad-core Intel Xeon at 2.33 GHz, 4 MB of L2 cache \
    and 6 GB of memory each, 10 Gb/s Ethernet with RDMA";

/// The share of a transfer's time on cores that moves data, with TCP in the kernel: "roughly 50 %"
/// (section III-A, figure 3). Processing of protocols is "a minor role" beside it. The text has no
/// other number for that figure.
pub(super) const COPYING_PERCENT: f64 = 50.0;

/// The highest throughput of the link, in 1e9 bytes per second, reached from units of 4 kB on
/// (section III-C).
pub(super) const LINK_GB_PER_S: f64 = 1.25;

/// Setup of the hash join by hosts, in seconds: 2 x 140 million rows (section V-B, figure 7).
pub(super) const HASH_SETUP_S: [(u16, f64); 2] = [(1, 16.2), (6, 2.7)];

/// Join phase of the hash join with 19.2 GB on six hosts, in seconds (section V-E, figure 8).
pub(super) const HASH_JOIN_S: f64 = 16.2;

/// Time of the join phase on one host divided by that on six, at a Zipf exponent of 0.9 (section
/// V-D, figure 9).
pub(super) const ZIPF_FACTOR: f64 = 5.0;

/// Join phase of the sort-merge join with 19.2 GB on six hosts, in seconds, without the time that
/// hosts waited (figure 11).
pub(super) const SORT_JOIN_S: f64 = 6.4;
/// The time that hosts waited in that join phase, in seconds.
pub(super) const SORT_WAITING_S: f64 = 2.3;

/// Load of the cores, in percent, by join threads from 1 on: with TCP, and with RDMA (table I).
pub(super) const CPU_LOAD: [(f64, f64); 4] = [(31.0, 25.0), (59.0, 50.0), (84.0, 76.0), (86.0, 100.0)];
