//! The condition of a join, split by the part of the join that evaluates it.

use annulus_join::{Keys, Side, Sides};
use arrow::{
    datatypes::{DataType, Field, Schema, SchemaRef},
    error::ArrowError,
};
use datafusion::{
    common::Column,
    error::DataFusionError,
    logical_expr::{BinaryExpr, Expr, Operator, utils::split_conjunction_owned},
};

use super::{
    band::{self, BandParts},
    sql::{Sql, reason},
};
use crate::{error::ClusterError, job::Query};

/// The condition of a join. A pair of rows must satisfy all parts.
pub struct Condition {
    pub(super) sql: Sql,
    /// Keys that must be equal. Both expressions of a key have the same type.
    pub(super) equal: Vec<Equal>,
    /// Whether null keys are equal.
    pub(super) nulls_equal: bool,
    /// The band: bounds on the difference of two expressions.
    pub(super) band: Option<BandParts>,
    /// Predicates over only the left side, and over only the right side.
    pub(super) alone: Sides<Vec<Expr>>,
    /// The other predicates.
    pub(super) rest: Vec<Expr>,
}

/// An equality of keys.
pub(super) struct Equal {
    /// The keys of the left and the right side.
    pub(super) keys: Sides<Expr>,
    /// The predicate that the equality comes from.
    pub(super) whole: Expr,
}

impl Condition {
    /// Splits the condition of a query. Keys of different types are cast to one type, as in
    /// DataFusion. `now_ns` is the time that functions like `now()` return, in nanoseconds since
    /// 1970; all hosts must use the same time.
    ///
    /// # Errors
    /// If a column does not exist, keys cannot be compared, or the predicate is invalid.
    pub fn new(query: &Query, left: &SchemaRef, right: &SchemaRef, now_ns: i64) -> Result<Self, ClusterError> {
        if query.left.name == query.right.name {
            let reason =
                format!("both inputs are named '{}'; give one of them another name (NAME=PATH)", query.left.name);
            return Err(ClusterError::Option { option: "LEFT and RIGHT", reason });
        }
        let failed = |text: &str| {
            let text = text.to_owned();
            move |error: DataFusionError| ClusterError::Condition { text, reason: reason(&error) }
        };
        let sides = ((&*query.left.name, left), (&*query.right.name, right));
        let sql = Sql::new(sides.0, sides.1, now_ns).map_err(failed("the columns"))?;
        let mut parts = Vec::new();
        for (a, b) in &query.on {
            check_column(&query.left.name, left, a)?;
            check_column(&query.right.name, right, b)?;
            check_kinds((a, left), (b, right))?;
            let equal = sql.column(Side::Left, a).eq(sql.column(Side::Right, b));
            parts.push(sql.prepare(equal).map_err(failed(&format!("{a} = {b}")))?);
        }
        if let Some(text) = &query.condition {
            let expr = sql.parse(text).map_err(failed(text))?;
            let texts = sql.text_columns(&expr);
            let expr = sql.prepare(expr).map_err(|error| ClusterError::Condition {
                text: text.clone(),
                reason: no_time(&reason(&error), &texts).unwrap_or_else(|| reason(&error)),
            })?;
            let conjuncts = split_conjunction_owned(expr.clone());
            for part in std::iter::once(&expr).chain(&conjuncts) {
                let data_type = sql.type_of(part).map_err(failed(text))?;
                if data_type != DataType::Boolean {
                    let reason = format!("'{}' is of type {data_type}, and must be true or false", sql.text(part));
                    return Err(ClusterError::Condition { text: text.clone(), reason });
                }
            }
            if expr.is_volatile() {
                let reason = "it calls a function whose value changes with each call, such as random(), and hosts \
                    evaluate it more than once"
                    .to_owned();
                return Err(ClusterError::Condition { text: text.clone(), reason });
            }
            // An expression that cannot be evaluated is refused at planning.
            sql.physical(&expr, &sql.columns(&expr)).map_err(failed(text))?;
            parts.extend(conjuncts);
        }
        Ok(Self::of(sql, parts))
    }

    /// Returns the columns of a side's equal keys, in order, or `None` if an expression computes
    /// one.
    pub(crate) fn key_columns(&self, side: Side) -> Option<Vec<usize>> {
        let column = |equal: &Equal| match &equal.keys[side] {
            key @ Expr::Column(_) => self.sql.columns(key).first().map(|column| column.1),
            _ => None,
        };
        self.equal.iter().map(column).collect()
    }

    /// Returns the predicates over `side` alone.
    pub(crate) fn of_side(&self, side: Side) -> impl Iterator<Item = &Expr> {
        self.alone[side].iter()
    }

