//! The type in which values of two types are compared.

use std::sync::Arc;

use arrow::datatypes::{DECIMAL128_MAX_PRECISION, DECIMAL256_MAX_PRECISION, DataType, Field, FieldRef, TimeUnit};
use datafusion::logical_expr::type_coercion::binary::comparison_coercion;

/// The digits of a number before and after the point.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Digits {
    pub(super) before: i16,
    pub(super) after: i16,
}

impl Digits {
    /// Returns the digits that hold all values of an integer or a decimal.
    pub(super) fn of_type(data_type: &DataType) -> Option<Self> {
        use DataType::{
            Decimal32, Decimal64, Decimal128, Decimal256, Int8, Int16, Int32, Int64, UInt8, UInt16, UInt32, UInt64,
        };
        let whole = |before| Some(Self { before, after: 0 });
        match *data_type {
            Int8 | UInt8 => whole(3),
            Int16 | UInt16 => whole(5),
            Int32 | UInt32 => whole(10),
            Int64 => whole(19),
            UInt64 => whole(20),
            Decimal32(precision, scale)
            | Decimal64(precision, scale)
            | Decimal128(precision, scale)
            | Decimal256(precision, scale) => {
                let after = i16::from(scale);
                Some(Self { before: i16::from(precision) - after, after })
            }
            _ => None,
        }
    }

    fn wider(self, other: Self) -> Self {
        Self { before: self.before.max(other.before), after: self.after.max(other.after) }
    }
}

/// Returns the decimal that holds the values of all these digits, if there is one. `has_wide` says
/// whether one of them is a decimal of 256 bits.
pub(super) fn decimal(all: impl IntoIterator<Item = Digits>, has_wide: bool) -> Option<DataType> {
    let digits = all.into_iter().reduce(Digits::wider)?;
    let precision = u8::try_from((digits.before.max(0) + digits.after).max(1)).ok()?;
    let scale = i8::try_from(digits.after).ok()?;
    match precision {
        ..=DECIMAL128_MAX_PRECISION if !has_wide => Some(DataType::Decimal128(precision, scale)),
        ..=DECIMAL256_MAX_PRECISION => Some(DataType::Decimal256(precision, scale)),
        _ => None,
    }
}

/// Returns the type of the values behind a dictionary or runs.
pub(super) fn plain(data_type: &DataType) -> &DataType {
    match data_type {
        DataType::Dictionary(_, values) => plain(values),
        DataType::RunEndEncoded(_, values) => plain(values.data_type()),
        other => other,
    }
}

/// Returns the type in which floats of these types are compared with decimals or integers: of 32
/// bits if no float is wider, as in DuckDB.
pub(super) fn float<'a>(mut types: impl Iterator<Item = &'a DataType>) -> DataType {
    if types.any(|data_type| *data_type == DataType::Float64) { DataType::Float64 } else { DataType::Float32 }
}

/// Returns the type in which values of two types are compared, if they can be.
pub(super) fn common(left: &DataType, right: &DataType) -> Option<DataType> {
    let (left, right) = match (plain(left), plain(right)) {
        (a, b) if a == b => return comparison_coercion(left, right),
        plain => plain,
    };
    match numbers(left, right).or_else(|| times(left, right)).or_else(|| nested(left, right)) {
        Some(found) => Some(found),
        None => comparison_coercion(left, right),
    }
}

fn numbers(left: &DataType, right: &DataType) -> Option<DataType> {
    if !left.is_numeric() || !right.is_numeric() || !(is_special(left) || is_special(right)) {
        return None;
    }
    let both = [left, right];
    if both.iter().any(|data_type| data_type.is_floating()) {
        let all_float = both.iter().all(|data_type| data_type.is_floating());
        return (!all_float).then(|| float(both.into_iter()));
    }
    let digits = [Digits::of_type(left)?, Digits::of_type(right)?];
    decimal(digits, both.iter().any(|data_type| matches!(data_type, DataType::Decimal256(..))))
}

