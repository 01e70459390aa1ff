//! The precedence of `IS [NOT] DISTINCT FROM`.
//!
//! The parser takes all that follows as the right operand: `a IS DISTINCT FROM b AND c` compares `a`
//! with `b AND c`. In SQL the operator binds more tightly than `NOT`, `AND` and `OR`.

use std::{mem, ops::ControlFlow};

use datafusion::sql::sqlparser::ast::{BinaryOperator, Expr, UnaryOperator, Value, VisitMut, VisitorMut};

/// Gives each `IS [NOT] DISTINCT FROM` in a parsed text its operands. Operands in parentheses stay.
pub fn give_operands(parsed: &mut impl VisitMut) {
    if parsed.visit(&mut Search).is_break() {
        // It never breaks.
        let _ = parsed.visit(&mut Operands);
    }
}

/// Stops at the operator.
struct Search;

impl VisitorMut for Search {
    type Break = ();

    fn pre_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<()> {
        match expr {
            Expr::IsDistinctFrom(..) | Expr::IsNotDistinctFrom(..) => ControlFlow::Break(()),
            _ => ControlFlow::Continue(()),
        }
    }
}

struct Operands;

impl VisitorMut for Operands {
    type Break = ();

    fn pre_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<()> {
        if is_part(expr) {
            let mut tokens = Vec::new();
            flatten(mem::replace(expr, nothing()), &mut tokens);
            let mut tokens = tokens.into_iter().peekable();
            *expr = any(&mut tokens);
        }
        ControlFlow::Continue(())
    }
}

/// A part of an expression, in the order of the text.
enum Token {
    Not,
    Logic(BinaryOperator),
    Distinct { negated: bool },
    Operand(Box<Expr>),
}

type Tokens = std::iter::Peekable<std::vec::IntoIter<Token>>;

fn nothing() -> Expr {
    Expr::value(Value::Null)
}

fn is_logic(op: &BinaryOperator) -> bool {
    matches!(op, BinaryOperator::And | BinaryOperator::Or)
}

fn is_part(expr: &Expr) -> bool {
    match expr {
        Expr::BinaryOp { op, .. } => is_logic(op),
        Expr::UnaryOp { op, .. } => *op == UnaryOperator::Not,
        Expr::IsDistinctFrom(..) | Expr::IsNotDistinctFrom(..) => true,
        _ => false,
    }
}

fn flatten(expr: Expr, tokens: &mut Vec<Token>) {
    let (left, token, right) = match expr {
        Expr::BinaryOp { left, op, right } if is_logic(&op) => (left, Token::Logic(op), right),
        Expr::IsDistinctFrom(left, right) => (left, Token::Distinct { negated: false }, right),
        Expr::IsNotDistinctFrom(left, right) => (left, Token::Distinct { negated: true }, right),
        Expr::UnaryOp { op: UnaryOperator::Not, expr } => {
            tokens.push(Token::Not);
            return flatten(*expr, tokens);
        }
        operand => return tokens.push(Token::Operand(Box::new(operand))),
    };
    flatten(*left, tokens);
    tokens.push(token);
    flatten(*right, tokens);
}

fn any(tokens: &mut Tokens) -> Expr {
    binary(tokens, &BinaryOperator::Or, |tokens| binary(tokens, &BinaryOperator::And, negation))
}

fn binary(tokens: &mut Tokens, op: &BinaryOperator, operand: impl Fn(&mut Tokens) -> Expr) -> Expr {
    let mut left = operand(tokens);
    while tokens.next_if(|token| matches!(token, Token::Logic(found) if found == op)).is_some() {
        let right = Box::new(operand(tokens));
        left = Expr::BinaryOp { left: Box::new(left), op: op.clone(), right };
    }
    left
}

fn negation(tokens: &mut Tokens) -> Expr {
    if tokens.next_if(|token| matches!(token, Token::Not)).is_some() {
        return Expr::UnaryOp { op: UnaryOperator::Not, expr: Box::new(negation(tokens)) };
    }
    let mut left = operand(tokens);
    while let Some(Token::Distinct { negated }) = tokens.next_if(|token| matches!(token, Token::Distinct { .. })) {
        let operands = (Box::new(left), Box::new(operand(tokens)));
        left = if negated {
            Expr::IsNotDistinctFrom(operands.0, operands.1)
        } else {
            Expr::IsDistinctFrom(operands.0, operands.1)
        };
    }
    left
}

fn operand(tokens: &mut Tokens) -> Expr {
    match tokens.next() {
        Some(Token::Operand(expr)) => *expr,
        Some(Token::Not) => Expr::UnaryOp { op: UnaryOperator::Not, expr: Box::new(operand(tokens)) },
        // Each operator has its operands.
        _ => nothing(),
    }
}

#[cfg(test)]
mod tests {
    use datafusion::sql::sqlparser::{dialect::GenericDialect, parser::Parser};

    use super::*;

    fn parsed(text: &str, with_operands: bool) -> Expr {
        let mut parser = Parser::new(&GenericDialect {}).try_with_sql(text).expect(text);
        let mut expr = parser.parse_expr().expect(text);
        if with_operands {
            give_operands(&mut expr);
        }
        expr
    }

    /// Returns `expr` without its parentheses.
    fn bare(mut expr: Expr) -> Expr {
        struct ParenthesesRemover;
        impl VisitorMut for ParenthesesRemover {
            type Break = ();
            fn pre_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<()> {
                while let Expr::Nested(inner) = expr {
                    *expr = mem::replace(inner, nothing());
                }
                ControlFlow::Continue(())
            }
        }
        let _ = expr.visit(&mut ParenthesesRemover);
        expr
    }

    #[test]
    fn it_binds_more_tightly_than_logic() {
        for (text, meant) in [
            ("a IS NOT DISTINCT FROM b AND c = d", "(a IS NOT DISTINCT FROM b) AND (c = d)"),
            ("x AND a IS DISTINCT FROM b OR e", "(x AND (a IS DISTINCT FROM b)) OR e"),
            ("NOT a IS DISTINCT FROM b AND c", "(NOT (a IS DISTINCT FROM b)) AND c"),
            ("a IS DISTINCT FROM b + 1 OR NOT c AND d", "(a IS DISTINCT FROM (b + 1)) OR ((NOT c) AND d)"),
            (
                "a IS DISTINCT FROM b AND c IS NOT DISTINCT FROM d AND e",
                "((a IS DISTINCT FROM b) AND (c IS NOT DISTINCT FROM d)) AND e",
            ),
            ("f(a IS DISTINCT FROM b OR c)", "f((a IS DISTINCT FROM b) OR c)"),
            ("a IS DISTINCT FROM b = c", "a IS DISTINCT FROM (b = c)"),
            ("a AND b OR NOT c", "(a AND b) OR (NOT c)"),
        ] {
            assert_eq!(bare(parsed(text, true)), bare(parsed(meant, false)), "{text}");
        }
    }

    #[test]
    fn parentheses_stay() {
        let text = "a IS DISTINCT FROM (b AND c)";
        assert_eq!(parsed(text, true), parsed(text, false));
    }
}
