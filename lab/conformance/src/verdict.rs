//! Runs one file once.

use std::{
    fmt,
    path::{Path, PathBuf},
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use datafusion_sqllogictest::{
    DFColumnType, DataFusion, TestContext, df_value_validator, setup_scratch_dir, should_skip_record, value_normalizer,
};
use indicatif::ProgressBar;
use sqllogictest::{Record, Runner, parse_file, strict_column_validator};
use tokio::task::JoinError;

use crate::{
    engine::Engine,
    files,
    session::{Annulus, rebuild},
};

/// The result of running a file.
#[derive(Debug, PartialEq, Eq)]
pub enum Verdict {
    /// This build of the program cannot run the file.
    Skipped,
    /// Every record had the expected result.
    Passed,
    /// Some records failed, with these errors.
    Failed(Vec<String>),
    /// The test or the engine panicked.
    Panicked(String),
    /// The run exceeded its time limit.
    TimedOut,
}

impl Verdict {
    /// Returns the verdict in a word or two.
    pub fn word(&self) -> &'static str {
        match self {
            Self::Skipped => "skipped",
            Self::Passed => "passed",
            Self::Failed(_) => "failed",
            Self::Panicked(_) => "panicked",
            Self::TimedOut => "timed out",
        }
    }

    /// Returns whether every failure here also occurred in `other`, which had further failures.
    /// Under a memory limit that is nearly too low, the results of a file can vary.
    pub fn is_better_than(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Passed, Self::Failed(_) | Self::Panicked(_) | Self::TimedOut) => true,
            (Self::Failed(ours), Self::Failed(theirs)) => {
                ours != theirs && ours.iter().all(|error| theirs.contains(error))
            }
            _ => false,
        }
    }

    /// Returns the failures here that did not occur in `other`; for other verdicts, a summary.
    pub fn beside(&self, other: &Self) -> String {
        let (Self::Failed(ours), Self::Failed(theirs)) = (self, other) else { return self.to_string() };
        let only_here = ours.iter().filter(|error| !theirs.contains(error)).cloned().collect::<Vec<_>>();
        format!("{} failed, {} of them only here\n{}", ours.len(), only_here.len(), only_here.join("\n"))
    }
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Failed(errors) => write!(f, "{} failed, first: {}", errors.len(), errors[0]),
            Self::Panicked(message) => write!(f, "panicked: {message}"),
            other => f.write_str(other.word()),
        }
    }
}

/// Runs a file in a separate task, on Annulus if it is given.
pub async fn run(relative: &Path, annulus: Option<Annulus>, limit: Duration) -> Verdict {
    let mut task = tokio::spawn(judge(relative.to_owned(), annulus));
    match tokio::time::timeout(limit, &mut task).await {
        Ok(Ok(verdict)) => verdict,
        Ok(Err(failed)) => Verdict::Panicked(message(failed)),
        Err(_) => {
            task.abort();
            Verdict::TimedOut
        }
    }
}

/// Returns the message of a task's panic.
fn message(failed: JoinError) -> String {
    let Ok(payload) = failed.try_into_panic() else { return "the task was cancelled".into() };
    let text = payload.downcast_ref::<&str>().map(ToString::to_string);
    text.or_else(|| payload.downcast_ref::<String>().cloned()).unwrap_or_else(|| "no message".into())
}

async fn judge(relative: PathBuf, annulus: Option<Annulus>) -> Verdict {
    let Some(test) = TestContext::try_new_for_test_file(&relative).await else { return Verdict::Skipped };
    let mut errors = vec![];
    if let Err(error) = setup_scratch_dir(&relative) {
        errors.push(error.to_string());
    }
    let (session, prints_plans) = rebuild(test.session_ctx(), annulus);
    let changes = Arc::new(Mutex::new(vec![]));
    let mut runner = Runner::new(|| async {
        let inner = DataFusion::new(session.clone(), relative.clone(), ProgressBar::hidden());
        let inner = inner.with_config_change_errors(Arc::clone(&changes));
        Ok(Engine { inner, prints_plans: Arc::clone(&prints_plans) })
    });
    // The label that the files use for this engine.
    runner.add_label("Datafusion");
    runner.with_column_validator(strict_column_validator);
    runner.with_normalizer(value_normalizer);
    runner.with_validator(df_value_validator);

    match parse_file::<DFColumnType>(files::path(&relative)) {
        Err(error) => errors.push(error.to_string()),
        Ok(records) => {
            for record in records {
                if matches!(record, Record::Halt { .. }) {
                    break;
                }
                if should_skip_record::<Engine>(&record, &[]) {
                    continue;
                }
                errors.extend(runner.run_async(record).await.err().map(|error| error.to_string()));
            }
        }
    }
    runner.shutdown_async().await;
    errors.append(&mut changes.lock().unwrap_or_else(PoisonError::into_inner));
    if errors.is_empty() { Verdict::Passed } else { Verdict::Failed(errors) }
}
