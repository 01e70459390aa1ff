//! The memory of a chunk: one buffer for each column. Several producers write it at disjoint rows,
//! and it becomes one batch.

use std::sync::{
    Arc, Mutex, PoisonError,
    atomic::{AtomicBool, AtomicUsize, Ordering},
};

use annulus_rows::pool::{BufferPool, PooledBuffer};
use arrow::{
    array::{ArrayData, ArrayRef, RecordBatch, RecordBatchOptions, make_array},
    buffer::{BooleanBuffer, Buffer, NullBuffer},
    datatypes::{DataType, Field, SchemaRef},
    error::ArrowError,
};

use crate::config::ExchangeConfig;

/// The representation of a column in a chunk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ColumnLayout {
    /// Values of this many bytes.
    Fixed(usize),
    /// One byte a row while the chunk fills, because two producers cannot write bits of the same
    /// byte. One bit a row in the batch.
    Bool,
    /// Sixteen bytes a row. Strings longer than twelve bytes are in the column's heap.
    View,
}

impl ColumnLayout {
    /// Returns the layout for a type, or `None` if chunks do not hold it.
    pub(crate) fn for_type(data_type: &DataType) -> Option<Self> {
        match data_type {
            DataType::Boolean => Some(Self::Bool),
            DataType::Utf8View | DataType::BinaryView => Some(Self::View),
            DataType::FixedSizeBinary(width) => fixed(*width as usize),
            other => other.primitive_width().and_then(fixed),
        }
    }

    /// Returns the bytes of a row in the column's main buffer.
    pub(crate) fn width(self) -> usize {
        match self {
            Self::Fixed(width) => width,
            Self::Bool => 1,
            Self::View => 16,
        }
    }
}

fn fixed(width: usize) -> Option<ColumnLayout> {
    matches!(width, 1 | 2 | 4 | 8 | 16 | 32).then_some(ColumnLayout::Fixed(width))
}

/// The properties that all chunks of an exchange share.
#[derive(Debug)]
pub(crate) struct ChunkShape {
    pub(crate) schema: SchemaRef,
    pub(crate) layouts: Vec<ColumnLayout>,
    /// The number of rows of a chunk.
    pub(crate) capacity: usize,
    /// Whether the open chunks together are larger than the cache, so that they are written past
    /// it.
    pub(crate) past_cache: bool,
    pool: Arc<BufferPool>,
    /// The bytes that the heap of the next chunk gets, for each column: a quarter more than earlier
    /// chunks needed.
    heap_hint: Vec<AtomicUsize>,
}

/// The bytes of a last-level cache that open chunks may take.
const CACHE_BYTES: usize = 4 << 20;
/// The smallest number of rows of a chunk, unless the configuration asks for shorter batches.
const MIN_ROWS: usize = 128;
/// The smallest heap of a column of views that has long strings.
const MIN_HEAP: usize = 4 << 10;
/// The largest heap that is recycled.
const MAX_HEAP: usize = 16 << 20;

impl ChunkShape {
    /// Creates the shape for a schema whose columns chunks can hold. One chunk is filled for each
    /// consumer. The pool keeps the buffers of `keep` idle chunks.
    pub(crate) fn new(schema: SchemaRef, config: &ExchangeConfig, keep: usize) -> Self {
        let layout = |field: &Arc<Field>| {
            ColumnLayout::for_type(field.data_type()).expect("the exchange checks that the type is supported")
        };
        let layouts: Vec<_> = schema.fields().iter().map(layout).collect();
        let row_bytes: usize = layouts.iter().map(|layout| layout.width()).sum();
        let affordable = config.open_bytes / (row_bytes.max(1) * config.consumers);
        // A power of two, or the configured number of rows: allocators and readers handle such
        // sizes well.
        let affordable = 1 << affordable.max(MIN_ROWS).ilog2();
        let capacity = config.batch_rows.min(affordable);
        let values = layouts.iter().map(|layout| layout.width() * capacity);
        let nulls = schema.fields().iter().filter(|field| field.is_nullable()).map(|_| capacity);
        let views = layouts.iter().filter(|layout| **layout == ColumnLayout::View);
        let heaps = views.flat_map(|_| (MIN_HEAP.ilog2()..=MAX_HEAP.ilog2()).map(|exponent| 1 << exponent));
        let pool = BufferPool::new(values.chain(nulls).chain(heaps), keep);
        let past_cache = row_bytes * capacity * config.consumers > CACHE_BYTES;
        let heap_hint = layouts.iter().map(|_| AtomicUsize::new(0)).collect();
        Self { schema, layouts, capacity, past_cache, pool, heap_hint }
    }

