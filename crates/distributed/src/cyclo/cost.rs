//! The expected time of a join on each worker: around a ring, with one side sent to all workers, with both
//! sides repartitioned, or in one task. Pure.

use std::fmt;

use annulus_datafusion::PairMethod;
use annulus_join::{Likeness, Side, Sides};

use super::hot_keys::HotKey;

/// Nanoseconds a byte on the ring, and in the stream of a stage, where it is packed and unpacked, too.
const RING_BYTE: f64 = 1.0;
const STREAM_BYTE: f64 = 0.8;
/// Nanoseconds a row to find its partition, and to copy it there.
const PARTITION_ROW: f64 = 10.0;
/// Nanoseconds a pair to be put out.
const PAIR: f64 = 5.0;
/// Nanoseconds until fragments rotate: tasks meet, connect, and allocate buffers.
const RING: f64 = 20e6;
/// The ratio of the times of a ring and of the alternative, up to which a ring is chosen. The constants are
/// rough.
const MARGIN: f64 = 0.8;
/// The same if both sides could be repartitioned by equal keys: operators above may use that, too.
const MARGIN_OF_KEYS: f64 = 0.5;

/// The nanoseconds that a method takes.
struct Work {
    /// For each row of the build side.
    build: f64,
    /// For each row of the probe side, before it is joined.
    prepare: f64,
    /// For each row of the probe side, while it is joined.
    probe: f64,
    /// For each pair that is compared, if all are.
    pair: f64,
}

impl Work {
    const HASH: Self = Self { build: 9.0, prepare: 5.0, probe: 7.0, pair: 0.0 };

    /// Returns the times of `annulus-cyclo` (its DESIGN.md), for keys that are numbers.
    fn for_method(method: &PairMethod) -> Self {
        match method {
            PairMethod::Hash { .. } => Self::HASH,
            PairMethod::Merge(_) => Self { build: 45.0, prepare: 45.0, probe: 9.3, pair: 0.0 },
            PairMethod::Similar(condition) => match condition.likeness {
                Likeness::Texts(_) => Self { build: 800.0, prepare: 1.0, probe: 4000.0, pair: 0.008 },
                Likeness::Vectors(..) => Self { build: 100.0, prepare: 1.0, probe: 0.0, pair: 5.0 },
            },
            // Not asked for: see `nearest_ring`.
            PairMethod::Any(_) | PairMethod::Nearest(_) => Self { build: 1.0, prepare: 1.0, probe: 0.0, pair: 1.0 },
        }
    }

    fn time(&self, build: f64, prepared: f64, probed: f64) -> f64 {
        build * self.build + prepared * self.prepare + probed * self.probe + build * probed * self.pair
    }
}

/// The estimated size of a side.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct SideSize {
    pub(crate) rows: f64,
    pub(crate) bytes: f64,
}

/// The estimates on which the choice depends.
#[derive(Clone, Copy, Debug)]
pub(super) struct JoinEstimate<'a> {
    pub(super) method: &'a PairMethod,
    pub(super) sides: Sides<SideSize>,
    pub(super) workers: usize,
    /// The most bytes of a side that the engine can send to all workers; `None` if it cannot do so.
    pub(super) broadcast: Option<f64>,
    /// Whether the engine can repartition both sides by equal keys, and join them by hash.
    pub(super) has_keys: bool,
    /// A side that is on the workers already, and prepared for joins around a ring.
    pub(super) resident: Option<Side>,
    /// The key that most rows have, if it is known.
    pub(super) hot_key: Option<HotKey>,
}

/// The stationary side of a ring, and the reason for the ring.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct RingChoice {
    pub(super) stationary: Side,
    pub(super) why: String,
}

/// A way to run a join.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Variant {
    Ring,
    Broadcast,
    Shuffle,
    OneTask,
}

impl fmt::Display for Variant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Ring => "around the ring",
            Self::Broadcast => "with one side on all workers",
            Self::Shuffle => "with both sides repartitioned",
            Self::OneTask => "in one task",
        })
    }
}

