//! What the paper published, beside the tables that the simulation has.

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
