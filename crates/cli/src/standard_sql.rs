//! Parsed SQL that means something else in DataFusion 55 than in the SQL standard: it is given its
//! meaning, or refused.

use std::ops::ControlFlow;

use datafusion::{
    common::plan_datafusion_err,
    error::{DataFusionError, Result},
    sql::sqlparser::{
        ast::{
            ColumnOption, CreateTable, Expr, Join, JoinConstraint, JoinOperator, Query, Select, SetExpr, SetOperator,
            SetQuantifier, Statement, TableConstraint, TableFactor, Value, VisitMut, VisitorMut,
        },
        dialect::GenericDialect,
        parser::Parser,
    },
};

use crate::distinct_from;

/// The most digits of a decimal.
const MOST_DIGITS: usize = 76;

/// Gives a parsed text the meaning of the standard.
///
/// # Errors
/// If it has a construct that DataFusion answers wrongly; the error says what to write instead.
pub fn apply(parsed: &mut impl VisitMut) -> Result<()> {
    distinct_from::give_operands(parsed);
    match parsed.visit(&mut Standard) {
        ControlFlow::Continue(()) => Ok(()),
        ControlFlow::Break(error) => Err(*error),
    }
}

struct Standard;

impl VisitorMut for Standard {
    type Break = Box<DataFusionError>;

    fn pre_visit_statement(&mut self, statement: &mut Statement) -> ControlFlow<Self::Break> {
        match statement {
            Statement::CreateTable(table) if has_keys(table) => refuse(
                "PRIMARY KEY and UNIQUE are not checked when rows are inserted, but queries would rely on them: leave \
                 them out",
            ),
            _ => ControlFlow::Continue(()),
        }
    }

    fn pre_visit_query(&mut self, query: &mut Query) -> ControlFlow<Self::Break> {
        check_set(&query.body)
    }

    fn pre_visit_select(&mut self, select: &mut Select) -> ControlFlow<Self::Break> {
        select.from.iter().flat_map(|table| &table.joins).try_for_each(check_join)
    }

    fn pre_visit_table_factor(&mut self, table: &mut TableFactor) -> ControlFlow<Self::Break> {
        match table {
            TableFactor::NestedJoin { table_with_joins, .. } => table_with_joins.joins.iter().try_for_each(check_join),
            _ => ControlFlow::Continue(()),
        }
    }

    fn pre_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<Self::Break> {
        if let Expr::Value(value) = expr
            && let Value::Number(text, _) = &value.value
            && let Some(exact) = exact(text)
        {
            *expr = exact;
        }
        ControlFlow::Continue(())
    }
}

fn refuse(reason: &str) -> ControlFlow<Box<DataFusionError>> {
    ControlFlow::Break(Box::new(plan_datafusion_err!("{reason}")))
}

fn has_keys(table: &CreateTable) -> bool {
    let is_key = |option: &ColumnOption| matches!(option, ColumnOption::PrimaryKey(_) | ColumnOption::Unique(_));
    let is_constraint =
        |known: &TableConstraint| matches!(known, TableConstraint::PrimaryKey(_) | TableConstraint::Unique(_));
    table.columns.iter().flat_map(|column| &column.options).any(|option| is_key(&option.option))
        || table.constraints.iter().any(is_constraint)
}

/// Refuses `INTERSECT ALL` and `EXCEPT ALL`, which DataFusion plans as semi-joins and anti-joins: they
/// do not count how often a row occurs.
fn check_set(body: &SetExpr) -> ControlFlow<Box<DataFusionError>> {
    let SetExpr::SetOperation { left, right, op, set_quantifier } = body else { return ControlFlow::Continue(()) };
    if *op != SetOperator::Union && matches!(set_quantifier, SetQuantifier::All | SetQuantifier::AllByName) {
        return refuse(&format!(
            "{op} ALL would not count how often a row occurs: write {op}, or compare the rows with \
             row_number() OVER (PARTITION BY all columns) as a further column"
        ));
    }
    check_set(left)?;
    check_set(right)
}