impl JoinEstimate<'_> {
    /// Returns the stationary side of a ring: a resident table, or the larger side, since less rotates then.
    pub(super) fn stationary_side(&self) -> Side {
        let larger = if self.sides.right.bytes > self.sides.left.bytes { Side::Right } else { Side::Left };
        self.resident.unwrap_or(larger)
    }

    /// Returns the choice of a ring, if that is expected to be the fastest.
    pub(super) fn choose_ring(&self) -> Option<RingChoice> {
        let ring = self.time(Variant::Ring);
        let (other, variant) = self.alternatives().into_iter().min_by(|a, b| a.0.total_cmp(&b.0))?;
        let margin = if self.has_keys { MARGIN_OF_KEYS } else { MARGIN };
        if ring > margin * other {
            return None;
        }
        let Sides { left, right } = self.sides;
        let ms = |nanoseconds: f64| (nanoseconds / 1e6).ceil();
        let moved = self.sides[self.stationary_side().other()].bytes * self.moved_share() / 1e6;
        let mut why = format!(
            "{} rows by {}: {} ms {}, with {moved:.1} MB to each worker, {} ms {variant}",
            left.rows,
            right.rows,
            ms(ring),
            Variant::Ring,
            ms(other)
        );
        if let Some(HotKey { shares }) = self.hot_key {
            let Sides { left, right } = shares.map(|share| 100.0 * share);
            why.push_str(&format!(", one key has {left:.1} % and {right:.1} % of the rows"));
        }
        Some(RingChoice { stationary: self.stationary_side(), why })
    }

    /// Returns the times of the variants that the engine has.
    fn alternatives(&self) -> Vec<(f64, Variant)> {
        let smaller = self.sides[self.stationary_side().other()];
        let possible = [
            self.broadcast.filter(|&most| smaller.bytes <= most).map(|_| Variant::Broadcast),
            self.has_keys.then_some(Variant::Shuffle),
        ];
        let mut possible: Vec<_> = possible.into_iter().flatten().collect();
        if possible.is_empty() {
            possible.push(Variant::OneTask);
        }
        possible.into_iter().map(|variant| (self.time(variant), variant)).collect()
    }

    /// Returns the share of a side that comes to a worker from others.
    fn moved_share(&self) -> f64 {
        (self.workers as f64 - 1.0) / self.workers as f64
    }

    /// Returns whether the engine is expected to repartition both sides.
    pub(super) fn is_shuffled(&self) -> bool {
        let best = self.alternatives().into_iter().min_by(|a, b| a.0.total_cmp(&b.0));
        best.is_some_and(|(_, variant)| variant == Variant::Shuffle)
    }

    /// Returns the nanoseconds of the worker that works longest.
    fn time(&self, variant: Variant) -> f64 {
        let (stationary, moving) = self.sides.one_and_other(self.stationary_side());
        let (workers, work, others) = (self.workers as f64, Work::for_method(self.method), self.moved_share());
        let shares = self.hot_key.map_or(Sides { left: 0.0, right: 0.0 }, |key| key.shares);
        let (hot, hot_moving) = shares.one_and_other(self.stationary_side());
        let hot_pairs = hot * stationary.rows * hot_moving * moving.rows * PAIR;
        match variant {
            Variant::Ring => {
                let built = if self.resident.is_some() { stationary.rows / workers * work.build } else { 0.0 };
                let work = work.time(stationary.rows / workers, moving.rows / workers, moving.rows) - built;
                RING + RING_BYTE * moving.bytes * others + work + hot_pairs / workers
            }
            Variant::Broadcast => {
                let probed = stationary.rows / workers;
                STREAM_BYTE * moving.bytes * others + work.time(moving.rows, probed, probed) + hot_pairs / workers
            }
            Variant::Shuffle => {
                // All rows of a key come to one worker.
                let (of_stationary, of_moving) =
                    (hot + (1.0 - hot) / workers, hot_moving + (1.0 - hot_moving) / workers);
                let bytes = stationary.bytes * of_stationary + moving.bytes * of_moving;
                let (probed, built) = (stationary.rows * of_stationary, moving.rows * of_moving);
                let sent = (stationary.rows + moving.rows) / workers;
                STREAM_BYTE * bytes * others + PARTITION_ROW * sent + Work::HASH.time(built, probed, probed) + hot_pairs
            }
            Variant::OneTask => {
                let bytes = stationary.bytes + moving.bytes;
                STREAM_BYTE * bytes * others + work.time(moving.rows, stationary.rows, stationary.rows) + hot_pairs
            }
        }
    }
}

/// Nanoseconds a row of a build side that is larger than caches. In query 9 of TPC-H at scale 1, 8 million rows that
/// came to all workers took 0.48 s of processor time to be received and inserted.
pub(crate) const BUILD_ROW: f64 = 30.0;

/// Returns whether a join on equal keys is expected to take less time with its left side on all of the workers than
/// with both sides repartitioned. The left side has at most `limit` bytes then, and is the smaller one.
pub(crate) fn prefers_broadcast(sides: Sides<SideSize>, workers: usize, limit: usize) -> bool {
    let Sides { left, right } = sides;
    let (workers, others) = (workers as f64, (workers as f64 - 1.0) / workers as f64);
    let broadcast = STREAM_BYTE * left.bytes * others + BUILD_ROW * left.rows;
    let both = STREAM_BYTE * (left.bytes + right.bytes) * others + PARTITION_ROW * (left.rows + right.rows);
    let repartitioned = (both + BUILD_ROW * left.rows) / workers;
    left.bytes <= (limit as f64).min(right.bytes) && broadcast < repartitioned
}

/// Nanoseconds to find the nearest rows of a left row with an index, to prepare a right row, and to compare a pair
/// if all are compared.
const NEAREST_SEARCH: f64 = 1000.0;
const NEAREST_PREPARE: f64 = 200.0;
const NEAREST_PAIR: f64 = 5.0;

