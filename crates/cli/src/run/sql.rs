//! `annulus sql`: statements of a text, or a shell.

use std::{
    io::{BufWriter, IsTerminal, Write, stdout},
    path::Path,
    sync::Arc,
};

use anyhow::{Context, Error, Result, anyhow, bail};
use datafusion::{
    config::ConfigOptions,
    execution::SendableRecordBatchStream,
    prelude::{SessionConfig, SessionContext},
    sql::parser::Statement,
};
use datafusion_cli::{
    catalog::DynamicObjectStoreCatalog,
    exec::exec_from_commands,
    functions::{ListFilesCacheFunc, MetadataCacheFunc, ParquetMetadataFunc, StatisticsCacheFunc},
    object_storage::instrumented::InstrumentedObjectStoreRegistry,
    print_format::PrintFormat,
    print_options::{MaxRows, PrintOptions},
};

use super::{Outcome, shell};
use crate::{
    args::Format,
    errors,
    interrupt::until_interrupted,
    job::{Source, SqlJob},
    session::{self, Engine},
    sql::{
        output::OutputFile,
        pipe::PipeSink,
        script, tables,
        timestamps::CopyTimestamps,
        writer::{RowFormat, RowWriter},
    },
};

/// Runs the statements or the shell of `job`.
pub async fn run(mut job: SqlJob, spill: &Path) -> Result<Outcome> {
    let stores = Arc::new(InstrumentedObjectStoreRegistry::new());
    let mut print = print_options(&job, stores);
    match std::mem::replace(&mut job.source, Source::Shell) {
        Source::Shell => shell::run(&prepare(&job, spill, &print).await?, &mut print).await,
        Source::Text(text) => {
            until_interrupted(async {
                // Begun first: whatever speaks against the file is said before anything runs.
                let output = job.output.clone().map(OutputFile::create).transpose()?;
                let ctx = prepare(&job, spill, &print).await?;
                run_text(&ctx, &text, &print, job.format, output).await.map_err(explain_missing_table)
            })
            .await
        }
    }
}

/// A session with the tables and the options of `job`, and what DataFusion's own shell offers.
async fn prepare(job: &SqlJob, spill: &Path, print: &PrintOptions) -> Result<SessionContext> {
    let mut options = ConfigOptions::from_env()?;
    options.format.null = "NULL".to_owned();
    let config = SessionConfig::from(options).with_information_schema(true);
    let stores = Arc::clone(&print.instrumented_registry);
    let ctx = session::open(Engine::Annulus, job.limits, spill, config, Some(stores))?;
    ctx.add_analyzer_rule(Arc::new(CopyTimestamps));
    tables::name_by_path(&ctx, job.input.clone());
    let catalogs = Arc::clone(ctx.state().catalog_list());
    ctx.register_catalog_list(Arc::new(DynamicObjectStoreCatalog::new(catalogs, ctx.state_weak_ref())));

    let caches = &ctx.runtime_env().cache_manager;
    ctx.register_udtf("parquet_metadata", Arc::new(ParquetMetadataFunc {}));
    ctx.register_udtf("metadata_cache", Arc::new(MetadataCacheFunc::new(Arc::clone(caches))));
    ctx.register_udtf("statistics_cache", Arc::new(StatisticsCacheFunc::new(Arc::clone(caches))));
    ctx.register_udtf("list_files_cache", Arc::new(ListFilesCacheFunc::new(Arc::clone(caches))));

    session::set_options(&ctx, &job.settings).await?;
    for table in &job.tables {
        table.register(&ctx, &job.input).await?;
    }
    Ok(ctx)
}

fn print_options(job: &SqlJob, stores: Arc<InstrumentedObjectStoreRegistry>) -> PrintOptions {
    let terminal = stdout().is_terminal();
    PrintOptions {
        format: match job.format {
            Format::Table => PrintFormat::Table,
            Format::Csv => PrintFormat::Csv,
            Format::Tsv => PrintFormat::Tsv,
            Format::Json => PrintFormat::Json,
            Format::Ndjson => PrintFormat::NdJson,
        },
        // Whatever reads a pipe wants rows, not how many they were.
        quiet: !terminal || job.format != Format::Table,
        maxrows: match job.max_rows {
            usize::MAX => MaxRows::Unlimited,
            rows => MaxRows::Limited(rows),
        },
        color: terminal,
        instrumented_registry: stores,
    }
}

/// Runs the statements of `text` in order, up to the first that fails.
async fn run_text(
    ctx: &SessionContext,
    text: &str,
    print: &PrintOptions,
    format: Format,
    output: Option<OutputFile>,
) -> Result<Outcome> {
    let mut statements = script::parse(ctx, text)?;
    let last = match output {
        None => None,
        Some(file) => match statements.pop_if(|statement| statement.is_query()) {
            Some(query) => Some((query, file)),
            None => bail!("--output needs a query as the last statement, and there is none"),
        },
    };
    for statement in statements {
        match row_format(format).filter(|_| statement.is_query()) {
            // Rows go out as they come; DataFusion's printer would collect them first.
            Some(format) => {
                let rows = execute(ctx, statement.parsed).await?;
                let sink = PipeSink::new(BufWriter::new(stdout()));
                let closed = sink.closed();
                print_rows(format, sink, rows).await.map_err(|error| closed.instead_of(error))?;
            }
            None => exec_from_commands(ctx, vec![statement.text], print).await?,
        }
    }
    if let Some((query, file)) = last {
        let target = file.target().display().to_string();
        let rows = execute(ctx, query.parsed).await?;
        let count = file.write(rows).await.with_context(|| format!("writing '{target}'"))?;
        eprintln!("{count} rows in {target}");
    }
    Ok(Outcome::Done)
}

async fn print_rows(format: RowFormat, sink: impl Write + Send, rows: SendableRecordBatchStream) -> Result<usize> {
    let schema = rows.schema();
    RowWriter::new(format, sink, &schema)?.write_all(rows).await
}

async fn execute(ctx: &SessionContext, statement: Statement) -> Result<SendableRecordBatchStream> {
    let plan = ctx.state().statement_to_plan(statement).await?;
    Ok(ctx.execute_logical_plan(plan).await?.execute_stream().await?)
}

/// Adds where tables come from to an error about a missing one.
fn explain_missing_table(error: Error) -> Error {
    let text = errors::text(&error);
    if text.contains("table '") && text.contains("' not found") {
        return anyhow!("{text}; check the name or the path, or give the table with -t NAME=PATH");
    }
    error
}

/// The format of rows that are printed as they come; tables need all rows for the width of their columns.
fn row_format(format: Format) -> Option<RowFormat> {
    match format {
        Format::Table => None,
        Format::Csv => Some(RowFormat::Separated(b',')),
        Format::Tsv => Some(RowFormat::Separated(b'\t')),
        Format::Json => Some(RowFormat::JsonArray),
        Format::Ndjson => Some(RowFormat::JsonLines),
    }
}
