//! Divides the time of a calibration among the kinds of repartitions.

use std::{
    collections::VecDeque,
    time::{Duration, Instant},
};

/// The usual least, and the most runs of a way that make a median.
const ROUNDS: [usize; 2] = [3, 9];
/// The number of kinds whose slowest one tells how many rows the next one can have.
const RECENT: usize = 6;
/// The fewest rows of a run, if time is short: with 64 inputs, still most of a batch each.
const LEAST_ROWS: usize = 250_000;

/// The time, the kinds that were measured, and the rows of the next ones.
///
/// A kind has its share of the time; what it leaves, the next ones have. A kind that needs more, as
/// on a loaded machine, has fewer rounds, and the next ones fewer rows.
pub struct Plan {
    start: Instant,
    time: Duration,
    kinds: usize,
    measured: usize,
    most_rows: usize,
    rows: usize,
    /// The seconds of a round for each row, of the last kinds.
    recent: VecDeque<f64>,
}

impl Plan {
    /// Creates a plan for `kinds` kinds, with runs of at most `most_rows` rows.
    pub fn new(start: Instant, time: Duration, kinds: usize, most_rows: usize) -> Self {
        Self { start, time, kinds, measured: 0, most_rows, rows: most_rows, recent: VecDeque::new() }
    }

    /// Returns the most rows of the next kind's runs.
    pub fn rows(&self) -> usize {
        self.rows
    }

    /// Returns whether there is time for another round, when `rounds` were measured from `began`
    /// to `now`. The first is always measured. A further one must end within the kind's share of
    /// the time, as far as the ones before tell, unless a median has too few.
    pub fn another(&self, rounds: usize, began: Instant, now: Instant) -> bool {
        let deadline = self.start + self.time * (self.measured as u32 + 1) / self.kinds as u32;
        match rounds {
            0 => true,
            _ if rounds < ROUNDS[0] => now + (now - began) / rounds as u32 <= deadline,
            _ => rounds < ROUNDS[1] && now < deadline,
        }
    }

    /// Counts a kind as measured, with `rounds` rounds of `rows` rows and a check of the answers, which takes
    /// about as long as one, from `began` to `now`. Sets the rows of the next one: so
    /// many that the usual least of rounds ends within its share of the time that is left.
    pub fn measured(&mut self, rows: usize, rounds: usize, began: Instant, now: Instant) {
        self.measured += 1;
        let left = (self.start + self.time).saturating_duration_since(now);
        let share = left.as_secs_f64() / (self.kinds - self.measured).max(1) as f64;
        self.recent.push_front((now - began).as_secs_f64() / (rounds + 1) as f64 / rows.max(1) as f64);
        self.recent.truncate(RECENT);
        let slowest = self.recent.iter().copied().fold(f64::MIN_POSITIVE, f64::max);
        // The check, the least rounds, and one for chance.
        let rows = share / (slowest * (ROUNDS[0] + 2) as f64);
        self.rows = (rows as usize).clamp(LEAST_ROWS.min(self.most_rows), self.most_rows);
    }
}

/// Returns the spread to record for one that `rounds` rounds had: few rounds may agree by chance.
/// With fewer than the usual least, no lead below the time itself, or below half of it, counts.
pub fn spread_of(rounds: usize, spread: f64) -> f64 {
    match rounds {
        0 | 1 => spread.max(1.0),
        _ if rounds < ROUNDS[0] => spread.max(0.5),
        _ => spread,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Measures 30 kinds in 80 seconds, by a clock of its own. `round` is the time of a round with
    /// this many rows. Returns the time, and the rounds and rows of each kind.
    fn simulated(round: impl Fn(usize, usize) -> Duration) -> (f64, Vec<(usize, usize)>) {
        let start = Instant::now();
        let (mut now, mut kinds) = (start, Vec::new());
        let mut plan = Plan::new(start, Duration::from_secs(80), 30, 5_000_000);
        for kind in 0..30 {
            let (began, rows) = (now, plan.rows());
            now += round(kind, rows);
            let (timed, mut rounds) = (now, 0);
            while plan.another(rounds, timed, now) {
                now += round(kind, rows);
                rounds += 1;
            }
            plan.measured(rows, rounds, began, now);
            kinds.push((rounds, rows));
        }
        ((now - start).as_secs_f64(), kinds)
    }

    fn time_for(rows: usize, ns_per_row: u64) -> Duration {
        Duration::from_nanos(rows as u64 * ns_per_row)
    }

    #[test]
    fn an_idle_machine_has_all_rows_and_most_rounds() {
        let (seconds, kinds) = simulated(|_, rows| time_for(rows, 40));
        assert!(kinds.iter().all(|kind| *kind == (9, 5_000_000)), "{kinds:?}");
        assert!(seconds < 80.0 * 1.1, "{seconds}");
    }

    #[test]
    fn a_loaded_machine_has_fewer_rows_and_ends_in_time() {
        for load in [2, 4, 8] {
            // The first half takes twice as long.
            let round = |kind: usize, rows| time_for(rows, 150 * load * if kind < 15 { 2 } else { 1 });
            let (seconds, kinds) = simulated(round);
            assert!(seconds < 80.0 * 1.1, "load {load}: {seconds} s, {kinds:?}");
            assert!(kinds.iter().all(|(rounds, rows)| *rounds >= 1 && *rows >= LEAST_ROWS), "load {load}: {kinds:?}");
            assert!(kinds[1..].iter().filter(|(rounds, _)| *rounds >= 3).count() >= 14, "load {load}: {kinds:?}");
        }
    }

    #[test]
    fn rows_return_when_the_load_has_gone() {
        let (seconds, kinds) = simulated(|kind, rows| time_for(rows, if kind < 10 { 1500 } else { 60 }));
        assert!(seconds < 80.0 * 1.1, "{seconds} s");
        assert_eq!(kinds[29].1, 5_000_000, "{kinds:?}");
        assert!(kinds[5].1 < 5_000_000);
    }

    #[test]
    fn a_machine_that_is_too_slow_has_one_round_of_each_kind() {
        let (_, kinds) = simulated(|_, _| Duration::from_secs(60));
        assert!(kinds.iter().all(|(rounds, _)| *rounds == 1), "{kinds:?}");
        assert_eq!(kinds[29].1, LEAST_ROWS);
    }

    #[test]
    fn few_rounds_have_a_large_spread() {
        assert_eq!([1, 2, 3, 9].map(|rounds| spread_of(rounds, 0.1)), [1.0, 0.5, 0.1, 0.1]);
        assert_eq!([1, 2, 3].map(|rounds| spread_of(rounds, 2.0)), [2.0; 3]);
    }
}
