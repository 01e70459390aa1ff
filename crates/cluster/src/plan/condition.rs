//! A join's condition, taken apart.

use annulus_join::{Keys, Side};
use arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use datafusion::{
    error::DataFusionError,
    logical_expr::{BinaryExpr, Expr, Operator, utils::split_conjunction_owned},
};

use super::{
    band::{self, BandParts},
    sql::{Sql, index},
};
use crate::{error::ClusterError, job::Query};

/// What makes a pair, by who can tell. All parts must hold.
pub struct Condition {
    pub(super) sql: Sql,
    /// Expressions over one side each that are equal, of one type.
    pub(super) equal: Vec<Equal>,
    /// Whether nulls are equal to nulls there.
    pub(super) nulls_equal: bool,
    /// Expressions that differ by no more than this.
    pub(super) band: Option<BandParts>,
    /// Predicates over one side: left, right.
    pub(super) alone: [Vec<Expr>; 2],
    /// All else.
    pub(super) rest: Vec<Expr>,
}

/// Keys that are equal.
pub(super) struct Equal {
    /// Of the left and the right side.
    pub(super) keys: [Expr; 2],
    /// The condition that says so.
    pub(super) whole: Expr,
}

impl Condition {
    /// Takes a query's condition apart. Keys of different types are made the same, as DataFusion
    /// does. `now_ns` is the time that functions like `now()` return, in nanoseconds since
    /// 1970: all hosts need the same.
    ///
    /// # Errors
    /// If a column is not there, keys cannot be compared, or the predicate is not one.
    pub fn new(query: &Query, left: &SchemaRef, right: &SchemaRef, now_ns: i64) -> Result<Self, ClusterError> {
        if query.left.name == query.right.name {
            let reason = format!("both sides are called '{}'; give one another name (NAME=PATH)", query.left.name);
            return Err(ClusterError::Option { option: "LEFT and RIGHT", reason });
        }
        let failed = |text: &str| {
            let text = text.to_owned();
            move |error: DataFusionError| ClusterError::Condition { text, reason: error.strip_backtrace() }
        };
        let sides = ((&*query.left.name, left), (&*query.right.name, right));
        let sql = Sql::new(sides.0, sides.1, now_ns).map_err(failed("the columns"))?;
        let mut parts = Vec::new();
        for (a, b) in &query.on {
            check_column(&query.left.name, left, a)?;
            check_column(&query.right.name, right, b)?;
            let equal = sql.column(Side::Left, a).eq(sql.column(Side::Right, b));
            parts.push(sql.prepare(equal).map_err(failed(&format!("{a} = {b}")))?);
        }
        if let Some(text) = &query.condition {
            let expr = sql.parse(text).and_then(|expr| sql.prepare(expr)).map_err(failed(text))?;
            let conjuncts = split_conjunction_owned(expr.clone());
            for part in std::iter::once(&expr).chain(&conjuncts) {
                let data_type = sql.type_of(part).map_err(failed(text))?;
                if data_type != DataType::Boolean {
                    let reason = format!("'{part}' is of type {data_type}, and must be true or false");
                    return Err(ClusterError::Condition { text: text.clone(), reason });
                }
            }
            if expr.is_volatile() {
                let reason =
                    "it has a function that gives another value each time, and is evaluated more than once".to_owned();
                return Err(ClusterError::Condition { text: text.clone(), reason });
            }
            // Whatever it is, it must be possible to evaluate it.
            sql.physical(&expr, &sql.columns(&expr)).map_err(failed(text))?;
            parts.extend(conjuncts);
        }
        Ok(Self::of(sql, parts))
    }

    fn of(sql: Sql, parts: Vec<Expr>) -> Self {
        let mut condition =
            Self { sql, equal: vec![], nulls_equal: false, band: None, alone: [vec![], vec![]], rest: vec![] };
        let (mut distinct, mut bands) = (Vec::new(), Vec::new());
        for part in parts {
            if let Some(side) = condition.sql.only_side(&part) {
                condition.alone[index(side)].push(part);
            } else if let Some((op, equal)) = condition.as_equal(&part) {
                if op == Operator::Eq { condition.equal.push(equal) } else { distinct.push(equal) }
            } else if let Some(found) = band::parts(&condition.sql, &part) {
                bands.push((found, part));
            } else {
                condition.rest.push(part);
            }
        }
        // One join treats nulls one way.
        if condition.equal.is_empty() {
            condition.nulls_equal = !distinct.is_empty();
            condition.equal = distinct;
        } else {
            condition.rest.extend(distinct.into_iter().map(|equal| equal.whole));
        }
        let (band, others) = band::best(bands);
        condition.band = band;
        condition.rest.extend(others);
        condition
    }

    /// `left = right`, if a join can find it.
    fn as_equal(&self, part: &Expr) -> Option<(Operator, Equal)> {
        let Expr::BinaryExpr(BinaryExpr { left, op: op @ (Operator::Eq | Operator::IsNotDistinctFrom), right }) = part
        else {
            return None;
        };
        let sides = (self.sql.only_side(left)?, self.sql.only_side(right)?);
        let (a, b) = (Expr::clone(left), Expr::clone(right));
        let keys = match sides {
            (Side::Left, Side::Right) => [a, b],
            (Side::Right, Side::Left) => [b, a],
            _ => return None,
        };
        let [a, b] = keys.each_ref().map(|key| self.sql.type_of(key).ok());
        let data_type = a.filter(|a| Some(a) == b.as_ref())?;
        let schema = Schema::new(vec![Field::new("", data_type, true)]);
        Keys::new(&schema.into(), &[0], false).ok()?;
        Some((*op, Equal { keys, whole: part.clone() }))
    }
}

fn check_column(side: &str, schema: &SchemaRef, column: &str) -> Result<(), ClusterError> {
    if schema.index_of(column).is_ok() {
        return Ok(());
    }
    let names: Vec<_> = schema.fields().iter().map(|field| field.name().as_str()).collect();
    let mut columns = names.join(", ");
    if let [single] = names[..]
        && let Some(delimiter) = single.chars().find(|one| [';', '\t', '|'].contains(one))
    {
        // A CSV file that was read with commas.
        let delimiter = if delimiter == '\t' { "$'\\t'".to_owned() } else { format!("'{delimiter}'") };
        columns += &format!(" (if these are several, give `delimiter` {delimiter})");
    }
    Err(ClusterError::Column { column: column.to_owned(), side: side.to_owned(), columns })
}
