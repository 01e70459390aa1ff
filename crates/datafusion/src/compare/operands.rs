//! Operands that are compared with each other, or that become one column.

use std::sync::Arc;

use arrow::datatypes::{DataType, Field, TimeUnit};
use datafusion::{
    common::ScalarValue,
    config::ConfigOptions,
    error::Result,
    logical_expr::{Expr, Subquery, cast, expr_schema::cast_subquery},
};

use super::{
    constant,
    error::Incomparable,
    spans::prepare_spans,
    types::{Digits, common, decimal, finer, float, is_special, items, plain, times},
};

/// An expression, its type, and its value if it has the same in each row.
pub(super) struct Operand {
    pub(super) expr: Expr,
    pub(super) data_type: DataType,
    pub(super) constant: Option<ScalarValue>,
}

impl Operand {
    pub(super) fn new(expr: Expr, data_type: DataType, config: &ConfigOptions) -> Self {
        let constant = constant::value(&expr, config);
        Self { expr, data_type, constant }
    }

    /// Returns the operand with the value of the constant that it stands for, if `expr` is one.
    pub(super) fn with_constant_of(self, expr: &Expr, config: &ConfigOptions) -> Self {
        Self { constant: constant::value(expr, config), ..self }
    }

    pub(super) fn data_type(&self) -> &DataType {
        &self.data_type
    }

    pub(super) fn plain_type(&self) -> &DataType {
        plain(&self.data_type)
    }

    /// Returns whether the operand is a text that takes the type of what it is compared with.
    fn is_text_constant(&self) -> bool {
        self.constant.is_some() && self.plain_type().is_string()
    }

    fn cast(&mut self, to: &DataType) -> Result<()> {
        if to.is_floating() && is_rounded_twice(self.plain_type(), to) {
            let plain = self.plain_type().clone();
            self.cast_to(&plain)?;
            self.cast_to(&DataType::Utf8)?;
        }
        self.cast_to(to)
    }

    fn cast_to(&mut self, to: &DataType) -> Result<()> {
        if self.data_type != *to {
            self.expr = cast_expr(std::mem::take(&mut self.expr), to)?;
            self.data_type = to.clone();
        }
        Ok(())
    }

    fn described(&self) -> String {
        format!("{} ({})", self.expr.human_display(), self.data_type)
    }
}

/// Returns whether Arrow rounds the digits of a decimal and then divides them by a rounded power of
/// ten when it makes a float of it: 0.1 with 30 places is not the double 0.1 then. Read as a text,
/// the decimal is rounded once.
fn is_rounded_twice(from: &DataType, to: &DataType) -> bool {
    let (digits, places) = if *to == DataType::Float64 { (15, 22) } else { (7, 10) };
    let found = Digits::of_type(from).filter(|_| from.is_decimal());
    found.is_some_and(|found| found.before + found.after > digits || !(0..=places).contains(&found.after))
}

/// Returns a cast of an expression.
pub(super) fn cast_expr(expr: Expr, to: &DataType) -> Result<Expr> {
    Ok(match expr {
        Expr::ScalarSubquery(subquery) => {
            let subquery: Subquery = cast_subquery(subquery, to)?;
            Expr::ScalarSubquery(subquery)
        }
        Expr::Literal(value, metadata) if matches!(to, DataType::Timestamp(..)) => {
            cast(Expr::Literal(constant::with_seconds(&value).unwrap_or(value), metadata), to.clone())
        }
        other => cast(other, to.clone()),
    })
}

/// Casts operands that are compared to the type of their comparison.
///
/// # Errors
/// If they cannot be compared, as [`Incomparable`].
pub(super) fn prepare(operands: &mut [Operand], config: &ConfigOptions) -> Result<()> {
    prepare_zones(operands, config)?;
    refuse_kinds(operands)?;
    prepare_spans(operands)?;
    let to = numbers(operands).or_else(|| other_type(operands)).or_else(|| booleans(operands));
    let Some(to) = to else { return Ok(()) };
    let texts = matches!(to, DataType::Timestamp(..) | DataType::Boolean);
    for operand in operands {
        let is_text = operand.is_text_constant();
        if operand.data_type.is_null() || is_text && !texts {
            continue;
        }
        if to.is_decimal()
            && let Some(decimal) = operand.constant.as_ref().and_then(constant::as_decimal)
        {
            operand.data_type = decimal.data_type();
            operand.expr = Expr::Literal(decimal, None);
        }
        operand.cast(&to)?;
    }
    Ok(())
}

