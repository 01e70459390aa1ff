//! Runs statements of a text, or a shell.

use std::{
    env,
    io::{IsTerminal, stdout},
    path::Path,
};

use anyhow::Result;
use datafusion::{common::format::ExplainFormat, config::ConfigOptions, prelude::SessionContext};

use super::{
    args::{Format, Source, SqlArgs, SqlJob},
    given_types::GivenTypes,
    output::OutputFile,
    shell,
    spec::SessionSpec,
    statement,
    view::View,
};
use crate::{cluster::Remote, interrupt::until_interrupted, outcome::Outcome, runtime};

/// Runs the statements or the shell that `args` ask for.
pub fn run(args: SqlArgs) -> Result<Outcome> {
    let job = args.check()?;
    runtime::run_with_spill(job.limits.target_partitions, job.limits.memory_bytes, async |spill| {
        run_job(job, spill).await
    })
}

async fn run_job(mut job: SqlJob, spill: &Path) -> Result<Outcome> {
    let terminal = stdout().is_terminal();
    let view = View {
        format: job.format,
        max_rows: job.max_rows,
        // Programs that read other formats expect only rows.
        terminal: terminal && job.format == Format::Table,
        timing: true,
        how_to_see_all: "--maxrows inf",
    };
    match std::mem::replace(&mut job.source, Source::Shell) {
        // A later command may name a table that has the columns of --types, so the shell does not
        // check them.
        Source::Shell => {
            let cluster = job.cluster.start(job.limits.memory_bytes)?;
            cluster.greet().await?;
            shell::run(prepare(&job, spill, cluster.remote(), None, &view).await?, view, job.overwrite).await
        }
        Source::Text(script) => {
            until_interrupted(async {
                // Created first, so that an unwritable file fails before any statement runs.
                let output = match job.output.clone() {
                    Some(target) => Some(OutputFile::create(target, None, job.overwrite).await?),
                    None => None,
                };
                let cluster = job.cluster.start(job.limits.memory_bytes)?;
                cluster.greet().await?;
                let types = GivenTypes::new(&job.input.types);
                let ctx = prepare(&job, spill, cluster.remote(), Some(types), &view).await?;
                statement::run_all(&ctx, &script, &view, output).await?;
                Ok(Outcome::Done)
            })
            .await
        }
    }
}

/// Returns a session with the tables and options of `job`. The last statement fails unless tables
/// have the columns of `types`.
async fn prepare(
    job: &SqlJob,
    spill: &Path,
    remote: Option<&Remote>,
    types: Option<GivenTypes>,
    view: &View,
) -> Result<SessionContext> {
    let mut options = ConfigOptions::from_env()?;
    options.format.null = "NULL".to_owned();
    if view.terminal && env::var_os("DATAFUSION_EXPLAIN_FORMAT").is_none() {
        // Lines of a plan are longer than those of a terminal.
        options.explain.format = ExplainFormat::Tree;
    }
    let spec = SessionSpec { options, types, limits: job.limits, input: &job.input, remote };
    let (ctx, inputs) = spec.open(spill, &job.settings).await?;
    for table in &job.tables {
        table.register(&ctx, &inputs, &job.input).await?;
    }
    Ok(ctx)
}
