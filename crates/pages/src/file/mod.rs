//! Pages in a file.
//!
//! ```text
//! | header (64 B) | schema | zeros to 4 KiB | page 0 | page 1 | ... | index: 12 B a page | end (32 B) |
//! ```
//! The header has the pages' shape, the number of partitions, the format of the tuples' data, and
//! the length of the schema, which is an Arrow IPC message. Pages are sealed, and stored in the
//! order in which they were written. The index has the partition, the sequence and the number of
//! tuples of each page. A file is written from front to back, and is complete only if it has its
//! end. All numbers are little-endian. There are three kinds of checksums (XXH3, 64 bits): of
//! header and schema, of each page, and of index and end.
//!
//! ```
//! use std::{io::Cursor, sync::Arc};
//!
//! use annulus_pages::{
//!     PageFileReader, PageFileWriter, PageLayout, PageShape, PayloadSize, RowCodec, TupleBatch,
//!     codec::ROW_FORMAT,
//!     file::FileHeader,
//!     memory::{Heap, PageMemory},
//!     page::PageBuilder,
//! };
//! use arrow::array::{ArrayRef, Int64Array, RecordBatch};
//!
//! let ids: ArrayRef = Arc::new(Int64Array::from(vec![1, 2, 3]));
//! let batch = RecordBatch::try_from_iter([("id", ids)])?;
//! let codec = RowCodec::new(batch.schema())?;
//! let mut rows = TupleBatch { keys: vec![1, 2, 3], ..Default::default() };
//! codec.encode(&batch, None, &mut rows)?;
//!
//! // One page of partition 0, and the file.
//! let shape = PageShape::new(4096, PageLayout::Compact, codec.payload_size())?;
//! let mut builder = PageBuilder::new(Heap::new(4096).take()?, shape)?;
//! let tuples = rows.tuples(codec.payload_size())?;
//! for row in 0..tuples.len() {
//!     assert!(builder.push(tuples.keys()[row], tuples.payload(row))?);
//! }
//! let header = FileHeader { shape, partitions: 1, row_format: ROW_FORMAT, schema: batch.schema() };
//! let mut writer = PageFileWriter::new(Vec::new(), header)?;
//! writer.write(&mut builder.complete(0, 0))?;
//! let file = writer.finish()?;
//!
//! let mut reader = PageFileReader::open(Cursor::new(file))?;
//! let mut buffer = Vec::new();
//! let page = reader.read(0, &mut buffer)?;
//! let payloads: Vec<&[u8]> = page.tuples().map(|(_, payload)| payload).collect();
//! assert_eq!(codec.decode(&payloads)?, batch);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod error;
mod header;
mod index;
mod reader;
mod schema;
mod writer;

pub use error::FileError;
pub use header::{FILE_VERSION, FileHeader};
pub use reader::PageFileReader;
pub use writer::PageFileWriter;
