//! What the paper published, beside the tables that the simulation has.

use serde::Serialize;

use super::queries::Suite;

/// The paper's machine of figures 5 and 6, tables 1 and 2.
pub const MACHINE: &str = "AWS Graviton4, 2 sockets of 96 Neoverse V2 cores, 2 x 36 MB of L3";

/// Throughput by threads that section 4.1 gives in words: threads, and GB/s of batch, channel and
/// ring.
pub const FIGURE_5: [[&str; 4]; 3] =
    [["64", "3.49", "7.42", "10.18"], ["128", "-", "5.85", "-"], ["192", "2.94", "6.44", "11.62"]];

/// Table 1: property, batch, channel, ring.
pub const TABLE_1: [[&str; 4]; 4] = [
    ["memory", "O(|input|)", "O(N)", "O(M)"],
    ["synchronisation", "none", "O(M)", "O(1)"],
    ["latency", "barrier", "streaming", "streaming"],
    ["temporal locality of consumers", "stale", "uncorrelated", "correlated"],
];

/// A lead in figure 7.
#[derive(Clone, Copy, Debug)]
pub struct GroupsLead {
    pub machine: &'static str,
    /// The bytes of a row. The paper has kilobytes of a batch, which is 8,192 rows.
    pub row_bytes: &'static [u32],
    /// The values of K that lead.
    pub ahead: &'static [usize],
    /// Those of which the fastest is behind.
    pub behind: &'static [usize],
    /// The lead in percent of the throughput.
    pub percent: &'static str,
}

/// The leads that section 4.4 gives in words. The text does not say over which other K one group
/// leads on Grace; it is read as the fastest.
pub const FIGURE_7: [GroupsLead; 5] = [
    lead("Grace, 72 cores", &[8, 16], &[2, 3], &[1], "9 to 17"),
    lead("Grace, 72 cores", &[64, 128, 256], &[1], &[2, 3, 4], "2 to 6"),
    lead("Graviton4, 192 cores", &[32, 64], &[1], &[2], "32"),
    lead("Graviton4, 192 cores", &[256], &[1], &[2], "18"),
    lead("EPYC, 192 threads", &[64], &[2], &[1], "14"),
];

const fn lead(
    machine: &'static str,
    row_bytes: &'static [u32],
    ahead: &'static [usize],
    behind: &'static [usize],
    percent: &'static str,
) -> GroupsLead {
    GroupsLead { machine, row_bytes, ahead, behind, percent }
}

/// The threads of figure 8 and table 4.
pub const QUERY_THREADS: usize = 192;

/// A row of table 4 that sums up queries, in seconds. The ring has K = 2; its sum with K = 1 is
/// from section 4.5.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct SuiteSum {
    pub suite: Suite,
    /// The number of queries, and what they read.
    pub queries: usize,
    pub tables: &'static str,
    pub ring_s: f64,
    pub ring_k1_s: f64,
    pub channel_s: f64,
}

/// The sums of table 4.
pub const TABLE_4: [SuiteSum; 2] = [
    SuiteSum {
        suite: Suite::Tpch,
        queries: 21,
        tables: "scale factor 100",
        ring_s: 86.6,
        ring_k1_s: 83.9,
        channel_s: 92.9,
    },
    SuiteSum {
        suite: Suite::Clickbench,
        queries: 43,
        tables: "99.9 million rows",
        ring_s: 13.5,
        ring_k1_s: 13.8,
        channel_s: 9.0,
    },
];

/// A bar of figure 8 that the text names.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct QueryBar {
    pub suite: Suite,
    /// The number in the benchmark's order, from 1.
    pub query: u8,
    /// The number in the paper.
    pub named: u8,
    /// The logarithm to base 2 of the channel's time divided by the ring's.
    pub log2: f64,
}

const fn bar(suite: Suite, query: u8, log2: f64) -> QueryBar {
    QueryBar { suite, query, named: query, log2 }
}

/// The bars of figure 8 that its description and section 4.5 give. TPC-H's query 13 is 1.17 times
/// slower with the ring. The paper's query 33 of ClickBench has 90 sums, as the benchmark's query
/// 30 has.
pub const FIGURE_8: [QueryBar; 6] = [
    bar(Suite::Tpch, 2, -0.23),
    bar(Suite::Tpch, 13, -0.23),
    bar(Suite::Tpch, 22, 0.55),
    bar(Suite::Clickbench, 14, -2.07),
    bar(Suite::Clickbench, 15, 0.84),
    QueryBar { suite: Suite::Clickbench, query: 30, named: 33, log2: -2.30 },
];