/// Returns why a join with the nearest rows is faster around a ring, whose left side is stationary, than in one
/// task.
pub(super) fn nearest_ring(sides: Sides<SideSize>, workers: usize, compares_pairs: bool) -> Option<String> {
    let Sides { left, right } = sides;
    let (workers, others) = (workers as f64, (workers as f64 - 1.0) / workers as f64);
    let search = if compares_pairs { left.rows * right.rows * NEAREST_PAIR } else { left.rows * NEAREST_SEARCH };
    // Each task prepares all rows of the right side.
    let prepare = right.rows * NEAREST_PREPARE;
    let ring = RING + RING_BYTE * right.bytes * others + prepare + search / workers;
    let one_task = STREAM_BYTE * (left.bytes + right.bytes) * others + prepare + search;
    let ms = |nanoseconds: f64| (nanoseconds / 1e6).ceil();
    (ring <= MARGIN * one_task).then(|| {
        format!(
            "{} rows by {}: {} ms around the ring, with {:.1} MB to each worker, {} ms in one task",
            left.rows,
            right.rows,
            ms(ring),
            right.bytes * others / 1e6,
            ms(one_task)
        )
    })
}

#[cfg(test)]
mod tests {
    use annulus_join::MergeCondition;

    use super::*;

    fn hash() -> PairMethod {
        PairMethod::Hash { build: vec![0], probe: vec![0], nulls_equal: false }
    }

    fn merge() -> PairMethod {
        PairMethod::Merge(Box::<MergeCondition>::default())
    }

    fn sides(left: f64, right: f64) -> Sides<SideSize> {
        Sides { left, right }.map(|rows| SideSize { rows, bytes: 16.0 * rows })
    }

    #[test]
    fn large_sides_go_around_and_small_ones_to_all_workers() {
        let merge = merge();
        let ask = |left, right| JoinEstimate {
            method: &merge,
            sides: sides(left, right),
            workers: 4,
            broadcast: Some(64e6),
            has_keys: false,
            resident: None,
            hot_key: None,
        };
        let large = ask(5e6, 6e6).choose_ring().unwrap();
        assert_eq!(large.stationary, Side::Right);
        assert!(large.why.contains("around the ring") && large.why.contains("in one task"), "{}", large.why);
        // One row, or a few: the other side need not wait in memory.
        assert_eq!(ask(1.0, 5e6).choose_ring(), None);
        assert_eq!(ask(1e4, 5e6).choose_ring(), None);
        assert_eq!(ask(100.0, 100.0).choose_ring(), None);
        // What the engine can only do in one task goes around if it is long enough.
        let full = |rows| JoinEstimate { broadcast: None, ..ask(rows, rows) };
        assert!(full(1e6).choose_ring().is_some());
        assert_eq!(full(1e3).choose_ring(), None);
    }

    #[test]
    fn a_side_goes_to_all_workers_if_it_is_small_beside_the_other_one() {
        let ask = |left, right, workers| prefers_broadcast(sides(left, right), workers, 64_000_000);
        assert!(ask(1e5, 6e6, 4));
        assert!(ask(5e5, 6e6, 4), "a third of the rows of a worker");
        assert!(!ask(5e5, 6e6, 32), "more than the rows of a worker");
        assert!(!ask(1.5e6, 6e6, 4));
        assert!(!ask(6e6, 1e5, 4), "the left side is the larger one");
        assert!(!ask(5e6, 1e9, 4), "beyond the limit");
    }

    #[test]
    fn equal_keys_are_repartitioned_unless_one_side_is_much_larger() {
        let hash = hash();
        let ask = |left, right| JoinEstimate {
            method: &hash,
            sides: sides(left, right),
            workers: 2,
            broadcast: None,
            has_keys: true,
            resident: None,
            hot_key: None,
        };
        assert_eq!(ask(1e7, 1e7).choose_ring(), None);
        assert_eq!(ask(1e5, 1e8).choose_ring().unwrap().stationary, Side::Right);
        let many = JoinEstimate { workers: 64, ..ask(1e7, 3e7) };
        assert_eq!(many.choose_ring(), None, "all rows visit 64 workers");
        // A side that is there already need not be built.
        let resident = JoinEstimate { resident: Some(Side::Left), ..ask(1e7, 2e6) };
        assert_eq!(resident.choose_ring().unwrap().stationary, Side::Left);
        // All rows of a key would come to one worker.
        let skewed = |left, right| {
            let hot_key = Some(HotKey { shares: Sides { left, right } });
            JoinEstimate { hot_key, workers: 4, ..ask(1e7, 1e7) }.choose_ring()
        };
        let why = skewed(0.1, 0.05).unwrap().why;
        assert!(why.ends_with("with both sides repartitioned, one key has 10.0 % and 5.0 % of the rows"), "{why}");
        assert_eq!(skewed(0.1, 0.0), None, "its rows alone are not many");
        assert_eq!(skewed(1e-5, 1e-5), None);
    }
}