/// Returns whether DataFusion's own type for a comparison with other numbers may lose values.
pub(super) fn is_special(data_type: &DataType) -> bool {
    data_type.is_decimal() || *data_type == DataType::Float16
}

/// Returns the type for two times. Time zones are those of timestamps that both have one.
pub(super) fn times(left: &DataType, right: &DataType) -> Option<DataType> {
    use DataType::{Date32, Date64, Duration, Time32, Time64, Timestamp};
    Some(match (left, right) {
        (Timestamp(a, zone @ Some(_)), Timestamp(b, Some(_))) => Timestamp(finer(*a, *b), zone.clone()),
        (Timestamp(a, None), Timestamp(b, None)) => Timestamp(finer(*a, *b), None),
        (Timestamp(unit, None), Date32) | (Date32, Timestamp(unit, None)) => Timestamp(*unit, None),
        (Timestamp(unit, None), Date64) | (Date64, Timestamp(unit, None)) => {
            Timestamp(finer(*unit, TimeUnit::Millisecond), None)
        }
        (Time32(a) | Time64(a), Time32(b) | Time64(b)) => time(finer(*a, *b)),
        (Duration(a), Duration(b)) => Duration(finer(*a, *b)),
        _ => return None,
    })
}

fn time(unit: TimeUnit) -> DataType {
    match unit {
        TimeUnit::Second | TimeUnit::Millisecond => DataType::Time32(unit),
        TimeUnit::Microsecond | TimeUnit::Nanosecond => DataType::Time64(unit),
    }
}

/// Returns the finer one of two units.
pub(super) fn finer(a: TimeUnit, b: TimeUnit) -> TimeUnit {
    let places = |unit| match unit {
        TimeUnit::Second => 0,
        TimeUnit::Millisecond => 3,
        TimeUnit::Microsecond => 6,
        TimeUnit::Nanosecond => 9,
    };
    if places(a) >= places(b) { a } else { b }
}

/// Returns the type for two lists of other elements, or two structs of other fields.
fn nested(left: &DataType, right: &DataType) -> Option<DataType> {
    use DataType::Struct;
    // DataFusion chooses the kind of list, and the names and the order of fields.
    match (comparison_coercion(left, right), left, right) {
        (found, Struct(of_left), Struct(of_right)) if of_left.len() == of_right.len() => {
            let by_name = of_left.iter().all(|field| of_right.find(field.name()).is_some());
            let fields = of_left.iter().enumerate().map(|(place, field)| {
                let other = if by_name { of_right.find(field.name())?.1 } else { &of_right[place] };
                element(field, other)
            });
            Some(Struct(fields.collect::<Option<_>>()?)).or(found)
        }
        (found, _, _) => {
            let of_common = element(items(left)?, items(right)?)?;
            Some(match found {
                Some(DataType::FixedSizeList(_, length)) => DataType::FixedSizeList(of_common, length),
                Some(DataType::LargeList(_)) => DataType::LargeList(of_common),
                _ if matches!((left, right), (DataType::LargeList(_), _) | (_, DataType::LargeList(_))) => {
                    DataType::LargeList(of_common)
                }
                _ => DataType::List(of_common),
            })
        }
    }
}

fn element(left: &FieldRef, right: &FieldRef) -> Option<FieldRef> {
    let data_type = common(left.data_type(), right.data_type())?;
    let nullable = left.is_nullable() || right.is_nullable();
    Some(Arc::new(Field::clone(left).with_data_type(data_type).with_nullable(nullable)))
}

/// Returns the field of the elements of a list.
pub(super) fn items(data_type: &DataType) -> Option<&FieldRef> {
    match data_type {
        DataType::List(field) | DataType::LargeList(field) | DataType::FixedSizeList(field, _) => Some(field),
        _ => None,
    }
}
