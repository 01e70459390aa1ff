//! Batches of tuples: what a shuffle takes in.

use crate::{error::PagesError, page::PayloadSize};

/// A batch of tuples, by column: a 32-bit key each, and their payloads one behind the other.
#[derive(Clone, Copy, Debug)]
pub struct Tuples<'a> {
    keys: &'a [u32],
    payloads: Payloads<'a>,
}

/// The tuples' bytes besides their keys.
#[derive(Clone, Copy, Debug)]
pub enum Payloads<'a> {
    /// Each has `size` bytes.
    Fixed {
        /// All payloads, one behind the other.
        bytes: &'a [u8],
        /// Bytes of each.
        size: usize,
    },
    /// Payload `i` is `bytes[offsets[i]..offsets[i + 1]]`.
    Variable {
        /// What the offsets point into.
        bytes: &'a [u8],
        /// One more than there are tuples, never decreasing.
        offsets: &'a [u32],
    },
}

impl<'a> Tuples<'a> {
    /// A batch of `keys` with `payloads`. O(tuples) for payloads of any size, else O(1).
    ///
    /// # Errors
    /// [`PagesError::Batch`] if there are not as many payloads as keys, or offsets decrease or
    /// point beyond the bytes.
    pub fn new(keys: &'a [u32], payloads: Payloads<'a>) -> Result<Self, PagesError> {
        let bad = |what| Err(PagesError::Batch { what });
        match payloads {
            Payloads::Fixed { bytes, size } => {
                if keys.len().checked_mul(size) != Some(bytes.len()) {
                    return bad("not as many payloads as keys");
                }
            }
            Payloads::Variable { bytes, offsets } => {
                if offsets.len() != keys.len() + 1 {
                    return bad("not one more offset than keys");
                }
                if !offsets.is_sorted() || offsets[keys.len()] as usize > bytes.len() {
                    return bad("offsets that decrease or point beyond the payloads");
                }
            }
        }
        Ok(Self { keys, payloads })
    }

    /// Number of tuples.
    #[inline]
    pub fn len(&self) -> usize {
        self.keys.len()
    }

    /// Whether there are none.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.keys.is_empty()
    }

    /// The keys.
    #[inline]
    pub fn keys(&self) -> &'a [u32] {
        self.keys
    }

    /// The payloads.
    #[inline]
    pub fn payloads(&self) -> Payloads<'a> {
        self.payloads
    }

    /// Payload of tuple `index`.
    ///
    /// # Panics
    /// If there is no such tuple.
    #[inline]
    pub fn payload(&self, index: usize) -> &'a [u8] {
        match self.payloads {
            Payloads::Fixed { bytes, size } => &bytes[index * size..(index + 1) * size],
            Payloads::Variable { bytes, offsets } => &bytes[offsets[index] as usize..offsets[index + 1] as usize],
        }
    }

    /// Whether the payloads are of this size.
    pub fn has(&self, payload: PayloadSize) -> bool {
        match (self.payloads, payload) {
            (Payloads::Fixed { size, .. }, PayloadSize::Fixed(bytes)) => size == bytes as usize,
            (_, PayloadSize::Variable) => true,
            (Payloads::Variable { .. }, PayloadSize::Fixed(_)) => false,
        }
    }
}

/// A batch that owns its columns, to be filled again and again.
#[derive(Clone, Debug, Default)]
pub struct TupleBatch {
    /// The keys.
    pub keys: Vec<u32>,
    /// All payloads.
    pub bytes: Vec<u8>,
    /// Where each payload begins, and the end; unused if all have one size.
    pub offsets: Vec<u32>,
}

impl TupleBatch {
    /// The batch, with payloads of this size.
    ///
    /// # Errors
    /// As [`Tuples::new`].
    pub fn tuples(&self, payload: PayloadSize) -> Result<Tuples<'_>, PagesError> {
        let payloads = match payload {
            PayloadSize::Fixed(size) => Payloads::Fixed { bytes: &self.bytes, size: size as usize },
            PayloadSize::Variable => Payloads::Variable { bytes: &self.bytes, offsets: &self.offsets },
        };
        Tuples::new(&self.keys, payloads)
    }
}

/// Where a shuffle's tuples come from.
pub trait TupleSource: Sync {
    /// What thread `thread` of `threads` reads. All readers together give every tuple once.
    fn reader(&self, thread: usize, threads: usize) -> Box<dyn TupleReader + '_>;
}

/// One thread's share of a source.
pub trait TupleReader: Send {
    /// Fills `batch` with the next tuples, in place of what it holds; false if there are none left.
    fn fill(&mut self, batch: &mut TupleBatch) -> bool;
}
