//! Schemas as Arrow IPC messages. Arrow's schema reader panics on unknown values, so each message
//! is checked for them first.

use arrow::{
    datatypes::Schema,
    error::ArrowError,
    ipc::{
        self, DateUnit, Field, Int, IntervalUnit, Precision, TimeUnit, Type, UnionMode,
        convert::try_schema_from_ipc_buffer, root_as_message, writer::StreamWriter,
    },
};

use super::FileError;

/// The marker before the message. The length follows it, in four bytes.
const PREFIX: [u8; 4] = [0xFF; 4];

/// Returns the schema as the first message of an IPC stream.
pub(super) fn to_bytes(schema: &Schema) -> Result<Vec<u8>, FileError> {
    let failed = |error: ArrowError| FileError::Schema(error.to_string());
    let writer = StreamWriter::try_new(Vec::new(), schema).map_err(failed)?;
    let bytes = writer.get_ref().clone();
    let back = from_bytes(&bytes)?;
    if back != *schema {
        return Err(FileError::Schema("an IPC message cannot carry all of it".to_owned()));
    }
    Ok(bytes)
}

/// Reads a schema. The bytes may hold anything.
pub(super) fn from_bytes(bytes: &[u8]) -> Result<Schema, FileError> {
    let damaged = FileError::Damaged("its schema is not an IPC message");
    let Some(message) = bytes.strip_prefix(&PREFIX).and_then(|rest| rest.get(4..)) else { return Err(damaged) };
    let Ok(message) = root_as_message(message) else { return Err(damaged) };
    let Some(schema) = message.header_as_schema() else { return Err(damaged) };
    let Some(fields) = schema.fields() else { return Err(damaged) };
    if schema.endianness() != ipc::Endianness::Little {
        return Err(FileError::Damaged("its schema is big-endian"));
    }
    if !fields.iter().all(is_known) {
        return Err(FileError::Damaged("its schema has an unknown type"));
    }
    try_schema_from_ipc_buffer(bytes).map_err(|error| FileError::Schema(error.to_string()))
}

/// Returns whether Arrow knows the field's type.
fn is_known(field: Field<'_>) -> bool {
    let dictionary = field.dictionary().is_none_or(|dictionary| dictionary.indexType().is_some_and(is_known_int));
    let children = || field.children().into_iter().flatten();
    dictionary && is_known_type(field, children().count()) && children().all(is_known)
}

fn is_known_type(field: Field<'_>, children: usize) -> bool {
    match field.type_type() {
        Type::Null | Type::Bool | Type::Struct_ => true,
        Type::Binary | Type::BinaryView | Type::LargeBinary => true,
        Type::Utf8 | Type::Utf8View | Type::LargeUtf8 => true,
        Type::Int => field.type_as_int().is_some_and(is_known_int),
        Type::FixedSizeBinary => field.type_as_fixed_size_binary().is_some(),
        Type::FloatingPoint => field
            .type_as_floating_point()
            .is_some_and(|float| matches!(float.precision(), Precision::HALF | Precision::SINGLE | Precision::DOUBLE)),
        Type::Date => {
            field.type_as_date().is_some_and(|date| matches!(date.unit(), DateUnit::DAY | DateUnit::MILLISECOND))
        }
        Type::Time => field.type_as_time().is_some_and(|time| match time.bitWidth() {
            32 => matches!(time.unit(), TimeUnit::SECOND | TimeUnit::MILLISECOND),
            64 => matches!(time.unit(), TimeUnit::MICROSECOND | TimeUnit::NANOSECOND),
            _ => false,
        }),
        Type::Timestamp => field.type_as_timestamp().is_some_and(|timestamp| is_known_unit(timestamp.unit())),
        Type::Duration => field.type_as_duration().is_some_and(|duration| is_known_unit(duration.unit())),
        Type::Interval => field.type_as_interval().is_some_and(|interval| {
            let known = [IntervalUnit::YEAR_MONTH, IntervalUnit::DAY_TIME, IntervalUnit::MONTH_DAY_NANO];
            known.contains(&interval.unit())
        }),
        Type::Decimal => field.type_as_decimal().is_some_and(|decimal| {
            [32, 64, 128, 256].contains(&decimal.bitWidth())
                && u8::try_from(decimal.precision()).is_ok()
                && i8::try_from(decimal.scale()).is_ok()
        }),
        Type::List | Type::LargeList | Type::ListView | Type::LargeListView => children == 1,
        Type::FixedSizeList => field.type_as_fixed_size_list().is_some() && children == 1,
        Type::Map => field.type_as_map().is_some() && children == 1,
        Type::RunEndEncoded => children == 2,
        Type::Union => is_known_union(field, children),
        _ => false,
    }
}

fn is_known_int(int: Int<'_>) -> bool {
    [8, 16, 32, 64].contains(&int.bitWidth())
}

fn is_known_unit(unit: TimeUnit) -> bool {
    [TimeUnit::SECOND, TimeUnit::MILLISECOND, TimeUnit::MICROSECOND, TimeUnit::NANOSECOND].contains(&unit)
}

/// Returns whether the mode is known, and each type has its own number.
fn is_known_union(field: Field<'_>, children: usize) -> bool {
    let Some(union) = field.type_as_union() else { return false };
    let mode = matches!(union.mode(), UnionMode::Sparse | UnionMode::Dense);
    let numbers = match union.typeIds() {
        None => children <= 128,
        Some(ids) => {
            let mut seen: Vec<i32> = ids.iter().collect();
            seen.sort_unstable();
            seen.dedup();
            ids.len() == children && seen.len() == children && seen.iter().all(|id| (0..=127).contains(id))
        }
    };
    mode && numbers
}
