//! Parameters of statements: values of Python for `$1` and `$name`.

use std::collections::HashMap;

use datafusion::{
    arrow::datatypes::{DataType, TimeUnit},
    common::{ParamValues, ScalarValue, plan_err},
    error::Result,
    logical_expr::LogicalPlan,
};
use pyo3::{
    prelude::*,
    types::{PyBool, PyBytes, PyDict, PyFloat, PyInt, PyList, PyString, PyTuple},
};

use crate::errors::OptionError;

const SECONDS_A_DAY: i64 = 86_400;
const MICROS_A_SECOND: i64 = 1_000_000;

/// Returns the values of a list for `$1`, `$2` and so on, or of a dictionary by name.
///
/// # Errors
/// If it is neither, or a value has no type in SQL.
pub fn values_of(given: &Bound<'_, PyAny>) -> PyResult<ParamValues> {
    if let Ok(named) = given.cast::<PyDict>() {
        let pairs = named.iter().map(|(name, value)| {
            let name: String = name
                .extract()
                .map_err(|_| OptionError::new_err(format!("params has the name {name}: expected text")))?;
            let value = scalar(&value, &format!("${name}"))?;
            Ok((name, value))
        });
        return Ok(pairs.collect::<PyResult<HashMap<_, _>>>()?.into());
    }
    if given.is_instance_of::<PyList>() || given.is_instance_of::<PyTuple>() {
        let values = given.try_iter()?.enumerate();
        let values = values.map(|(place, value)| scalar(&value?, &format!("${}", place + 1)));
        return Ok(values.collect::<PyResult<Vec<_>>>()?.into());
    }
    Err(OptionError::new_err(format!(
        "params is a {}: expected a list for $1, $2, or a dictionary for $name",
        given.get_type().qualname()?
    )))
}

/// Returns a plan with values in the places of its parameters.
///
/// # Errors
/// If a parameter has none.
pub fn with_values(plan: LogicalPlan, values: &ParamValues) -> Result<LogicalPlan> {
    let lacks = |name: &String| match (values, name.trim_start_matches('$')) {
        (ParamValues::List(list), name) => {
            name.parse().map_or(true, |number: usize| number == 0 || number > list.len())
        }
        (ParamValues::Map(map), name) => !map.contains_key(name),
    };
    let mut names: Vec<_> = plan.get_parameter_names()?.into_iter().filter(lacks).collect();
    names.sort();
    match (names.first(), values) {
        (None, _) => plan.with_param_values(values.clone()),
        (Some(name), ParamValues::List(list)) => {
            plan_err!("params has no value for {name}: it is a list of {}, for $1 and so on", list.len())
        }
        (Some(name), ParamValues::Map(_)) => plan_err!("params has no value for {name}: give it by this name"),
    }
}

