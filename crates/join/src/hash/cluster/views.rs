//! Columns of views, which are scattered as values of 16 bytes. Long values stay in their blocks,
//! unless most of the blocks' bytes are unused.

use std::collections::HashMap;

use arrow::{
    array::{Array, ArrayData, ByteView},
    buffer::Buffer,
};

use crate::{hash::wire::MOST_INLINE, key::KeyedBatch, parallel};

/// The bytes of a view.
pub(super) const VIEW_BYTES: usize = size_of::<u128>();
/// Values are copied if they take less than 1/`LEAST_SHARE` of their blocks' bytes.
const LEAST_SHARE: usize = 2;
/// The size from which on a block of copied values is full: views have offsets of 32 bits.
const BLOCK_BYTES: usize = 1 << 30;

/// A column of several pieces, whose views share the same blocks.
#[derive(Debug)]
pub(super) struct ViewColumn {
    /// The views of each piece.
    pub(super) pieces: Vec<Buffer>,
    pub(super) blocks: Vec<Buffer>,
}

impl ViewColumn {
    /// Takes 16 bytes a row, and the bytes of long values if they are copied. O(rows).
    pub(super) fn from_pieces(pieces: &[KeyedBatch], column: usize, threads: usize) -> Self {
        let data: Vec<ArrayData> = pieces.iter().map(|piece| piece.columns[column].to_data()).collect();
        let usages = parallel::map(threads, data.iter().collect(), Usage::measure);
        let long_bytes: usize = usages.iter().map(|usage| usage.long_bytes).sum();
        let (blocks, numbers) = used_blocks(&data, &usages);
        let block_bytes: usize = blocks.iter().map(Buffer::capacity).sum();
        if block_bytes / LEAST_SHARE <= long_bytes {
            let work = data.iter().zip(&numbers).collect();
            let pieces = parallel::map(threads, work, |(data, numbers)| {
                rewrite(data, |view| ByteView { buffer_index: numbers[view.buffer_index as usize], ..view })
            });
            return Self { pieces, blocks };
        }
        let copies = parallel::map(threads, data.iter().collect(), copied);
        let mut blocks = Vec::new();
        let pieces = copies.into_iter().map(|(views, own)| {
            let first = blocks.len() as u32;
            blocks.extend(own);
            if first == 0 {
                return views;
            }
            let views: &[u128] = views.typed_data();
            let moved = |&view: &u128| {
                if !is_long(view) {
                    return view;
                }
                let view = ByteView::from(view);
                ByteView { buffer_index: first + view.buffer_index, ..view }.as_u128()
            };
            views.iter().map(moved).collect()
        });
        Self { pieces: pieces.collect(), blocks }
    }
}

/// The blocks that a piece uses.
struct Usage {
    blocks: Vec<bool>,
    /// The bytes of the values that lie in blocks.
    long_bytes: usize,
}

impl Usage {
    fn measure(data: &ArrayData) -> Self {
        let (mut blocks, mut long_bytes) = (vec![false; data.buffers().len() - 1], 0);
        for &view in views(data).iter().filter(|&&view| is_long(view)) {
            let view = ByteView::from(view);
            blocks[view.buffer_index as usize] = true;
            long_bytes += view.length as usize;
        }
        Self { blocks, long_bytes }
    }
}

/// Returns the blocks that are used, each once, and the new numbers of each piece's blocks.
fn used_blocks(data: &[ArrayData], usages: &[Usage]) -> (Vec<Buffer>, Vec<Vec<u32>>) {
    let (mut blocks, mut known) = (Vec::new(), HashMap::new());
    let mut numbers_of = |(data, usage): (&ArrayData, &Usage)| {
        let mut number = |(block, &is_used): (&Buffer, &bool)| {
            if !is_used {
                return 0;
            }
            *known.entry((block.as_ptr().addr(), block.len())).or_insert_with(|| {
                blocks.push(block.clone());
                blocks.len() as u32 - 1
            })
        };
        data.buffers()[1..].iter().zip(&usage.blocks).map(&mut number).collect()
    };
    let numbers = data.iter().zip(usages).map(&mut numbers_of).collect();
    (blocks, numbers)
}

/// Returns the views of a piece, and new blocks that hold its values and no others.
fn copied(data: &ArrayData) -> (Buffer, Vec<Buffer>) {
    let (mut full, mut current) = (Vec::new(), Vec::new());
    let views = rewrite(data, |view| {
        let value = &data.buffers()[1 + view.buffer_index as usize][view.offset as usize..][..view.length as usize];
        if current.len() + value.len() > BLOCK_BYTES && !current.is_empty() {
            full.push(Buffer::from_vec(std::mem::take(&mut current)));
        }
        let offset = current.len() as u32;
        current.extend_from_slice(value);
        ByteView { buffer_index: full.len() as u32, offset, ..view }
    });
    full.push(Buffer::from_vec(current));
    (views, full)
}

/// Returns all views, with those of long values replaced by `long`.
fn rewrite(data: &ArrayData, mut long: impl FnMut(ByteView) -> ByteView) -> Buffer {
    views(data).iter().map(|&view| if is_long(view) { long(view.into()).as_u128() } else { view }).collect()
}

fn views(data: &ArrayData) -> &[u128] {
    &data.buffer::<u128>(0)[..data.len()]
}

fn is_long(view: u128) -> bool {
    view as u32 > MOST_INLINE
}
