//! Sums and products of decimals that have more digits than their type. DataFusion 55 does not check
//! them, and their text would have fewer digits: a tenth of the value.

use std::sync::Arc;

use arrow::{
    array::{AsArray, RecordBatch},
    datatypes::{DataType, Decimal128Type, Decimal256Type, Field},
    error::ArrowError,
};
use datafusion::{
    error::{DataFusionError, Result},
    execution::SendableRecordBatchStream,
    physical_plan::stream::RecordBatchStreamAdapter,
};
use futures::StreamExt;

/// Returns the rows, which end with an error at a decimal that has more digits than its type.
pub fn checked(rows: SendableRecordBatchStream) -> SendableRecordBatchStream {
    let schema = rows.schema();
    if !schema.fields().iter().any(|field| field.data_type().is_decimal()) {
        return rows;
    }
    let check = |batch: Result<RecordBatch>| batch.and_then(|batch| check(&batch).map(|()| batch));
    Box::pin(RecordBatchStreamAdapter::new(schema, rows.map(check)))
}

fn check(batch: &RecordBatch) -> Result<()> {
    for (column, field) in batch.columns().iter().zip(batch.schema_ref().fields()) {
        let fits = match column.data_type() {
            DataType::Decimal128(digits, _) => {
                column.as_primitive::<Decimal128Type>().validate_decimal_precision(*digits)
            }
            DataType::Decimal256(digits, _) => {
                column.as_primitive::<Decimal256Type>().validate_decimal_precision(*digits)
            }
            _ => Ok(()),
        };
        fits.map_err(|error| overflow(field, &error))?;
    }
    Ok(())
}

fn overflow(field: &Arc<Field>, error: &ArrowError) -> DataFusionError {
    let reason = error.to_string();
    let reason = reason.strip_prefix("Invalid argument error: ").unwrap_or(&reason);
    DataFusionError::Execution(format!(
        "column '{}' has a value of more digits than its type, {}: {reason}; compute with CAST(x AS DECIMAL(76, s)) or \
         DOUBLE",
        field.name(),
        field.data_type()
    ))
}
