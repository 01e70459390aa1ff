//! Row groups without rows, as some writers add them.

use std::sync::Arc;

use arrow::datatypes::{DataType, Field, Schema};
use bytes::Bytes;
use parquet::{
    data_type::Int32Type,
    file::{
        properties::{EnabledStatistics, WriterProperties},
        writer::SerializedFileWriter,
    },
    schema::parser::parse_message_type,
};

use crate::support::{Extent, Subset, ours};

/// Returns a file whose first row group has a dictionary without entries, and nothing else.
fn file() -> Bytes {
    let schema = Arc::new(parse_message_type("message m { required int32 a; }").unwrap());
    let properties = WriterProperties::builder().set_statistics_enabled(EnabledStatistics::None).build();
    let mut writer = SerializedFileWriter::new(Vec::new(), schema, Arc::new(properties)).unwrap();
    for values in [&[][..], &[1, 2, 2, 1, 1, 2, 2, 2, 1]] {
        let mut group = writer.next_row_group().unwrap();
        let mut column = group.next_column().unwrap().unwrap();
        if !values.is_empty() {
            column.typed::<Int32Type>().write_batch(values, None, None).unwrap();
        }
        column.close().unwrap();
        group.close().unwrap();
    }
    writer.into_inner().unwrap().into()
}

#[test]
fn a_dictionary_without_entries_is_not_read() {
    let file = file();
    let schema = Arc::new(Schema::new(vec![Field::new("a", DataType::Int32, false)]));
    let every = Subset { seed: 1, share: 256, null_passes: false };
    let (batches, counts) =
        ours(&file, &schema, (std::slice::from_ref(&(0..9)), vec![(vec![0], every, false)]), 100, Extent::Whole)
            .unwrap();
    assert_eq!((batches.len(), batches[0].num_rows(), counts.kept), (1, 9, 9));
}
