//! The parameters that no public source gives, which are fitted, and those that are assumed.

use serde::Serialize;

/// A parameter as a report shows it.
#[derive(Clone, Debug, Serialize)]
pub struct Parameter {
    /// The name.
    pub name: String,
    /// The value.
    pub value: f64,
    /// The unit of the value.
    pub unit: &'static str,
    /// Whether the value was fitted to published cells.
    pub fitted: bool,
    /// The source of the value.
    pub source: &'static str,
}

/// The number of fitted parameters.
pub const FITTED: usize = 10;

/// The fitted parameters. They are the same on every machine, except [`Self::smt_cycles`], which
/// only the EPYC has.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct FittedParameters {
    /// Cycles to produce a row: make it, hash it twice, place its number.
    pub row_cycles: f64,
    /// Cycles to read a byte of a row: its checksum is computed byte by byte.
    pub byte_cycles: f64,
    /// Cycles a ns of a hardware thread of the EPYC.
    pub smt_cycles: f64,
    /// Bytes of checksum work over which a core overlaps the loads of rows.
    pub overlap_bytes: f64,
    /// A line from memory, in ns.
    pub memory_ns: f64,
    /// A line of a batch that comes from another domain, in lines that come from there while
    /// nothing else moves.
    pub load: f64,
    /// A wake-up: this for the thread that wakes, and as much for the core that switches, in ns.
    pub wake_ns: f64,
    /// Each further thread that one call wakes, in wake-ups.
    pub broadcast: f64,
    /// The part of mapping a fresh page of 4 KiB that threads do one after the other, in ns.
    pub map_ns: f64,
    /// One thread's time to give a page of 4 KiB back, in ns.
    pub release_ns: f64,
}

/// What is known of a fitted parameter before the fit.
#[derive(Clone, Copy, Debug)]
pub struct Bounds {
    /// The name that reports show.
    pub name: &'static str,
    /// The unit of the value.
    pub unit: &'static str,
    /// The least value that is tried.
    pub least: f64,
    /// The largest value that is tried.
    pub most: f64,
}

/// The bounds of the fitted parameters, in the order of [`FittedParameters::values`].
pub const BOUNDS: [Bounds; FITTED] = [
    Bounds { name: "work to produce a row", unit: "cycles", least: 5.0, most: 400.0 },
    Bounds { name: "work to read a byte", unit: "cycles", least: 1.0, most: 20.0 },
    Bounds { name: "speed of an EPYC hardware thread", unit: "GHz", least: 0.5, most: 3.6 },
    Bounds { name: "overlap of loads", unit: "bytes", least: 4.0, most: 512.0 },
    Bounds { name: "line from memory", unit: "ns", least: 80.0, most: 600.0 },
    Bounds { name: "line from another domain under load", unit: "unloaded lines", least: 1.0, most: 8.0 },
    Bounds { name: "wake-up", unit: "ns", least: 200.0, most: 10_000.0 },
    Bounds { name: "further thread that one call wakes", unit: "wake-ups", least: 0.02, most: 1.0 },
    Bounds { name: "map a page, serial part", unit: "ns", least: 1.0, most: 500.0 },
    Bounds { name: "release a page", unit: "ns", least: 20.0, most: 2000.0 },
];

impl FittedParameters {
    /// Where the fit starts: round numbers, chosen before anything was fitted.
    pub const START: Self = Self {
        row_cycles: 60.0,
        byte_cycles: 7.0,
        smt_cycles: 2.0,
        overlap_bytes: 24.0,
        memory_ns: 200.0,
        load: 2.0,
        wake_ns: 2000.0,
        broadcast: 0.25,
        map_ns: 40.0,
        release_ns: 300.0,
    };

