//! The cost model of a join on equal keys, by hash and by merge. Pure; `DESIGN.md` has the source of
//! the constants.
//!
//! Both algorithms prepare each side once, and then join every fragment on each host (sections IV.D
//! and V.E of the paper). With T hosts, S rows of the build side in P parts, R rows of the probe
//! side of B bytes, and C threads, one host takes
//!
//! ```text
//! setup    (S/T * build + R/T * prepare) / C
//! join     max(P * R * probe / C,  P * (T-1)/T * B * send)
//!
//!          by hash                             by merge
//! build    hash, cluster and insert a row      sort it
//! prepare  hash and cluster a row              sort it
//! probe    look it up                          move on to its key
//! ```
//! Preparation shrinks with the ring and joining does not. So in a ring that is large enough, the
//! algorithm that probes faster costs less, whatever its preparation costs. The link limits both: a
//! join that is faster than the link waits for it (section V.F).
//!
//! Some terms of a row depend on the sizes:
//!
//! ```text
//! probe = hit + min((r - 1) * load, miss)    r = rows of a host's part / rows of a wave, at least 1
//! sort  = ordered                            rows that are sorted already are checked and copied
//!         local + max(log2(n / 65536), 0) * far                                 n rows, keys of bytes
//!         local, or far beyond 65536 rows                                       n rows, numbers
//! ```
//! A key filter that drops the share d in each revolution leaves R (1 - d) rows and the same
//! share of the bytes to join, and P R (1 - d) rows to prepare.
//!
//! A wave is what a host prepares together: its rows are clustered, or sorted, so its fragments
//! pass the build side once. A large part is loaded into the caches for few rows of a wave each
//! time. By merge that costs less, since it is read in order.

use crate::cost::SEND_NS;

/// The sizes on which the cost of an algorithm depends. Rows and bytes are those of all hosts
/// together.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct AlgorithmSizes {
    /// The number of hosts.
    pub hosts: u64,
    /// The number of parts of the build side, each of which takes a revolution.
    pub revolutions: u64,
    /// The threads of each host.
    pub threads: u64,
    /// The rows of the build side.
    pub build_rows: u64,
    /// The rows of the probe side.
    pub probe_rows: u64,
    /// The bytes of these rows.
    pub probe_bytes: u64,
    /// The bytes of rows of the probe side that a host prepares together.
    pub wave_bytes: u64,
    /// The nanoseconds to send a byte to the next host: 0 in shared memory.
    pub send_ns: f64,
    /// The share of the probe side's rows that a key filter drops in each revolution, if there is
    /// one.
    pub dropped: Option<f64>,
    /// The form of the keys.
    pub keys: KeyForm,
    /// Whether the rows of the build side are sorted by the keys already.
    pub build_sorted: bool,
    /// Whether the rows of the probe side are sorted by the keys already.
    pub probe_sorted: bool,
}

/// The form in which a merge join sorts and compares equal keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KeyForm {
    /// Numbers of up to 16 bytes.
    Numbers,
    /// Bytes: strings, nested types, several columns of more than 16 bytes together, and nulls that
    /// match.
    Bytes,
}

/// The expected costs of both algorithms.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct AlgorithmCosts {
    /// The cost of the hash join.
    pub hash: AlgorithmCost,
    /// The cost of the merge join.
    pub merge: AlgorithmCost,
}

/// The least share of the hash join's time that a merge join must save to be preferred. A smaller
/// lead is within the error of the model.
const LEAD: f64 = 0.1;
/// The least time that it must save, in nanoseconds: less does not matter beside the steps of a
/// join.
const LEAST_LEAD_NS: f64 = 1e5;

impl AlgorithmCosts {
    /// Returns whether a merge join is expected to be faster than a hash join, by more than a tenth
    /// of that one's time and 0.1 ms.
    pub fn prefer_merge(&self) -> bool {
        let hash = self.hash.total_ns();
        hash - self.merge.total_ns() > (LEAD * hash).max(LEAST_LEAD_NS)
    }
}

/// The expected time of one host, in nanoseconds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct AlgorithmCost {
    /// The time to prepare both sides.
    pub setup_ns: f64,
    /// The time to join all fragments, or to receive them if that takes longer.
    pub join_ns: f64,
}

impl AlgorithmCost {
    /// Returns the time of the whole join.
    pub fn total_ns(&self) -> f64 {
        self.setup_ns + self.join_ns
    }
}

/// Nanoseconds a row of one algorithm.
struct Terms {
    build: f64,
    prepare: f64,
    /// To probe with a row if the build side's rows are in the caches.
    hit: f64,
    /// To load a row of the build side into the caches.
    load: f64,
}