    /// Creates an empty chunk, for which `reserved_bytes` are accounted.
    pub(crate) fn chunk(&self, reserved_bytes: usize) -> Chunk {
        let columns = self.layouts.iter().enumerate().map(|(index, layout)| {
            let nullable = self.schema.field(index).is_nullable();
            Column {
                values: self.pool.take(layout.width() * self.capacity),
                nulls: nullable.then(|| self.zeroed()),
                has_nulls: AtomicBool::new(false),
                heap: (*layout == ColumnLayout::View).then(|| self.heap(index)),
            }
        });
        Chunk { columns: columns.collect(), reserved_bytes }
    }

    /// Returns the bytes of an empty chunk without its heaps.
    pub(crate) fn fixed_bytes(&self) -> usize {
        let nulls = self.schema.fields().iter().filter(|field| field.is_nullable()).count();
        self.capacity * (nulls + self.layouts.iter().map(|layout| layout.width()).sum::<usize>())
    }

    /// Sets the size of a column's first heaps from a batch with `bytes` of long strings in `rows`
    /// rows.
    pub(crate) fn learn_heap(&self, column: usize, bytes: usize, rows: usize) {
        let expected = bytes * self.capacity / rows.max(1);
        self.heap_hint[column].store((expected + expected / 4).min(MAX_HEAP), Ordering::Relaxed);
    }

    /// Returns whether the heap of a new chunk would have a block.
    pub(crate) fn knows_heap(&self, column: usize) -> bool {
        self.heap_hint[column].load(Ordering::Relaxed) > 0
    }

    fn zeroed(&self) -> PooledBuffer {
        let buffer = self.pool.take(self.capacity);
        // SAFETY: the buffer has `capacity` bytes and belongs to this function.
        unsafe { buffer.as_ptr().as_ptr().write_bytes(0, self.capacity) };
        buffer
    }

    fn heap(&self, column: usize) -> Heap {
        let hint = self.heap_hint[column].load(Ordering::Relaxed);
        let block = (hint > 0).then(|| self.pool.take(hint.next_power_of_two().max(MIN_HEAP)));
        Heap { block, used: AtomicUsize::new(0), extra: Mutex::new(Vec::new()) }
    }
}

/// The columns of one chunk.
#[derive(Debug)]
pub(crate) struct Chunk {
    columns: Box<[Column]>,
    /// The bytes that were accounted for when the chunk was created.
    pub(crate) reserved_bytes: usize,
}

#[derive(Debug)]
struct Column {
    values: PooledBuffer,
    /// One byte a row: 1 for null. Initially all bytes are 0.
    nulls: Option<PooledBuffer>,
    has_nulls: AtomicBool,
    heap: Option<Heap>,
}

/// The long strings of a column. Producers claim ranges of one block. If it is missing or too
/// small, there are further blocks, each twice as large as the previous one, because the number of
/// future rows is unknown.
#[derive(Debug)]
struct Heap {
    block: Option<PooledBuffer>,
    used: AtomicUsize,
    extra: Mutex<Vec<HeapBlock>>,
}

/// A further block, and the number of its bytes that are claimed.
#[derive(Debug)]
struct HeapBlock {
    block: PooledBuffer,
    used: usize,
}

/// A claimed range of a column's heap. Only the claimer writes it.
pub(crate) struct HeapRange {
    /// The first byte to write.
    pub(crate) ptr: *mut u8,
    /// The index of the array's data buffer that the range will be in.
    pub(crate) buffer: u32,
    /// The offset in that buffer.
    pub(crate) offset: u32,
}

impl Chunk {
    /// Returns the address of the column's first value.
    pub(crate) fn values(&self, column: usize) -> *mut u8 {
        self.columns[column].values.as_ptr().as_ptr()
    }

    /// Returns the address of the column's first null byte, for a caller that will set some of
    /// these bytes. Only for nullable fields.
    pub(crate) fn nulls(&self, column: usize) -> *mut u8 {
        let column = &self.columns[column];
        column.has_nulls.store(true, Ordering::Relaxed);
        // When a batch is created, Arrow checks that a field that is not nullable has no nulls. The
        // exchange checks that fields match.
        column.nulls.as_ref().expect("only nullable fields have nulls").as_ptr().as_ptr()
    }

