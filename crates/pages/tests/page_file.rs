//! A page file returns the pages that were written, and damaged bytes give an error.

mod codec_support;

use std::io::{self, Cursor, Write};
use std::sync::Arc;

use annulus_pages::{
    codec::{ROW_FORMAT, RowCodec},
    file::{FileError, FileHeader, PageFileReader, PageFileWriter},
    memory::{Heap, PageMemory},
    page::{Header, MIN_PAGE_BYTES, Page, PageLayout, PageShape, PayloadSize},
    tuples::TupleBatch,
};
use arrow::array::{ArrayRef, Int64Array, RecordBatch, StringArray};
use arrow::compute::concat_batches;
use arrow::datatypes::{DataType, Field, Schema, TimeUnit, UnionFields, UnionMode};
use codec_support::{Rows, any_page, page_of};
use proptest::{prelude::*, sample::Index};
use xxhash_rust::xxh3::xxh3_64;

fn header_of(shape: PageShape) -> FileHeader {
    let field = Field::new("at", DataType::Timestamp(TimeUnit::Nanosecond, Some("Europe/Zurich".into())), true)
        .with_metadata([("unit".to_owned(), "ns".to_owned())].into());
    let decimal = Field::new("price", DataType::Decimal256(40, -2), false);
    let schema = Schema::new_with_metadata(vec![field, decimal], [("by".to_owned(), "a test".to_owned())].into());
    FileHeader { shape, partitions: 10, row_format: 77, schema: Arc::new(schema) }
}

/// Returns a copy of the page with another partition and sequence.
fn renamed(page: &Page, partition: u32, sequence: u32) -> Page {
    let mut block = Heap::new(page.bytes().len()).take().unwrap();
    block.as_mut_slice().copy_from_slice(page.bytes());
    Page::complete(block, &Header { partition, sequence, ..page.header() })
}

/// Returns a file with a page for each of these partitions.
fn file_of(shape: &PageShape, rows: &Rows, partitions: &[u32]) -> Vec<u8> {
    let mut writer = PageFileWriter::new(Vec::new(), header_of(*shape)).unwrap();
    let page = page_of(shape, rows, 0xEE);
    for (i, &partition) in partitions.iter().enumerate() {
        // The sequence falls, so the order in the file is not that in the partition.
        writer.write(&mut renamed(&page, partition, (partitions.len() - i) as u32)).unwrap();
    }
    writer.finish().unwrap()
}

fn read_all(bytes: &[u8]) -> Result<u64, FileError> {
    let mut file = PageFileReader::open(Cursor::new(bytes))?;
    let mut buffer = Vec::new();
    let mut tuples = 0;
    for page in 0..file.pages() {
        tuples += file.read(page, &mut buffer)?.tuples().count() as u64;
    }
    assert_eq!(tuples, file.tuples());
    let by_partition: u64 = (0..file.header().partitions.min(100)).map(|partition| file.tuples_of(partition)).sum();
    assert_eq!(tuples, by_partition);
    Ok(tuples)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn a_file_gives_its_pages((shape, rows) in any_page(), partitions in prop::collection::vec(0_u32..10, 0..8)) {
        let bytes = file_of(&shape, &rows, &partitions);
        let mut file = PageFileReader::open(Cursor::new(&bytes)).unwrap();
        prop_assert_eq!(file.header(), &header_of(shape));
        prop_assert_eq!(file.pages(), partitions.len());
        prop_assert_eq!(file.tuples(), (partitions.len() * rows.len()) as u64);
        let mut buffer = vec![1; 3];
        for partition in 0..10 {
            let pages = file.pages_of(partition).to_vec();
            let expected = (0..partitions.len() as u32).rev().filter(|&page| partitions[page as usize] == partition);
            prop_assert_eq!(&pages, &expected.collect::<Vec<_>>());
            prop_assert_eq!(file.tuples_of(partition), (pages.len() * rows.len()) as u64);
            for page in pages {
                let page = file.read(page as usize, &mut buffer).unwrap();
                prop_assert_eq!(page.header().partition, partition);
                let found: Rows = page.tuples().map(|(key, payload)| (key, payload.to_vec())).collect();
                prop_assert_eq!(&found, &rows);
            }
        }
    }

    #[test]
    fn every_damage_is_seen(
        (shape, rows) in any_page(),
        partitions in prop::collection::vec(0_u32..10, 0..4),
        at in any::<Index>(),
        bits in 1_u8..,
    ) {
        let whole = file_of(&shape, &rows, &partitions);
        prop_assert_eq!(read_all(&whole).unwrap(), (partitions.len() * rows.len()) as u64);
        let at = at.index(whole.len());
        let mut bytes = whole.clone();
        bytes[at] ^= bits;
        prop_assert!(read_all(&bytes).is_err());
        prop_assert!(read_all(&whole[..at]).is_err());
        bytes[at] ^= bits;
        bytes.insert(at, bits);
        prop_assert!(read_all(&bytes).is_err());
    }
}

