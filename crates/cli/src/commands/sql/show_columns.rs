//! `SHOW COLUMNS FROM 'file'`: DataFusion looks for the columns of registered tables only.

use datafusion::sql::{
    parser::Statement,
    sqlparser::ast::{DescribeAlias, ShowStatementIn, Statement as SqlStatement},
};

/// Returns the statement that lists the columns of a file, if `statement` is one that shows them.
/// `is_path` decides whether the name of a table is a path.
pub fn of_file(statement: Statement, is_path: impl Fn(&str) -> bool) -> Statement {
    let Statement::Statement(sql) = &statement else { return statement };
    let SqlStatement::ShowColumns { show_options, .. } = sql.as_ref() else { return statement };
    let Some(ShowStatementIn { parent_name: Some(name), .. }) = &show_options.show_in else { return statement };
    let is_file = match &name.0[..] {
        [part] => part.as_ident().is_some_and(|name| is_path(&name.value)),
        _ => false,
    };
    let is_plain = show_options.filter_position.is_none() && show_options.limit.is_none();
    if !is_file || !is_plain {
        return statement;
    }
    let (describe_alias, table_name) = (DescribeAlias::Describe, name.clone());
    let described =
        SqlStatement::ExplainTable { describe_alias, hive_format: None, has_table_keyword: false, table_name };
    Statement::Statement(Box::new(described))
}
