//! Columns read as codes and written from them: values and statistics are those of the `parquet` crate.

use std::sync::Arc;

use annulus_parquet::{CodesEncoding, CodesReader, CodesWriter, Column, EncodedChunk};
use arrow::{
    array::{Array, ArrayRef, RecordBatch, UInt16Array},
    compute::concat,
    datatypes::{DataType, Field, Schema},
};
use bytes::Bytes;
use parquet::{
    arrow::{
        ArrowSchemaConverter, ArrowWriter,
        arrow_reader::{ArrowReaderMetadata, ArrowReaderOptions, ParquetRecordBatchReaderBuilder},
    },
    basic::{Compression, Encoding, ZstdLevel},
    file::{
        metadata::{PageIndexPolicy, ParquetMetaData},
        properties::{WriterProperties, WriterVersion},
        writer::SerializedFileWriter,
    },
};
use rand::{Rng, SeedableRng, rngs::StdRng};

use crate::{
    matrix::{batch, properties, shown},
    support::write,
};

/// The types whose values are not written as codes: truth values, and integers of fewer bits than they are stored in.
const WITHOUT: [&str; 5] = ["bool", "i8", "i16", "u8", "u16"];

/// Returns the settings of files that are written.
pub fn written(random: &mut StdRng) -> WriterProperties {
    let codecs = [
        Compression::UNCOMPRESSED,
        Compression::SNAPPY,
        Compression::LZ4_RAW,
        Compression::ZSTD(ZstdLevel::try_new(1).unwrap()),
    ];
    WriterProperties::builder()
        .set_compression(codecs[random.random_range(0..codecs.len())])
        .set_statistics_enabled(parquet::file::properties::EnabledStatistics::Chunk)
        .set_data_page_row_count_limit([7, 100, 8192][random.random_range(0..3)])
        .set_write_batch_size(1)
        .build()
}

/// Returns a column of all row groups of a file as codes; `None` if a chunk has others.
fn codes(random: &mut StdRng, file: &Bytes, column: &Column, encoding: &CodesEncoding) -> Option<Vec<UInt16Array>> {
    let metadata = ArrowReaderMetadata::load(file, ArrowReaderOptions::new()).unwrap();
    let mut found = Vec::new();
    for group in metadata.metadata().row_groups() {
        let (chunk, rows) = (group.column(column.index()), group.num_rows() as usize);
        if !CodesReader::reads(column, chunk) {
            return None;
        }
        let (start, length) = chunk.byte_range();
        let bytes = file.slice(start as usize..(start + length) as usize);
        let reader = CodesReader::try_new(column.clone(), chunk, bytes, rows, encoding.dictionary()).unwrap();
        let (mut reader, mut left) = (reader.unwrap(), rows);
        while left > 0 {
            let count = random.random_range(1..=left);
            found.push(reader.read(count).unwrap());
            left -= count;
        }
        assert!(reader.read(1).is_err());
    }
    Some(found)
}

/// Writes codes as the one column of a file.
fn write_codes(codes: &[UInt16Array], encoding: CodesEncoding, field: &Field, properties: WriterProperties) -> Bytes {
    let mut writer = CodesWriter::new(Arc::new(encoding));
    codes.iter().for_each(|rows| writer.write(rows).unwrap());
    file_of(writer.finish().unwrap(), field, properties)
}

/// Returns a file of one column with one chunk.
pub fn file_of(chunk: EncodedChunk, field: &Field, properties: WriterProperties) -> Bytes {
    let leaves = ArrowSchemaConverter::new().convert(&Schema::new(vec![field.clone()])).unwrap();
    let mut file = SerializedFileWriter::new(Vec::new(), leaves.root_schema_ptr(), Arc::new(properties)).unwrap();
    let mut group = file.next_row_group().unwrap();
    chunk.append_to(&mut group).unwrap();
    group.close().unwrap();
    file.into_inner().unwrap().into()
}

/// Returns the metadata, and the values of the one column as of `field`.
pub fn read(file: &Bytes, field: &Field) -> (Arc<ParquetMetaData>, ArrayRef) {
    let schema = Arc::new(Schema::new(vec![field.clone()]));
    let options = ArrowReaderOptions::new()
        .with_schema(schema)
        .with_page_index_policy(PageIndexPolicy::Optional)
        .with_encoding_stats_as_mask(false);
    let builder = ParquetRecordBatchReaderBuilder::try_new_with_options(file.clone(), options).unwrap();
    let metadata = Arc::clone(builder.metadata());
    let arrays: Vec<_> = builder.build().unwrap().map(|batch| Arc::clone(batch.unwrap().column(0))).collect();
    let empty = arrow::array::new_empty_array(field.data_type());
    let arrays: Vec<&dyn Array> = arrays.iter().map(AsRef::as_ref).chain([empty.as_ref()]).collect();
    (metadata, concat(&arrays).unwrap())
}

/// What a file says about its one column chunk, except of its encoding.
pub fn facts(metadata: &ParquetMetaData) -> String {
    let chunk = metadata.row_group(0).column(0);
    let offsets = metadata.offset_index().map(|index| {
        let pages = &index[0][0];
        let rows: Vec<_> = pages.page_locations.iter().map(|page| page.first_row_index).collect();
        (rows, pages.unencoded_byte_array_data_bytes.clone())
    });
    format!(
        "{:?} {:?} {:?} {:?} {}",
        chunk.statistics(),
        chunk.unencoded_byte_array_data_bytes(),
        chunk.definition_level_histogram(),
        offsets,
        chunk.num_values()
    )
}

