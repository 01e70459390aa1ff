//! Expressions whose operands get the types of their comparison.

use arrow::datatypes::DataType;
use datafusion::{
    common::{
        DFSchema, ScalarValue, internal_err, not_impl_err,
        tree_node::{Transformed, TreeNode},
    },
    config::ConfigOptions,
    error::Result,
    logical_expr::{
        Between, BinaryExpr, Case, Cast, Expr, ExprSchemable, Like, Operator, Subquery, TryCast,
        expr::{InList, InSubquery, ScalarFunction, SetComparison},
        type_coercion::functions::fields_with_udf,
    },
};

use super::{
    constant, exact,
    operands::{Operand, lacks_zone, prepare, prepare_zones, unify},
    types::{items, plain},
};

/// Returns `expr` with casts that make its comparisons those of `docs/sql.md`. DataFusion coerces no
/// types of them afterwards. Expressions whose types `schema` does not tell stay as they are.
///
/// # Errors
/// If values are compared that have no comparison, as [`Incomparable`](crate::Incomparable).
pub fn compare(expr: Expr, schema: &DFSchema, config: &ConfigOptions) -> Result<Expr> {
    let scope = Scope { schema, config };
    Ok(expr.transform_up(|expr| scope.rewrite(expr))?.data)
}

/// What is known of the columns, and the options of the session.
#[derive(Clone, Copy)]
pub(super) struct Scope<'a> {
    pub(super) schema: &'a DFSchema,
    pub(super) config: &'a ConfigOptions,
}

