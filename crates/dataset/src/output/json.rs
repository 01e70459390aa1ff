//! JSON, as all commands write it.

use std::{io::Write, sync::Arc};

use arrow::{
    array::{Array, ArrowPrimitiveType, AsArray, PrimitiveArray},
    datatypes::{DataType, FieldRef, Float16Type, Float32Type, Float64Type},
    error::ArrowError,
    json::{
        Encoder, EncoderFactory, EncoderOptions, Writer, WriterBuilder,
        writer::{JsonFormat, NullableEncoder, make_encoder},
    },
    util::display::{ArrayFormatter, FormatOptions},
};

use super::offsets::in_utc;

/// Returns a writer of rows as JSON objects. Nulls are written, since a column of nulls would
/// otherwise be gone. JSON has no numbers for values that are not finite, which become the texts
/// `"NaN"`, `"Infinity"` and `"-Infinity"`, as in Spark and Protocol Buffers. Zoned times whose offset
/// has seconds are in UTC.
pub fn json_writer<W: Write, F: JsonFormat>(sink: W) -> Writer<W, F> {
    WriterBuilder::new().with_explicit_nulls(true).with_encoder_factory(Arc::new(Exact)).build(sink)
}

/// Encodes columns with values that the stock encoders would change.
#[derive(Debug)]
struct Exact;

impl EncoderFactory for Exact {
    fn make_default_encoder<'a>(
        &self,
        field: &'a FieldRef,
        array: &'a dyn Array,
        options: &'a EncoderOptions,
    ) -> Result<Option<NullableEncoder<'a>>, ArrowError> {
        Ok(match array.data_type() {
            DataType::Float16 => encoder(array.as_primitive::<Float16Type>(), f64::from),
            DataType::Float32 => encoder(array.as_primitive::<Float32Type>(), f64::from),
            DataType::Float64 => encoder(array.as_primitive::<Float64Type>(), |float| float),
            DataType::Timestamp(_, Some(_)) => match in_utc(array)? {
                Some(times) => Some(NullableEncoder::new(Box::new(TimeEncoder::new(&times)?), array.nulls().cloned())),
                None => None,
            },
            DataType::Date32 | DataType::Date64 | DataType::Timestamp(_, None) => {
                // The stock encoder writes the text of the error.
                TimeEncoder::new(array)?;
                None
            }
            DataType::Dictionary(..) if array.logical_null_count() > array.null_count() => {
                // The stock encoder looks at the nulls of the keys alone.
                let dictionary = array.as_any_dictionary();
                let values = make_encoder(field, dictionary.values().as_ref(), options)?;
                let encoder = DictionaryEncoder { values, keys: dictionary.normalized_keys() };
                Some(NullableEncoder::new(Box::new(encoder), array.logical_nulls()))
            }
            _ => None,
        })
    }
}

struct DictionaryEncoder<'a> {
    values: NullableEncoder<'a>,
    keys: Vec<usize>,
}

impl Encoder for DictionaryEncoder<'_> {
    fn encode(&mut self, row: usize, out: &mut Vec<u8>) {
        self.values.encode(self.keys[row], out);
    }
}

/// Returns an encoder for floats, unless all are finite. `wide` is their value as a double.
fn encoder<'a, T>(array: &'a PrimitiveArray<T>, wide: fn(T::Native) -> f64) -> Option<NullableEncoder<'a>>
where
    T: ArrowPrimitiveType<Native: std::fmt::Debug>,
{
    let all_finite = array.values().iter().all(|float| wide(*float).is_finite());
    let encoder = || NullableEncoder::new(Box::new(FloatEncoder { array, wide }), array.nulls().cloned());
    (!all_finite).then(encoder)
}

struct TimeEncoder {
    texts: Vec<String>,
}

impl TimeEncoder {
    fn new(times: &dyn Array) -> Result<Self, ArrowError> {
        let options = FormatOptions::default().with_display_error(false);
        let formatter = ArrayFormatter::try_new(times, &options)?;
        let texts = (0..times.len()).map(|row| formatter.value(row).try_to_string());
        Ok(Self { texts: texts.collect::<Result<_, _>>()? })
    }
}

impl Encoder for TimeEncoder {
    fn encode(&mut self, row: usize, out: &mut Vec<u8>) {
        out.push(b'"');
        out.extend_from_slice(self.texts[row].as_bytes());
        out.push(b'"');
    }
}

struct FloatEncoder<'a, T: ArrowPrimitiveType> {
    array: &'a PrimitiveArray<T>,
    wide: fn(T::Native) -> f64,
}

impl<T: ArrowPrimitiveType<Native: std::fmt::Debug>> Encoder for FloatEncoder<'_, T> {
    fn encode(&mut self, row: usize, out: &mut Vec<u8>) {
        let float = self.array.value(row);
        let text = match (self.wide)(float) {
            f64::INFINITY => "\"Infinity\"".to_owned(),
            f64::NEG_INFINITY => "\"-Infinity\"".to_owned(),
            wide if wide.is_nan() => "\"NaN\"".to_owned(),
            // The shortest text of its own type, which is JSON.
            _ => format!("{float:?}"),
        };
        out.extend_from_slice(text.as_bytes());
    }
}
