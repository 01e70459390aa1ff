//! The expressions that a join outputs instead of all columns.

use std::{collections::HashSet, sync::Arc};

use annulus_join::{Output, OutputSpec, Side, Sides};
use arrow::{
    array::{ArrayRef, RecordBatch, RecordBatchOptions},
    datatypes::{Field, Schema, SchemaRef},
};
use datafusion::{
    common::Column,
    error::DataFusionError,
    logical_expr::Expr,
    physical_expr::{PhysicalExpr, expressions::Column as PhysicalColumn},
    sql::sqlparser::{
        ast::{ExprWithAlias, SelectItem, SelectItemQualifiedWildcardKind, WildcardAdditionalOptions},
        dialect::GenericDialect,
        parser::{Parser, ParserError},
        tokenizer::Token,
    },
};

use super::{
    bind::names_beside,
    sql::{Sql, reason},
};
use crate::{error::ClusterError, job::Query};

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

/// Evaluates the expressions of a list over the batches of a join.
pub struct Projection {
    exprs: Vec<(Arc<dyn PhysicalExpr>, String)>,
    schema: SchemaRef,
}

impl Selection {
    /// Parses the list of a query, if it has one, over the columns of `sql`.
    ///
    /// # Errors
    /// If the list is invalid, names a column that does not exist or is not output by the join, or
    /// gives two columns the same name.
    pub(super) fn new(sql: &Sql, query: &Query) -> Result<Option<Self>, ClusterError> {
        let Some(text) = &query.select else { return Ok(None) };
        let failed = |error: DataFusionError| refuse(text, reason(&error));
        let mut selection = Self { sql: sql.of_joined(query.join.0).map_err(failed)?, items: Vec::new() };
        for item in parse(text)? {
            let typed = item.to_string();
            selection.add(item, &typed, query).map_err(|reason| {
                let left_out = reason.starts_with("no column").then(|| selection.side_without_columns()).flatten();
                let remark = left_out.map(|side| format!("; a join of type {} has no columns of '{side}'", query.join));
                refuse(&typed, reason + &remark.unwrap_or_default())
            })?;
        }
        selection.name(&query.suffix)?;
        Ok(Some(selection))
    }

    /// Returns the columns of `side` that the expressions use, in ascending order.
    pub(super) fn columns(&self, side: Side) -> Vec<usize> {
        let used = self.items.iter().flat_map(|item| self.sql.columns(&item.expr));
        let mut columns: Vec<usize> = used.filter(|column| column.0 == side).map(|column| column.1).collect();
        columns.sort_unstable();
        columns.dedup();
        columns
    }

    /// Returns the expressions with their names in the output.
    pub(super) fn exprs(&self) -> impl Iterator<Item = Expr> {
        self.items.iter().map(|item| item.expr.clone().alias(&item.name))
    }

    /// Returns the text, as it was typed, of each expression that `is_wanted`.
    pub(super) fn typed(&self, is_wanted: impl Fn(&Expr) -> bool) -> impl Iterator<Item = String> {
        self.items.iter().filter(move |item| is_wanted(&item.expr)).map(|item| item.text.clone())
    }

    /// Returns the list as SQL, one text for each expression.
    pub(super) fn shown(&self) -> Vec<String> {
        let shown = |item: &Item| {
            let text = self.sql.text(&item.expr);
            let is_own_name = matches!(&item.expr, Expr::Column(column) if column.name == item.name);
            let name = Column::new_unqualified(&item.name).quoted_flat_name();
            if is_own_name { text } else { format!("{text} AS {name}") }
        };
        self.items.iter().map(shown).collect()
    }

    /// Compiles the list for batches of `output`. `columns` are the output columns of each side.
    pub(super) fn bind(&self, output: &OutputSpec, columns: Sides<Vec<usize>>) -> Result<Projection, ClusterError> {
        let joined = Output::try_new(output.clone())?.schema().clone();
        let of = |side: Side| columns[side].iter().map(move |&column| (side, column));
        let named: Vec<(Side, usize)> = Side::BOTH.into_iter().flat_map(of).collect();
        let (mut exprs, mut fields) = (Vec::new(), Vec::new());
        for item in &self.items {
            let failed = |error: DataFusionError| refuse(&item.text, reason(&error));
            let expr = self.sql.physical(&item.expr, &named).map_err(failed)?;
            let field = expr.return_field(&joined).map_err(failed)?;
            fields.push(Field::clone(&field).with_name(&item.name));
            exprs.push((expr, item.text.clone()));
        }
        Ok(Projection { exprs, schema: Arc::new(Schema::new(fields)) })
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
                let sides = [(&query.left.name, Side::Left), (&query.right.name, Side::Right)];
                let Some((_, side)) = sides.into_iter().find(|(side, _)| *side == name) else {
                    let (left, right) = (&query.left.name, &query.right.name);
                    return Err(format!("no input is called '{name}'; they are '{left}' and '{right}'"));
                };
                if self.sql.sides[side].1.fields().is_empty() {
                    return Err(format!("a join of type {} has no columns of '{name}'", query.join));
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
    fn name(&mut self, suffix: &str) -> Result<(), ClusterError> {
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

impl Projection {
    /// Returns the column of the joined rows that each expression is, if it is one.
    pub(super) fn columns(&self) -> impl Iterator<Item = Option<usize>> {
        self.exprs.iter().map(|(expr, _)| expr.downcast_ref::<PhysicalColumn>().map(PhysicalColumn::index))
    }

    /// Returns the output columns.
    pub fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    /// Evaluates the expressions over a batch of the join.
    ///
    /// # Errors
    /// If an expression fails, as a cast or a division may.
    pub fn apply(&self, batch: &RecordBatch) -> Result<RecordBatch, ClusterError> {
        let rows = batch.num_rows();
        let evaluate = |(expr, text): &(Arc<dyn PhysicalExpr>, String)| {
            let values = expr.evaluate(batch).and_then(|values| values.into_array(rows));
            values.map_err(|error| refuse(text, reason(&error)))
        };
        let columns = self.exprs.iter().map(evaluate).collect::<Result<Vec<ArrayRef>, _>>()?;
        let options = RecordBatchOptions::new().with_row_count(Some(rows));
        Ok(RecordBatch::try_new_with_options(Arc::clone(&self.schema), columns, &options)?)
    }
}

fn parse(text: &str) -> Result<Vec<SelectItem>, ClusterError> {
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
fn is_of_one_row(expr: &Expr) -> bool {
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

fn refuse(text: &str, reason: String) -> ClusterError {
    ClusterError::Select { text: text.to_owned(), reason }
}
