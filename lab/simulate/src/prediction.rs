//! Predictions for machines that were not measured.

use serde::Serialize;

use crate::{Error, FittedParameters, Machine, Outcome, RowSizes, StrategyKind, Workload, in_parallel, simulate};

/// The quantity to predict.
#[derive(Clone, Debug)]
pub struct Question {
    /// Cores, each with one producer and one consumer.
    pub cores: Vec<usize>,
    /// Cache domains. Machines with more domains than cores are left out.
    pub domains: Vec<usize>,
    /// Bytes of a row.
    pub row_bytes: Vec<usize>,
    /// Rows of a batch.
    pub rows: usize,
    /// The strategies.
    pub strategies: Vec<StrategyKind>,
}

/// One machine and one size of rows.
#[derive(Clone, Debug)]
struct Setting {
    machine: Machine,
    row_bytes: usize,
}

/// The strategies on one machine, with one size of rows.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Prediction {
    /// Cores.
    pub cores: usize,
    /// Cache domains.
    pub domains: usize,
    /// Bytes of a row.
    pub row_bytes: usize,
    /// The strategies, in the order in which they were asked for.
    pub outcomes: Vec<(StrategyKind, Outcome)>,
}

impl Prediction {
    /// Returns the strategy with the highest throughput, or none if no strategy was asked for.
    pub fn winner(&self) -> Option<StrategyKind> {
        self.outcomes.iter().max_by(|a, b| a.1.gb_s.total_cmp(&b.1.gb_s)).map(|outcome| outcome.0)
    }
}

impl Question {
    /// Returns the number of simulations that answer the question.
    ///
    /// # Errors
    /// If a machine cannot be simulated.
    pub fn simulations(&self) -> Result<usize, Error> {
        Ok(self.settings()?.len() * self.strategies.len())
    }

    fn settings(&self) -> Result<Vec<Setting>, Error> {
        let mut settings = Vec::new();
        for &row_bytes in &self.row_bytes {
            for &domains in &self.domains {
                for &cores in self.cores.iter().filter(|cores| **cores == 0 || domains <= **cores) {
                    settings.push(Setting { machine: Machine::scaled(cores, domains)?, row_bytes });
                }
            }
        }
        Ok(settings)
    }
}

/// Simulates all strategies on all machines of `question`, on all cores of this one. `done` is
/// called after each simulation, by any thread, and says whether to go on.
///
/// # Errors
/// If a machine cannot be simulated.
pub fn predict(
    question: &Question,
    fitted: &FittedParameters,
    seed: u64,
    done: &(dyn Fn() -> bool + Sync),
) -> Result<Vec<Prediction>, Error> {
    let settings = question.settings()?;
    let mut wanted = Vec::new();
    for setting in &settings {
        wanted.extend(question.strategies.iter().map(|strategy| (setting, *strategy)));
    }
    let outcomes = in_parallel(&wanted, done, |(setting, strategy)| {
        let workload = Workload { rows: question.rows, row_bytes: setting.row_bytes, sizes: RowSizes::Uniform };
        let Setting { machine, .. } = setting;
        Ok((*strategy, simulate(machine, machine.cores, *strategy, workload, fitted, seed)?))
    })?;
    let answers = settings.iter().zip(outcomes.chunks(question.strategies.len().max(1)));
    let prediction = |(setting, outcomes): (&Setting, &[_])| Prediction {
        cores: setting.machine.cores,
        domains: setting.machine.domains,
        row_bytes: setting.row_bytes,
        outcomes: outcomes.to_vec(),
    };
    Ok(answers.map(prediction).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_machine_and_strategy_is_answered_in_order() {
        let question = Question {
            cores: vec![2, 4],
            domains: vec![1, 4],
            row_bytes: vec![8],
            rows: 512,
            strategies: vec![StrategyKind::Ring, StrategyKind::Batch],
        };
        assert_eq!(question.simulations().unwrap(), 6);
        let answers = predict(&question, &FittedParameters::STORED, 1, &|| true).unwrap();
        let machines: Vec<_> = answers.iter().map(|answer| (answer.cores, answer.domains)).collect();
        assert_eq!(machines, [(2, 1), (4, 1), (4, 4)]);
        for answer in &answers {
            assert_eq!(answer.outcomes.iter().map(|outcome| outcome.0).collect::<Vec<_>>(), question.strategies);
            assert!(answer.winner().is_some());
        }
    }

    #[test]
    fn machines_out_of_range_are_errors() {
        let question = Question { cores: vec![0], domains: vec![1], row_bytes: vec![8], rows: 8, strategies: vec![] };
        assert!(predict(&question, &FittedParameters::STORED, 1, &|| true).is_err());
    }
}