fn check(random: &mut StdRng, files: &[(Bytes, ArrayRef)], place: usize, field: &Field, what: &str) -> bool {
    let properties = written(random);
    let schema = Arc::new(Schema::new(vec![field.clone()]));
    let leaves = ArrowSchemaConverter::new().convert(&schema).unwrap();
    let encoding = CodesEncoding::try_new(&leaves.column(0), field.data_type(), &properties, 65_535, 1 << 24);
    let encoding = match encoding {
        Ok(encoding) => encoding,
        Err(_) => {
            assert!(WITHOUT.contains(&field.name().as_str()), "{what}");
            return false;
        }
    };
    let mut all = Vec::new();
    for (file, _) in files {
        let metadata = ArrowReaderMetadata::load(file, ArrowReaderOptions::new()).unwrap();
        let leaf = metadata.parquet_schema().column(place);
        let column = Column::try_new(place, &leaf, field.data_type()).unwrap();
        assert!(encoding.dictionary().takes(&column, &leaf), "{what}");
        let Some(found) = codes(random, file, &column, &encoding) else { return false };
        all.extend(found);
    }
    let arrays: Vec<&dyn Array> = files.iter().map(|(_, values)| values.as_ref()).collect();
    let expected = concat(&arrays).unwrap();
    let ours = write_codes(&all, encoding, field, properties.clone());
    let (metadata, found) = read(&ours, field);
    assert_eq!(shown(&found).as_ref(), shown(&expected).as_ref(), "{what}");
    let mut stock = ArrowWriter::try_new(Vec::new(), Arc::clone(&schema), Some(properties)).unwrap();
    stock.write(&RecordBatch::try_new(schema, vec![expected]).unwrap()).unwrap();
    let stock = Bytes::from(stock.into_inner().unwrap());
    assert_eq!(facts(&metadata), facts(&read(&stock, field).0), "{what}");
    true
}

#[test]
fn values_and_statistics_are_those_of_the_parquet_crate() {
    let mut checked = 0;
    for seed in 0..150 {
        let mut random = StdRng::seed_from_u64(seed);
        let nulls = [0, 3, 50, 97, 100][random.random_range(0..5)];
        let distinct = [1, 5, 200, 100_000][random.random_range(0..4)];
        let (rows, count) = ([1, 20, 900][random.random_range(0..3)], random.random_range(1..4));
        let files: Vec<_> = (0..count)
            .map(|_| {
                let batch = batch(&mut random, rows, nulls, distinct);
                (write(std::slice::from_ref(&batch), properties(&mut random).1), batch)
            })
            .collect();
        for (place, field) in files[0].1.schema().fields().iter().enumerate() {
            let what = format!("seed {seed}, column {}, {nulls} % null, {distinct} distinct", field.name());
            let columns: Vec<_> =
                files.iter().map(|(file, batch)| (file.clone(), Arc::clone(batch.column(place)))).collect();
            checked += usize::from(check(&mut random, &columns, place, field, &what));
        }
    }
    assert!(checked > 500, "{checked}");
}

#[test]
fn columns_without_rows_are_written() {
    for data_type in [DataType::Int64, DataType::Utf8] {
        let field = Field::new("a", data_type.clone(), true);
        let properties = WriterProperties::default();
        let leaves = ArrowSchemaConverter::new().convert(&Schema::new(vec![field.clone()])).unwrap();
        let encoding = CodesEncoding::try_new(&leaves.column(0), &data_type, &properties, 10, 1 << 20).unwrap();
        let file = write_codes(&[], encoding, &field, properties);
        let options = ArrowReaderOptions::new();
        let reader = ParquetRecordBatchReaderBuilder::try_new_with_options(file, options).unwrap().build().unwrap();
        assert_eq!(reader.map(|batch| batch.unwrap().num_rows()).sum::<usize>(), 0);
    }
}

#[test]
fn a_dictionary_is_left_out_unless_it_pays() {
    let field = Field::new("a", DataType::Int64, false);
    let schema = Arc::new(Schema::new(vec![field.clone()]));
    for (distinct, pays) in [(1000_i64, false), (10, true)] {
        let values = arrow::array::Int64Array::from_iter_values((0..1000).map(|row| row % distinct));
        let batch = RecordBatch::try_new(Arc::clone(&schema), vec![Arc::new(values)]).unwrap();
        let properties = WriterProperties::builder().set_writer_version(WriterVersion::PARQUET_1_0).build();
        let file = write(&[batch], properties.clone());
        let leaf = ArrowSchemaConverter::new().convert(&schema).unwrap().column(0);
        let encoding = CodesEncoding::try_new(&leaf, &DataType::Int64, &properties, 1000, 1 << 20).unwrap();
        let column = Column::try_new(0, &leaf, &DataType::Int64).unwrap();
        let rows = codes(&mut StdRng::seed_from_u64(1), &file, &column, &encoding).unwrap();
        let (metadata, _) = read(&write_codes(&rows, encoding, &field, properties), &field);
        let chunk = metadata.row_group(0).column(0);
        assert_eq!(chunk.encodings().any(|encoding| encoding == Encoding::RLE_DICTIONARY), pays);
    }
}
