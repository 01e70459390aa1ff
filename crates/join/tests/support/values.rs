//! Values of keys, as the model sees them and as Arrow columns.

use std::{cmp::Ordering, sync::Arc};

use arrow::{
    array::{
        ArrayRef, BooleanArray, Date32Array, Decimal128Array, Float32Array, Float64Array, Int8Array, Int32Array,
        Int64Array, ListArray, NullArray, RecordBatch, StringArray, StructArray, TimestampMicrosecondArray,
        UInt64Array,
    },
    buffer::NullBuffer,
    compute::cast,
    datatypes::{DataType, Field, Float64Type},
};
use proptest::prelude::*;

/// The type of a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    Int8,
    Int32,
    Int64,
    UInt64,
    Float32,
    Float64,
    Decimal,
    Date,
    Timestamp,
    Boolean,
    Text,
    TextView,
    Dictionary,
    Float16,
    WideDecimal,
    /// Lists of one float.
    FloatList,
    /// Structs of one float.
    FloatStruct,
    Nothing,
}

impl Kind {
    pub const ALL: [Self; 18] = [
        Self::Int8,
        Self::Int32,
        Self::Int64,
        Self::UInt64,
        Self::Float32,
        Self::Float64,
        Self::Decimal,
        Self::Date,
        Self::Timestamp,
        Self::Boolean,
        Self::Text,
        Self::TextView,
        Self::Dictionary,
        Self::Float16,
        Self::WideDecimal,
        Self::FloatList,
        Self::FloatStruct,
        Self::Nothing,
    ];
    /// The kinds that can be within a band.
    pub const NUMBERS: [Self; 9] = [
        Self::Int8,
        Self::Int32,
        Self::Int64,
        Self::UInt64,
        Self::Float32,
        Self::Float64,
        Self::Decimal,
        Self::Date,
        Self::Timestamp,
    ];

    pub fn is_float(self) -> bool {
        matches!(self, Self::Float32 | Self::Float64)
    }

    /// Returns the least and the greatest value of an integer kind.
    fn limits(self) -> (i128, i128) {
        match self {
            Self::Int8 => (i8::MIN.into(), i8::MAX.into()),
            Self::Int32 | Self::Date => (i32::MIN.into(), i32::MAX.into()),
            Self::UInt64 => (0, u64::MAX.into()),
            Self::Decimal => (-(10_i128.pow(38)) + 1, 10_i128.pow(38) - 1),
            Self::Boolean => (0, 1),
            _ => (i64::MIN.into(), i64::MAX.into()),
        }
    }

    /// Generates a key: null, one of few values, or one at the ends of the range.
    pub fn value(self) -> BoxedStrategy<Value> {
        let floats = [f64::NAN, -f64::NAN, 0.0, -0.0, f64::INFINITY, f64::NEG_INFINITY, f64::MAX, f64::MIN, 0.1, -0.3];
        let (least, most) = self.limits();
        let value = match self {
            Self::Nothing => Just(Value::Null).boxed(),
            Self::Float16 | Self::Float32 | Self::Float64 | Self::FloatList | Self::FloatStruct => prop_oneof![
                3 => (-5..6_i32).prop_map(|value| Value::Float(f64::from(value) / 2.0)),
                1 => prop::sample::select(floats.to_vec()).prop_map(Value::Float),
            ]
            .boxed(),
            Self::Text | Self::TextView | Self::Dictionary => prop::sample::select(vec![
                "",
                "a",
                "ab",
                "a\0",
                "abcdefgh",
                "abcdefgh\0",
                "a long text of all one kind",
            ])
            .prop_map(|text| Value::Text(text.to_owned()))
            .boxed(),
            _ => prop_oneof![
                3 => (-4..8_i128).prop_map(move |value| Value::Int(value.clamp(least, most))),
                1 => (0..3_i128, any::<bool>())
                    .prop_map(move |(by, top)| Value::Int(if top { most - by } else { least + by }.clamp(least, most))),
            ]
            .boxed(),
        };
        prop_oneof![6 => value, 1 => Just(Value::Null)].boxed()
    }

