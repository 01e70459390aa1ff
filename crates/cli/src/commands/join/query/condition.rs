//! The condition of a join, as one predicate over both sides.

use annulus_join::{Side, Sides};
use arrow::datatypes::{DataType, Field, SchemaRef};
use datafusion::{
    common::Column,
    error::DataFusionError,
    logical_expr::{
        Expr,
        utils::{split_conjunction, split_conjunction_owned},
    },
    prelude::SessionConfig,
};

use super::{
    Query, QueryError,
    select::{Selection, is_of_one_row, names_beside},
    sql::{Sql, reason},
};
use crate::commands::join::values::NearestArg;

/// The condition of a join.
pub struct Condition {
    pub(super) sql: Sql,
    /// A pair of rows must satisfy all of them.
    pub(super) predicates: Vec<Expr>,
    /// The comparison of times of an as-of join, and its text.
    pub(super) asof: Option<(Expr, String)>,
    /// The expression of a nearest-rows join, and what was typed.
    pub(super) nearest: Option<(Expr, NearestArg)>,
}

impl Condition {
    /// Reads the condition of a query over inputs with these columns, with the options of `session`. Keys of
    /// different types are cast to one type, as in `annulus sql`.
    ///
    /// # Errors
    /// If a column does not exist, keys cannot be compared, or the predicate is invalid.
    pub fn new(query: &Query, schemas: Sides<&SchemaRef>, session: &SessionConfig) -> Result<Self, QueryError> {
        let Sides { left: a, right: b } = query.sides.as_ref().map(|side| &*side.name);
        let (left, right) = (schemas.left, schemas.right);
        let failed = |text: &str| {
            let text = text.to_owned();
            move |error: DataFusionError| QueryError::Condition { text, reason: reason(&error) }
        };
        let sql = Sql::new((a, left), (b, right), session).map_err(failed("the columns"))?;
        let mut predicates = Vec::new();
        for (key, other) in &query.on {
            check_column(a, left, key)?;
            check_column(b, right, other)?;
            check_kinds((key, left), (other, right))?;
            let equal = sql.column(Side::Left, key).eq(sql.column(Side::Right, other));
            predicates.push(sql.prepare(equal).map_err(failed(&format!("{key} = {other}")))?);
        }
        if let Some(text) = &query.condition {
            predicates.extend(split_conjunction_owned(predicate(&sql, text)?));
        }
        let asof = query.asof.as_ref().map(|text| Ok::<_, QueryError>((predicate(&sql, text)?, text.clone())));
        let nearest = query
            .nearest
            .as_ref()
            .map(|nearest| Ok::<_, QueryError>((expression(&sql, &nearest.by)?, nearest.clone())));
        Ok(Self { asof: asof.transpose()?, nearest: nearest.transpose()?, sql, predicates })
    }

    /// Returns the expressions that the query outputs, with their names.
    ///
    /// # Errors
    /// If its list of expressions is invalid.
    pub fn output(&self, query: &Query) -> Result<Vec<Expr>, QueryError> {
        if let Some(selection) = Selection::new(&self.sql, query)? {
            return Ok(selection.exprs().collect());
        }
        let join = query.join_type();
        let names = |side: Side| -> Vec<String> {
            let fields = self.sql.sides[side].1.fields().iter().filter(|_| join.outputs(side));
            fields.map(|field| field.name().clone()).collect()
        };
        let (left, right) = (names(Side::Left), names(Side::Right));
        let renamed = names_beside(&left, &right, &query.suffix);
        let left_columns = left.iter().map(|name| (self.sql.column(Side::Left, name), name));
        let right_columns = right.iter().map(|name| self.sql.column(Side::Right, name)).zip(&renamed);
        Ok(left_columns.chain(right_columns).map(|(column, name)| column.alias(name)).collect())
    }

    /// Returns the column of an input that an expression of the output is, if it is one.
    pub fn column_of(&self, expr: &Expr) -> Option<(Side, usize)> {
        match expr {
            Expr::Alias(alias) => self.column_of(&alias.expr),
            Expr::Column(column) => self.sql.find(column),
            _ => None,
        }
    }
}

/// Parses and checks a predicate.
///
/// # Errors
/// If it is invalid, or changes its value with each call.
fn predicate(sql: &Sql, text: &str) -> Result<Expr, QueryError> {
    let refuse = |reason: String| QueryError::Condition { text: text.to_owned(), reason };
    let failed = |error: DataFusionError| refuse(reason(&error));
    let expr = expression(sql, text)?;
    for part in std::iter::once(&expr).chain(split_conjunction(&expr)) {
        let data_type = sql.type_of(part).map_err(failed)?;
        if data_type != DataType::Boolean {
            return Err(refuse(format!("'{}' is of type {data_type}, and must be true or false", sql.text(part))));
        }
    }
    Ok(expr)
}

