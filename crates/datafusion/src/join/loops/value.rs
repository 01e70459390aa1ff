//! The columns of one row, as an expression that is evaluated with many rows of the other side.

use std::{
    fmt,
    hash::{Hash, Hasher},
    sync::Arc,
};

use arrow::{
    array::{Array, ArrayRef, RecordBatch, UInt32Array},
    compute::take,
    datatypes::{DataType, FieldRef, Schema},
};
use datafusion::{
    common::ScalarValue,
    error::{DataFusionError, Result},
    logical_expr::ColumnarValue,
    physical_expr::{
        PhysicalExpr,
        expressions::{
            BinaryExpr, CastExpr, Column, IsNotNullExpr, IsNullExpr, LikeExpr, Literal, NegativeExpr, NotExpr,
            TryCastExpr,
        },
    },
};
use parking_lot::Mutex;

/// The most memory for repeated values of a row, if one is not larger.
const MOST_REPEATED_BYTES: usize = 16 << 20;

/// One row, which changes between evaluations.
#[derive(Debug)]
pub(super) struct Row {
    columns: Vec<ArrayRef>,
    /// The values of the row in each column, if expressions may get constants.
    values: Option<Mutex<Vec<ScalarValue>>>,
    number: Mutex<u32>,
}

impl Row {
    /// Returns the first one of some rows, which must exist. With `constants` an expression gets one
    /// value, else one for each row of the other side.
    ///
    /// # Errors
    /// If a value has an unknown type.
    pub(super) fn new(columns: &[ArrayRef], constants: bool) -> Result<Self> {
        let row = Self { columns: columns.to_vec(), values: constants.then(Mutex::default), number: Mutex::default() };
        row.set(0)?;
        Ok(row)
    }

    /// Goes to another row, which must exist.
    ///
    /// # Errors
    /// If a value has an unknown type.
    pub(super) fn set(&self, row: u32) -> Result<()> {
        *self.number.lock() = row;
        if let Some(values) = &self.values {
            let now = self.columns.iter().map(|column| ScalarValue::try_from_array(column, row as usize));
            *values.lock() = now.collect::<Result<_>>()?;
        }
        Ok(())
    }

    /// Returns how many rows of the other side may be compared with the row at a time: its values are
    /// repeated for each of them, unless they are constants. At least one.
    pub(super) fn most_rows(&self) -> usize {
        if self.values.is_some() {
            return usize::MAX;
        }
        let row = *self.number.lock() as usize;
        let bytes = |column: &ArrayRef| column.slice(row, 1).to_data().get_slice_memory_size().unwrap_or(usize::MAX);
        let bytes = self.columns.iter().map(bytes).fold(0, usize::saturating_add);
        (MOST_REPEATED_BYTES / bytes.max(1)).max(1)
    }

    fn value(&self, column: usize, rows: usize) -> Result<ColumnarValue> {
        if let Some(values) = &self.values {
            return Ok(ColumnarValue::Scalar(values.lock()[column].clone()));
        }
        let numbers = UInt32Array::from(vec![*self.number.lock(); rows]);
        let repeated = take(&self.columns[column], &numbers, None).map_err(DataFusionError::from)?;
        Ok(ColumnarValue::Array(repeated))
    }
}

/// The value of the row in a column.
#[derive(Debug)]
pub(super) struct RowValue {
    row: Arc<Row>,
    column: usize,
    field: FieldRef,
}

impl RowValue {
    pub(super) fn new(row: Arc<Row>, column: usize, field: FieldRef) -> Self {
        Self { row, column, field }
    }
}

impl PhysicalExpr for RowValue {
    fn data_type(&self, _input_schema: &Schema) -> Result<DataType> {
        Ok(self.field.data_type().clone())
    }

    fn nullable(&self, _input_schema: &Schema) -> Result<bool> {
        Ok(self.field.is_nullable())
    }

    fn evaluate(&self, batch: &RecordBatch) -> Result<ColumnarValue> {
        self.row.value(self.column, batch.num_rows())
    }

    fn return_field(&self, _input_schema: &Schema) -> Result<FieldRef> {
        Ok(Arc::clone(&self.field))
    }

    fn children(&self) -> Vec<&Arc<dyn PhysicalExpr>> {
        Vec::new()
    }

    fn with_new_children(self: Arc<Self>, _children: Vec<Arc<dyn PhysicalExpr>>) -> Result<Arc<dyn PhysicalExpr>> {
        Ok(self)
    }

    fn fmt_sql(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl fmt::Display for RowValue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.field.name())
    }
}

impl PartialEq for RowValue {
    fn eq(&self, other: &Self) -> bool {
        self.column == other.column && Arc::ptr_eq(&self.row, &other.row)
    }
}

impl Eq for RowValue {}

impl Hash for RowValue {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.column.hash(state);
        Arc::as_ptr(&self.row).hash(state);
    }
}

/// Returns whether an expression over columns of these types may get constants. Its operators must
/// take a constant on either side, as those do that compare and calculate. Functions get columns, as
/// they do from the stock operator.
pub(super) fn takes_constants<'a>(expr: &Arc<dyn PhysicalExpr>, mut types: impl Iterator<Item = &'a DataType>) -> bool {
    use DataType::{Binary, BinaryView, Boolean, LargeBinary, LargeUtf8, Utf8, Utf8View};
    types.all(|data_type| {
        let is_text = matches!(data_type, Utf8 | LargeUtf8 | Utf8View | Binary | LargeBinary | BinaryView);
        is_text || data_type.is_primitive() || *data_type == Boolean
    }) && is_of_operators(expr)
}

fn is_of_operators(expr: &Arc<dyn PhysicalExpr>) -> bool {
    let known = expr.is::<Column>()
        || expr.is::<Literal>()
        || expr.is::<BinaryExpr>()
        || expr.is::<LikeExpr>()
        || expr.is::<NotExpr>()
        || expr.is::<IsNullExpr>()
        || expr.is::<IsNotNullExpr>()
        || expr.is::<NegativeExpr>()
        || expr.is::<CastExpr>()
        || expr.is::<TryCastExpr>();
    known && expr.children().into_iter().all(is_of_operators)
}
