//! Functions in Python: over columns, and over the rows of a group.

use std::{fmt, sync::Arc};

use annulus_dataset::ColumnType;
use arrow::{
    array::{Array, ArrayRef},
    datatypes::{DataType, Field},
};
use datafusion::{
    common::ScalarValue,
    error::{DataFusionError, Result},
    logical_expr::{
        Accumulator, AggregateUDF, ColumnarValue, ScalarUDF, Volatility, create_udaf, create_udf,
        function::AccumulatorArgs,
    },
};
use pyo3::{
    prelude::*,
    types::{PyCapsule, PyTuple},
};

use crate::{
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
    let returns = type_of(returns)?;
    let volatility = if is_volatile { Volatility::Volatile } else { Volatility::Immutable };
    let (shown, returned) = (name.to_owned(), returns.clone());
    let call = move |values: &[ColumnarValue]| {
        let are_constant = values.iter().all(|value| matches!(value, ColumnarValue::Scalar(_)));
        let columns = ColumnarValue::values_to_arrays(values)?;
        let rows = columns.first().map_or(1, |column| column.len());
        let result = Python::attach(|py| {
            let result = function.bind(py).call1(PyTuple::new(py, columns.into_iter().map(Column))?)?;
            converted(&result, &returned, &format!("function '{shown}'"))
        });
        let result = result.map_err(PythonError)?;
        if result.len() != rows {
            let text = format!("function '{shown}' returned {} values for {rows} rows", result.len());
            return Err(DataFusionError::from(PythonError(QueryError::new_err(text))));
        }
        match are_constant {
            true => Ok(ColumnarValue::Scalar(ScalarValue::try_from_array(&result, 0)?)),
            false => Ok(ColumnarValue::Array(result)),
        }
    };
    Ok(create_udf(name, arguments, returns, volatility, Arc::new(call)))
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
        let object = Python::attach(|py| class.call0(py)).map_err(PythonError)?;
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
        let added = Python::attach(|py| {
            let columns = PyTuple::new(py, columns.iter().map(|column| Column(Arc::clone(column))))?;
            self.object.bind(py).call_method1(method, columns).map(drop)
        });
        Ok(added.map_err(PythonError)?)
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
        let state = Python::attach(|py| {
            let values: Vec<Bound<'_, PyAny>> = self.object.bind(py).call_method0("state")?.extract()?;
            if values.len() != self.state.len() {
                let (found, expected) = (values.len(), self.state.len());
                let text = format!("state of aggregate '{}' has {found} values, not {expected}", self.name);
                return Err(QueryError::new_err(text));
            }
            values.iter().zip(&*self.state).map(|(value, expected)| self.value(value, expected, "state")).collect()
        });
        Ok(state.map_err(PythonError)?)
    }

    fn evaluate(&mut self) -> Result<ScalarValue> {
        let value = Python::attach(|py| {
            let value = self.object.bind(py).call_method0("evaluate")?;
            self.value(&value, &self.returns, "evaluate")
        });
        Ok(value.map_err(PythonError)?)
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
    let options = arrow::compute::CastOptions { safe: false, ..Default::default() };
    arrow::compute::cast_with_options(&array, expected, &options).map_err(|error| {
        QueryError::new_err(format!("{what} returned {} and promised {expected}: {error}", array.data_type()))
    })
}

/// Returns a type that is written as for `types` of files, or has `__arrow_c_schema__`.
fn type_of(given: &Bound<'_, PyAny>) -> PyResult<DataType> {
    if let Ok(text) = given.extract::<String>() {
        let parsed: Result<ColumnType, _> = text.parse();
        return parsed.map(|ColumnType(data_type)| data_type).map_err(|error| OptionError::new_err(error.to_string()));
    }
    Ok(capsule::field_of(given)?.data_type().clone())
}
