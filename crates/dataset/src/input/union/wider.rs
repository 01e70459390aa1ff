//! Types that hold the values of two others without loss.

use std::sync::Arc;

use arrow::datatypes::{DataType, FieldRef, Fields, IntervalUnit, TimeUnit};

/// Returns a type that holds all values of both types; `None` if there is none. There are two
/// exceptions, in which a cast refuses single values: 64-bit integers that no float equals, and
/// times beyond the range of a finer unit.
pub(super) fn wider(left: &DataType, right: &DataType) -> Option<DataType> {
    use DataType::{Date32, Date64, Dictionary, Duration, Interval, Map, Null, RunEndEncoded, Struct, Timestamp};
    if left == right {
        return Some(left.clone());
    }
    match (left, right) {
        (Null, other) | (other, Null) => Some(other.clone()),
        (Dictionary(_, values), other) | (other, Dictionary(_, values)) => wider(values, other),
        (RunEndEncoded(_, values), other) | (other, RunEndEncoded(_, values)) => wider(values.data_type(), other),
        (Struct(left), Struct(right)) => wider_struct(left, right).map(Struct),
        (Map(left, left_sorted), Map(right, right_sorted)) => {
            Some(Map(wider_entries(left, right)?, *left_sorted && *right_sorted))
        }
        (Timestamp(left, left_zone), Timestamp(right, right_zone)) => {
            let zone = match (left_zone, right_zone) {
                (None, None) => None,
                (Some(left), Some(right)) if left == right => Some(Arc::clone(left)),
                (Some(_), Some(_)) => Some("UTC".into()),
                _ => return None,
            };
            Some(Timestamp(*left.max(right), zone))
        }
        (Date32, Date64) | (Date64, Date32) => Some(Date64),
        (Duration(left), Duration(right)) => Some(Duration(*left.max(right))),
        (Interval(_), Interval(_)) => Some(Interval(IntervalUnit::MonthDayNano)),
        _ => wider_time(left, right)
            .or_else(|| wider_list(left, right))
            .or_else(|| wider_text(left, right))
            .or_else(|| wider_bytes(left, right))
            .or_else(|| wider_number(left, right)),
    }
}

/// Returns a field of the left name that holds the values of both.
pub(super) fn wider_field(left: &FieldRef, right: &FieldRef) -> Option<FieldRef> {
    let data_type = wider(left.data_type(), right.data_type())?;
    let is_nullable = left.is_nullable() || right.is_nullable();
    if data_type == *left.data_type() && is_nullable == left.is_nullable() {
        return Some(Arc::clone(left));
    }
    Some(Arc::new(left.as_ref().clone().with_data_type(data_type).with_nullable(is_nullable)))
}

/// Returns a field that holds nulls beside the values of `field`.
pub(super) fn with_nulls(field: &FieldRef) -> FieldRef {
    if field.is_nullable() { Arc::clone(field) } else { Arc::new(field.as_ref().clone().with_nullable(true)) }
}

/// Returns the fields of both by name, those of `left` first.
fn wider_struct(left: &Fields, right: &Fields) -> Option<Fields> {
    let both = left.iter().map(|field| match right.find(field.name()) {
        Some((_, other)) => wider_field(field, other),
        None => Some(with_nulls(field)),
    });
    let added = right.iter().filter(|field| left.find(field.name()).is_none()).map(|field| Some(with_nulls(field)));
    both.chain(added).collect()
}

/// Returns entries with the names of `left`: writers name keys and values differently.
fn wider_entries(left: &FieldRef, right: &FieldRef) -> Option<FieldRef> {
    let (DataType::Struct(fields), DataType::Struct(others)) = (left.data_type(), right.data_type()) else {
        return None;
    };
    let fields = fields.iter().zip(others).map(|(field, other)| wider_field(field, other)).collect::<Option<_>>()?;
    Some(Arc::new(left.as_ref().clone().with_data_type(DataType::Struct(fields))))
}

/// Returns the field of a list's items; `None` if the type is not a list.
pub(super) fn item_of(data_type: &DataType) -> Option<&FieldRef> {
    match data_type {
        DataType::List(item)
        | DataType::LargeList(item)
        | DataType::FixedSizeList(item, _)
        | DataType::ListView(item)
        | DataType::LargeListView(item) => Some(item),
        _ => None,
    }
}

fn wider_list(left: &DataType, right: &DataType) -> Option<DataType> {
    let item = wider_field(item_of(left)?, item_of(right)?)?;
    let is_large = |of: &DataType| matches!(of, DataType::LargeList(_) | DataType::LargeListView(_));
    Some(match (left, right) {
        (DataType::FixedSizeList(_, length), DataType::FixedSizeList(_, other)) if length == other => {
            DataType::FixedSizeList(item, *length)
        }
        _ if is_large(left) || is_large(right) => DataType::LargeList(item),
        _ => DataType::List(item),
    })
}

