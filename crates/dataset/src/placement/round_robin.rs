//! Places rows in turn.

use annulus_rows::partition::Target;

/// Appends the partitions of `rows` rows. The first row goes to partition `turn % partitions`.
/// Returns the turn of the row after the last.
pub(super) fn append_targets(turn: usize, rows: usize, partitions: usize, targets: &mut Vec<Target>) -> usize {
    let mut turn = turn % partitions;
    targets.extend((0..rows).map(|_| {
        let target = turn as Target;
        turn = if turn + 1 == partitions { 0 } else { turn + 1 };
        target
    }));
    turn
}
