//! The condition of an as-of join.

use std::sync::Arc;

use annulus_join::{AsOfBytes, AsOfComparison, AsOfKeys, JoinError, Side, Sides};
use arrow::{
    array::{ArrayRef, RecordBatch},
    datatypes::{DataType, Schema},
};
use datafusion::{
    common::{plan_datafusion_err, plan_err},
    error::Result,
    physical_expr::PhysicalExpr,
};

use crate::error::from_join;

/// The condition of an as-of join: equal keys, a comparison of times, and bounds of their distance.
#[derive(Clone, Debug)]
pub struct AsOfCondition {
    /// The expressions that are equal, each over the columns of its side. There may be none.
    pub on: Vec<Sides<Arc<dyn PhysicalExpr>>>,
    /// The times, each over the columns of its side.
    pub times: Sides<Arc<dyn PhysicalExpr>>,
    /// The comparison of the left time with the right one.
    pub comparison: AsOfComparison,
    /// What else must hold for the nearest row, or there is none: an expression over the columns of the
    /// left side, then those of the right side.
    pub bounds: Option<Arc<dyn PhysicalExpr>>,
    /// Whether rows of the left side without a partner are in the output, with nulls.
    pub keeps_left: bool,
}

impl AsOfCondition {
    /// Returns the types of the keys.
    ///
    /// # Errors
    /// If the types of both sides differ, or cannot be compared.
    pub(super) fn keys(&self, schemas: Sides<&Schema>) -> Result<AsOfKeys> {
        for pair in self.on.iter().chain([&self.times]) {
            let types = pair.as_ref().zip(schemas);
            let [left, right] = types.map(|(expr, schema)| expr.data_type(schema)).into_array();
            let (left, right) = (left?, right?);
            if left != right {
                return plan_err!(
                    "an as-of join cannot compare {} of type {left} with {} of type {right}: cast one of them",
                    pair.left,
                    pair.right
                );
            }
        }
        let (equal, time) = self.types(schemas.left, Side::Left)?;
        AsOfKeys::try_new(&equal, &time).map_err(|error| match error {
            JoinError::KeyUnsupported { data_type, .. } => plan_datafusion_err!(
                "an as-of join compares numbers, dates and times, and {} is of type {data_type}: cast both sides, as \
                 in CAST(t AS TIMESTAMP)",
                self.times.left
            ),
            error => from_join(error),
        })
    }

    /// Returns the encoder of the keys of a side as bytes.
    ///
    /// # Errors
    /// If a key has a type that Arrow's row format does not know.
    pub(super) fn bytes(&self, schema: &Schema, side: Side) -> Result<AsOfBytes> {
        let (equal, time) = self.types(schema, side)?;
        AsOfBytes::try_new(&equal, &time, self.comparison).map_err(from_join)
    }

    fn types(&self, schema: &Schema, side: Side) -> Result<(Vec<DataType>, DataType)> {
        let equal = self.on.iter().map(|pair| pair[side].data_type(schema)).collect::<Result<_>>()?;
        Ok((equal, self.times[side].data_type(schema)?))
    }

    /// Returns the equal keys of the rows of a batch, and then their times.
    ///
    /// # Errors
    /// If an expression fails.
    pub(super) fn columns(&self, side: Side, batch: &RecordBatch) -> Result<Vec<ArrayRef>> {
        let exprs = self.on.iter().chain([&self.times]).map(|pair| &pair[side]);
        exprs.map(|expr| expr.evaluate(batch)?.into_array(batch.num_rows())).collect()
    }

    /// Returns the comparison as it is written.
    pub(super) fn operator(&self) -> &'static str {
        match self.comparison {
            AsOfComparison::AtOrAfter => ">=",
            AsOfComparison::After => ">",
            AsOfComparison::AtOrBefore => "<=",
            AsOfComparison::Before => "<",
        }
    }
}