    fn of(sql: Sql, parts: Vec<Expr>) -> Self {
        let mut condition =
            Self { sql, equal: vec![], nulls_equal: false, band: None, alone: Sides::default(), rest: vec![] };
        let (mut distinct, mut bands) = (Vec::new(), Vec::new());
        for part in parts {
            if let Some(side) = condition.sql.only_side(&part) {
                condition.alone[side].push(part);
            } else if let Some((op, equal)) = condition.as_equal(&part) {
                if op == Operator::Eq { condition.equal.push(equal) } else { distinct.push(equal) }
            } else if let Some(found) = band::parts(&condition.sql, &part) {
                bands.push(found);
            } else {
                condition.rest.push(part);
            }
        }
        // A join algorithm treats nulls in all keys the same way.
        if condition.equal.is_empty() {
            condition.nulls_equal = !distinct.is_empty();
            condition.equal = distinct;
        } else {
            condition.rest.extend(distinct.into_iter().map(|equal| equal.whole));
        }
        let (band, others) = BandParts::best(bands);
        condition.band = band;
        condition.rest.extend(others);
        condition
    }

    /// Returns the keys of a predicate `left = right` if a join algorithm can evaluate it.
    fn as_equal(&self, part: &Expr) -> Option<(Operator, Equal)> {
        let Expr::BinaryExpr(BinaryExpr { left, op: op @ (Operator::Eq | Operator::IsNotDistinctFrom), right }) = part
        else {
            return None;
        };
        let sides = (self.sql.only_side(left)?, self.sql.only_side(right)?);
        let (a, b) = (Expr::clone(left), Expr::clone(right));
        let keys = match sides {
            (Side::Left, Side::Right) => Sides { left: a, right: b },
            (Side::Right, Side::Left) => Sides { left: b, right: a },
            _ => return None,
        };
        let Sides { left: a, right: b } = keys.as_ref().map(|key| self.sql.type_of(key).ok());
        let data_type = a.filter(|a| Some(a) == b.as_ref())?;
        let schema = Schema::new(vec![Field::new("", data_type, true)]);
        Keys::new(&schema.into(), &[0], false).ok()?;
        Some((*op, Equal { keys, whole: part.clone() }))
    }
}

/// Returns the reason for an error about texts that are used as times. `texts` are the text columns
/// of the predicate.
fn no_time(reason: &str, texts: &[Column]) -> Option<String> {
    let is_time = ["Interval", "Timestamp", "Date"].iter().any(|time| reason.contains(time));
    let column = texts.first().filter(|_| is_time && reason.contains("Utf8"))?;
    let names = texts.iter().map(|column| format!("'{}'", column.flat_name())).collect::<Vec<_>>().join(" and ");
    let (are, name, whole) = (if texts.len() == 1 { "is" } else { "are" }, &column.name, column.flat_name());
    Some(format!(
        "{names} {are} text and cannot be used as a time; read CSV and JSON with `types` {name}=timestamp, or write \
         to_timestamp({whole})"
    ))
}

/// Refuses keys of which one is a text and the other is not: a cast would fail at the first text
/// that is not a number, or find '007' equal to 7.
fn check_kinds((a, left): (&str, &SchemaRef), (b, right): (&str, &SchemaRef)) -> Result<(), ClusterError> {
    let type_of = |column: &str, schema: &SchemaRef| match schema.field_with_name(column)?.data_type() {
        DataType::Dictionary(_, values) => Ok::<_, ArrowError>(DataType::clone(values)),
        data_type => Ok(data_type.clone()),
    };
    let (left, right) = (type_of(a, left)?, type_of(b, right)?);
    if left.is_string() == right.is_string() || left.is_null() || right.is_null() {
        return Ok(());
    }
    let text = format!("{a} = {b}");
    let reason = format!(
        "the left column is {left} and the right one {right}; choose others, give one of them another type (`types`), \
         or compare a CAST in a predicate (`where`)"
    );
    Err(ClusterError::Condition { text, reason })
}

fn check_column(side: &str, schema: &SchemaRef, column: &str) -> Result<(), ClusterError> {
    if schema.index_of(column).is_ok() {
        return Ok(());
    }
    if let Some(name) = column.strip_prefix(side).and_then(|rest| rest.strip_prefix('.'))
        && schema.index_of(name).is_ok()
    {
        let reason = format!("no column '{column}' in '{side}'; write {name}, without the name of the input");
        return Err(ClusterError::Option { option: "on", reason });
    }
    let names: Vec<_> = schema.fields().iter().map(|field| field.name().as_str()).collect();
    let mut columns = names.join(", ");
    if let [single] = names[..]
        && let Some(delimiter) = single.chars().find(|one| [';', '\t', '|'].contains(one))
    {
        // Perhaps a CSV file with another delimiter was read with commas.
        let delimiter = if delimiter == '\t' { "$'\\t'".to_owned() } else { format!("'{delimiter}'") };
        columns += &format!(" (if these are several, give `delimiter` {delimiter})");
    }
    Err(ClusterError::Column { column: column.to_owned(), side: side.to_owned(), columns })
}