fn small_shape() -> PageShape {
    PageShape::new(MIN_PAGE_BYTES, PageLayout::Compact, PayloadSize::Fixed(8)).unwrap()
}

#[test]
fn an_unfinished_file_is_recognised() {
    let shape = small_shape();
    let whole = file_of(&shape, &vec![(1, vec![2; 8])], &[0, 1]);
    // Header with schema and padding, and two pages: the bytes before `finish`.
    let unfinished = &whole[..whole.len() - 2 * 12 - 32];
    for cut in [unfinished.len(), unfinished.len() - 100, unfinished.len() - 4096, 4096] {
        assert!(matches!(PageFileReader::open(Cursor::new(&whole[..cut])), Err(FileError::Incomplete)), "{cut}");
    }
    assert!(matches!(PageFileReader::open(Cursor::new(b"")), Err(FileError::Magic)));
    assert!(matches!(PageFileReader::open(Cursor::new([b'P'; 5000])), Err(FileError::Magic)));
}

#[test]
fn pages_of_another_file_are_refused() {
    let shape = small_shape();
    let page = page_of(&shape, &[(1, vec![2; 8])], 0);
    let mut writer = PageFileWriter::new(Vec::new(), header_of(shape)).unwrap();
    let refused = writer.write(&mut renamed(&page, 10, 0));
    assert!(matches!(refused, Err(FileError::Partition { page: 0, partition: 10, partitions: 10 })));
    let other = PageShape::new(8192, shape.layout(), shape.payload()).unwrap();
    let refused = writer.write(&mut page_of(&other, &[], 0));
    assert!(matches!(refused, Err(FileError::Foreign { field: "size", expected: 4096, found: 8192, .. })));
    // The file can still be written.
    writer.write(&mut renamed(&page, 9, 0)).unwrap();
    let bytes = writer.finish().unwrap();
    assert_eq!(read_all(&bytes).unwrap(), 1);

    // A page of a file with another schema, at the same position.
    let mut header = header_of(shape);
    header.row_format += 1;
    let mut writer = PageFileWriter::new(Vec::new(), header).unwrap();
    writer.write(&mut renamed(&page, 9, 0)).unwrap();
    let other = writer.finish().unwrap();
    let mut mixed = bytes.clone();
    mixed[4096..8192].copy_from_slice(&other[4096..8192]);
    assert!(matches!(read_all(&mixed), Err(FileError::Foreign { field: "schema", .. })));
}

#[test]
fn rows_come_back_from_a_file() {
    let id: ArrayRef = Arc::new(Int64Array::from_iter((0..1000).map(|i| (i % 7 != 0).then_some(i))));
    let text: ArrayRef = Arc::new(StringArray::from_iter_values((0..1000).map(|i| "x".repeat(i % 50))));
    let batch = RecordBatch::try_from_iter([("id", id), ("text", text)]).unwrap();
    let codec = RowCodec::new(batch.schema()).unwrap();
    let shape = PageShape::new(MIN_PAGE_BYTES, PageLayout::Slotted, codec.payload_size()).unwrap();
    let header = FileHeader { shape, partitions: 1, row_format: ROW_FORMAT, schema: batch.schema() };
    let mut writer = PageFileWriter::new(Vec::new(), header).unwrap();
    let mut tuples = TupleBatch::default();
    for (sequence, start) in (0..1000).step_by(50).enumerate() {
        codec.encode(&batch.slice(start, 50), None, &mut tuples).unwrap();
        let row = |pair: &[u32]| (0, tuples.bytes[pair[0] as usize..pair[1] as usize].to_vec());
        let rows: Rows = tuples.offsets.windows(2).map(row).collect();
        writer.write(&mut renamed(&page_of(&shape, &rows, 0), 0, sequence as u32)).unwrap();
    }
    let mut file = PageFileReader::open(Cursor::new(writer.finish().unwrap())).unwrap();
    let codec = RowCodec::new(Arc::clone(&file.header().schema)).unwrap();
    let mut found = Vec::new();
    let mut buffer = Vec::new();
    for page in file.pages_of(0).to_vec() {
        let page = file.read(page as usize, &mut buffer).unwrap();
        found.extend(codec.batches(page.tuples().map(|(_, payload)| payload), 30).map(Result::unwrap));
    }
    assert_eq!(concat_batches(&batch.schema(), &found).unwrap(), batch);
}

