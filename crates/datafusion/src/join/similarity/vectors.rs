//! Functions of two vectors.

use std::sync::Arc;

use annulus_join::VectorMetric;
use arrow::datatypes::{DataType, Schema};
use datafusion::physical_expr::{PhysicalExpr, expressions::CastExpr};

/// Returns the metric that a function computes, if it is one.
pub(in crate::join) fn vector_metric(name: &str) -> Option<VectorMetric> {
    Some(match name {
        "inner_product" => VectorMetric::InnerProduct,
        "cosine_similarity" => VectorMetric::CosineSimilarity,
        "cosine_distance" => VectorMetric::CosineDistance,
        "array_distance" => VectorMetric::Euclidean,
        _ => return None,
    })
}

/// Returns an argument of such a function without the cast to 64-bit floats, if the values stay the same
/// without it. `None` if it is not a vector.
pub(in crate::join) fn vector_argument(expr: &Arc<dyn PhysicalExpr>, schema: &Schema) -> Option<Arc<dyn PhysicalExpr>> {
    let is_vector = |expr: &Arc<dyn PhysicalExpr>| {
        let element = element(&expr.data_type(schema).ok()?)?;
        use DataType::{Float16, Float32, Float64, Int8};
        matches!(element, Float16 | Float32 | Float64 | Int8).then(|| Arc::clone(expr))
    };
    match expr.downcast_ref::<CastExpr>() {
        Some(cast) => is_vector(cast.expr()).or_else(|| is_vector(expr)),
        None => is_vector(expr),
    }
}

fn element(data_type: &DataType) -> Option<DataType> {
    use DataType::{FixedSizeList, LargeList, List};
    match data_type {
        List(field) | LargeList(field) | FixedSizeList(field, _) => Some(field.data_type().clone()),
        _ => None,
    }
}
