//! The expressions that a join outputs instead of all columns.

use std::collections::HashSet;

use annulus_join::{Side, Sides};
use datafusion::{
    error::DataFusionError,
    logical_expr::Expr,
    sql::sqlparser::{
        ast::{ExprWithAlias, SelectItem, SelectItemQualifiedWildcardKind, WildcardAdditionalOptions},
        dialect::GenericDialect,
        parser::{Parser, ParserError},
        tokenizer::Token,
    },
};

use super::{
    Query, QueryError,
    sql::{Sql, reason},
};

/// The list of expressions of a query.
pub(super) struct Selection {
    /// The columns of the joined rows.
    sql: Sql,
    items: Vec<Item>,
}

/// One expression of the list.
struct Item {
    expr: Expr,
    name: String,
    /// The text as typed, for errors.
    text: String,
    /// The side, if the expression is a column without an alias. One of the right side gets the
    /// suffix if its name is taken.
    column_of: Option<Side>,
}

impl Selection {
    /// Parses the list of a query, if it has one, over the columns of `sql`.
    ///
    /// # Errors
    /// If the list is invalid, names a column that does not exist or is not output by the join, or
    /// gives two columns the same name.
    pub(super) fn new(sql: &Sql, query: &Query) -> Result<Option<Self>, QueryError> {
        let Some(text) = &query.select else { return Ok(None) };
        let failed = |error: DataFusionError| refuse(text, reason(&error));
        let mut selection = Self { sql: sql.of_joined(query.join_type()).map_err(failed)?, items: Vec::new() };
        for item in parse(text)? {
            let typed = item.to_string();
            selection.add(item, &typed, query).map_err(|reason| {
                let left_out = reason.starts_with("no column").then(|| selection.side_without_columns()).flatten();
                let remark =
                    left_out.map(|side| format!("; a join of type {} has no columns of '{side}'", query.join.name()));
                refuse(&typed, reason + &remark.unwrap_or_default())
            })?;
        }
        selection.name(&query.suffix)?;
        Ok(Some(selection))
    }

    /// Returns the expressions with their names in the output.
    pub(super) fn exprs(&self) -> impl Iterator<Item = Expr> {
        self.items.iter().map(|item| item.expr.clone().alias(&item.name))
    }

    /// Returns the text, as it was typed, of each expression that `is_wanted`.
    pub(super) fn typed(&self, is_wanted: impl Fn(&Expr) -> bool) -> impl Iterator<Item = String> {
        self.items.iter().filter(move |item| is_wanted(&item.expr)).map(|item| item.text.clone())
    }

    /// Returns the name of the side that the join outputs no columns of, if there is one.
    fn side_without_columns(&self) -> Option<String> {
        let without = self.sql.sides.iter().find(|(_, schema)| schema.fields().is_empty());
        without.map(|(name, _)| name.to_string())
    }

    fn add(&mut self, item: SelectItem, typed: &str, query: &Query) -> Result<(), String> {
        match item {
            SelectItem::UnnamedExpr(expr) => self.push(ExprWithAlias { expr, alias: None }, typed, None),
            SelectItem::ExprWithAlias { expr, alias } => {
                let name = alias.value.clone();
                self.push(ExprWithAlias { expr, alias: None }, typed, Some(name))
            }
            SelectItem::Wildcard(options) if is_plain(&options) => {
                Side::BOTH.into_iter().for_each(|side| self.push_all(side));
                Ok(())
            }
            SelectItem::QualifiedWildcard(SelectItemQualifiedWildcardKind::ObjectName(name), options)
                if is_plain(&options) =>
            {
                let name = name.to_string();
                let name = name.trim_matches('"');
                let Some(side) = Side::BOTH.into_iter().find(|&side| query.sides[side].name == name) else {
                    let Sides { left, right } = query.sides.as_ref().map(|side| &side.name);
                    return Err(format!("no input is called '{name}'; they are '{left}' and '{right}'"));
                };
                if self.sql.sides[side].1.fields().is_empty() {
                    return Err(format!("a join of type {} has no columns of '{name}'", query.join.name()));
                }
                self.push_all(side);
                Ok(())
            }
            _ => Err("expected an expression, an expression AS a name, *, or an input's name and .*".to_owned()),
        }
    }

