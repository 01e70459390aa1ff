//! A key filter as an expression.

use std::{
    fmt,
    hash::{Hash, Hasher},
    sync::Arc,
};

use annulus_join::{KeySet, Keys};
use arrow::{
    array::{RecordBatch, RecordBatchOptions},
    datatypes::{DataType, Schema},
};
use datafusion::{error::Result, logical_expr::ColumnarValue, physical_expr::PhysicalExpr};

use crate::error::from_join;

/// Whether the join of a build side may need a row with these keys. False for keys that it does not
/// have, except for a few, and for null keys that neither have a partner nor decide about other rows.
#[derive(Debug)]
pub(super) struct MayMatch {
    keys: Vec<Arc<dyn PhysicalExpr>>,
    filter: Arc<Filter>,
}

/// The keys of the build side, and those of the probe side in columns of their own.
#[derive(Debug)]
pub(super) struct Filter {
    pub(super) set: KeySet,
    pub(super) keys: Keys,
}

impl MayMatch {
    pub(super) fn new(keys: Vec<Arc<dyn PhysicalExpr>>, filter: Arc<Filter>) -> Self {
        Self { keys, filter }
    }
}

impl PhysicalExpr for MayMatch {
    fn data_type(&self, _input_schema: &Schema) -> Result<DataType> {
        Ok(DataType::Boolean)
    }

    fn nullable(&self, _input_schema: &Schema) -> Result<bool> {
        Ok(false)
    }

    fn evaluate(&self, batch: &RecordBatch) -> Result<ColumnarValue> {
        let rows = batch.num_rows();
        let keys = self.keys.iter().map(|key| key.evaluate(batch)?.into_array(rows)).collect::<Result<_>>()?;
        let options = RecordBatchOptions::new().with_row_count(Some(rows));
        let keys = RecordBatch::try_new_with_options(Arc::clone(self.filter.keys.schema()), keys, &options)?;
        let may_match = self.filter.set.test(&self.filter.keys, &keys).map_err(from_join)?;
        Ok(ColumnarValue::Array(Arc::new(may_match)))
    }

    fn children(&self) -> Vec<&Arc<dyn PhysicalExpr>> {
        self.keys.iter().collect()
    }

    fn with_new_children(self: Arc<Self>, children: Vec<Arc<dyn PhysicalExpr>>) -> Result<Arc<dyn PhysicalExpr>> {
        Ok(Arc::new(Self::new(children, Arc::clone(&self.filter))))
    }

    fn fmt_sql(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl fmt::Display for MayMatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let keys: Vec<_> = self.keys.iter().map(ToString::to_string).collect();
        write!(f, "may_match({}, {} bytes)", keys.join(", "), self.filter.set.bytes())
    }
}

impl PartialEq for MayMatch {
    fn eq(&self, other: &Self) -> bool {
        self.keys == other.keys && Arc::ptr_eq(&self.filter, &other.filter)
    }
}

impl Eq for MayMatch {}

impl Hash for MayMatch {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.keys.hash(state);
        Arc::as_ptr(&self.filter).hash(state);
    }
}
