//! What batches keep.

use std::{slice::from_ref, sync::Arc};

use arrow::{
    array::{Int64Array, RecordBatch},
    datatypes::{DataType, Field, Schema},
};
use parquet::arrow::ArrowWriter;

use crate::support::{Extent, Subset, ours};

#[test]
fn few_rows_keep_little_memory() {
    let schema = Arc::new(Schema::new(vec![Field::new("a", DataType::Int64, false)]));
    let batch = RecordBatch::try_new(schema.clone(), vec![Arc::new((0..8192).collect::<Int64Array>())]).unwrap();
    let mut writer = ArrowWriter::try_new(Vec::new(), schema.clone(), None).unwrap();
    writer.write(&batch).unwrap();
    let file = writer.into_inner().unwrap().into();
    let few = Subset { seed: 1, share: 2, null_passes: false };
    let (batches, counts) =
        ours(&file, &schema, (from_ref(&(0..8192)), vec![(vec![0], few, false)]), 8192, Extent::Whole).unwrap();
    assert!((1..500).contains(&counts.kept), "{counts:?}");
    let kept: usize = batches.iter().map(RecordBatch::get_array_memory_size).sum();
    assert!(kept < 16 * counts.kept as usize + 500, "{kept} bytes for {} rows", counts.kept);
}
