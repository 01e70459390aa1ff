//! The cost model of key filters, and their savings. `DESIGN.md` explains it.

use annulus_join::{KeyFilter, KeyFilterKind};

/// The sizes on which the cost of key filters depends. They are those of all hosts together.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct KeyFilterSizes {
    /// The number of hosts.
    pub hosts: u64,
    /// The number of revolutions, each with a filter of its part of the build side.
    pub revolutions: u64,
    /// The rows of one part of the build side.
    pub build_rows: u64,
    /// The rows of the probe side.
    pub probe_rows: u64,
    /// The bytes of these rows.
    pub probe_bytes: u64,
    /// The expected share of these rows that have a partner in one part, from 0 to 1.
    pub with_partner: f64,
    /// The most bytes that a filter may take on each host.
    pub most_bytes: u64,
    /// The nanoseconds to send a byte to the next host: 0 in shared memory.
    pub send_ns: f64,
}

/// A key filter and its expected effect. Times are those of one host in all revolutions.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct KeyFilterChoice {
    /// The form of the filter.
    pub kind: KeyFilterKind,
    /// The bytes of the filter on each host.
    pub bytes: u64,
    /// The share of the probe side's rows that it drops in each revolution.
    pub dropped: f64,
    /// The nanoseconds that making and applying the filter takes.
    pub cost_ns: f64,
    /// The nanoseconds that it saves.
    pub saved_ns: f64,
}

/// Nanoseconds to send a byte to the next host: 1 GB/s.
pub(crate) const SEND_NS: f64 = 1.0;
/// Nanoseconds to prepare a row of the probe side.
const PREPARE_NS: f64 = 10.0;
/// Nanoseconds to probe a table with a row.
const PROBE_NS: f64 = 9.0;
/// Nanoseconds to add a key to a filter, and to test one.
const BLOOM_NS: (f64, f64) = (10.0, 14.0);
/// The same for exact filters, whose hashes are sorted.
const EXACT_NS: (f64, f64) = (49.0, 30.0);
/// The sizes of Bloom filters to choose from, in bits for each key. False positives are 2.8 % at 8
/// bits, and 0.0005 % at 48.
const BLOOM_BITS: [u32; 7] = [8, 12, 16, 20, 24, 32, 48];

impl KeyFilterSizes {
    /// Returns the filter that saves most, or `None` if each would cost more than it saves.
    pub fn best(&self) -> Option<KeyFilterChoice> {
        best(self.bloom().into_iter().chain(self.exact())).filter(|choice| choice.gain_ns() > 0.0)
    }

    /// Returns the best Bloom filter, or `None` if it would take too much memory.
    pub fn bloom(&self) -> Option<KeyFilterChoice> {
        best(BLOOM_BITS.into_iter().filter_map(|bits| self.bloom_of(bits)))
    }

    fn bloom_of(&self, bits: u32) -> Option<KeyFilterChoice> {
        let block = KeyFilter::BLOCK_BYTES as u64;
        let blocks = (u128::from(self.build_rows) * u128::from(bits)).div_ceil(8 * u128::from(block)).max(1);
        let blocks = u32::try_from(blocks).ok()?;
        let bytes = u64::from(blocks) * block;
        // Each block crosses each link once while it is made, and once when it is complete.
        let kept = KeyFilter::false_positives(bits.into());
        self.choice(KeyFilterKind::Bloom(blocks), (bytes, 2 * bytes), kept, BLOOM_NS)
    }

    /// Returns an exact filter, or `None` if it would take too much memory.
    pub fn exact(&self) -> Option<KeyFilterChoice> {
        let sent = self.build_rows.checked_mul(KeyFilter::HASH_BYTES as u64)?;
        // With a directory, and the hashes of copies of keys.
        let mut choice = self.choice(KeyFilterKind::Exact, (sent.checked_mul(2)?, sent), 0.0, EXACT_NS)?;
        // Each host sorts the hashes of all.
        choice.cost_ns += self.revolutions as f64 * EXACT_NS.0 * self.build_rows as f64 * self.others();
        Some(choice)
    }

    /// `bytes` are those of the filter on each host, and those that are sent if there are many
    /// hosts. `kept` is its share of false positives.
    fn choice(
        &self,
        kind: KeyFilterKind,
        (bytes, sent): (u64, u64),
        kept: f64,
        (add, test): (f64, f64),
    ) -> Option<KeyFilterChoice> {
        if bytes > self.most_bytes {
            return None;
        }
        let (others, hosts) = (self.others(), self.hosts.max(1) as f64);
        let (build, probe, turns) = (self.build_rows as f64, self.probe_rows as f64, self.revolutions.max(1) as f64);
        let cost_ns = turns * (others * sent as f64 * self.send_ns + build / hosts * add + probe / hosts * test);
        let dropped = (1.0 - self.with_partner) * (1.0 - kept);
        let around = others * self.probe_bytes as f64 * self.send_ns + probe * PROBE_NS;
        // Without filters rows are prepared once; with them, in each revolution those that are left.
        let prepared = 1.0 - turns * (1.0 - dropped);
        let saved_ns = turns * dropped * around + prepared * probe / hosts * PREPARE_NS;
        Some(KeyFilterChoice { kind, bytes, dropped, cost_ns, saved_ns })
    }

