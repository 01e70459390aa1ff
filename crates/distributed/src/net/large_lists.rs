//! Conversion of lists with 64-bit offsets, which the engine does not send correctly between stages.
//!
//! `arrow-flight` 59.3 announces a `LargeList` as a `List` and sends it unchanged
//! (`prepare_field_for_flight` in `encode.rs`), so that the receiver takes its offsets for those of 32
//! bits. Here, the sender converts the list, and marks its field; the receiver converts it back.

use std::{collections::HashMap, sync::Arc};

use datafusion::{
    arrow::{
        array::{
            Array, ArrayRef, AsArray, FixedSizeListArray, GenericListArray, MapArray, OffsetSizeTrait, RecordBatch,
            RecordBatchOptions, StructArray, UnionArray,
        },
        buffer::OffsetBuffer,
        compute::cast,
        datatypes::{DataType, Field, FieldRef, Fields, Schema, SchemaRef},
        error::ArrowError,
    },
    common::not_impl_err,
    error::Result,
};

/// The metadata key that marks a field whose lists have 64-bit offsets in the plan.
const LARGE: &str = "annulus.large_list";

/// Returns the schema in which a task sends rows of `schema`; `None` if it sends them as they are.
///
/// # Errors
/// If a large list is in a type whose fields cannot be marked.
pub(super) fn sent_schema(schema: &Schema) -> Result<Option<SchemaRef>> {
    if !schema.fields().iter().any(|field| has_large_list(field.data_type())) {
        return Ok(None);
    }
    let fields = sent_fields(schema.fields())?;
    Ok(Some(Arc::new(Schema::new_with_metadata(fields, schema.metadata().clone()))))
}

/// Returns a batch that a task sends. O(rows), and O(items) only of lists in lists.
///
/// # Errors
/// If a list has more items than offsets of 32 bits can count.
pub(super) fn narrowed(batch: &RecordBatch, sent: &SchemaRef) -> Result<RecordBatch> {
    converted(batch, sent)
}

/// Returns a received batch as the task had it.
///
/// # Errors
/// If a list cannot be converted back.
pub(super) fn restored(batch: RecordBatch) -> Result<RecordBatch> {
    let schema = batch.schema_ref();
    if !schema.fields().iter().any(|field| is_marked(field)) {
        return Ok(batch);
    }
    let fields: Fields = schema.fields().iter().map(original).collect();
    let original = Arc::new(Schema::new_with_metadata(fields, schema.metadata().clone()));
    converted(&batch, &original)
}

fn converted(batch: &RecordBatch, schema: &SchemaRef) -> Result<RecordBatch> {
    let columns = batch.columns().iter().zip(schema.fields());
    let columns = columns.map(|(column, field)| convert(column, field.data_type())).collect::<Result<_, _>>()?;
    let options = RecordBatchOptions::new().with_row_count(Some(batch.num_rows()));
    Ok(RecordBatch::try_new_with_options(Arc::clone(schema), columns, &options)?)
}

/// Returns the types that a type directly contains.
fn child_types(data_type: &DataType) -> Vec<&DataType> {
    use DataType::*;
    match data_type {
        List(item) | LargeList(item) | FixedSizeList(item, _) | ListView(item) | LargeListView(item) | Map(item, _) => {
            vec![item.data_type()]
        }
        Struct(fields) => fields.iter().map(|field| field.data_type()).collect(),
        Union(fields, _) => fields.iter().map(|(_, field)| field.data_type()).collect(),
        RunEndEncoded(_, values) => vec![values.data_type()],
        Dictionary(_, values) => vec![values.as_ref()],
        _ => Vec::new(),
    }
}

fn has_large_list(data_type: &DataType) -> bool {
    matches!(data_type, DataType::LargeList(_)) || child_types(data_type).into_iter().any(has_large_list)
}

fn is_marked(field: &Field) -> bool {
    let fields: Vec<&FieldRef> = match field.data_type() {
        DataType::List(item) | DataType::FixedSizeList(item, _) | DataType::Map(item, _) => vec![item],
        DataType::Struct(fields) => fields.iter().collect(),
        DataType::Union(fields, _) => fields.iter().map(|(_, field)| field).collect(),
        _ => Vec::new(),
    };
    field.metadata().contains_key(LARGE) || fields.into_iter().any(|field| is_marked(field))
}

fn sent_fields(fields: &Fields) -> Result<Fields> {
    fields.iter().map(sent).collect()
}