    pub fn column(self, values: &[Value]) -> ArrayRef {
        let ints = || values.iter().map(Value::int);
        let floats = || values.iter().map(Value::float);
        let texts: StringArray = values.iter().map(Value::text).collect();
        let as_type = |data_type| cast(&texts, &data_type).unwrap();
        match self {
            Self::Int8 => Arc::new(ints().map(|value| value.map(|v| v as i8)).collect::<Int8Array>()),
            Self::Int32 => Arc::new(ints().map(|value| value.map(|v| v as i32)).collect::<Int32Array>()),
            Self::Int64 => Arc::new(ints().map(|value| value.map(|v| v as i64)).collect::<Int64Array>()),
            Self::UInt64 => Arc::new(ints().map(|value| value.map(|v| v as u64)).collect::<UInt64Array>()),
            Self::Date => Arc::new(ints().map(|value| value.map(|v| v as i32)).collect::<Date32Array>()),
            Self::Timestamp => {
                Arc::new(ints().map(|value| value.map(|v| v as i64)).collect::<TimestampMicrosecondArray>())
            }
            Self::Boolean => Arc::new(ints().map(|value| value.map(|v| v != 0)).collect::<BooleanArray>()),
            Self::Decimal => Arc::new(ints().collect::<Decimal128Array>().with_precision_and_scale(38, 2).unwrap()),
            Self::Float32 => Arc::new(floats().map(|value| value.map(|v| v as f32)).collect::<Float32Array>()),
            Self::Float64 => Arc::new(floats().collect::<Float64Array>()),
            Self::FloatList => {
                let lists = floats().map(|value| value.map(|value| vec![Some(value)]));
                Arc::new(ListArray::from_iter_primitive::<Float64Type, _, _>(lists))
            }
            Self::FloatStruct => {
                let field = Field::new("f", DataType::Float64, true);
                let child: ArrayRef = Arc::new(floats().collect::<Float64Array>());
                let nulls: NullBuffer = floats().map(|value| value.is_some()).collect();
                Arc::new(StructArray::new(vec![field].into(), vec![child], Some(nulls)))
            }
            Self::Float16 => {
                let floats: ArrayRef =
                    Arc::new(floats().map(|value| value.map(|v| v as f32)).collect::<Float32Array>());
                cast(&floats, &DataType::Float16).unwrap()
            }
            Self::WideDecimal => {
                let ints: ArrayRef = Arc::new(ints().map(|value| value.map(|v| v as i64)).collect::<Int64Array>());
                cast(&ints, &DataType::Decimal256(76, 1)).unwrap()
            }
            Self::Nothing => Arc::new(NullArray::new(values.len())),
            Self::Text => Arc::new(texts),
            Self::TextView => as_type(DataType::Utf8View),
            Self::Dictionary => as_type(DataType::Dictionary(Box::new(DataType::Int8), Box::new(DataType::Utf8))),
        }
    }
}

#[derive(Clone, Debug)]
pub enum Value {
    Null,
    Int(i128),
    Float(f64),
    Text(String),
}

impl Value {
    fn int(&self) -> Option<i128> {
        if let Self::Int(value) = self { Some(*value) } else { None }
    }

    fn float(&self) -> Option<f64> {
        if let Self::Float(value) = self { Some(*value) } else { None }
    }

    fn text(&self) -> Option<&str> {
        if let Self::Text(value) = self { Some(value) } else { None }
    }
}

/// Compares by SQL's order; `None` if either is null.
pub fn compare(kind: Kind, a: &Value, b: &Value) -> Option<Ordering> {
    match (a, b) {
        (Value::Int(a), Value::Int(b)) => Some(a.cmp(b)),
        (Value::Text(a), Value::Text(b)) => Some(a.cmp(b)),
        (Value::Float(a), Value::Float(b)) if kind == Kind::Float32 => {
            Some(compare_floats(f64::from(*a as f32), f64::from(*b as f32)))
        }
        // All values that do not fit are infinite.
        (Value::Float(a), Value::Float(b)) if kind == Kind::Float16 => {
            let half = |value: f64| if value.abs() > 65504.0 { value.signum() * f64::INFINITY } else { value };
            Some(compare_floats(half(*a), half(*b)))
        }
        // Within nested values all bits count.
        (Value::Float(a), Value::Float(b)) if matches!(kind, Kind::FloatList | Kind::FloatStruct) => {
            Some(a.total_cmp(b))
        }
        (Value::Float(a), Value::Float(b)) => Some(compare_floats(*a, *b)),
        _ => None,
    }
}

/// Compares as DataFusion does: by the total order of IEEE 754, with one zero.
fn compare_floats(a: f64, b: f64) -> Ordering {
    let one_zero = |value: f64| if value == 0.0 { 0.0 } else { value };
    one_zero(a).total_cmp(&one_zero(b))
}

/// A side of a join: its keys, row by row.
#[derive(Clone, Debug)]
pub struct Table {
    pub kinds: Vec<Kind>,
    pub rows: Vec<Vec<Value>>,
}

impl Table {
    pub fn strategy(kinds: Vec<Kind>, most_rows: usize) -> BoxedStrategy<Self> {
        let row: Vec<_> = kinds.iter().map(|kind| kind.value()).collect();
        prop::collection::vec(row, 0..=most_rows).prop_map(move |rows| Self { kinds: kinds.clone(), rows }).boxed()
    }

    /// Returns the keys, then each row's number, as a number and as text.
    pub fn batch(&self) -> RecordBatch {
        let key = |index: usize| {
            let values: Vec<Value> = self.rows.iter().map(|row| row[index].clone()).collect();
            (format!("k{index}"), self.kinds[index].column(&values), true)
        };
        let numbers = 0..self.rows.len() as i32;
        let texts: StringArray = numbers.clone().map(|row| Some(text(row))).collect();
        let number: ArrayRef = Arc::new(numbers.map(Some).collect::<Int32Array>());
        let columns = (0..self.kinds.len()).map(key);
        let last =
            [("row".to_owned(), number, false), ("text".to_owned(), cast(&texts, &DataType::Utf8View).unwrap(), true)];
        RecordBatch::try_from_iter_with_nullable(columns.chain(last)).unwrap()
    }

    pub fn row_column(&self) -> usize {
        self.kinds.len()
    }

    pub fn text_column(&self) -> usize {
        self.kinds.len() + 1
    }
}

/// Returns the text column's value in a row.
pub fn text(row: i32) -> String {
    format!("the text of row {row}")
}
