//! Numbers from the thesis's text. Charts without a number in the text are left out.

/// The machine (section 4.1).
pub(super) const MACHINE: &str =
    "Intel Core i9-7900X, 10 cores with 2 threads each, 125 GiB of DDR4-2666, GCC 13.3 with -O2 -march=native -flto";
/// The most threads of the figures of throughput: "20 logical processors" (section 4.2.2).
pub(super) const THREADS: u64 = 20;

/// Variants that the text compares.
#[derive(Clone, Copy, Debug)]
pub(super) struct Group {
    pub(super) name: &'static str,
    pub(super) variants: &'static [&'static str],
}

const LOCAL: Group = Group { name: "LocalPagesAndMerge", variants: &["LocalPagesAndMerge"] };
const SMB_BATCHED: Group = Group { name: "SmbBatched", variants: &["SmbBatched"] };
const SMB_LOCK_FREE: Group = Group { name: "SmbLockFree", variants: &["SmbLockFree"] };
const HYBRID: Group = Group { name: "Hybrid", variants: &["Hybrid"] };
const RADIX: Group = Group { name: "Radix", variants: &["Radix"] };
const UNITS: Group = Group { name: "CmpProcessingUnits", variants: &["CmpProcessingUnits"] };
const ON_DEMAND: Group = Group { name: "OnDemand", variants: &["OnDemand"] };
const OTHER_SMB: Group = Group { name: "the other Smb", variants: &["Smb", "SmbBatched", "SmbLockFreeBatched"] };
const ALL_SMB: Group = Group { name: "all Smb", variants: ALL.split_at(6).1 };
const BEST_SMB: Group = Group { name: "Smb, SmbBatched, SmbLockFreeBatched", ..OTHER_SMB };
const NO_SMB: Group = Group { name: "the fastest other", variants: ALL.split_at(6).0 };
const NOT_ON_DEMAND: Group = Group { name: "the others", variants: ALL.split_at(1).1 };

/// The variants that the text compares: OnDemand first, and those with small buffers last.
const ALL: &[&str] = &[
    "OnDemand",
    "LocalPagesAndMerge",
    "Hybrid",
    "Radix",
    "CmpExclusivePartitionRanges",
    "CmpProcessingUnits",
    "Smb",
    "SmbBatched",
    "SmbLockFree",
    "SmbLockFreeBatched",
];

/// The quantities to compare.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Quantity {
    /// Tuples per second. The others are the fastest of them.
    Throughput,
    /// A processor event, by the name of its counter.
    Event(&'static str),
    /// Instructions per cycle.
    InstructionsPerCycle,
}

/// A number that the text has for variants divided by others, with all threads.
#[derive(Clone, Copy, Debug)]
pub(super) struct Claim {
    /// The figure that it explains.
    pub(super) figure: &'static str,
    pub(super) partitions: &'static [usize],
    pub(super) quantity: Quantity,
    pub(super) of: Group,
    pub(super) others: Group,
    pub(super) published: &'static str,
}

const fn claim(
    (figure, partitions): (&'static str, &'static [usize]),
    quantity: Quantity,
    (of, others): (Group, Group),
    published: &'static str,
) -> Claim {
    Claim { figure, partitions, quantity, of, others, published }
}

const BRANCHES: Quantity = Quantity::Event("branch_misses");
const L1: Quantity = Quantity::Event("l1_misses");
const LLC: Quantity = Quantity::Event("llc_misses");
const TLB: Quantity = Quantity::Event("tlb_misses");
const FEW: (&str, &[usize]) = ("4.1", &[2, 4]);
const SMALL: (&str, &[usize]) = ("4.3", &[32, 1024]);
const MEDIUM: (&str, &[usize]) = ("4.4", &[32, 1024]);
const LARGE: (&str, &[usize]) = ("4.5", &[32, 1024]);

/// All such numbers of section 4.2.2. Where the text does not name the number of partitions, both
/// are meant.
pub(super) const CLAIMS: [Claim; 15] = [
    claim(FEW, BRANCHES, (SMB_LOCK_FREE, OTHER_SMB), "1 to 3"),
    claim(FEW, Quantity::Event("instructions"), (SMB_LOCK_FREE, OTHER_SMB), "1 to 4"),
    claim(FEW, L1, (SMB_LOCK_FREE, OTHER_SMB), "1 to 2"),
    claim(("4.3", &[32]), BRANCHES, (RADIX, HYBRID), "0.5"),
    claim(("4.3", &[1024]), Quantity::InstructionsPerCycle, (HYBRID, RADIX), "1.2"),
    claim(("4.3", &[1024]), BRANCHES, (UNITS, BEST_SMB), "up to 100"),
    claim(SMALL, TLB, (ON_DEMAND, NOT_ON_DEMAND), "up to 100"),
    claim(SMALL, BRANCHES, (SMB_LOCK_FREE, OTHER_SMB), "up to 3"),
    claim(SMALL, LLC, (SMB_LOCK_FREE, OTHER_SMB), "up to 3"),
    claim(("4.4", &[1024]), Quantity::Throughput, (ALL_SMB, NO_SMB), "about 1.5"),
    claim(MEDIUM, L1, (RADIX, HYBRID), "about 1.5"),
    claim(MEDIUM, LLC, (RADIX, HYBRID), "about 1.5"),
    claim(("4.5", &[32]), TLB, (LOCAL, SMB_BATCHED), "up to 2"),
    claim(LARGE, LLC, (HYBRID, SMB_BATCHED), "3"),
    claim(LARGE, BRANCHES, (UNITS, SMB_BATCHED), "up to 20"),
];

/// The memory with which many partitions begin.
#[derive(Clone, Copy, Debug)]
pub(super) struct FirstPages {
    /// The figure before which it is stated.
    pub(super) figure: &'static str,
    pub(super) partitions: usize,
    /// With a page for each partition.
    pub(super) shared_gib: f64,
    /// With a page for each partition and thread.
    pub(super) local_gib: f64,
}

/// The memory of pages of 5 MiB, and 20 threads (section 4.2.2).
pub(super) const FIRST_PAGES: FirstPages =
    FirstPages { figure: "4.3", partitions: 1024, shared_gib: 5.0, local_gib: 100.0 };

/// The threads of figure 4.6.
pub(super) const MEMORY_THREADS: usize = 40;
/// The memory that 67.2 million tuples of 16 bytes take on pages of 32 partitions, in GiB (figure
/// 4.6).
pub(super) const ON_PAGES_GIB: f64 = 1.46;
/// The memory beyond that of Radix, which keeps all tuples, in GiB (figure 4.6).
pub(super) const MATERIALISED_GIB: f64 = 1.0;
/// The most memory beyond that of LocalPagesAndMerge, in GiB, by formula 4.2: a page of 5 MiB for
/// each of 32 partitions and 40 threads. The text calls it "several GiB".
pub(super) const LOCAL_PAGES_GIB: f64 = 6.25;

/// The fastest variant, which section 4.3 compares with Flink.
pub(super) const AGAINST_FLINK: &str = "SmbLockFreeBatched";
/// Its memory in words, divided by Flink's, for all sizes (section 4.3).
pub(super) const MEMORY_OF_FLINK: &str = "one-third";