fn sent(field: &FieldRef) -> Result<FieldRef> {
    if !has_large_list(field.data_type()) {
        return Ok(Arc::clone(field));
    }
    let data_type = match field.data_type() {
        DataType::LargeList(item) => {
            let mut metadata: HashMap<_, _> = field.metadata().clone();
            metadata.insert(LARGE.to_owned(), String::new());
            let list = field.as_ref().clone().with_data_type(DataType::List(sent(item)?));
            return Ok(Arc::new(list.with_metadata(metadata)));
        }
        DataType::List(item) => DataType::List(sent(item)?),
        DataType::FixedSizeList(item, size) => DataType::FixedSizeList(sent(item)?, *size),
        DataType::Map(entries, sorted) => DataType::Map(sent(entries)?, *sorted),
        DataType::Struct(fields) => DataType::Struct(sent_fields(fields)?),
        DataType::Union(fields, mode) => {
            let fields = fields.iter().map(|(id, field)| Ok((id, sent(field)?))).collect::<Result<_>>()?;
            DataType::Union(fields, *mode)
        }
        other => {
            return not_impl_err!(
                "column '{}' of type {other} between workers: cast its large lists to lists, or run without workers",
                field.name()
            );
        }
    };
    Ok(Arc::new(field.as_ref().clone().with_data_type(data_type)))
}

/// Returns the field that [`sent`] was given.
fn original(field: &FieldRef) -> FieldRef {
    if !is_marked(field) {
        return Arc::clone(field);
    }
    let mut metadata = field.metadata().clone();
    let is_large = metadata.remove(LARGE).is_some();
    let data_type = match field.data_type() {
        DataType::List(item) if is_large => DataType::LargeList(original(item)),
        DataType::List(item) => DataType::List(original(item)),
        DataType::FixedSizeList(item, size) => DataType::FixedSizeList(original(item), *size),
        DataType::Map(entries, sorted) => DataType::Map(original(entries), *sorted),
        DataType::Struct(fields) => DataType::Struct(fields.iter().map(original).collect()),
        DataType::Union(fields, mode) => {
            DataType::Union(fields.iter().map(|(id, field)| (id, original(field))).collect(), *mode)
        }
        other => other.clone(),
    };
    Arc::new(field.as_ref().clone().with_data_type(data_type).with_metadata(metadata))
}

/// Returns the array as another type, which differs in the offsets of lists only.
fn convert(array: &ArrayRef, to: &DataType) -> Result<ArrayRef, ArrowError> {
    if array.data_type() == to {
        return Ok(Arc::clone(array));
    }
    Ok(match (array.data_type(), to) {
        (DataType::LargeList(_), DataType::List(item)) => Arc::new(list::<i64, i32>(array, item)?),
        (DataType::List(_), DataType::LargeList(item)) => Arc::new(list::<i32, i64>(array, item)?),
        (DataType::List(_), DataType::List(item)) => Arc::new(list::<i32, i32>(array, item)?),
        (DataType::FixedSizeList(..), DataType::FixedSizeList(item, size)) => {
            let array = array.as_fixed_size_list();
            let values = convert(array.values(), item.data_type())?;
            let (item, nulls) = (Arc::clone(item), array.nulls().cloned());
            Arc::new(FixedSizeListArray::try_new_with_length(item, *size, values, nulls, array.len())?)
        }
        (DataType::Map(..), DataType::Map(entries, sorted)) => {
            let array = array.as_map();
            let rows = convert(&(Arc::new(array.entries().clone()) as ArrayRef), entries.data_type())?;
            let (entries, offsets) = (Arc::clone(entries), array.offsets().clone());
            Arc::new(MapArray::try_new(entries, offsets, rows.as_struct().clone(), array.nulls().cloned(), *sorted)?)
        }
        (DataType::Struct(_), DataType::Struct(fields)) => {
            let array = array.as_struct();
            let columns = array.columns().iter().zip(fields).map(|(column, field)| convert(column, field.data_type()));
            let columns = columns.collect::<Result<_, _>>()?;
            let (fields, nulls) = (fields.clone(), array.nulls().cloned());
            Arc::new(StructArray::try_new_with_length(fields, columns, nulls, array.len())?)
        }
        (DataType::Union(..), DataType::Union(fields, _)) => {
            let array = array.as_union();
            let children = fields.iter().map(|(id, field)| convert(array.child(id), field.data_type()));
            let children = children.collect::<Result<_, _>>()?;
            let (ids, offsets) = (array.type_ids().clone(), array.offsets().cloned());
            Arc::new(UnionArray::try_new(fields.clone(), ids, offsets, children)?)
        }
        _ => cast(array, to)?,
    })
}

