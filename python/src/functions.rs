//! Functions in Python: over columns, and over the rows of a group.

use std::{
    fmt,
    hash::{Hash, Hasher},
    sync::Arc,
};

use annulus_dataset::ColumnType;
use arrow::{
    array::{Array, ArrayRef},
    datatypes::{DataType, Field},
};
use datafusion::{
    common::ScalarValue,
    error::Result,
    logical_expr::{
        Accumulator, AggregateUDF, ColumnarValue, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility,
        create_udaf, function::AccumulatorArgs,
    },
};
use pyo3::{
    prelude::*,
    types::{PyCapsule, PyTuple},
};

use crate::{
    calls::in_python,
    capsule,
    errors::{OptionError, PythonError, QueryError},
};

/// A column that a function in Python gets.
#[pyclass(frozen, module = "annulus_data._internal")]
struct Column(ArrayRef);

#[pymethods]
impl Column {
    fn __len__(&self) -> usize {
        self.0.len()
    }

    #[pyo3(signature = (requested_schema=None))]
    fn __arrow_c_array__<'py>(
        &self,
        py: Python<'py>,
        requested_schema: Option<Bound<'py, PyAny>>,
    ) -> PyResult<(Bound<'py, PyCapsule>, Bound<'py, PyCapsule>)> {
        // A function casts what it wants to have otherwise.
        drop(requested_schema);
        capsule::array(py, &Field::new("", self.0.data_type().clone(), true), &self.0)
    }
}

/// Returns a function over columns. `function` gets a [`Column`] for each argument, of as many rows, and
/// returns an object with `__arrow_c_array__`.
///
/// # Errors
/// If a type is unknown.
pub fn scalar(
    name: &str,
    function: Py<PyAny>,
    arguments: &[Bound<'_, PyAny>],
    returns: &Bound<'_, PyAny>,
    is_volatile: bool,
) -> PyResult<ScalarUDF> {
    let arguments = arguments.iter().map(type_of).collect::<PyResult<Vec<_>>>()?;
    let volatility = if is_volatile { Volatility::Volatile } else { Volatility::Immutable };
    let signature = Signature::exact(arguments, volatility);
    let function = Arc::new(function);
    Ok(ScalarUDF::from(PythonFunction { name: name.to_owned(), function, signature, returns: type_of(returns)? }))
}

/// A function over columns.
#[derive(Debug)]
struct PythonFunction {
    name: String,
    function: Arc<Py<PyAny>>,
    signature: Signature,
    returns: DataType,
}

impl PartialEq for PythonFunction {
    fn eq(&self, other: &Self) -> bool {
        self.name == other.name && Arc::ptr_eq(&self.function, &other.function)
    }
}

impl Eq for PythonFunction {}

impl Hash for PythonFunction {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.name.hash(state);
    }
}

impl ScalarUDFImpl for PythonFunction {
    fn name(&self) -> &str {
        &self.name
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _arguments: &[DataType]) -> Result<DataType> {
        Ok(self.returns.clone())
    }

    fn invoke_with_args(&self, given: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let are_constant = given.args.iter().all(|value| matches!(value, ColumnarValue::Scalar(_)));
        let is_constant = are_constant && self.signature.volatility != Volatility::Volatile;
        let rows = if is_constant { 1 } else { given.number_rows };
        let columns = given.args.iter().map(|value| match value {
            ColumnarValue::Array(column) => Ok(Arc::clone(column)),
            ColumnarValue::Scalar(value) => value.to_array_of_size(rows),
        });
        let columns = columns.collect::<Result<Vec<_>>>()?;
        let result = in_python(|py| {
            let result = self.function.bind(py).call1(PyTuple::new(py, columns.into_iter().map(Column))?)?;
            converted(&result, &self.returns, &format!("function '{}'", self.name))
        })?;
        if result.len() != rows {
            let text = format!("function '{}' returned {} values for {rows} rows", self.name, result.len());
            return Err(PythonError(QueryError::new_err(text)).into());
        }
        match is_constant {
            true => Ok(ColumnarValue::Scalar(ScalarValue::try_from_array(&result, 0)?)),
            false => Ok(ColumnarValue::Array(result)),
        }
    }
}

/// Returns a function over the rows of a group. Objects of `class` have the methods `update` and `merge`,
/// which get columns, and `state` and `evaluate`, which return arrays of one value.
///
/// # Errors
/// If a type is unknown.
pub fn aggregate(
    name: &str,
    class: Py<PyAny>,
    arguments: &[Bound<'_, PyAny>],
    returns: &Bound<'_, PyAny>,
    state: &[Bound<'_, PyAny>],
) -> PyResult<AggregateUDF> {
    let arguments = arguments.iter().map(type_of).collect::<PyResult<Vec<_>>>()?;
    let returns = type_of(returns)?;
    let state: Arc<Vec<DataType>> = Arc::new(state.iter().map(type_of).collect::<PyResult<_>>()?);
    let (shown, returned, kept) = (name.to_owned(), returns.clone(), Arc::clone(&state));
    let create = move |_: AccumulatorArgs<'_>| {
        let object = in_python(|py| class.call0(py))?;
        let (name, returns, state) = (shown.clone(), returned.clone(), Arc::clone(&kept));
        Ok(Box::new(Group { object, name, returns, state }) as Box<dyn Accumulator>)
    };
    Ok(create_udaf(name, arguments, Arc::new(returns), Volatility::Immutable, Arc::new(create), state))
}

/// The rows of a group, as an object in Python.
struct Group {
    object: Py<PyAny>,
    name: String,
    returns: DataType,
    state: Arc<Vec<DataType>>,
}

impl fmt::Debug for Group {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Group").field("name", &self.name).finish_non_exhaustive()
    }
}

