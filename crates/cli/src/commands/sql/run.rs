//! Runs statements of a text, or a shell.

use std::{
    io::{IsTerminal, stdout},
    path::Path,
    sync::Arc,
};

use anyhow::Result;
use datafusion::{
    config::ConfigOptions,
    prelude::{SessionConfig, SessionContext},
};

use super::{
    args::{Format, Source, SqlArgs, SqlJob},
    output::OutputFile,
    shell, statement,
    stores::Stores,
    tables,
    timestamps::CopyTimestamps,
    view::View,
};
use crate::{
    interrupt::until_interrupted,
    outcome::Outcome,
    runtime,
    session::{self, Engine},
};

/// Runs the statements or the shell that `args` ask for.
pub fn run(args: SqlArgs) -> Result<Outcome> {
    let job = args.check()?;
    runtime::run_with_spill(None, async |spill| run_job(job, spill).await)
}

async fn run_job(mut job: SqlJob, spill: &Path) -> Result<Outcome> {
    let terminal = stdout().is_terminal();
    let view = View {
        format: job.format,
        max_rows: job.max_rows,
        // Programs want rows, not how many they were.
        terminal: terminal && job.format == Format::Table,
        timing: true,
        how_to_see_all: "--maxrows inf",
    };
    match std::mem::replace(&mut job.source, Source::Shell) {
        Source::Shell => shell::run(prepare(&job, spill).await?, view).await,
        Source::Text(text) => {
            until_interrupted(async {
                // Begun first: whatever speaks against the file is said before anything runs.
                let output = job.output.clone().map(OutputFile::create).transpose()?;
                let ctx = prepare(&job, spill).await?;
                statement::run_all(&ctx, &text, &view, output).await?;
                Ok(Outcome::Done)
            })
            .await
        }
    }
}

/// A session with the tables and the options of `job`.
async fn prepare(job: &SqlJob, spill: &Path) -> Result<SessionContext> {
    let mut options = ConfigOptions::from_env()?;
    options.format.null = "NULL".to_owned();
    let config = SessionConfig::from(options).with_information_schema(true);
    let stores = Arc::new(Stores::default());
    let ctx = session::open(Engine::Annulus, job.limits, spill, config, Some(stores))?;
    ctx.add_analyzer_rule(Arc::new(CopyTimestamps));
    tables::name_by_path(&ctx, job.input.clone());
    session::set_options(&ctx, &job.settings).await?;
    for table in &job.tables {
        table.register(&ctx, &job.input).await?;
    }
    Ok(ctx)
}