fn wider_text(left: &DataType, right: &DataType) -> Option<DataType> {
    let layouts = [DataType::Utf8View, DataType::LargeUtf8];
    let layout = || layouts.into_iter().find(|layout| left == layout || right == layout);
    (left.is_string() && right.is_string()).then(|| layout().unwrap_or(DataType::Utf8))
}

fn wider_bytes(left: &DataType, right: &DataType) -> Option<DataType> {
    use DataType::{Binary, BinaryView, FixedSizeBinary, LargeBinary};
    let are_bytes = |of: &DataType| matches!(of, Binary | LargeBinary | BinaryView | FixedSizeBinary(_));
    let layout = || [BinaryView, LargeBinary].into_iter().find(|layout| left == layout || right == layout);
    (are_bytes(left) && are_bytes(right)).then(|| layout().unwrap_or(Binary))
}

/// Returns the type of a time of day that holds both.
fn wider_time(left: &DataType, right: &DataType) -> Option<DataType> {
    let unit = |of: &DataType| match of {
        DataType::Time32(unit) | DataType::Time64(unit) => Some(*unit),
        _ => None,
    };
    let unit = unit(left)?.max(unit(right)?);
    Some(if unit <= TimeUnit::Millisecond { DataType::Time32(unit) } else { DataType::Time64(unit) })
}

fn wider_number(left: &DataType, right: &DataType) -> Option<DataType> {
    if let (Some(left), Some(right)) = (Integer::from_type(left), Integer::from_type(right)) {
        return Some(left.wider(right));
    }
    if left.is_floating() || right.is_floating() {
        let bits = digits_of_float(left)?.max(digits_of_float(right)?);
        return Some(match bits {
            0..=11 => DataType::Float16,
            12..=24 => DataType::Float32,
            _ => DataType::Float64,
        });
    }
    let (left, right) = (Decimal::from_type(left)?, Decimal::from_type(right)?);
    let scale = left.scale.max(right.scale);
    let precision = left.whole_digits().max(right.whole_digits()) + i16::from(scale);
    decimal(u8::try_from(precision).ok()?, scale, left.bits.max(right.bits))
}

/// Returns how many binary digits a float needs for all values of a number's type; `None` for
/// decimals. Those of 64-bit integers do not fit.
fn digits_of_float(data_type: &DataType) -> Option<u32> {
    match data_type {
        DataType::Float16 => Some(11),
        DataType::Float32 => Some(24),
        DataType::Float64 => Some(53),
        other => Integer::from_type(other).map(|integer| integer.bits - u32::from(integer.is_signed)),
    }
}

/// The type of an integer.
#[derive(Clone, Copy)]
struct Integer {
    is_signed: bool,
    bits: u32,
}

impl Integer {
    fn from_type(data_type: &DataType) -> Option<Self> {
        let bits = data_type.is_integer().then(|| data_type.primitive_width()).flatten()? as u32 * 8;
        Some(Self { is_signed: data_type.is_signed_integer(), bits })
    }

    fn wider(self, other: Self) -> DataType {
        let is_signed = self.is_signed || other.is_signed;
        let bits = |of: Self| if is_signed && !of.is_signed { 2 * of.bits } else { of.bits };
        match (is_signed, bits(self).max(bits(other))) {
            (true, 16) => DataType::Int16,
            (true, 32) => DataType::Int32,
            (true, 64) => DataType::Int64,
            (false, 16) => DataType::UInt16,
            (false, 32) => DataType::UInt32,
            (false, 64) => DataType::UInt64,
            // Signed values beside unsigned ones of 64 bits.
            _ => DataType::Decimal128(20, 0),
        }
    }
}

/// The type of a decimal, or of an integer as a decimal.
struct Decimal {
    precision: u8,
    scale: i8,
    bits: u32,
}

impl Decimal {
    fn from_type(data_type: &DataType) -> Option<Self> {
        let (precision, scale, bits) = match *data_type {
            DataType::Decimal32(precision, scale) => (precision, scale, 32),
            DataType::Decimal64(precision, scale) => (precision, scale, 64),
            DataType::Decimal128(precision, scale) => (precision, scale, 128),
            DataType::Decimal256(precision, scale) => (precision, scale, 256),
            _ => match Integer::from_type(data_type)? {
                Integer { bits: 8, .. } => (3, 0, 32),
                Integer { bits: 16, .. } => (5, 0, 32),
                Integer { bits: 32, .. } => (10, 0, 32),
                Integer { is_signed: true, .. } => (19, 0, 32),
                Integer { .. } => (20, 0, 32),
            },
        };
        Some(Self { precision, scale, bits })
    }