/// The most nanoseconds that loading adds to probing with a row.
const MISS_NS: f64 = 45.0;
/// The rows whose keys a host sorts within its own caches.
const LOCAL_ROWS: f64 = 65536.0;

impl AlgorithmSizes {
    /// The nanoseconds to send a byte over a network of 1 GB/s: about that of the paper, and of TLS
    /// with one connection.
    pub const NETWORK_SEND_NS: f64 = SEND_NS;

    /// Returns the expected costs of both algorithms.
    pub fn costs(&self) -> AlgorithmCosts {
        let (hosts, parts) = (self.hosts.max(1) as f64, self.revolutions.max(1) as f64);
        let part_rows = self.build_rows as f64 / hosts / parts;
        let own_rows = self.probe_rows as f64 * self.passing() / hosts;
        let row_bytes = (self.probe_bytes as f64 / self.probe_rows.max(1) as f64).max(1.0);
        let wave_rows = own_rows.min(self.wave_bytes as f64 / row_bytes);
        let (hash, merge) = match self.keys {
            KeyForm::Numbers => ((9.0, 5.0, 7.0, 4.7), (9.3, 1.25)),
            KeyForm::Bytes => ((45.0, 39.0, 18.0, 6.0), (31.0, 12.0)),
        };
        let hash = Terms { build: hash.0, prepare: hash.1, hit: hash.2, load: hash.3 };
        let merge = Terms {
            build: self.keys.sort_ns(part_rows, self.build_sorted),
            prepare: self.keys.sort_ns(wave_rows, self.probe_sorted),
            hit: merge.0,
            load: merge.1,
        };
        let cost = |terms: Terms| self.cost(&terms, part_rows / wave_rows.max(1.0));
        AlgorithmCosts { hash: cost(hash), merge: cost(merge) }
    }

    fn cost(&self, terms: &Terms, rows_for_each: f64) -> AlgorithmCost {
        let (hosts, parts) = (self.hosts.max(1) as f64, self.revolutions.max(1) as f64);
        let (threads, probe_rows) = (self.threads.max(1) as f64, self.probe_rows as f64 * self.passing());
        let prepared = if self.dropped.is_some() { parts * probe_rows } else { probe_rows };
        let setup = self.build_rows as f64 * terms.build + prepared * terms.prepare;
        let probe = terms.hit + ((rows_for_each - 1.0).max(0.0) * terms.load).min(MISS_NS);
        let receive = (1.0 - 1.0 / hosts) * self.probe_bytes as f64 * self.passing() * self.send_ns;
        AlgorithmCost {
            setup_ns: setup / hosts / threads,
            join_ns: parts * (probe_rows * probe / threads).max(receive),
        }
    }

    /// Returns the share of the probe side's rows that rotate in each revolution.
    fn passing(&self) -> f64 {
        1.0 - self.dropped.unwrap_or(0.0)
    }
}

