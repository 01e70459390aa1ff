//! Columns of Parquet files that differ from those of their table: which of them DataFusion reads as
//! the table's, and their statistics.

use annulus_dataset::DataFile;
use arrow::datatypes::{DataType, FieldRef, Schema, SchemaRef, TimeUnit};
use datafusion::{
    common::{ColumnStatistics, ScalarValue, Statistics, stats::Precision},
    datasource::physical_plan::parquet::{apply_file_schema_type_coercions, metadata::DFParquetMetadata},
    error::Result,
    parquet::file::metadata::ParquetMetaData,
};

/// Returns whether DataFusion reads the columns of a file as those of `table`: it fills columns that
/// the file lacks with nulls, and casts types if no cast fails on a value.
pub(super) fn are_cast(file: &DataFile, table: &Schema) -> bool {
    let casts = |field: &FieldRef| match file.schema.field_with_name(field.name()) {
        Ok(own) => is_safe_cast(own.data_type(), field.data_type()),
        Err(_) => field.is_nullable(),
    };
    table.fields().iter().all(casts)
}

/// Returns whether DataFusion casts all values of type `from` to the wider type `to` without loss.
fn is_safe_cast(from: &DataType, to: &DataType) -> bool {
    use DataType::{Binary, BinaryView, Dictionary, Float16, Float32, Float64, LargeBinary, Null, Timestamp};
    let are_bytes = |of: &DataType| matches!(of, Binary | LargeBinary | BinaryView);
    let is_64_bits = |of: &DataType| of.primitive_width() == Some(8);
    match (from, to) {
        _ if from == to => true,
        (Null, to) => !to.is_nested(),
        (Dictionary(_, values), to) => is_safe_cast(values, to),
        // Nanoseconds have a range of few centuries.
        (Timestamp(_, from_zone), Timestamp(unit, zone)) => from_zone == zone && *unit != TimeUnit::Nanosecond,
        (Float16 | Float32, Float32 | Float64) => true,
        (from, Float16 | Float32 | Float64) => from.is_integer() && !is_64_bits(from),
        (from, to) => {
            from.is_string() && to.is_string()
                || are_bytes(from) && are_bytes(to)
                || from.is_integer() && to.is_integer()
        }
    }
}

/// Returns the statistics of a Parquet file for the columns of `table`, without those of folders.
/// DataFusion's are wrong for columns that the file lacks or stores as another type.
///
/// # Errors
/// If the metadata cannot be read.
pub(super) fn statistics(file: &DataFile, metadata: &ParquetMetaData, table: &SchemaRef) -> Result<Statistics> {
    let fields = file.schema.fields().iter().filter(|field| table.field_with_name(field.name()).is_ok());
    let own = Schema::new(fields.cloned().collect::<Vec<_>>());
    let own = SchemaRef::new(apply_file_schema_type_coercions(table, &own).unwrap_or(own));
    let found = DFParquetMetadata::statistics_from_parquet_metadata(metadata, &own)?;
    let column = |field: &FieldRef| match own.column_with_name(field.name()) {
        Some((place, own)) if own.data_type() == field.data_type() => known(found.column_statistics[place].clone()),
        Some((place, _)) => widened(&found.column_statistics[place], field.data_type()),
        None => ColumnStatistics { null_count: found.num_rows, ..ColumnStatistics::new_unknown() },
    };
    let column_statistics = table.fields().iter().map(column).collect();
    Ok(Statistics { num_rows: found.num_rows, total_byte_size: found.total_byte_size, column_statistics })
}

/// Returns a column's statistics without bounds that are null: the file may have none for a type.
fn known(column: ColumnStatistics) -> ColumnStatistics {
    let known = |bound: Precision<ScalarValue>| match bound.get_value() {
        Some(value) if value.is_null() => Precision::Absent,
        _ => bound,
    };
    ColumnStatistics { min_value: known(column.min_value), max_value: known(column.max_value), ..column }
}

/// Returns a column's statistics for the wider type that its values are cast to.
fn widened(column: &ColumnStatistics, to: &DataType) -> ColumnStatistics {
    let cast = |value: &Precision<ScalarValue>| value.cast_to(to).unwrap_or(Precision::Absent);
    known(ColumnStatistics {
        null_count: column.null_count,
        distinct_count: column.distinct_count,
        min_value: cast(&column.min_value),
        max_value: cast(&column.max_value),
        ..ColumnStatistics::new_unknown()
    })
}