    /// Returns the number of digits before the point.
    fn whole_digits(&self) -> i16 {
        i16::from(self.precision) - i16::from(self.scale)
    }
}

/// Returns the narrowest decimal type of at least `bits` bits, if any has the precision.
fn decimal(precision: u8, scale: i8, bits: u32) -> Option<DataType> {
    match precision {
        1..=9 if bits <= 32 => Some(DataType::Decimal32(precision, scale)),
        1..=18 if bits <= 64 => Some(DataType::Decimal64(precision, scale)),
        1..=38 if bits <= 128 => Some(DataType::Decimal128(precision, scale)),
        1..=76 => Some(DataType::Decimal256(precision, scale)),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use DataType::*;
    use TimeUnit::{Microsecond, Millisecond, Nanosecond, Second};
    use arrow::datatypes::Field;

    use super::*;

    fn structure(fields: &[(&str, DataType, bool)]) -> DataType {
        Struct(fields.iter().map(|(name, of, nullable)| Field::new(*name, of.clone(), *nullable)).collect())
    }

    fn list(of: DataType) -> DataType {
        List(Arc::new(Field::new("item", of, true)))
    }

    #[test]
    fn a_wider_type_holds_both() {
        let text = || Box::new(Utf8);
        let cases = [
            (Int8, Int64, Int64),
            (UInt8, UInt32, UInt32),
            (UInt8, Int8, Int16),
            (UInt8, Int64, Int64),
            (UInt32, Int8, Int64),
            (UInt64, Int8, Decimal128(20, 0)),
            (Float32, Float64, Float64),
            (Int16, Float32, Float32),
            (UInt16, Float16, Float32),
            (Int32, Float32, Float64),
            (Int64, Float32, Float64),
            (Decimal128(10, 2), Decimal128(12, 5), Decimal128(13, 5)),
            (Decimal32(9, 0), Decimal64(10, 4), Decimal64(13, 4)),
            (Decimal128(38, 0), Decimal128(38, 10), Decimal256(48, 10)),
            (Decimal128(10, 2), Int64, Decimal128(21, 2)),
            (Decimal128(3, -2), Int8, Decimal128(5, 0)),
            (Timestamp(Millisecond, None), Timestamp(Microsecond, None), Timestamp(Microsecond, None)),
            (
                Timestamp(Second, Some("+02:00".into())),
                Timestamp(Nanosecond, Some("Europe/Zurich".into())),
                Timestamp(Nanosecond, Some("UTC".into())),
            ),
            (Time32(Second), Time32(Millisecond), Time32(Millisecond)),
            (Time32(Millisecond), Time64(Nanosecond), Time64(Nanosecond)),
            (Date32, Date64, Date64),
            (Duration(Second), Duration(Nanosecond), Duration(Nanosecond)),
            (Dictionary(Box::new(Int32), text()), Utf8, Utf8),
            (Dictionary(Box::new(Int32), text()), Dictionary(Box::new(Int8), text()), Utf8),
            (Dictionary(Box::new(Int32), Box::new(Int32)), Int64, Int64),
            (Utf8, Utf8View, Utf8View),
            (LargeUtf8, Utf8, LargeUtf8),
            (FixedSizeBinary(3), FixedSizeBinary(4), Binary),
            (Null, list(Int8), list(Int8)),
            (list(Int8), list(Int32), list(Int32)),
            (
                FixedSizeList(Arc::new(Field::new("item", Int8, true)), 2),
                FixedSizeList(Arc::new(Field::new("item", Int8, true)), 3),
                list(Int8),
            ),
            (
                structure(&[("a", Int32, false), ("b", Utf8, false)]),
                structure(&[("c", Int8, false), ("a", Int64, false)]),
                structure(&[("a", Int64, false), ("b", Utf8, true), ("c", Int8, true)]),
            ),
        ];
        for (left, right, expected) in cases {
            assert_eq!(wider(&left, &right), Some(expected.clone()), "{left} with {right}");
            if !expected.is_nested() {
                assert_eq!(wider(&right, &left), Some(expected), "{right} with {left}");
            }
        }
    }

    #[test]
    fn types_of_other_kinds_have_no_wider_one() {
        let cases = [
            (Utf8, Int64),
            (Utf8, Binary),
            (Boolean, Int8),
            (Date32, Timestamp(Second, None)),
            (Timestamp(Second, None), Timestamp(Second, Some("UTC".into()))),
            (Decimal128(10, 2), Float64),
            (Decimal256(76, 0), Decimal256(76, 1)),
            (list(Int8), Int8),
            (list(Int8), list(Utf8)),
        ];
        for (left, right) in cases {
            assert_eq!(wider(&left, &right), None, "{left} with {right}");
        }
    }
}
