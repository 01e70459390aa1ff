//! Parts of a condition that have one value for all rows of the other side.

use std::{
    fmt,
    hash::{Hash, Hasher},
    sync::Arc,
};

use arrow::{
    array::{RecordBatch, RecordBatchOptions},
    datatypes::{DataType, FieldRef, Schema},
};
use datafusion::{
    common::{
        ScalarValue,
        tree_node::{Transformed, TreeNode, TreeNodeRecursion},
    },
    error::Result,
    logical_expr::ColumnarValue,
    physical_expr::{
        PhysicalExpr,
        expressions::{Column, Literal},
    },
};

use super::value::RowValue;

/// An expression without columns, such as `row.pattern || '%'`. Its operators may make a column of
/// constants; this makes a constant again, so that the operator above gets one. A pattern is then
/// compiled once for all rows of the other side.
#[derive(Debug)]
pub(super) struct Once(Arc<dyn PhysicalExpr>);

impl Once {
    /// Returns `expr` with its largest parts that read no columns in one of these each.
    ///
    /// # Errors
    /// If a part of the expression cannot be replaced.
    pub(super) fn wrap_in(expr: Arc<dyn PhysicalExpr>) -> Result<Arc<dyn PhysicalExpr>> {
        let replaced = expr.transform_down(|expr| {
            if expr.is::<RowValue>() || expr.is::<Literal>() || expr.exists(|part| Ok(part.is::<Column>()))? {
                return Ok(Transformed::no(expr));
            }
            let once: Arc<dyn PhysicalExpr> = Arc::new(Self(expr));
            Ok(Transformed::new(once, true, TreeNodeRecursion::Jump))
        })?;
        Ok(replaced.data)
    }
}

impl PhysicalExpr for Once {
    fn data_type(&self, input_schema: &Schema) -> Result<DataType> {
        self.0.data_type(input_schema)
    }

    fn nullable(&self, input_schema: &Schema) -> Result<bool> {
        self.0.nullable(input_schema)
    }

    fn evaluate(&self, _batch: &RecordBatch) -> Result<ColumnarValue> {
        let one_row = RecordBatchOptions::new().with_row_count(Some(1));
        let one = RecordBatch::try_new_with_options(Arc::new(Schema::empty()), vec![], &one_row)?;
        let value = self.0.evaluate(&one)?.into_array(1)?;
        Ok(ColumnarValue::Scalar(ScalarValue::try_from_array(&value, 0)?))
    }

    fn return_field(&self, input_schema: &Schema) -> Result<FieldRef> {
        self.0.return_field(input_schema)
    }

    fn children(&self) -> Vec<&Arc<dyn PhysicalExpr>> {
        Vec::new()
    }

    fn with_new_children(self: Arc<Self>, _children: Vec<Arc<dyn PhysicalExpr>>) -> Result<Arc<dyn PhysicalExpr>> {
        Ok(self)
    }

    fn fmt_sql(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt_sql(f)
    }
}

impl fmt::Display for Once {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.0, f)
    }
}

impl PartialEq for Once {
    fn eq(&self, other: &Self) -> bool {
        self.0.eq(&other.0)
    }
}

impl Eq for Once {}

impl Hash for Once {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.0.hash(state);
    }
}