/// Returns a value as SQL has it; `name` is its parameter.
fn scalar(value: &Bound<'_, PyAny>, name: &str) -> PyResult<ScalarValue> {
    let text = |kind: &str| -> PyResult<String> { value.call_method0(kind)?.extract() };
    let parsed = |text: String, data_type: DataType| {
        let parsed = ScalarValue::try_from_string(text, &data_type);
        parsed.map_err(|error| OptionError::new_err(format!("parameter {name}: {}", error.strip_backtrace())))
    };
    if value.is_none() {
        return Ok(ScalarValue::Null);
    }
    if value.is_instance_of::<PyBool>() {
        return Ok(ScalarValue::Boolean(Some(value.extract()?)));
    }
    if value.is_instance_of::<PyInt>() {
        return integer(value).ok_or_else(|| {
            OptionError::new_err(format!("parameter {name} is {value}, which has more than 64 bits: give a Decimal"))
        });
    }
    if value.is_instance_of::<PyFloat>() {
        return Ok(ScalarValue::Float64(Some(value.extract()?)));
    }
    if value.is_instance_of::<PyString>() {
        return Ok(ScalarValue::Utf8(Some(value.extract()?)));
    }
    if value.is_instance_of::<PyBytes>() {
        return Ok(ScalarValue::Binary(Some(value.extract()?)));
    }
    if value.is_instance_of::<PyList>() || value.is_instance_of::<PyTuple>() {
        return list(value, name);
    }
    let class = value.get_type();
    match (class.module()?.to_str()?, class.name()?.to_str()?) {
        ("decimal", "Decimal") => decimal(value, name),
        ("datetime", "date") => parsed(text("isoformat")?, DataType::Date32),
        ("datetime", "time") => parsed(text("isoformat")?, DataType::Time64(TimeUnit::Microsecond)),
        ("datetime", "timedelta") => {
            let part = |part: &str| -> PyResult<i64> { value.getattr(part)?.extract() };
            let seconds = part("days")? * SECONDS_A_DAY + part("seconds")?;
            let rest = part("microseconds")?;
            let micros = seconds.checked_mul(MICROS_A_SECOND).and_then(|micros| micros.checked_add(rest));
            let too_long = || OptionError::new_err(format!("parameter {name} is too long: {value}"));
            Ok(ScalarValue::DurationMicrosecond(Some(micros.ok_or_else(too_long)?)))
        }
        // A subclass of datetime, such as one of pandas, has its text, too.
        _ if value.hasattr("tzinfo")? && value.hasattr("isoformat")? => {
            let zone = (!value.getattr("tzinfo")?.is_none()).then(|| "UTC".into());
            let text = text("isoformat")?;
            let digits =
                text.split_once('.').map_or(0, |(_, rest)| rest.bytes().take_while(u8::is_ascii_digit).count());
            let unit = if digits > 6 { TimeUnit::Nanosecond } else { TimeUnit::Microsecond };
            parsed(text, DataType::Timestamp(unit, zone))
        }
        // Numbers of NumPy.
        _ if value.hasattr("item")? && value.hasattr("dtype")? => scalar(&value.call_method0("item")?, name),
        _ => Err(OptionError::new_err(format!(
            "parameter {name} is a {}: expected None, a bool, int, float, str, bytes, Decimal, date, time, datetime, \
             timedelta, or a list of them",
            class.qualname()?
        ))),
    }
}

fn integer(value: &Bound<'_, PyAny>) -> Option<ScalarValue> {
    let signed = value.extract().map(|value| ScalarValue::Int64(Some(value)));
    signed.or_else(|_| value.extract().map(|value| ScalarValue::UInt64(Some(value)))).ok()
}

/// Returns a decimal with the digits that it is written with.
fn decimal(value: &Bound<'_, PyAny>, name: &str) -> PyResult<ScalarValue> {
    let text: String = value.call_method1("__format__", ("f",))?.extract()?;
    let (whole, fraction) = text.split_once('.').unwrap_or((&text, ""));
    let whole = whole.trim_start_matches(['-', '0']).len();
    let invalid = || OptionError::new_err(format!("parameter {name} is {text}: a decimal has 1 to 76 digits"));
    let places = i8::try_from(fraction.len()).map_err(|_| invalid())?;
    let digits = u8::try_from((whole + fraction.len()).max(1)).map_err(|_| invalid())?;
    let data_type = match digits {
        0..=38 => DataType::Decimal128(digits, places),
        39..=76 => DataType::Decimal256(digits, places),
        _ => return Err(invalid()),
    };
    ScalarValue::try_from_string(text.clone(), &data_type).map_err(|_| invalid())
}

/// Returns a list, whose values have the type of the first one that is not null.
fn list(value: &Bound<'_, PyAny>, name: &str) -> PyResult<ScalarValue> {
    let values = value.try_iter()?.map(|value| scalar(&value?, name)).collect::<PyResult<Vec<_>>>()?;
    let data_type = values.iter().map(ScalarValue::data_type).find(|data_type| !data_type.is_null());
    let data_type = data_type.unwrap_or(DataType::Null);
    let different =
        || OptionError::new_err(format!("parameter {name} is a list of values of different types: {value}"));
    let typed = values.into_iter().map(|value| match value {
        ScalarValue::Null => ScalarValue::try_from(&data_type).ok(),
        other => (other.data_type() == data_type).then_some(other),
    });
    let typed = typed.collect::<Option<Vec<_>>>().ok_or_else(different)?;
    Ok(ScalarValue::List(ScalarValue::new_list_nullable(&typed, &data_type)))
}