    /// Returns the share of the hosts that are others: that of the data that crosses each link.
    fn others(&self) -> f64 {
        1.0 - 1.0 / self.hosts.max(1) as f64
    }
}

impl KeyFilterChoice {
    /// Returns the nanoseconds that are saved in all.
    fn gain_ns(&self) -> f64 {
        self.saved_ns - self.cost_ns
    }
}

fn best(choices: impl Iterator<Item = KeyFilterChoice>) -> Option<KeyFilterChoice> {
    choices.max_by(|a, b| a.gain_ns().total_cmp(&b.gain_ns()))
}

#[cfg(test)]
mod tests {
    use super::*;

    const SIZES: KeyFilterSizes = KeyFilterSizes {
        hosts: 3,
        revolutions: 1,
        build_rows: 105_000,
        probe_rows: 6_000_000,
        probe_bytes: 600_000_000,
        with_partner: 0.07,
        most_bytes: 256 << 20,
        send_ns: SEND_NS,
    };

    #[test]
    fn a_filter_is_made_where_it_saves_more_than_it_costs() {
        let best = SIZES.best().unwrap();
        assert!(best.saved_ns > 5.0 * best.cost_ns, "{best:?}");
        assert!(best.bytes < SIZES.probe_bytes / 100, "{best:?}");
        // Every row has a partner.
        assert_eq!(KeyFilterSizes { with_partner: 1.0, ..SIZES }.best(), None);
        // The side that rotates is small.
        let small = KeyFilterSizes { build_rows: 6_000_000, probe_rows: 10_000, probe_bytes: 100_000, ..SIZES };
        assert_eq!(small.best(), None);
        assert_eq!(KeyFilterSizes { most_bytes: 1000, ..SIZES }.best(), None);
    }

    /// A row that is dropped saves only the time to prepare it and to probe with it, so fewer filters
    /// pay.
    #[test]
    fn a_link_that_costs_nothing_saves_less() {
        let saved = |send_ns| KeyFilterSizes { send_ns, ..SIZES }.best().map_or(0.0, |best| best.gain_ns());
        assert!(saved(0.0) > 0.0 && saved(SEND_NS) > 4.0 * saved(0.0));
        let half = KeyFilterSizes { build_rows: 3_000_000, with_partner: 0.5, ..SIZES };
        assert!(half.best().is_some());
        assert_eq!(KeyFilterSizes { send_ns: 0.0, ..half }.best(), None);
    }

    /// Rows go around only where they may have a partner, so filters save even if every row has
    /// one.
    #[test]
    fn with_several_revolutions_filters_save_more() {
        let parts = |revolutions: u64| KeyFilterSizes {
            revolutions,
            build_rows: 6_000_000 / revolutions,
            with_partner: 1.0 / revolutions as f64,
            ..SIZES
        };
        assert_eq!(parts(1).best(), None);
        let gain = |revolutions| parts(revolutions).best().unwrap().gain_ns();
        assert!(gain(2) > 0.0 && gain(4) > gain(2) && gain(16) > gain(4));
        // Every row has a partner in every part.
        assert_eq!(KeyFilterSizes { with_partner: 1.0, ..parts(4) }.best(), None);
    }

    #[test]
    fn sizes_beyond_any_memory_have_no_filter() {
        for build_rows in [u64::MAX / 8, u64::MAX / 16 + 1, u64::MAX] {
            assert_eq!(KeyFilterSizes { build_rows, ..SIZES }.best(), None);
        }
    }

    #[test]
    fn the_form_follows_from_the_sizes() {
        let many = KeyFilterSizes { build_rows: 10_000_000, ..SIZES }.best().unwrap();
        assert!(matches!(many.kind, KeyFilterKind::Bloom(_)), "{many:?}");
        // More bits where a false positive costs more.
        let bits = |choice: KeyFilterChoice, keys: u64| choice.bytes * 8 / keys;
        let wide = KeyFilterSizes { probe_bytes: 100 * SIZES.probe_bytes, ..SIZES }.bloom().unwrap();
        assert!(bits(wide, SIZES.build_rows) > bits(many, 10_000_000), "{wide:?}, {many:?}");
    }
}
