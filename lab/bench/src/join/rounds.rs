//! Repeated measurements that other work on the machine must not disturb.

use anyhow::Result;

use crate::Stop;

/// A measurement counts if other processes used at most this part of all cores' time.
const MOST_OTHERS: f64 = 0.05;
/// The most measurements for each that counts.
const ATTEMPTS: usize = 3;

/// Runs `run` once to warm up, and then until `rounds` results count, which it returns. `others`
/// returns the part of the cores' time that others used. If too few results count after three
/// times as many runs, it adds the least disturbed of the others. Calls `ran` after each
/// that it returns, and after the first one.
///
/// # Errors
/// If `run` fails, or `stop` is set.
pub(super) fn rounds<T>(
    rounds: usize,
    ran: &dyn Fn(),
    stop: &Stop,
    others: impl Fn(&T) -> f64,
    mut run: impl FnMut() -> Result<T>,
) -> Result<Vec<T>> {
    run()?;
    ran();
    let (mut counted, mut disturbed) = (Vec::with_capacity(rounds), Vec::new());
    while counted.len() < rounds && counted.len() + disturbed.len() < ATTEMPTS * rounds {
        stop.check()?;
        let one = run()?;
        if others(&one) > MOST_OTHERS {
            disturbed.push(one);
        } else {
            counted.push(one);
            ran();
        }
    }
    disturbed.sort_by(|a, b| others(a).total_cmp(&others(b)));
    for one in disturbed.into_iter().take(rounds - counted.len()) {
        counted.push(one);
        ran();
    }
    Ok(counted)
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;

    /// Returns the results that count of runs in which others used these parts.
    fn counted(wanted: usize, others: &[f64]) -> (Vec<f64>, usize) {
        let (mut runs, ran) = (others.iter(), Cell::new(0));
        let run = || Ok(*runs.next().unwrap());
        let results = rounds(wanted, &|| ran.set(ran.get() + 1), &Stop::default(), |&others| others, run).unwrap();
        (results, ran.get())
    }

    #[test]
    fn disturbed_runs_are_repeated() {
        assert_eq!(counted(2, &[0.5, 0.0, 0.01]), (vec![0.0, 0.01], 3), "the first one warms up");
        assert_eq!(counted(2, &[0.0, 0.06, 0.01, 0.9, 0.02]), (vec![0.01, 0.02], 3));
    }

    #[test]
    fn on_a_busy_machine_the_least_disturbed_count() {
        assert_eq!(counted(2, &[0.0, 0.5, 0.4, 0.01, 0.3, 0.6, 0.7]), (vec![0.01, 0.3], 3));
    }
}