/// Gives the times without a zone that are compared with zoned ones the zone that is known for them.
pub(super) fn prepare_zones(operands: &mut [Operand], config: &ConfigOptions) -> Result<()> {
    let Some(zoned) = operands.iter().position(|operand| zone_in(&operand.data_type).is_some()) else { return Ok(()) };
    let session = config.execution.time_zone.as_deref();
    for place in 0..operands.len() {
        if !lacks_zone(&operands[place].data_type, &operands[zoned].data_type) {
            continue;
        }
        let zone = match session {
            Some(zone) => zone,
            None if constant::is_present(&operands[place].expr) => UTC,
            None => return Err(unknown_zone(&operands[place], &operands[zoned]).into()),
        };
        let to = with_zone(&operands[place].data_type, zone);
        if matches!(plain(&operands[place].data_type), DataType::Date32 | DataType::Date64) {
            // A date is the beginning of its day, in the zone.
            operands[place].cast(&DataType::Timestamp(TimeUnit::Microsecond, None))?;
        }
        operands[place].cast(&to)?;
    }
    Ok(())
}

const UTC: &str = "+00:00";

/// Casts operands that become one column where DataFusion's own type would change their values:
/// decimals beside floats become floats, and times without a zone beside zoned ones get theirs.
///
/// # Errors
/// If that zone is unknown.
pub(super) fn unify(operands: &mut [Operand], config: &ConfigOptions) -> Result<()> {
    prepare_zones(operands, config)?;
    let varies = |operand: &Operand| operand.constant.is_none() && operand.plain_type().is_floating();
    let types = || operands.iter().map(Operand::plain_type).filter(|data_type| data_type.is_numeric());
    if !types().any(DataType::is_decimal) || !operands.iter().any(varies) {
        return Ok(());
    }
    let to = float(types());
    for operand in operands.iter_mut().filter(|operand| operand.plain_type().is_numeric()) {
        operand.cast(&to)?;
    }
    Ok(())
}

fn unknown_zone(naive: &Operand, zoned: &Operand) -> Incomparable {
    let shown = naive.expr.human_display().to_string();
    let is_simple = matches!(naive.expr, Expr::Column(_) | Expr::OuterReferenceColumn(..));
    let at_zone = match (is_simple, naive.constant.is_some()) {
        (_, true) => "the time as a text, as in '2025-01-01 00:00:00+00'".to_owned(),
        (true, false) => format!("{shown} AT TIME ZONE 'UTC' (or its zone)"),
        (false, false) => format!("({shown}) AT TIME ZONE 'UTC' (or its zone)"),
    };
    let mut columns: Vec<String> = naive.expr.column_refs().into_iter().map(|column| column.name.clone()).collect();
    columns.sort();
    Incomparable::Zone { naive: shown, zoned: zoned.described(), at_zone, columns }
}

/// Returns the time zone of a timestamp, or of one within a list or struct.
fn zone_in(data_type: &DataType) -> Option<&str> {
    match plain(data_type) {
        DataType::Timestamp(_, zone) => zone.as_deref(),
        DataType::Struct(fields) => fields.iter().find_map(|field| zone_in(field.data_type())),
        other => items(other).and_then(|field| zone_in(field.data_type())),
    }
}

/// Returns whether a type has a date or a timestamp without a zone where the other has a zoned one.
pub(super) fn lacks_zone(naive: &DataType, zoned: &DataType) -> bool {
    use DataType::{Date32, Date64, Struct, Timestamp};
    match (plain(naive), plain(zoned)) {
        (Timestamp(_, None) | Date32 | Date64, Timestamp(_, Some(_))) => true,
        (Struct(of_naive), Struct(of_zoned)) => {
            of_naive.iter().zip(of_zoned).any(|(naive, zoned)| lacks_zone(naive.data_type(), zoned.data_type()))
        }
        (of_naive, of_zoned) => match (items(of_naive), items(of_zoned)) {
            (Some(naive), Some(zoned)) => lacks_zone(naive.data_type(), zoned.data_type()),
            // An element, beside a list of them.
            (None, Some(zoned)) => lacks_zone(of_naive, zoned.data_type()),
            (Some(naive), None) => lacks_zone(naive.data_type(), of_zoned),
            (None, None) => false,
        },
    }
}