impl Scope<'_> {
    fn rewrite(self, expr: Expr) -> Result<Transformed<Expr>> {
        Ok(match expr {
            Expr::BinaryExpr(BinaryExpr { left, op, right }) if is_comparison(op) => {
                let both = vec![*left, *right];
                let both = if exact::is_order(op) { exact::widen(both, self.schema)? } else { both };
                let [left, right] = self.comparable(both)?.map(Box::new);
                Transformed::yes(Expr::BinaryExpr(BinaryExpr { left, op, right }))
            }
            Expr::BinaryExpr(BinaryExpr { left, op: op @ Operator::Minus, right }) => {
                let [left, right] = self.in_zones([*left, *right])?.map(Box::new);
                Transformed::yes(Expr::BinaryExpr(BinaryExpr { left, op, right }))
            }
            Expr::Between(Between { expr, negated, low, high }) => {
                let all = exact::widen(vec![*expr, *low, *high], self.schema)?;
                let [expr, low, high] = self.comparable(all)?.map(Box::new);
                Transformed::yes(Expr::Between(Between { expr, negated, low, high }))
            }
            Expr::InList(InList { expr, list, negated }) => {
                let mut all = self.all_comparable(std::iter::once(*expr).chain(list).collect())?;
                let expr = Box::new(all.remove(0));
                Transformed::yes(Expr::InList(InList { expr, list: all, negated }))
            }
            Expr::InSubquery(InSubquery { expr, subquery, negated }) => {
                let (expr, subquery) = self.beside_subquery(*expr, subquery)?;
                Transformed::yes(Expr::InSubquery(InSubquery { expr, subquery, negated }))
            }
            Expr::SetComparison(SetComparison { expr, subquery, op, quantifier }) => {
                let (expr, subquery) = self.beside_subquery(*expr, subquery)?;
                Transformed::yes(Expr::SetComparison(SetComparison { expr, subquery, op, quantifier }))
            }
            Expr::SimilarTo(similar) => Transformed::yes(similar_to(similar)?),
            Expr::Cast(Cast { expr, field }) => {
                let expr = self.cast_operand(expr, field.data_type())?;
                Transformed::yes(Expr::Cast(Cast { expr, field }))
            }
            Expr::TryCast(TryCast { expr, field }) => {
                let expr = self.cast_operand(expr, field.data_type())?;
                Transformed::yes(Expr::TryCast(TryCast { expr, field }))
            }
            Expr::Case(case) => Transformed::yes(Expr::Case(self.case(case)?)),
            Expr::ScalarFunction(function) => Transformed::yes(Expr::ScalarFunction(self.function(function)?)),
            other => Transformed::no(other),
        })
    }

    /// Returns what a query casts to a type.
    fn cast_operand(self, expr: Box<Expr>, to: &DataType) -> Result<Box<Expr>> {
        if matches!(expr.get_type(self.schema), Ok(DataType::Union(..))) {
            return not_impl_err!("cast of {expr}, a union: take one of its types with union_extract({expr}, 'name')");
        }
        Ok(match (*expr, to) {
            (Expr::Literal(value, metadata), DataType::Timestamp(..)) => {
                Box::new(Expr::Literal(constant::with_seconds(&value).unwrap_or(value), metadata))
            }
            (other, _) => Box::new(other),
        })
    }

    fn operands(self, exprs: &[Expr]) -> Option<Vec<Operand>> {
        let operand = |expr: &Expr| Some(Operand::new(expr.clone(), expr.get_type(self.schema).ok()?, self.config));
        exprs.iter().map(operand).collect()
    }

    /// Returns operands that are compared with each other, with casts.
    fn all_comparable(self, exprs: Vec<Expr>) -> Result<Vec<Expr>> {
        let Some(mut operands) = self.operands(&exprs) else { return Ok(exprs) };
        prepare(&mut operands, self.config)?;
        Ok(operands.into_iter().map(|operand| operand.expr).collect())
    }

    fn comparable<const N: usize>(self, exprs: Vec<Expr>) -> Result<[Expr; N]> {
        let exprs = self.all_comparable(exprs)?;
        exprs.try_into().or_else(|_| internal_err!("operands of a comparison are lost"))
    }

    /// Returns two terms of a difference. Times of which one has no zone get one.
    fn in_zones(self, terms: [Expr; 2]) -> Result<[Expr; 2]> {
        let types = terms.each_ref().map(|term| term.get_type(self.schema).unwrap_or(DataType::Null));
        if !lacks_zone(&types[0], &types[1]) && !lacks_zone(&types[1], &types[0]) {
            return Ok(terms);
        }
        let Some(mut operands) = self.operands(&terms) else { return Ok(terms) };
        prepare_zones(&mut operands, self.config)?;
        let mut exprs = operands.into_iter().map(|operand| operand.expr);
        Ok(terms.map(|term| exprs.next().unwrap_or(term)))
    }

    /// Returns an expression and the subquery whose rows it is compared with.
    fn beside_subquery(self, expr: Expr, subquery: Subquery) -> Result<(Box<Expr>, Subquery)> {
        let both = vec![expr, Expr::ScalarSubquery(subquery.clone())];
        let [expr, cast] = self.comparable(both)?;
        Ok((Box::new(expr), if let Expr::ScalarSubquery(cast) = cast { cast } else { subquery }))
    }

    fn case(self, case: Case) -> Result<Case> {
        let Case { expr, when_then_expr, else_expr } = case;
        let (whens, thens): (Vec<Expr>, Vec<Expr>) = when_then_expr.into_iter().map(|(a, b)| (*a, *b)).unzip();
        let (expr, whens) = match expr {
            None => (None, whens),
            Some(expr) => {
                let mut all = self.all_comparable(std::iter::once(*expr).chain(whens).collect())?;
                (Some(Box::new(all.remove(0))), all)
            }
        };
        let mut values = self.unified(thens.into_iter().chain(else_expr.clone().map(|value| *value)).collect())?;
        let else_expr = else_expr.and_then(|_| values.pop()).map(Box::new);
        let when_then_expr = whens.into_iter().map(Box::new).zip(values.into_iter().map(Box::new)).collect();
        Ok(Case { expr, when_then_expr, else_expr })
    }

    /// Returns the values of one column, with casts.
    fn unified(self, exprs: Vec<Expr>) -> Result<Vec<Expr>> {
        let Some(mut operands) = self.operands(&exprs) else { return Ok(exprs) };
        unify(&mut operands, self.config)?;
        Ok(operands.into_iter().map(|operand| operand.expr).collect())
    }

    /// Casts the arguments of a function that gives them one type, such as `coalesce`.
    fn function(self, function: ScalarFunction) -> Result<ScalarFunction> {
        if function.args.len() < 2 {
            return Ok(function);
        }
        let fields = function.args.iter().map(|arg| arg.to_field(self.schema).map(|(_, field)| field));
        let Ok(fields) = fields.collect::<Result<Vec<_>>>() else { return Ok(function) };
        let has = |found: fn(&DataType) -> bool| fields.iter().any(|field| found(field.data_type()));
        if !(has(has_time) || has(DataType::is_decimal) && has(DataType::is_floating)) {
            return Ok(function);
        }
        let Ok(coerced) = fields_with_udf(&fields, function.func.as_ref()) else { return Ok(function) };
        let is_changed = fields.iter().zip(&coerced).any(|(from, to)| {
            let (from, to) = (from.data_type(), to.data_type());
            lacks_zone(from, to) || lacks_zone(to, from) || from.is_floating() && to.is_decimal()
        });
        if !is_changed {
            return Ok(function);
        }
        Ok(ScalarFunction { args: self.unified(function.args)?, ..function })
    }
}

