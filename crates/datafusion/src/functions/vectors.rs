//! The cosine similarity of two vectors.

use std::sync::Arc;

use annulus_join::VectorMetric;
use arrow::{
    array::{Array, ArrayRef, AsArray, Float64Array, OffsetSizeTrait},
    datatypes::{DataType, Float64Type},
};
use datafusion::{
    common::{exec_err, internal_err, utils::take_function_args},
    error::Result,
    functions::utils::make_scalar_function,
    functions_nested::cosine_distance::CosineDistance,
    logical_expr::{ColumnarValue, ScalarFunctionArgs, ScalarUDFImpl, Signature},
};

/// `cosine_similarity(a, b)`: `sum(a * b) / (sqrt(sum(a * a)) * sqrt(sum(b * b)))` in 64-bit floats. It takes what
/// `cosine_distance` takes, and is null where that is null.
#[derive(Debug, PartialEq, Eq, Hash)]
pub(crate) struct CosineSimilarity {
    /// The function whose types it takes.
    distance: CosineDistance,
}

impl Default for CosineSimilarity {
    fn default() -> Self {
        Self { distance: CosineDistance::new() }
    }
}

impl ScalarUDFImpl for CosineSimilarity {
    fn name(&self) -> &str {
        "cosine_similarity"
    }

    fn signature(&self) -> &Signature {
        self.distance.signature()
    }

    fn return_type(&self, _types: &[DataType]) -> Result<DataType> {
        Ok(DataType::Float64)
    }

    fn coerce_types(&self, types: &[DataType]) -> Result<Vec<DataType>> {
        self.distance.coerce_types(types)
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        make_scalar_function(similarities_of_any, Vec::new())(&args.args)
    }
}

fn similarities_of_any(args: &[ArrayRef]) -> Result<ArrayRef> {
    let [a, b] = take_function_args("cosine_similarity", args)?;
    Ok(Arc::new(match (a.data_type(), b.data_type()) {
        (DataType::List(_), DataType::List(_)) => similarities::<i32>(a, b)?,
        (DataType::LargeList(_), DataType::LargeList(_)) => similarities::<i64>(a, b)?,
        (a, b) => return internal_err!("cosine_similarity got {a} and {b}"),
    }))
}

fn similarities<O: OffsetSizeTrait>(a: &ArrayRef, b: &ArrayRef) -> Result<Float64Array> {
    let (a, b) = (a.as_list::<O>(), b.as_list::<O>());
    (0..a.len())
        .map(|row| if a.is_null(row) || b.is_null(row) { Ok(None) } else { similarity(&a.value(row), &b.value(row)) })
        .collect()
}

/// Returns the similarity of two vectors; `None` if an element is null, or all of a vector are zero.
fn similarity(a: &ArrayRef, b: &ArrayRef) -> Result<Option<f64>> {
    let (a, b) = (a.as_primitive::<Float64Type>(), b.as_primitive::<Float64Type>());
    if a.len() != b.len() {
        return exec_err!(
            "cosine_similarity takes two vectors of one length, and got {} and {} elements",
            a.len(),
            b.len()
        );
    }
    if a.null_count() > 0 || b.null_count() > 0 {
        return Ok(None);
    }
    Ok(VectorMetric::CosineSimilarity.of_vectors(a.values(), b.values()))
}
