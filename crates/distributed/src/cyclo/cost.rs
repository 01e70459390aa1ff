//! What a join costs each worker: around a ring, with one side sent to all workers, with both sides
//! repartitioned, or in one task. Pure.

use std::fmt;

use annulus_datafusion::CycloMethod;
use annulus_join::{Side, Sides};

/// Nanoseconds a byte on the ring, and in the stream of a stage, where it is encoded and decoded, too.
const RING_BYTE: f64 = 1.0;
const STREAM_BYTE: f64 = 1.7;
/// Nanoseconds a row to find its partition, and to copy it there.
const PARTITION_ROW: f64 = 10.0;
/// Nanoseconds until a ring turns: its tasks meet, connect, and allocate buffers.
const RING: f64 = 20e6;
/// How much cheaper a ring must be: the constants are rough.
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

    /// Those of `annulus-cyclo` (its DESIGN.md), for keys that are numbers.
    fn of(method: &CycloMethod) -> Self {
        match method {
            CycloMethod::Hash { .. } => Self::HASH,
            CycloMethod::Merge(_) => Self { build: 45.0, prepare: 45.0, probe: 9.3, pair: 0.0 },
            CycloMethod::Any(_) => Self { build: 1.0, prepare: 1.0, probe: 0.0, pair: 1.0 },
        }
    }

    fn time(&self, build: f64, prepared: f64, probed: f64) -> f64 {
        build * self.build + prepared * self.prepare + probed * self.probe + build * probed * self.pair
    }
}

/// What is known of a side.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct SideSize {
    pub(super) rows: f64,
    pub(super) bytes: f64,
}

/// What the choice depends on.
#[derive(Clone, Copy, Debug)]
pub(super) struct Question<'a> {
    pub(super) method: &'a CycloMethod,
    pub(super) sides: Sides<SideSize>,
    pub(super) workers: usize,
    /// Whether the engine can send a side to all workers, and the most bytes of it.
    pub(super) broadcast: Option<f64>,
    /// Whether the engine can repartition both sides by equal keys, and join them by hash.
    pub(super) has_keys: bool,
    /// A side that is on the workers already, and prepared for joins around a ring.
    pub(super) resident: Option<Side>,
}

/// The side that stays, and why the ring is the cheapest way.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Answer {
    pub(super) stays: Side,
    pub(super) why: String,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Way {
    Rotate,
    Broadcast,
    Shuffle,
    OneTask,
}

impl fmt::Display for Way {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Rotate => "around the ring",
            Self::Broadcast => "with one side on all workers",
            Self::Shuffle => "with both sides repartitioned",
            Self::OneTask => "in one task",
        })
    }
}

