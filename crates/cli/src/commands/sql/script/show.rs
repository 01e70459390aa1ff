//! `SHOW TABLES`, which lists a user's tables and not those of `information_schema`.

use anyhow::Result;
use datafusion::sql::{
    parser::{DFParser, Statement},
    sqlparser::ast::{
        ShowStatementFilter, ShowStatementFilterPosition, ShowStatementIn, ShowStatementOptions,
        Statement as SqlStatement,
    },
};

/// Replaces `SHOW TABLES [IN schema] [LIKE pattern]` by its query. Other forms are left for the planner,
/// which refuses them.
///
/// # Errors
/// Never in practice: the query is SQL.
pub fn replace_show_tables(statement: &mut Statement) -> Result<()> {
    let Statement::Statement(inner) = &*statement else { return Ok(()) };
    let SqlStatement::ShowTables {
        terse: false,
        history: false,
        extended: false,
        full: false,
        external: false,
        show_options,
    } = &**inner
    else {
        return Ok(());
    };
    let Some(conditions) = conditions(show_options) else { return Ok(()) };
    let query = format!(
        "SELECT * FROM information_schema.tables WHERE {conditions} ORDER BY table_catalog, table_schema, table_name"
    );
    if let Some(query) = DFParser::parse_sql(&query)?.pop_front() {
        *statement = query;
    }
    Ok(())
}

/// Returns the condition on `information_schema.tables`; `None` for an option that is not known.
fn conditions(options: &ShowStatementOptions) -> Option<String> {
    let ShowStatementOptions { show_in, starts_with: None, limit: None, limit_from: None, filter_position } = options
    else {
        return None;
    };
    let mut all = match show_in {
        None => "table_schema <> 'information_schema'".to_owned(),
        Some(ShowStatementIn { parent_name: Some(name), .. }) => {
            let schema = name.0.last()?.as_ident()?.value.replace('\'', "''");
            format!("table_schema = '{schema}'")
        }
        Some(_) => return None,
    };
    match filter_position {
        None => {}
        Some(ShowStatementFilterPosition::Infix(filter) | ShowStatementFilterPosition::Suffix(filter)) => {
            let (word, pattern) = match filter {
                ShowStatementFilter::Like(pattern) => ("LIKE", pattern),
                ShowStatementFilter::ILike(pattern) => ("ILIKE", pattern),
                _ => return None,
            };
            all += &format!(" AND table_name {word} '{}'", pattern.replace('\'', "''"));
        }
    }
    Some(all)
}