/// Returns lists with other offsets, and the same values.
fn list<From: OffsetSizeTrait, To: OffsetSizeTrait>(
    array: &ArrayRef,
    item: &FieldRef,
) -> Result<GenericListArray<To>, ArrowError> {
    let array = array.as_list::<From>();
    // A slice counts from its first value.
    let offsets = array.offsets();
    let (first, last) = (offsets[0].as_usize(), offsets[offsets.len() - 1].as_usize());
    let too_many = || {
        let text =
            format!("{} values in the lists of a batch: set a smaller datafusion.execution.batch_size", last - first);
        ArrowError::ComputeError(text)
    };
    let offset = |end: &From| To::from_usize(end.as_usize() - first).ok_or_else(too_many);
    let ends = offsets.iter().map(offset).collect::<Result<Vec<To>, _>>()?;
    let values = convert(&array.values().slice(first, last - first), item.data_type())?;
    GenericListArray::try_new(Arc::clone(item), OffsetBuffer::new(ends.into()), values, array.nulls().cloned())
}

#[cfg(test)]
mod tests {
    use datafusion::arrow::{
        array::{Int32Array, Int64Array, LargeListArray, StringArray},
        datatypes::Int64Type,
    };

    use super::*;

    fn large(name: &str, array: ArrayRef) -> (FieldRef, ArrayRef) {
        (Arc::new(Field::new(name, array.data_type().clone(), true)), array)
    }

    fn lists() -> LargeListArray {
        let rows = [Some(vec![Some(1), None]), None, Some(vec![]), Some(vec![Some(5)]), Some(vec![Some(7), Some(8)])];
        LargeListArray::from_iter_primitive::<Int64Type, _, _>(rows)
    }

    /// Checks that a batch of this column, and slices of it, come back as they were.
    fn check(array: ArrayRef) {
        let metadata = HashMap::from([("unit".to_owned(), "m".to_owned())]);
        let field = Field::new("c", array.data_type().clone(), true).with_metadata(metadata);
        let numbers: ArrayRef = Arc::new(Int32Array::from_iter_values(0..array.len() as i32));
        let schema = Arc::new(Schema::new(vec![field, Field::new("n", DataType::Int32, false)]));
        let batch = RecordBatch::try_new(schema, vec![Arc::clone(&array), numbers]).unwrap();
        let sent = sent_schema(batch.schema_ref()).unwrap().unwrap();
        assert!(!sent.fields().iter().any(|field| has_large_list(field.data_type())));
        for (start, rows) in [(0, batch.num_rows()), (1, 3), (3, 2), (2, 0)] {
            let part = batch.slice(start, rows);
            assert_eq!(restored(narrowed(&part, &sent).unwrap()).unwrap(), part);
        }
    }

    #[test]
    fn large_lists_come_back_wherever_they_are() {
        let lists: ArrayRef = Arc::new(lists());
        check(Arc::clone(&lists));
        let nested = GenericListArray::<i64>::new(
            Arc::new(Field::new_list_field(lists.data_type().clone(), true)),
            OffsetBuffer::from_lengths([1, 0, 2, 1, 1]),
            Arc::clone(&lists),
            None,
        );
        check(Arc::new(nested));
        let small = GenericListArray::<i32>::new(
            Arc::new(Field::new_list_field(lists.data_type().clone(), true)),
            OffsetBuffer::from_lengths([1, 0, 2, 1, 1]),
            Arc::clone(&lists),
            None,
        );
        check(Arc::new(small));
        check(Arc::new(StructArray::from(vec![large("a", Arc::clone(&lists))])));
        let fixed = FixedSizeListArray::new(
            Arc::new(Field::new_list_field(lists.data_type().clone(), true)),
            1,
            Arc::clone(&lists),
            None,
        );
        check(Arc::new(fixed));
        let keys: ArrayRef = Arc::new(StringArray::from_iter_values(["a", "b", "c", "d", "e"]));
        let key = (Arc::new(Field::new("key", DataType::Utf8, false)), keys);
        let entries = StructArray::from(vec![key, large("value", Arc::clone(&lists))]);
        let field = Arc::new(Field::new("entries", entries.data_type().clone(), false));
        check(Arc::new(MapArray::new(field, OffsetBuffer::from_lengths([2, 1, 0, 1, 1]), entries, None, false)));
    }

    #[test]
    fn other_rows_are_sent_as_they_are() {
        let numbers: ArrayRef = Arc::new(Int64Array::from(vec![1, 2]));
        let batch = RecordBatch::try_from_iter([("n", numbers)]).unwrap();
        assert_eq!(sent_schema(batch.schema_ref()).unwrap(), None);
        assert_eq!(restored(batch.clone()).unwrap(), batch);
    }

    #[test]
    fn a_large_list_in_a_dictionary_is_refused() {
        let lists = DataType::LargeList(Arc::new(Field::new_list_field(DataType::Int64, true)));
        let dictionary = DataType::Dictionary(Box::new(DataType::Int32), Box::new(lists));
        let schema = Schema::new(vec![Field::new("d", dictionary, true)]);
        let error = sent_schema(&schema).unwrap_err().to_string();
        assert!(error.contains("'d'") && error.contains("without workers"), "{error}");
    }
}
