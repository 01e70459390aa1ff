//! Runs statements.

use std::{collections::BTreeSet, path::Path, sync::Arc, time::Instant};

use annulus_datafusion::{
    Comparisons, DatasetTable, NotPartitioned, why_stock_joins, why_stock_repartitions, why_stock_scans,
};
use annulus_dataset::NoLayout;
use annulus_distributed::ResidentTables;
use anyhow::{Context, Error, Result, anyhow, bail};
use datafusion::{
    common::tree_node::TreeNodeRecursion,
    dataframe::DataFrame,
    datasource::{listing::ListingTableUrl, source_as_provider},
    execution::SessionState,
    logical_expr::{Analyze, DdlStatement, Explain, LogicalPlan},
    optimizer::AnalyzerRule as _,
    prelude::SessionContext,
};
use object_store::ObjectStoreExt;

use super::{
    given_types::GivenTypes,
    output::OutputFile,
    overflow, paths, plans,
    script::{PlacedStatement, Script, ScriptStatement},
    show_columns, tables,
    view::{View, row_count},
};
use crate::{errors, instants::with_instants, notes::note, stores};

/// Runs the statements of `script` in order, until one fails. Results are printed as `view`
/// specifies. With an `output`, the result of the last statement is written there.
///
/// # Errors
/// Those of the statements, with their file and line.
pub async fn run_all(ctx: &SessionContext, script: &Script, view: &View, output: Option<OutputFile>) -> Result<()> {
    let statements = script.parse(ctx)?;
    if output.is_some() && !statements.last().is_some_and(|last| last.is_query) {
        bail!("an output file needs a query as the last statement");
    }
    let (count, mut output) = (statements.len(), output);
    for (index, placed) in statements.into_iter().enumerate() {
        let (line, is_last) = (placed.line, index + 1 == count);
        let output = if is_last { output.take() } else { None };
        if let Err(error) = run(ctx, placed, view, output, is_last).await {
            let line = script.line_of(&error, ctx, index).await.unwrap_or(line);
            return Err(script.located(explain(ctx, error).await, line));
        }
    }
    Ok(())
}

/// Runs a statement, and prints its rows or writes them to `output`. When the last one starts, all tables
/// that are read are known.
async fn run(
    ctx: &SessionContext,
    placed: PlacedStatement,
    view: &View,
    output: Option<OutputFile>,
    is_last: bool,
) -> Result<()> {
    let PlacedStatement { statement, is_query, .. } = placed;
    let started = Instant::now();
    let indented = statement.explained_in_lines();
    let planned = plan(ctx, &ctx.state(), statement, is_last).await?;
    let mut rows = overflow::checked(start(ctx, planned).await?.execute_stream().await?);
    if let Some(file) = output {
        let target = file.target().display().to_string();
        let count = file.write(rows, ctx).await.with_context(|| format!("cannot write '{target}'"))?;
        eprintln!("{} in {target}", row_count(count));
        return Ok(());
    }
    if let (Some(indented), Some(width)) = (indented, view.line_width()) {
        rows = plans::fitted(ctx, rows, indented, width).await?;
    }
    view.show(ctx, rows, is_query, started).await
}

/// Returns the plan of a statement in the session `ctx`, whose tables are those of `state`. When the last
/// statement is planned, all tables that are read are known.
///
/// # Errors
/// If it cannot be planned, or what it writes to is read-only.
pub async fn plan(
    ctx: &SessionContext,
    state: &SessionState,
    statement: ScriptStatement,
    is_last: bool,
) -> Result<LogicalPlan> {
    let statement = match statement {
        ScriptStatement::Stock(statement) => *statement,
        ScriptStatement::Resident(statement) => {
            let Some(tables) = state.config().get_extension::<ResidentTables>() else {
                bail!("resident tables stay in the memory of workers: name some with --workers");
            };
            return Ok(tables.run(ctx, statement).await?.into_unoptimized_plan());
        }
    };
    let statement = show_columns::of_file(statement, tables::is_path);
    if let Some(tables) = state.config().get_extension::<ResidentTables>()
        && statement.to_string().contains("information_schema")
    {
        // Without the workers, other tables are listed.
        tables.refresh().await.ok();
    }
    let mut plan = with_instants(state).statement_to_plan(statement).await?;
    if is_last {
        GivenTypes::check(state.config())?;
    }
    note_and_complete(ctx, state, &mut plan).await?;
    Ok(plan)
}

/// Tells people what may surprise them about `plan`, and names the files that it writes and reads as the
/// engine wants them.
async fn note_and_complete(ctx: &SessionContext, state: &SessionState, plan: &mut LogicalPlan) -> Result<()> {
    if let LogicalPlan::Copy(copy) = plan {
        paths::check_target(&copy.output_url)?;
        if paths::has_files(&copy.output_url) {
            note(format_args!("'{}' already has files: COPY adds to them", copy.output_url));
        }
        copy.output_url = paths::target_url(&copy.output_url).unwrap_or_else(|| copy.output_url.clone());
    }
    if let LogicalPlan::Ddl(DdlStatement::CreateView(view)) = plan {
        // DataFusion coerces the types of a view by its own rules alone.
        let compared = Comparisons::default().analyze(LogicalPlan::clone(&view.input), state.config_options())?;
        view.input = Arc::new(compared);
    }
    if let LogicalPlan::Ddl(DdlStatement::CreateExternalTable(table)) = plan {
        for location in &mut table.locations {
            *location = paths::location(location).unwrap_or_else(|| location.clone());
        }
        let options = stores::take_options(&mut table.options);
        for location in table.locations.iter().filter(|_| !options.is_empty()) {
            let url = ListingTableUrl::parse(location)?;
            ctx.register_object_store(url.as_ref(), stores::open(url.as_ref(), &options)?);
        }
    }
    if let LogicalPlan::Explain(Explain { plan: explained, .. })
    | LogicalPlan::Analyze(Analyze { input: explained, .. }) = &*plan
    {
        note_not_partitioned(plan)?;
        note_stock_operators(state, explained).await?;
    }
    Ok(())
}

