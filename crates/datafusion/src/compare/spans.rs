//! Intervals beside durations.

use arrow::datatypes::DataType;
use datafusion::{common::ScalarValue, error::Result, logical_expr::Expr};

use super::operands::Operand;

/// Converts intervals that are compared with durations: a day has 24 hours, and a month 30 days.
pub(super) fn prepare_spans(operands: &mut [Operand]) -> Result<()> {
    let unit_of = |operand: &Operand| match operand.plain_type() {
        DataType::Duration(unit) => Some(*unit),
        _ => None,
    };
    if operands.iter().find_map(unit_of).is_none() {
        return Ok(());
    }
    for operand in operands {
        let Some(nanoseconds) = operand.constant.as_ref().and_then(nanoseconds) else { continue };
        let Some(span) = duration(nanoseconds) else { continue };
        operand.data_type = span.data_type();
        operand.expr = Expr::Literal(span.clone(), None);
        operand.constant = Some(span);
    }
    Ok(())
}

fn nanoseconds(interval: &ScalarValue) -> Option<i128> {
    const DAY: i128 = 24 * 60 * 60 * 1_000_000_000;
    Some(match interval {
        ScalarValue::IntervalYearMonth(Some(months)) => i128::from(*months) * 30 * DAY,
        ScalarValue::IntervalDayTime(Some(value)) => {
            i128::from(value.days) * DAY + i128::from(value.milliseconds) * 1_000_000
        }
        ScalarValue::IntervalMonthDayNano(Some(value)) => {
            (i128::from(value.months) * 30 + i128::from(value.days)) * DAY + i128::from(value.nanoseconds)
        }
        _ => return None,
    })
}

/// Returns a duration in the coarsest unit that keeps it, so that no other one overflows.
fn duration(nanoseconds: i128) -> Option<ScalarValue> {
    let whole = |unit: i128| (nanoseconds % unit == 0).then(|| i64::try_from(nanoseconds / unit).ok()).flatten();
    if let seconds @ Some(_) = whole(1_000_000_000) {
        return Some(ScalarValue::DurationSecond(seconds));
    }
    if let milliseconds @ Some(_) = whole(1_000_000) {
        return Some(ScalarValue::DurationMillisecond(milliseconds));
    }
    if let microseconds @ Some(_) = whole(1_000) {
        return Some(ScalarValue::DurationMicrosecond(microseconds));
    }
    whole(1).map(|nanoseconds| ScalarValue::DurationNanosecond(Some(nanoseconds)))
}