    fn push(&mut self, parsed: ExprWithAlias, typed: &str, name: Option<String>) -> Result<(), String> {
        let sql = &self.sql;
        let expr = sql.resolve(parsed).map_err(|error| reason(&error))?;
        if !is_of_one_row(&expr) {
            return Err("aggregates, window functions and subqueries are not possible here; query the result of the \
                join instead"
                .to_owned());
        }
        let column_of = match (&expr, &name) {
            (Expr::Column(_), None) => sql.only_side(&expr),
            _ => None,
        };
        let name = name.unwrap_or_else(|| match &expr {
            Expr::Column(column) => column.name.clone(),
            _ => typed.to_owned(),
        });
        let expr = sql.prepare(expr).map_err(|error| reason(&error))?;
        self.items.push(Item { expr, name, text: typed.to_owned(), column_of });
        Ok(())
    }

    fn push_all(&mut self, side: Side) {
        let fields = self.sql.sides[side].1.fields().clone();
        self.items.extend(fields.iter().map(|field| {
            let expr = self.sql.column(side, field.name());
            let text = expr.to_string();
            Item { expr, name: field.name().clone(), text, column_of: Some(side) }
        }));
    }

    /// Adds the suffix to columns of the right side if another column has the same name. All other
    /// names are unchanged.
    fn name(&mut self, suffix: &str) -> Result<(), QueryError> {
        let is_right = |item: &&mut Item| item.column_of == Some(Side::Right);
        let (right, others): (Vec<_>, Vec<_>) = self.items.iter_mut().partition(is_right);
        let names = |items: &[&mut Item]| items.iter().map(|item| item.name.clone()).collect::<Vec<_>>();
        let renamed = names_beside(&names(&others), &names(&right), suffix);
        for (item, name) in right.into_iter().zip(renamed) {
            item.name = name;
        }
        let mut taken = HashSet::new();
        match self.items.iter().find(|item| !taken.insert(&item.name)) {
            None => Ok(()),
            Some(item) => {
                let reason =
                    format!("another column is called '{}', too; give one of them another name (AS)", item.name);
                Err(refuse(&item.text, reason))
            }
        }
    }
}

fn parse(text: &str) -> Result<Vec<SelectItem>, QueryError> {
    let parsed = Parser::new(&GenericDialect {}).try_with_sql(text).and_then(|mut parser| {
        let items = parser.parse_projection()?;
        parser.expect_token(&Token::EOF)?;
        Ok(items)
    });
    parsed.map_err(|error| match error {
        ParserError::ParserError(message) | ParserError::TokenizerError(message) => refuse(text, message),
        ParserError::RecursionLimitExceeded => refuse(text, "it is nested too deeply".to_owned()),
    })
}

fn is_plain(options: &WildcardAdditionalOptions) -> bool {
    *options == WildcardAdditionalOptions::default()
}

/// Returns whether an expression can be evaluated row by row.
pub(super) fn is_of_one_row(expr: &Expr) -> bool {
    use datafusion::common::tree_node::TreeNode;
    let needs_others = |expr: &Expr| {
        Ok(matches!(
            expr,
            Expr::AggregateFunction(_)
                | Expr::WindowFunction(_)
                | Expr::ScalarSubquery(_)
                | Expr::InSubquery(_)
                | Expr::Exists(_)
                | Expr::SetComparison(_)
                | Expr::Unnest(_)
        ))
    };
    !expr.exists(needs_others).unwrap_or(true)
}

fn refuse(text: &str, reason: String) -> QueryError {
    QueryError::Select { text: text.to_owned(), reason }
}

/// Returns the names of the right side's columns beside others. A name that another column has gets
/// the suffix, repeated until it is unique.
pub(super) fn names_beside(others: &[String], right: &[String], suffix: &str) -> Vec<String> {
    let mut taken: HashSet<String> = others.iter().chain(right).cloned().collect();
    let others: HashSet<&String> = others.iter().collect();
    let beside = |name: &String| {
        let mut name = name.clone();
        if others.contains(&name) {
            while !suffix.is_empty() && !taken.insert(name.clone()) {
                name.push_str(suffix);
            }
        }
        name
    };
    right.iter().map(beside).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_two_columns_have_the_same_name() {
        let owned = |names: &[&str]| names.iter().map(|&name| name.to_owned()).collect::<Vec<_>>();
        let (left, right) = (owned(&["id", "x", "x_right"]), owned(&["id", "x", "x_right", "x_right_right", "y"]));
        let names = names_beside(&left, &right, "_right");
        let mut all: Vec<&str> = names.iter().map(String::as_str).chain(["id", "x", "x_right"]).collect();
        all.sort_unstable();
        all.dedup();
        assert_eq!(all.len(), 8, "{names:?}");
        assert_eq!((names[0].as_str(), names[3].as_str(), names[4].as_str()), ("id_right", "x_right_right", "y"));
    }
}