/// Refuses outer joins whose column of both sides DataFusion takes from the left side alone.
fn check_join(join: &Join) -> ControlFlow<Box<DataFusionError>> {
    let (kind, constraint) = match &join.join_operator {
        JoinOperator::Right(constraint) | JoinOperator::RightOuter(constraint) => ("RIGHT", constraint),
        JoinOperator::FullOuter(constraint) => ("FULL", constraint),
        _ => return ControlFlow::Continue(()),
    };
    let words = match constraint {
        JoinConstraint::Using(_) => "USING",
        JoinConstraint::Natural => "NATURAL",
        _ => return ControlFlow::Continue(()),
    };
    refuse(&format!(
        "{kind} JOIN with {words} would lose the keys of rows that only the right side has: write ON a.k = b.k, and \
         coalesce(a.k, b.k) for the key"
    ))
}

/// Returns a number whose digits no double keeps as a decimal, which DataFusion would round.
fn exact(text: &str) -> Option<Expr> {
    let (whole, fraction) = text.split_once('.').unwrap_or((text, ""));
    let is_plain = whole.bytes().chain(fraction.bytes()).all(|byte| byte.is_ascii_digit());
    let whole = whole.trim_start_matches('0');
    let digits = whole.len() + fraction.len();
    let is_integer = !text.contains('.');
    let is_kept = match is_integer {
        true => text.parse::<u64>().is_ok(),
        false => float_keeps(whole, fraction),
    };
    if !is_plain || digits > MOST_DIGITS || is_kept {
        return None;
    }
    let cast = format!("CAST('{text}' AS DECIMAL({}, {}))", digits.max(1), fraction.len());
    Parser::new(&GenericDialect {}).try_with_sql(&cast).ok()?.parse_expr().ok()
}

/// Returns whether the double that is next to a number has no other digits.
fn float_keeps(whole: &str, fraction: &str) -> bool {
    let Ok(float) = format!("{whole}.{fraction}0").parse::<f64>() else { return false };
    let shown = format!("{float}");
    let (shown_whole, shown_fraction) = shown.split_once('.').unwrap_or((&shown, ""));
    shown_whole.trim_start_matches('0') == whole
        && shown_fraction.trim_end_matches('0') == fraction.trim_end_matches('0')
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(sql: &str) -> Result<String, String> {
        let mut statements = Parser::parse_sql(&GenericDialect {}, sql).expect(sql);
        match apply(&mut statements) {
            Ok(()) => Ok(statements[0].to_string()),
            Err(error) => Err(error.strip_backtrace()),
        }
    }

    #[test]
    fn numbers_keep_their_digits() {
        for (number, expected) in [
            ("0.1", "0.1"),
            ("1e30", "1e30"),
            ("18446744073709551615", "18446744073709551615"),
            ("18446744073709551616", "CAST('18446744073709551616' AS DECIMAL(20,0))"),
            ("99999999999999.99", "CAST('99999999999999.99' AS DECIMAL(16,2))"),
            ("0.3000000000000000000", "0.3000000000000000000"),
            ("0.12345678901234567", "CAST('0.12345678901234567' AS DECIMAL(17,17))"),
        ] {
            assert_eq!(read(&format!("SELECT {number}")), Ok(format!("SELECT {expected}")));
        }
    }

    #[test]
    fn what_would_be_wrong_is_refused() {
        for (sql, named) in [
            ("SELECT 1 EXCEPT ALL SELECT 2", "EXCEPT ALL"),
            ("SELECT 1 UNION ALL (SELECT 1 INTERSECT ALL SELECT 2)", "INTERSECT ALL"),
            ("SELECT id FROM a RIGHT JOIN b USING (id)", "RIGHT JOIN with USING"),
            ("SELECT * FROM x JOIN (a NATURAL FULL JOIN b) ON true", "FULL JOIN with NATURAL"),
            ("CREATE TABLE t (a INT PRIMARY KEY)", "PRIMARY KEY"),
            ("CREATE TABLE t (a INT, UNIQUE (a))", "PRIMARY KEY and UNIQUE"),
        ] {
            let error = read(sql).expect_err(sql);
            assert!(error.contains(named), "{sql}: {error}");
        }
        for sql in ["SELECT 1 EXCEPT SELECT 2", "SELECT 1 UNION ALL SELECT 2", "SELECT * FROM a LEFT JOIN b USING (id)"]
        {
            assert!(read(sql).is_ok(), "{sql}");
        }
    }
}