/// Parses an expression over the columns of both sides.
///
/// # Errors
/// If it is invalid, or changes its value with each call.
fn expression(sql: &Sql, text: &str) -> Result<Expr, QueryError> {
    let refuse = |reason: String| QueryError::Condition { text: text.to_owned(), reason };
    let failed = |error: DataFusionError| refuse(reason(&error));
    let expr = sql.parse(text).map_err(failed)?;
    if !is_of_one_row(&expr) {
        return Err(refuse("aggregates, window functions and subqueries are not possible in a condition".to_owned()));
    }
    let (texts, zoned) = (sql.text_columns(&expr), sql.has_zone(&expr));
    let expr = sql.prepare(expr).map_err(|error| {
        let reason = reason(&error);
        refuse(no_time(&reason, &texts, zoned).unwrap_or(reason))
    })?;
    if expr.is_volatile() {
        return Err(refuse(
            "it calls a function whose value changes with each call, such as random(), and it is evaluated more than \
             once"
                .to_owned(),
        ));
    }
    Ok(expr)
}

/// Returns the reason for an error about texts that are used as times. `texts` are the text columns
/// of the predicate, and `zoned` says whether it has times with a zone.
fn no_time(reason: &str, texts: &[Column], zoned: bool) -> Option<String> {
    let is_time = ["Interval", "Timestamp", "Date"].iter().any(|time| reason.contains(time));
    let column = texts.first().filter(|_| is_time && reason.contains("Utf8"))?;
    let names = texts.iter().map(|column| format!("'{}'", column.flat_name())).collect::<Vec<_>>().join(" and ");
    let (are, name, whole) = (if texts.len() == 1 { "is" } else { "are" }, &column.name, column.flat_name());
    if zoned {
        return Some(format!(
            "{names} {are} text and cannot be used as a time; read CSV and JSON with --types {name}=timestamptz, or \
             write CAST({whole} AS TIMESTAMPTZ)"
        ));
    }
    Some(format!(
        "{names} {are} text and cannot be used as a time; read CSV and JSON with --types {name}=timestamp, or write \
         to_timestamp({whole})"
    ))
}

/// Refuses keys of which one is a text and the other is not: a cast would fail at the first text
/// that is not a number, or find '007' equal to 7.
fn check_kinds((a, left): (&str, &SchemaRef), (b, right): (&str, &SchemaRef)) -> Result<(), QueryError> {
    // Both columns exist.
    let type_of = |column: &str, schema: &SchemaRef| match schema.field_with_name(column).map(Field::data_type) {
        Ok(DataType::Dictionary(_, values)) => DataType::clone(values),
        found => found.unwrap_or(&DataType::Null).clone(),
    };
    let (left, right) = (type_of(a, left), type_of(b, right));
    if left.is_string() == right.is_string() || left.is_null() || right.is_null() {
        return Ok(());
    }
    let text = format!("{a} = {b}");
    let reason = format!(
        "the left column is {left} and the right one {right}; choose others, give one of them another type (--types), \
         or compare a CAST in a predicate (--where)"
    );
    Err(QueryError::Condition { text, reason })
}

fn check_column(side: &str, schema: &SchemaRef, column: &str) -> Result<(), QueryError> {
    if schema.index_of(column).is_ok() {
        return Ok(());
    }
    if let Some(name) = column.strip_prefix(side).and_then(|rest| rest.strip_prefix('.'))
        && schema.index_of(name).is_ok()
    {
        let reason = format!("no column '{column}' in '{side}'; write {name}, without the name of the input");
        return Err(QueryError::Option { option: "on", reason });
    }
    let names: Vec<_> = schema.fields().iter().map(|field| field.name().as_str()).collect();
    let mut columns = names.join(", ");
    if let [single] = names[..]
        && let Some(delimiter) = single.chars().find(|one| [';', '\t', '|'].contains(one))
    {
        // Perhaps a CSV file with another delimiter was read with commas.
        let delimiter = if delimiter == '\t' { "$'\\t'".to_owned() } else { format!("'{delimiter}'") };
        columns += &format!(" (if these are several, give --delimiter {delimiter})");
    }
    Err(QueryError::Column { column: column.to_owned(), side: side.to_owned(), columns })
}