/// Returns `SIMILAR TO` as a search for a regular expression. DataFusion searches for the pattern itself,
/// within the text, and takes `%` and `_` for characters.
fn similar_to(similar: Like) -> Result<Expr> {
    let Like { negated, expr, pattern, escape_char, .. } = similar;
    let Expr::Literal(value, metadata) = *pattern else {
        return not_impl_err!("SIMILAR TO a pattern that is not a constant: use ~ and a regular expression");
    };
    let text = value.try_as_str().flatten().map(|pattern| regular_expression(pattern, escape_char.unwrap_or('\\')));
    let right = Box::new(Expr::Literal(text.map_or(value, ScalarValue::from), metadata));
    let op = if negated { Operator::RegexNotMatch } else { Operator::RegexMatch };
    Ok(Expr::BinaryExpr(BinaryExpr { left: expr, op, right }))
}

/// Returns the regular expression of a pattern of SQL, which matches all of a text.
fn regular_expression(pattern: &str, escape: char) -> String {
    let (mut expression, mut chars) = ("^(?s:".to_owned(), pattern.chars());
    while let Some(c) = chars.next() {
        match c {
            _ if c == escape => {
                // What follows stands for itself.
                if let Some(literal) = chars.next() {
                    if !literal.is_alphanumeric() {
                        expression.push('\\');
                    }
                    expression.push(literal);
                }
            }
            '%' => expression.push_str(".*"),
            '_' => expression.push('.'),
            '.' | '^' | '$' | '\\' | '#' | '&' | '~' => expression.extend(['\\', c]),
            _ => expression.push(c),
        }
    }
    expression + ")$"
}

fn is_comparison(op: Operator) -> bool {
    use Operator::{Eq, IsDistinctFrom, IsNotDistinctFrom, NotEq};
    matches!(op, Eq | NotEq | IsDistinctFrom | IsNotDistinctFrom) || exact::is_order(op)
}

fn has_time(data_type: &DataType) -> bool {
    match plain(data_type) {
        DataType::Timestamp(..) | DataType::Date32 | DataType::Date64 => true,
        DataType::Struct(fields) => fields.iter().any(|field| has_time(field.data_type())),
        other => items(other).is_some_and(|field| has_time(field.data_type())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_of_sql_match_whole_texts() {
        for (pattern, expected) in [
            ("abc", "^(?s:abc)$"),
            ("a%_", "^(?s:a.*.)$"),
            ("(a|b)+[0-9]{2}", "^(?s:(a|b)+[0-9]{2})$"),
            ("1.5\\%", r"^(?s:1\.5\%)$"),
        ] {
            assert_eq!(regular_expression(pattern, '\\'), expected);
        }
    }
}
