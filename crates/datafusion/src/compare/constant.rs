//! Operands that have the same value in each row.

use std::sync::Arc;

use datafusion::{
    common::{ScalarValue, tree_node::TreeNode},
    config::ConfigOptions,
    logical_expr::Expr,
    optimizer::simplify_expressions::{ExprSimplifier, SimplifyContext},
};

use super::types::Digits;

/// Returns the value of an expression without columns, subqueries, parameters and functions whose
/// value changes.
pub(super) fn value(expr: &Expr, config: &ConfigOptions) -> Option<ScalarValue> {
    if let Expr::Literal(value, _) = expr {
        return Some(value.clone());
    }
    let varies = expr.exists(|part| {
        Ok(match part {
            Expr::Literal(..)
            | Expr::Alias(_)
            | Expr::BinaryExpr(_)
            | Expr::Negative(_)
            | Expr::Cast(_)
            | Expr::TryCast(_) => false,
            Expr::ScalarFunction(function) => {
                function.func.signature().volatility != datafusion::logical_expr::Volatility::Immutable
            }
            _ => true,
        })
    });
    if varies.unwrap_or(true) {
        return None;
    }
    let context = SimplifyContext::builder().with_config_options(Arc::new(config.clone())).build();
    let schema = Arc::clone(context.schema());
    let simplifier = ExprSimplifier::new(context);
    let simplified = simplifier.coerce(expr.clone(), &schema).and_then(|expr| simplifier.simplify(expr));
    match simplified.ok()? {
        Expr::Literal(value, _) => Some(value),
        _ => None,
    }
}

/// Returns a text of a time of hours and minutes, such as `2025-01-01 12:00` and `2025-01-01T12:00+01`, with the
/// seconds without which Arrow 59 cannot read it.
pub(super) fn with_seconds(value: &ScalarValue) -> Option<ScalarValue> {
    let text = value.try_as_str()??;
    let (minutes, zone) = text.split_at_checked("2025-01-01 12:00".len())?;
    let is_minutes = minutes.bytes().enumerate().all(|(place, byte)| match place {
        4 | 7 => byte == b'-',
        10 => matches!(byte, b' ' | b'T' | b't'),
        13 => byte == b':',
        _ => byte.is_ascii_digit(),
    });
    if !is_minutes || zone.starts_with(':') {
        return None;
    }
    let whole = format!("{minutes}:00{zone}");
    Some(match value {
        ScalarValue::LargeUtf8(_) => ScalarValue::LargeUtf8(Some(whole)),
        ScalarValue::Utf8View(_) => ScalarValue::Utf8View(Some(whole)),
        ScalarValue::Utf8(_) => ScalarValue::Utf8(Some(whole)),
        _ => return None,
    })
}

/// Returns whether an expression is the present time, or a time that is computed from it alone.
/// Without a session's time zone DataFusion gives it in UTC, as a value without a zone.
pub(super) fn is_present(expr: &Expr) -> bool {
    let is_present = |part: &Expr| match part {
        Expr::ScalarFunction(function) => matches!(function.func.name(), "now" | "current_date"),
        _ => false,
    };
    expr.exists(|part| Ok(is_present(part))).unwrap_or(false)
        && !expr.exists(|part| Ok(reads_rows(part))).unwrap_or(true)
}

/// Returns whether an expression itself reads a row.
pub(super) fn reads_rows(part: &Expr) -> bool {
    let is_column = matches!(part, Expr::Column(_) | Expr::OuterReferenceColumn(..) | Expr::Placeholder(_));
    is_column || matches!(part, Expr::ScalarSubquery(_) | Expr::AggregateFunction(_) | Expr::WindowFunction(_))
}

/// Returns the digits of a whole number.
pub(super) fn digits(value: &ScalarValue) -> Option<Digits> {
    let number: i128 = match *value {
        ScalarValue::Int8(Some(value)) => value.into(),
        ScalarValue::Int16(Some(value)) => value.into(),
        ScalarValue::Int32(Some(value)) => value.into(),
        ScalarValue::Int64(Some(value)) => value.into(),
        ScalarValue::UInt8(Some(value)) => value.into(),
        ScalarValue::UInt16(Some(value)) => value.into(),
        ScalarValue::UInt32(Some(value)) => value.into(),
        ScalarValue::UInt64(Some(value)) => value.into(),
        _ => return None,
    };
    Some(Digits { before: places(number), after: 0 })
}

/// Returns the number of decimal digits of a whole number.
fn places(number: i128) -> i16 {
    number.unsigned_abs().checked_ilog10().map_or(0, |log| log as i16 + 1)
}

/// The digits after the point to which DataFusion rounds a constant that is compared with decimals.
const PLACES: i8 = 15;

/// Returns a constant that is written as a float as a decimal, rounded as DataFusion rounds it:
/// `0.06 + 0.01` is 0.07. `None` if it has no such value.
pub(super) fn as_decimal(value: &ScalarValue) -> Option<ScalarValue> {
    let number = match *value {
        ScalarValue::Float64(Some(value)) => value,
        ScalarValue::Float32(Some(value)) => value.into(),
        _ => return None,
    };
    let scaled = (number * 1e15).round();
    if !scaled.is_finite() || scaled.abs() >= 1e38 {
        return None;
    }
    let (mut units, mut scale) = (scaled as i128, PLACES);
    while scale > 0 && units % 10 == 0 {
        (units, scale) = (units / 10, scale - 1);
    }
    let precision = places(units).max(scale.into()).max(1);
    Some(ScalarValue::Decimal128(Some(units), u8::try_from(precision).ok()?, scale))
}