/// Returns a type with this zone for all times that have none.
fn with_zone(data_type: &DataType, zone: &str) -> DataType {
    use DataType::{Date32, Date64, FixedSizeList, LargeList, List, Struct, Timestamp};
    let of_field = |field: &Arc<Field>| {
        let data_type = with_zone(field.data_type(), zone);
        Arc::new(Field::clone(field).with_data_type(data_type))
    };
    match plain(data_type) {
        Timestamp(unit, None) => Timestamp(*unit, Some(zone.into())),
        Date32 | Date64 => Timestamp(TimeUnit::Microsecond, Some(zone.into())),
        List(field) => List(of_field(field)),
        LargeList(field) => LargeList(of_field(field)),
        FixedSizeList(field, length) => FixedSizeList(of_field(field), *length),
        Struct(fields) => Struct(fields.iter().map(of_field).collect()),
        other => other.clone(),
    }
}

/// Refuses texts beside numbers and times, integers beside dates, and dates beside times of a day,
/// which DataFusion would convert: '0123' would be equal to 123.
fn refuse_kinds(operands: &[Operand]) -> Result<(), Incomparable> {
    let others = || operands.iter().filter(|operand| !operand.is_text_constant());
    for left in others() {
        for right in others() {
            if let Some(remedy) = remedy(left, right) {
                let (left, right) = (left.described(), right.described());
                return Err(Incomparable::Kinds { left, right, remedy });
            }
        }
    }
    Ok(())
}

/// Returns what to write instead of a comparison that is refused.
fn remedy(left: &Operand, right: &Operand) -> Option<String> {
    use DataType::{Date32, Date64, Duration, Interval, Time32, Time64, Timestamp};
    let cast =
        |of: &Operand, to: &str| Some(format!("convert one of them, as in CAST({} AS {to})", of.expr.human_display()));
    match (left.plain_type(), right.plain_type()) {
        (text, Date32 | Date64) if text.is_string() => cast(left, "DATE"),
        (text, Timestamp(_, None)) if text.is_string() => cast(left, "TIMESTAMP"),
        (text, Timestamp(_, Some(_))) if text.is_string() => cast(left, "TIMESTAMPTZ"),
        (text, Time32(_) | Time64(_)) if text.is_string() => cast(left, "TIME"),
        (text, number) if text.is_string() && number.is_integer() => cast(left, "BIGINT"),
        (text, number) if text.is_string() && number.is_numeric() => cast(left, "DOUBLE"),
        (number, Date32 | Date64) if number.is_integer() => cast(right, "INT"),
        (Date32 | Date64, Time32(_) | Time64(_)) => Some("compare dates with dates, or times with times".to_owned()),
        (Duration(_), Interval(_)) if right.constant.is_none() => {
            Some("compare differences of times with each other or with constants".to_owned())
        }
        _ => None,
    }
}

/// Returns the type for numbers, if DataFusion's own may lose values of them.
fn numbers(operands: &[Operand]) -> Option<DataType> {
    let numbers = || operands.iter().filter(|operand| !operand.data_type.is_null() && !operand.is_text_constant());
    let types = || numbers().map(Operand::plain_type);
    if !types().all(DataType::is_numeric) || !types().any(is_special) {
        return None;
    }
    let digits = |operand: &Operand| {
        let value = operand.constant.as_ref();
        match operand.plain_type() {
            number if number.is_floating() => {
                value.and_then(constant::as_decimal).and_then(|value| Digits::of_type(&value.data_type()))
            }
            _ => value.and_then(constant::digits).or_else(|| Digits::of_type(operand.plain_type())),
        }
    };
    let column_is_decimal = numbers().any(|number| number.constant.is_none() && number.plain_type().is_decimal());
    let floats_vary = numbers().any(|number| number.constant.is_none() && number.plain_type().is_floating());
    if types().any(DataType::is_floating) && (floats_vary || !column_is_decimal) {
        if types().all(DataType::is_floating) {
            return None;
        }
        return Some(float(types()));
    }
    // A constant that no decimal holds is compared as a float.
    let Some(all) = numbers().map(digits).collect::<Option<Vec<_>>>() else { return Some(float(types())) };
    let has_wide = types().any(|data_type| matches!(data_type, DataType::Decimal256(..)));
    let exact = decimal(all, has_wide);
    // No cast of the column if its type holds the constants.
    match types().find(|data_type| data_type.is_decimal()) {
        Some(column) if column_holds(column, exact.as_ref()) => Some(column.clone()),
        _ => exact,
    }
}