impl KeyForm {
    /// Returns the nanoseconds to sort each of `rows` rows.
    fn sort_ns(self, rows: f64, sorted: bool) -> f64 {
        let (ordered, local, far) = match self {
            Self::Numbers => (5.0, 20.0, 25.0),
            Self::Bytes => (36.0, 130.0, 90.0),
        };
        let doublings = (rows.max(1.0) / LOCAL_ROWS).log2().max(0.0);
        match self {
            _ if sorted => ordered,
            Self::Numbers => local + doublings.min(1.0) * far,
            Self::Bytes => local + doublings * far,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The paper's scaling: each host adds the same rows, of a table that is larger than the
    /// caches.
    fn ring(hosts: u64) -> AlgorithmSizes {
        AlgorithmSizes {
            hosts,
            revolutions: 1,
            threads: 4,
            build_rows: hosts * (4 << 20),
            probe_rows: hosts * (4 << 20),
            probe_bytes: hosts * (4 << 20) * 32,
            wave_bytes: 32 << 20,
            send_ns: 0.0,
            dropped: None,
            keys: KeyForm::Numbers,
            build_sorted: false,
            probe_sorted: false,
        }
    }

    fn merges(sizes: AlgorithmSizes) -> bool {
        sizes.costs().prefer_merge()
    }

    /// Section V.E: the larger the ring, the better the higher setup cost pays off.
    #[test]
    fn merge_overtakes_hash_once_as_the_ring_grows() {
        let lead = |hosts| {
            let AlgorithmCosts { hash, merge } = ring(hosts).costs();
            hash.total_ns() - merge.total_ns()
        };
        assert!((1..64).all(|hosts| lead(hosts + 1) > lead(hosts)));
        let first = (1..64).find(|&hosts| lead(hosts) > 0.0).unwrap();
        assert!((4..30).contains(&first), "from {first} hosts on");
        assert!(lead(first - 1) <= 0.0);
        // The setup of a host stays as it is, and its join grows with the rows.
        let (small, large) = (ring(2).costs().merge, ring(8).costs().merge);
        assert_eq!((small.setup_ns, small.join_ns * 4.0), (large.setup_ns, large.join_ns));
    }

    /// Figure 7: the same rows on more hosts.
    #[test]
    fn setup_shrinks_with_the_ring_and_no_cost_grows() {
        for keys in [KeyForm::Numbers, KeyForm::Bytes] {
            for (build_rows, probe_rows) in [(100, 100), (1 << 26, 1 << 20), (1 << 20, 1 << 26)] {
                let rows = AlgorithmSizes { build_rows, probe_rows, probe_bytes: probe_rows * 32, keys, ..ring(1) };
                let costs = |hosts| AlgorithmSizes { hosts, ..rows }.costs();
                for hosts in 1..64 {
                    let (few, more) = (costs(hosts), costs(hosts + 1));
                    for (few, more) in [(few.hash, more.hash), (few.merge, more.merge)] {
                        assert!(more.setup_ns < few.setup_ns);
                        assert!(more.join_ns <= few.join_ns * (1.0 + 1e-9), "{hosts} hosts: {few:?}, {more:?}");
                    }
                }
            }
        }
    }

    #[test]
    fn sorted_sides_cost_no_sort() {
        let sides = |build_sorted, probe_sorted| AlgorithmSizes { build_sorted, probe_sorted, ..ring(2) };
        let setup = |build, probe| sides(build, probe).costs().merge.setup_ns;
        assert!(setup(true, false) < setup(false, false) && setup(true, true) < setup(true, false) / 4.0);
        assert_eq!(sides(true, true).costs().hash, sides(false, false).costs().hash);
        // In every ring, where a sort costs too much in a small one.
        assert!(!merges(sides(false, false)));
        assert!((1..64).all(|hosts| merges(AlgorithmSizes { build_sorted: true, probe_sorted: true, ..ring(hosts) })));
    }

    #[test]
    fn bytes_are_sorted_by_comparisons_which_never_pay() {
        assert!(!(1..=64).any(|hosts| merges(AlgorithmSizes { keys: KeyForm::Bytes, ..ring(hosts) })));
    }

    #[test]
    fn tables_in_the_caches_are_hashed() {
        let small = |hosts| AlgorithmSizes { build_rows: 10_000, ..ring(hosts) };
        assert!(!(1..=64).any(|hosts| merges(small(hosts))));
    }

    #[test]
    fn a_link_that_is_the_bottleneck_leaves_the_setup_to_decide() {
        let slow = |hosts| AlgorithmSizes { send_ns: AlgorithmSizes::NETWORK_SEND_NS, ..ring(hosts) };
        assert!(merges(ring(30)) && !merges(slow(30)));
        let AlgorithmCosts { hash, merge } = slow(30).costs();
        assert_eq!(hash.join_ns, merge.join_ns);
    }

    /// Sorting the build side does not pay for few rows of the probe side.
    #[test]
    fn rows_that_a_filter_drops_do_not_count() {
        let filtered = |dropped, revolutions| AlgorithmSizes { dropped: Some(dropped), revolutions, ..ring(30) };
        assert!(merges(ring(30)) && merges(filtered(0.0, 1)) && !merges(filtered(0.95, 1)));
        let join_ns = |sizes: AlgorithmSizes| sizes.costs().hash.join_ns;
        assert!(join_ns(filtered(0.5, 1)) < 0.8 * join_ns(ring(30)));
        // What is left is prepared in each of four revolutions.
        let setup_ns = |sizes: AlgorithmSizes| sizes.costs().hash.setup_ns;
        assert_eq!(setup_ns(filtered(0.75, 4)), setup_ns(ring(30)));
    }

    #[test]
    fn no_rows_cost_nothing_and_few_are_hashed() {
        let nothing = AlgorithmSizes { build_rows: 0, probe_rows: 0, probe_bytes: 0, ..ring(3) };
        let AlgorithmCosts { hash, merge } = nothing.costs();
        assert_eq!((hash.total_ns(), merge.total_ns()), (0.0, 0.0));
        assert!(!merges(nothing));
        let one = AlgorithmSizes { build_rows: 1, probe_rows: 1, probe_bytes: 8, hosts: 0, threads: 0, ..ring(1) };
        assert!(!merges(one));
        // However the sizes relate to each other.
        for build_rows in [1, 10, 100] {
            let sorted = AlgorithmSizes { build_rows, build_sorted: true, probe_sorted: true, ..one };
            assert!(!merges(sorted), "{build_rows}");
        }
    }
}