/// Starts a planned statement: those that change the session have changed it afterwards, and the rows of the
/// others can be read.
///
/// # Errors
/// If a statement that changes the session fails.
pub async fn start(ctx: &SessionContext, plan: LogicalPlan) -> Result<DataFrame> {
    if asks_for_first_rows(&plan) {
        let mut state = ctx.state();
        // Several threads would read different places of a file, and the fastest one would fill the
        // limit.
        state.config_mut().options_mut().execution.target_partitions = 1;
        return Ok(DataFrame::new(state, plan));
    }
    if let LogicalPlan::Ddl(DdlStatement::CreateExternalTable(table)) = &plan
        && !table.table_partition_cols.is_empty()
    {
        return create_over_folders(ctx, plan).await;
    }
    Ok(ctx.execute_logical_plan(plan).await?)
}

/// Creates a table whose folders name values. Other folders there have no rows of it, such as the one
/// of a dataset's manifest, and DataFusion would refuse them.
async fn create_over_folders(ctx: &SessionContext, plan: LogicalPlan) -> Result<DataFrame> {
    let ignore_others = |ignore: bool| {
        let state = ctx.state_ref();
        let mut state = state.write();
        let execution = &mut state.config_mut().options_mut().execution;
        std::mem::replace(&mut execution.listing_table_ignore_subdirectory, ignore)
    };
    let before = ignore_others(true);
    let created = ctx.execute_logical_plan(plan).await;
    ignore_others(before);
    Ok(created?)
}

/// Returns whether `plan` limits the rows of a single table, without a condition, an order or a
/// join.
fn asks_for_first_rows(plan: &LogicalPlan) -> bool {
    fn as_stored(plan: &LogicalPlan) -> bool {
        match plan {
            LogicalPlan::Projection(projection) => as_stored(&projection.input),
            LogicalPlan::SubqueryAlias(alias) => as_stored(&alias.input),
            LogicalPlan::TableScan(_) => true,
            _ => false,
        }
    }
    matches!(plan, LogicalPlan::Limit(limit) if as_stored(&limit.input))
}

/// Tells people which tables of a plan were written by `partition` or `join`, and are not
/// read as partitioned, and why.
fn note_not_partitioned(plan: &LogicalPlan) -> Result<()> {
    let mut notes = BTreeSet::new();
    plan.apply_with_subqueries(|node| {
        if let LogicalPlan::TableScan(scan) = node
            && let Ok(provider) = source_as_provider(&scan.source)
            && let Some(table) = provider.downcast_ref::<DatasetTable>()
            && let Err(why) = table.partitioning()
            && why != NotPartitioned::Layout(NoLayout::NoManifest)
        {
            notes.insert(format!("'{}' is not read as partitioned: {why}", scan.table_name));
        }
        Ok(TreeNodeRecursion::Continue)
    })?;
    notes.iter().for_each(note);
    Ok(())
}

/// Tells people which joins, repartitions and scans of a plan stay with DataFusion's operators,
/// and why.
async fn note_stock_operators(state: &SessionState, explained: &LogicalPlan) -> Result<()> {
    // What cannot be planned is the error of the statement itself.
    let Ok(plan) = state.create_physical_plan(explained).await else { return Ok(()) };
    let config = state.config_options();
    let all =
        [why_stock_joins(&plan, config)?, why_stock_repartitions(&plan, config)?, why_stock_scans(&plan, config)?]
            .concat();
    let notes: BTreeSet<String> = all.into_iter().collect();
    notes.iter().for_each(note);
    Ok(())
}

/// Adds a remedy to errors whose cause is outside the statement.
pub async fn explain(ctx: &SessionContext, error: Error) -> Error {
    if errors::is_closed_pipe(&error) {
        return error;
    }
    let text = errors::text(&error);
    let Some((qualified, name)) = errors::missing_table(&text) else { return error };
    match reach(ctx, name).await {
        Err(cause) if name.contains("://") => anyhow!("cannot read '{name}': {}", errors::text(&cause)),
        _ => {
            let shown = text.replace(&format!("table '{qualified}'"), &format!("table '{name}'"));
            let remedy = match Path::new(name).exists() {
                true => "put the path in single quotes",
                false => "check the name or the path, or name a table with -t NAME=PATH",
            };
            anyhow!("{shown}: {remedy}")
        }
    }
}

/// Asks the store for `url`, because the planner reports only that the table is missing.
async fn reach(ctx: &SessionContext, url: &str) -> Result<()> {
    let url = ListingTableUrl::parse(url)?;
    ctx.runtime_env().object_store(&url)?.head(url.prefix()).await?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn only_a_bare_limit_asks_for_the_first_rows() {
        let ctx = SessionContext::new();
        ctx.sql("CREATE TABLE t AS VALUES (1), (2)").await.expect("a table");
        let first = async |sql: &str| {
            let plan = ctx.state().create_logical_plan(sql).await.expect(sql);
            asks_for_first_rows(&plan)
        };
        assert!(first("SELECT * FROM t LIMIT 1").await);
        assert!(first("SELECT a.column1 + 1 FROM t AS a LIMIT 1 OFFSET 1").await);
        for other in ["SELECT * FROM t", "SELECT * FROM t ORDER BY 1 LIMIT 1", "SELECT sum(column1) FROM t LIMIT 1"] {
            assert!(!first(other).await, "{other}");
        }
        assert!(!first("SELECT * FROM t WHERE column1 > 1 LIMIT 1").await);
    }
}