    /// The result of the fit: what [`fit`](crate::fit()) returns from [`Self::START`] with the seed
    /// 1.
    pub const STORED: Self = Self {
        row_cycles: 84.085_209_598_387_4,
        byte_cycles: 5.227_825_285_029_964,
        smt_cycles: 1.172_599_052_469_745_2,
        overlap_bytes: 23.183_186_504_393_348,
        memory_ns: 352.957_211_687_814_5,
        load: 2.127_847_648_336_584,
        wake_ns: 1_761.989_733_491_047_7,
        broadcast: 0.124_362_677_792_348_75,
        map_ns: 19.416_180_931_261_34,
        release_ns: 291.674_582_937_635_6,
    };

    /// Returns the values, in the order of [`BOUNDS`].
    pub fn values(&self) -> [f64; FITTED] {
        [
            self.row_cycles,
            self.byte_cycles,
            self.smt_cycles,
            self.overlap_bytes,
            self.memory_ns,
            self.load,
            self.wake_ns,
            self.broadcast,
            self.map_ns,
            self.release_ns,
        ]
    }

    /// Returns the parameters with these values, in the order of [`BOUNDS`].
    pub fn from_values(values: [f64; FITTED]) -> Self {
        let [row_cycles, byte_cycles, smt_cycles, rest @ ..] = values;
        let [overlap_bytes, memory_ns, load, wake_ns, broadcast, map_ns, release_ns] = rest;
        Self {
            row_cycles,
            byte_cycles,
            smt_cycles,
            overlap_bytes,
            memory_ns,
            load,
            wake_ns,
            broadcast,
            map_ns,
            release_ns,
        }
    }

    /// Returns the parameters as a report shows them.
    pub fn parameters(&self) -> Vec<Parameter> {
        let source = "fitted to the fitted half of tables 2 and 3";
        let pairs = BOUNDS.iter().zip(self.values());
        pairs
            .map(|(bounds, value)| Parameter {
                name: bounds.name.to_owned(),
                value,
                unit: bounds.unit,
                fitted: true,
                source,
            })
            .collect()
    }
}

/// Dependent loads before a visit reaches the first row: the slot, the batch, its index.
pub const HEADER_LINES: f64 = 3.0;
/// Lines in flight while a thread reads memory from front to back.
pub const STREAM_OVERLAP: f64 = 8.0;
/// Cycles to copy a row into a reserved range.
pub const COPY_CYCLES: f64 = 10.0;
/// A line that the core already has, in ns.
pub const OWN_NS: f64 = 1.0;
/// Bytes of memory traffic for each byte of a batch.
pub const TRAFFIC: f64 = 7.0;
/// The time that a thread runs while another one waits for its core.
pub const SLICE_NS: f64 = 3e6;
/// The spread of the time to produce a batch: it is between 1 - x and 1 + x of the mean.
pub const JITTER: f64 = 0.05;

/// Returns what is neither measured nor fitted.
pub fn assumptions() -> Vec<Parameter> {
    let fact =
        |name: &str, value, unit, source| Parameter { name: name.to_owned(), value, unit, fitted: false, source };
    let artifact = "the paper's artifact (redpanda-data/ring_shuffle): what its loops load";
    let own = "assumed: no published cell depends on it";
    vec![
        fact("dependent lines of a visit", HEADER_LINES, "lines", artifact),
        fact("lines in flight, sequential reads", STREAM_OVERLAP, "lines", own),
        fact("work to copy a row (reserve)", COPY_CYCLES, "cycles", own),
        fact("a line that the core has", OWN_NS, "ns", "assumed: no fit is sensitive to it"),
        fact(
            "memory traffic for a byte of a batch",
            TRAFFIC,
            "bytes",
            "the paper's artifact: two passes write (and fetch what they write), three read",
        ),
        fact("time slice of a thread", SLICE_NS / 1e6, "ms", "Linux, kernel/sched/fair.c: base slice, 8 cores or more"),
        fact("spread of a batch's production", JITTER, "of the mean", "assumed: it keeps threads out of step"),
    ]
}