    /// Claims `bytes` of the column's heap. This takes one shared operation, or a lock if the first
    /// block is too small.
    pub(crate) fn claim_heap(&self, shape: &ChunkShape, column: usize, bytes: usize) -> HeapRange {
        let heap = self.columns[column].heap.as_ref().expect("only columns of views have long strings");
        if let Some(block) = &heap.block {
            let grown = |used: usize| (used + bytes <= block.capacity()).then_some(used + bytes);
            if let Ok(offset) = heap.used.fetch_update(Ordering::Relaxed, Ordering::Relaxed, grown) {
                // SAFETY: offset + bytes is within the block.
                let ptr = unsafe { block.as_ptr().as_ptr().add(offset) };
                return HeapRange { ptr, buffer: 0, offset: offset as u32 };
            }
        }
        let mut extra = heap.extra.lock().unwrap_or_else(PoisonError::into_inner);
        let free = |last: &HeapBlock| last.block.capacity() - last.used;
        if extra.last().is_none_or(|last| free(last) < bytes) {
            let former = extra.last().map_or(0, |last| last.block.capacity());
            let twice = (2 * former).clamp(MIN_HEAP, MAX_HEAP).max(bytes);
            extra.push(HeapBlock { block: shape.pool.take(twice), used: 0 });
        }
        let buffer = (extra.len() + usize::from(heap.block.is_some()) - 1) as u32;
        let last = extra.last_mut().expect("pushed if there was none");
        let offset = last.used;
        last.used += bytes;
        // SAFETY: offset + bytes is within the block.
        let ptr = unsafe { last.block.as_ptr().as_ptr().add(offset) };
        HeapRange { ptr, buffer, offset: offset as u32 }
    }

    /// Returns the bytes that this chunk holds.
    pub(crate) fn memory_bytes(&self) -> usize {
        let column_bytes = |column: &Column| {
            let heap = column.heap.as_ref().map_or(0, |heap| {
                let extra = heap.extra.lock().unwrap_or_else(PoisonError::into_inner);
                heap.block.as_ref().map_or(0, PooledBuffer::capacity)
                    + extra.iter().map(|extra| extra.block.capacity()).sum::<usize>()
            });
            column.values.capacity() + column.nulls.as_ref().map_or(0, PooledBuffer::capacity) + heap
        };
        self.columns.iter().map(column_bytes).sum()
    }

    /// Returns the first `rows` rows as a batch.
    ///
    /// # Safety
    /// These rows were written in every column. The writers have finished, and their writes are
    /// visible here.
    pub(crate) unsafe fn into_batch(self, shape: &ChunkShape, rows: usize) -> Result<RecordBatch, ArrowError> {
        let columns = self.columns.into_vec().into_iter().enumerate().map(|(index, column)| {
            // SAFETY: passed on to the caller.
            unsafe { column.into_array(shape, index, rows) }
        });
        let options = RecordBatchOptions::new().with_row_count(Some(rows));
        RecordBatch::try_new_with_options(Arc::clone(&shape.schema), columns.collect(), &options)
    }
}

impl Column {
    /// # Safety
    /// As [`Chunk::into_batch`].
    unsafe fn into_array(self, shape: &ChunkShape, index: usize, rows: usize) -> ArrayRef {
        let layout = shape.layouts[index];
        // SAFETY: `rows` values of this width were written, and the writers have finished.
        let values = unsafe { self.values.into_buffer(rows * layout.width()) };
        let nulls = self.nulls.filter(|_| self.has_nulls.into_inner()).map(|nulls| {
            // SAFETY: all bytes were zeroed when the chunk was created.
            let nulls = unsafe { nulls.into_buffer(rows) };
            NullBuffer::new(BooleanBuffer::collect_bool(rows, |row| nulls[row] == 0))
        });
        let mut buffers = match layout {
            ColumnLayout::Bool => vec![BooleanBuffer::collect_bool(rows, |row| values[row] != 0).into_inner()],
            _ => vec![values],
        };
        if let Some(heap) = self.heap {
            // SAFETY: every claimed byte of the heap was written before its claim was completed.
            buffers.extend(unsafe { heap.into_buffers(&shape.heap_hint[index]) });
        }
        let data = ArrayData::builder(shape.schema.field(index).data_type().clone())
            .len(rows)
            .nulls(nulls.filter(|nulls| nulls.null_count() > 0))
            .buffers(buffers);
        // SAFETY: values, views and heap ranges were copied from valid arrays of this type.
        make_array(unsafe { data.build_unchecked() })
    }
}

impl Heap {
    /// Returns the data buffers of the array, and adapts the size of the next heap.
    ///
    /// # Safety
    /// Every claimed range was written, and the writers have finished.
    unsafe fn into_buffers(self, hint: &AtomicUsize) -> Vec<Buffer> {
        let used = self.used.into_inner();
        let extra = self.extra.into_inner().unwrap_or_else(PoisonError::into_inner);
        let needed = used + extra.iter().map(|extra| extra.used).sum::<usize>();
        if needed > hint.load(Ordering::Relaxed) {
            // A quarter more than was needed, so that the usual variation fits in the block.
            hint.store((needed + needed / 4).min(MAX_HEAP), Ordering::Relaxed);
        }
        if needed == 0 {
            return Vec::new();
        }
        let first = self.block.map(|block| HeapBlock { block, used });
        // SAFETY: claims of a block are contiguous up to `used`, and all were written.
        first.into_iter().chain(extra).map(|HeapBlock { block, used }| unsafe { block.into_buffer(used) }).collect()
    }
}
