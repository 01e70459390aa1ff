//! Sessions, and the rows of a query as text.

use annulus_datafusion::{AnnulusConfig, SessionStateBuilderExt, config::Joins};
use arrow::util::display::{ArrayFormatter, FormatOptions};
use datafusion::{
    execution::SessionStateBuilder,
    prelude::{SessionConfig, SessionContext},
};

pub const JOINS: [Joins; 3] = [Joins::Always, Joins::Auto, Joins::Never];

pub fn session(joins: Joins) -> SessionContext {
    let annulus = AnnulusConfig { joins, keyed_bands: joins, ..Default::default() };
    let config = SessionConfig::new().with_target_partitions(1).with_option_extension(annulus);
    let state = SessionStateBuilder::new_with_default_features().with_config(config).with_annulus().build();
    SessionContext::new_with_state(state)
}

/// Runs statements, of which none may fail.
pub async fn run(context: &SessionContext, statements: &[&str]) {
    for statement in statements {
        rows(context, statement).await.unwrap_or_else(|error| panic!("{statement}: {error}"));
    }
}

/// Returns the rows of a query in order, their values joined by commas, or the error.
pub async fn rows(context: &SessionContext, query: &str) -> Result<Vec<String>, String> {
    let planned = context.sql(query).await.map_err(|error| error.to_string())?;
    let batches = planned.collect().await.map_err(|error| error.to_string())?;
    let options = FormatOptions::default().with_null("null");
    let mut lines = Vec::new();
    for batch in batches {
        let columns = batch.columns().iter().map(|column| ArrayFormatter::try_new(column.as_ref(), &options));
        let columns = columns.collect::<Result<Vec<_>, _>>().map_err(|error| error.to_string())?;
        let line = |row| columns.iter().map(|column| column.value(row).to_string()).collect::<Vec<_>>().join(",");
        lines.extend((0..batch.num_rows()).map(line));
    }
    lines.sort_unstable();
    Ok(lines)
}
