//! Nulls among the values of a dictionary, whose keys have none.

use std::sync::Arc;

use annulus_datafusion::SessionStateBuilderExt;
use arrow::{
    array::{ArrayRef, DictionaryArray, Int32Array, RecordBatch, StringArray},
    datatypes::Int32Type,
};
use datafusion::{execution::SessionStateBuilder, prelude::SessionContext};

#[tokio::test]
async fn a_null_among_the_values_stays_null_in_casts() {
    let state = SessionStateBuilder::new_with_default_features().with_annulus().build();
    let context = SessionContext::new_with_state(state);
    let values = Arc::new(StringArray::from(vec![Some("a"), None, Some("")]));
    let keys = Int32Array::from(vec![Some(0), Some(1), Some(2), None]);
    let texts: ArrayRef = Arc::new(DictionaryArray::<Int32Type>::try_new(keys, values).unwrap());
    context.register_batch("t", RecordBatch::try_from_iter_with_nullable([("d", texts, true)]).unwrap()).unwrap();
    for casted in ["CAST(d AS VARCHAR)", "TRY_CAST(d AS VARCHAR)", "arrow_cast(d, 'Utf8')"] {
        let query = format!("SELECT count(*) FROM t WHERE {casted} IS NULL");
        let found = context.sql(&query).await.unwrap().to_string().await.unwrap();
        assert!(found.contains("| 2 "), "{casted}: {found}");
    }
}