/// A writer that fails after `left` bytes.
struct Full {
    left: usize,
}

impl Write for Full {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let taken = bytes.len().min(self.left);
        self.left -= taken;
        if taken == 0 { Err(io::ErrorKind::StorageFull.into()) } else { Ok(taken) }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[test]
fn a_file_that_could_not_be_written_cannot_be_finished() {
    let shape = small_shape();
    let mut page = page_of(&shape, &[], 0);
    assert!(matches!(PageFileWriter::new(Full { left: 4000 }, header_of(shape)), Err(FileError::Io(_))));
    let mut writer = PageFileWriter::new(Full { left: 4096 + 5000 }, header_of(shape)).unwrap();
    writer.write(&mut page).unwrap();
    assert!(matches!(writer.write(&mut page), Err(FileError::Io(_))));
    assert!(matches!(writer.write(&mut page), Err(FileError::Broken)));
    assert!(matches!(writer.finish(), Err(FileError::Broken)));
    let writer = PageFileWriter::new(Full { left: 4096 }, header_of(shape)).unwrap();
    assert!(matches!(writer.finish(), Err(FileError::Io(_))));
}

/// Returns a header with a field of each kind of type.
fn all_types() -> FileHeader {
    let item = |data_type| Arc::new(Field::new("item", data_type, true));
    let boxed = Box::new;
    let struct_of = |fields: Vec<Field>| DataType::Struct(fields.into());
    let entries = struct_of(vec![Field::new("key", DataType::Utf8, false), Field::new("value", DataType::Int8, true)]);
    let union: UnionFields = [(3, item(DataType::Int8)), (9, item(DataType::Utf8View))].into_iter().collect();
    let types = vec![
        DataType::Null,
        DataType::Float16,
        DataType::Decimal32(7, 2),
        DataType::Decimal64(12, -3),
        DataType::Time32(TimeUnit::Second),
        DataType::Time64(TimeUnit::Nanosecond),
        DataType::Duration(TimeUnit::Microsecond),
        DataType::Interval(arrow::datatypes::IntervalUnit::MonthDayNano),
        DataType::FixedSizeBinary(3),
        DataType::BinaryView,
        DataType::List(item(DataType::LargeUtf8)),
        DataType::LargeListView(item(DataType::UInt64)),
        DataType::FixedSizeList(item(DataType::Boolean), 4),
        DataType::Map(Arc::new(Field::new("entries", entries, false)), true),
        DataType::Union(union.clone(), UnionMode::Dense),
        DataType::Union(union, UnionMode::Sparse),
        DataType::Dictionary(boxed(DataType::UInt16), boxed(DataType::Utf8)),
        DataType::RunEndEncoded(
            Arc::new(Field::new("run_ends", DataType::Int32, false)),
            Arc::new(Field::new("values", DataType::Date64, true)),
        ),
    ];
    let fields: Vec<Field> = types
        .into_iter()
        .enumerate()
        .map(|(i, data_type)| Field::new(format!("c{i}"), data_type, i % 2 == 0))
        .collect();
    FileHeader { schema: Arc::new(Schema::new(fields)), ..header_of(small_shape()) }
}

#[test]
fn every_type_is_kept() {
    let header = all_types();
    let bytes = PageFileWriter::new(Vec::new(), header.clone()).unwrap().finish().unwrap();
    assert_eq!(PageFileReader::open(Cursor::new(bytes)).unwrap().header(), &header);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(5000))]

    /// The checksum is correct, so that only the schema's own checks apply.
    #[test]
    fn damaged_schemas_are_refused_or_read(damages in prop::collection::vec((any::<Index>(), any::<u8>()), 1..4)) {
        let mut bytes = PageFileWriter::new(Vec::new(), all_types()).unwrap().finish().unwrap();
        let schema = u32::from_le_bytes([bytes[32], bytes[33], bytes[34], bytes[35]]) as usize;
        for (at, value) in damages {
            bytes[64 + at.index(schema)] = value;
        }
        bytes[56..64].fill(0);
        let checksum = xxh3_64(&bytes[..64 + schema]);
        bytes[56..64].copy_from_slice(&checksum.to_le_bytes());
        if let Ok(file) = PageFileReader::open(Cursor::new(bytes)) {
            // Whatever the schema is, making a codec for it and decoding with that is safe.
            if let Ok(codec) = RowCodec::new(Arc::clone(&file.header().schema)) {
                let _ = codec.decode(&[&[0; 300], b""]);
                prop_assert!(codec.decode(&[]).is_err() || codec.decode(&[]).unwrap().num_rows() == 0);
            }
        }
    }
}