impl Group {
    fn add(&self, method: &str, columns: &[ArrayRef]) -> Result<()> {
        in_python(|py| {
            let columns = PyTuple::new(py, columns.iter().map(|column| Column(Arc::clone(column))))?;
            self.object.bind(py).call_method1(method, columns).map(drop)
        })
    }

    fn value(&self, value: &Bound<'_, PyAny>, expected: &DataType, method: &str) -> PyResult<ScalarValue> {
        let what = format!("{method} of aggregate '{}'", self.name);
        let value = converted(value, expected, &what)?;
        if value.len() != 1 {
            return Err(QueryError::new_err(format!("{what} returned {} values: return one", value.len())));
        }
        ScalarValue::try_from_array(&value, 0).map_err(|error| QueryError::new_err(error.strip_backtrace()))
    }
}

impl Accumulator for Group {
    fn update_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        self.add("update", values)
    }

    fn merge_batch(&mut self, states: &[ArrayRef]) -> Result<()> {
        self.add("merge", states)
    }

    fn state(&mut self) -> Result<Vec<ScalarValue>> {
        in_python(|py| {
            let values: Vec<Bound<'_, PyAny>> = self.object.bind(py).call_method0("state")?.extract()?;
            if values.len() != self.state.len() {
                let (found, expected) = (values.len(), self.state.len());
                let text = format!("state of aggregate '{}' has {found} values, not {expected}", self.name);
                return Err(QueryError::new_err(text));
            }
            values.iter().zip(&*self.state).map(|(value, expected)| self.value(value, expected, "state")).collect()
        })
    }

    fn evaluate(&mut self) -> Result<ScalarValue> {
        in_python(|py| {
            let value = self.object.bind(py).call_method0("evaluate")?;
            self.value(&value, &self.returns, "evaluate")
        })
    }

    fn size(&self) -> usize {
        // What the object keeps is Python's.
        size_of::<Self>()
    }
}

/// Returns the column of `value` in the type that was promised.
fn converted(value: &Bound<'_, PyAny>, expected: &DataType, what: &str) -> PyResult<ArrayRef> {
    let (_, array) = capsule::array_of(value)?;
    if array.data_type() == expected {
        return Ok(array);
    }
    let wrong = |error: &str| {
        QueryError::new_err(format!("{what} returned {} and promised {expected}{error}", array.data_type()))
    };
    if !is_wider(array.data_type(), expected) {
        return Err(wrong(": convert what it returns"));
    }
    let options = arrow::compute::CastOptions { safe: false, ..Default::default() };
    arrow::compute::cast_with_options(&array, expected, &options).map_err(|error| wrong(&format!(": {error}")))
}

/// Returns whether a cast keeps values, or fails at those that do not fit.
fn is_wider(found: &DataType, expected: &DataType) -> bool {
    match (found, expected) {
        (DataType::Null, _) => true,
        (DataType::Dictionary(_, found), expected) => is_wider(found, expected),
        (found, expected) if found.is_integer() => expected.is_numeric(),
        (found, expected) if found.is_floating() => expected.is_floating(),
        (found, expected) if found.is_string() => expected.is_string(),
        (found, expected) if found.is_decimal() => expected.is_decimal(),
        (DataType::Date32, DataType::Date64) | (DataType::Date64, DataType::Date32) => true,
        (DataType::Timestamp(_, found), DataType::Timestamp(_, expected)) => found.is_some() == expected.is_some(),
        (DataType::Duration(_), DataType::Duration(_)) => true,
        (DataType::Binary | DataType::LargeBinary | DataType::BinaryView, expected) => {
            matches!(expected, DataType::Binary | DataType::LargeBinary | DataType::BinaryView)
        }
        (found, expected) => found.is_nested() && expected.is_nested(),
    }
}

/// Returns a type that is written as for `types` of files, or has `__arrow_c_schema__`.
fn type_of(given: &Bound<'_, PyAny>) -> PyResult<DataType> {
    if let Ok(text) = given.extract::<String>() {
        let parsed: Result<ColumnType, _> = text.parse();
        return parsed.map(|ColumnType(data_type)| data_type).map_err(|error| OptionError::new_err(error.to_string()));
    }
    Ok(capsule::field_of(given)?.data_type().clone())
}