impl Question<'_> {
    /// Returns the side that stays if the join runs around a ring: the one that is there already, or the
    /// larger one. Then less rotates.
    pub(super) fn stays(&self) -> Side {
        let larger = if self.sides.right.bytes > self.sides.left.bytes { Side::Right } else { Side::Left };
        self.resident.unwrap_or(larger)
    }

    /// Returns the answer if a ring is the cheapest way.
    pub(super) fn answer(&self) -> Option<Answer> {
        let ring = self.time(Way::Rotate);
        let (other, way) = self.others().into_iter().min_by(|a, b| a.0.total_cmp(&b.0))?;
        let margin = if self.has_keys { MARGIN_OF_KEYS } else { MARGIN };
        if ring > margin * other {
            return None;
        }
        let Sides { left, right } = self.sides;
        let ms = |nanoseconds: f64| (nanoseconds / 1e6).ceil();
        let moved = self.sides[self.stays().other()].bytes * self.moved_share() / 1e6;
        let why = format!(
            "{} rows by {}: {} ms {}, with {moved:.1} MB to each worker, {} ms {way}",
            left.rows,
            right.rows,
            ms(ring),
            Way::Rotate,
            ms(other)
        );
        Some(Answer { stays: self.stays(), why })
    }

    fn others(&self) -> Vec<(f64, Way)> {
        let smaller = self.sides[self.stays().other()];
        let ways = [
            self.broadcast.filter(|&most| smaller.bytes <= most).map(|_| Way::Broadcast),
            self.has_keys.then_some(Way::Shuffle),
        ];
        let mut ways: Vec<_> = ways.into_iter().flatten().collect();
        if ways.is_empty() {
            ways.push(Way::OneTask);
        }
        ways.into_iter().map(|way| (self.time(way), way)).collect()
    }

    /// Returns the share of a side that comes to a worker from others.
    fn moved_share(&self) -> f64 {
        (self.workers as f64 - 1.0) / self.workers as f64
    }

    /// Returns the nanoseconds of the worker that works longest.
    fn time(&self, way: Way) -> f64 {
        let (stays, moves) = self.sides.one_and_other(self.stays());
        let (workers, work, others) = (self.workers as f64, Work::of(self.method), self.moved_share());
        match way {
            Way::Rotate => {
                let built = if self.resident.is_some() { stays.rows / workers * work.build } else { 0.0 };
                let work = work.time(stays.rows / workers, moves.rows / workers, moves.rows) - built;
                RING + RING_BYTE * moves.bytes * others + work
            }
            Way::Broadcast => {
                let probed = stays.rows / workers;
                STREAM_BYTE * moves.bytes * others + work.time(moves.rows, probed, probed)
            }
            Way::Shuffle => {
                let work = Work::HASH;
                let (bytes, rows) = ((stays.bytes + moves.bytes) / workers, (stays.rows + moves.rows) / workers);
                let probed = stays.rows / workers;
                STREAM_BYTE * bytes * others + PARTITION_ROW * rows + work.time(moves.rows / workers, probed, probed)
            }
            Way::OneTask => {
                let bytes = stays.bytes + moves.bytes;
                STREAM_BYTE * bytes * others + work.time(moves.rows, stays.rows, stays.rows)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use annulus_join::MergeCondition;

    use super::*;

    fn hash() -> CycloMethod {
        CycloMethod::Hash { build: vec![0], probe: vec![0], nulls_equal: false }
    }

    fn merge() -> CycloMethod {
        CycloMethod::Merge(Box::<MergeCondition>::default())
    }

    fn sides(left: f64, right: f64) -> Sides<SideSize> {
        Sides { left, right }.map(|rows| SideSize { rows, bytes: 16.0 * rows })
    }

    #[test]
    fn large_sides_go_around_and_small_ones_to_all_workers() {
        let merge = merge();
        let ask = |left, right| Question {
            method: &merge,
            sides: sides(left, right),
            workers: 4,
            broadcast: Some(64e6),
            has_keys: false,
            resident: None,
        };
        let large = ask(5e6, 6e6).answer().unwrap();
        assert_eq!(large.stays, Side::Right);
        assert!(large.why.contains("around the ring") && large.why.contains("in one task"), "{}", large.why);
        // One row, or a few: the other side need not wait in memory.
        assert_eq!(ask(1.0, 5e6).answer(), None);
        assert_eq!(ask(1e4, 5e6).answer(), None);
        assert_eq!(ask(100.0, 100.0).answer(), None);
        // What the engine can only do in one task goes around if it is long enough.
        let full = |rows| Question { broadcast: None, ..ask(rows, rows) };
        assert!(full(1e6).answer().is_some());
        assert_eq!(full(1e3).answer(), None);
    }

    #[test]
    fn equal_keys_are_repartitioned_unless_one_side_is_much_larger() {
        let hash = hash();
        let ask = |left, right| Question {
            method: &hash,
            sides: sides(left, right),
            workers: 2,
            broadcast: None,
            has_keys: true,
            resident: None,
        };
        assert_eq!(ask(1e7, 1e7).answer(), None);
        assert_eq!(ask(1e5, 1e8).answer().unwrap().stays, Side::Right);
        let many = Question { workers: 64, ..ask(1e7, 3e7) };
        assert_eq!(many.answer(), None, "all rows visit 64 workers");
        // A side that is there already need not be built.
        let resident = Question { resident: Some(Side::Left), ..ask(1e7, 2e6) };
        assert_eq!(resident.answer().unwrap().stays, Side::Left);
    }
}