/// Returns whether a decimal type has the digits of another one.
fn column_holds(column: &DataType, exact: Option<&DataType>) -> bool {
    let digits = (Digits::of_type(column), exact.and_then(Digits::of_type));
    matches!(digits, (Some(column), Some(exact)) if column == exact)
}

/// Returns the type for times and nested values.
fn other_type(operands: &[Operand]) -> Option<DataType> {
    let mut types = operands.iter().filter(|operand| !operand.data_type.is_null() && !operand.is_text_constant());
    let mut found = types.next()?.plain_type().clone();
    let is_ours = |data_type: &DataType| data_type.is_temporal() || data_type.is_nested();
    if !is_ours(&found) {
        return None;
    }
    for operand in types {
        let data_type = operand.plain_type();
        if *data_type == found {
            continue;
        }
        found = if found.is_nested() { common(&found, data_type)? } else { times(&found, data_type)? };
    }
    let DataType::Timestamp(mut unit, zone) = found else { return Some(found) };
    if unit == TimeUnit::Nanosecond && has_date(operands) && nanoseconds_are_constant(operands) {
        unit = TimeUnit::Microsecond;
    }
    for text in operands.iter().filter(|operand| operand.is_text_constant()) {
        unit = finer(unit, text.constant.as_ref().map_or(unit, unit_of_text));
    }
    Some(DataType::Timestamp(unit, zone))
}

/// Returns the type of booleans, if they stand beside constant texts.
fn booleans(operands: &[Operand]) -> Option<DataType> {
    let mut others = operands.iter().filter(|operand| !operand.data_type.is_null() && !operand.is_text_constant());
    let are_booleans = others.clone().next().is_some() && others.all(|other| *other.plain_type() == DataType::Boolean);
    (are_booleans && operands.iter().any(Operand::is_text_constant)).then_some(DataType::Boolean)
}

fn has_date(operands: &[Operand]) -> bool {
    let is_date = |operand: &Operand| matches!(operand.plain_type(), DataType::Date32 | DataType::Date64);
    operands.iter().any(is_date)
}

/// Returns whether no column has the nanoseconds of times, and no constant needs them. Microseconds hold
/// all dates, nanoseconds those until 2262. The present is known to the microsecond.
fn nanoseconds_are_constant(operands: &[Operand]) -> bool {
    let is_coarse = |operand: &Operand| match operand.constant.as_ref() {
        Some(ScalarValue::TimestampNanosecond(Some(nanoseconds), _)) => nanoseconds % 1000 == 0,
        Some(_) => true,
        None => constant::is_present(&operand.expr),
    };
    let are_fine = |operand: &&Operand| matches!(operand.plain_type(), DataType::Timestamp(TimeUnit::Nanosecond, _));
    operands.iter().filter(are_fine).all(is_coarse)
}

/// Returns the unit that keeps the fraction of a second in a text.
fn unit_of_text(text: &ScalarValue) -> TimeUnit {
    let Some(Some(text)) = text.try_as_str() else { return TimeUnit::Second };
    let places = text.split_once('.').map_or(0, |(_, rest)| rest.bytes().take_while(u8::is_ascii_digit).count());
    match places {
        0 => TimeUnit::Second,
        1..=3 => TimeUnit::Millisecond,
        4..=6 => TimeUnit::Microsecond,
        _ => TimeUnit::Nanosecond,
    }
}
