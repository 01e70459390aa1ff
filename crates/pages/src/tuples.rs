//! Batches of tuples, the input of a shuffle.

use crate::{error::PagesError, page::PayloadSize};

/// A batch of tuples, by column: their 32-bit keys, and their payloads one after the other.
///
/// ```
/// use annulus_pages::{Payloads, Tuples};
///
/// let tuples = Tuples::new(&[17, 29], Payloads::Variable { bytes: b"onetwo", offsets: &[0, 3, 6] })?;
/// assert_eq!((tuples.keys()[1], tuples.payload(1)), (29, &b"two"[..]));
/// # Ok::<(), annulus_pages::PagesError>(())
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Tuples<'a> {
    keys: &'a [u32],
    payloads: Payloads<'a>,
}

/// The bytes of tuples besides their keys.
#[derive(Clone, Copy, Debug)]
pub enum Payloads<'a> {
    /// Each payload has `size` bytes.
    Fixed {
        /// All payloads, one after the other.
        bytes: &'a [u8],
        /// The bytes of each.
        size: usize,
    },
    /// Payload `i` is `bytes[offsets[i]..offsets[i + 1]]`.
    Variable {
        /// The bytes that the offsets point into.
        bytes: &'a [u8],
        /// The offsets: one more than there are tuples, never decreasing.
        offsets: &'a [u32],
    },
}

impl<'a> Tuples<'a> {
    /// Creates a batch of `keys` with `payloads`. O(tuples) for payloads of any size, otherwise
    /// O(1).
    ///
    /// # Errors
    /// [`PagesError::Batch`] if the number of payloads is not that of keys, or offsets decrease or
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

    /// Returns the number of tuples.
    #[inline]
    pub fn len(&self) -> usize {
        self.keys.len()
    }

    /// Returns whether there are no tuples.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.keys.is_empty()
    }

    /// Returns the keys.
    #[inline]
    pub fn keys(&self) -> &'a [u32] {
        self.keys
    }

    /// Returns the payloads.
    #[inline]
    pub fn payloads(&self) -> Payloads<'a> {
        self.payloads
    }

    /// Returns the payload of tuple `index`.
    ///
    /// # Panics
    /// If tuple `index` does not exist.
    #[inline]
    pub fn payload(&self, index: usize) -> &'a [u8] {
        match self.payloads {
            Payloads::Fixed { bytes, size } => &bytes[index * size..(index + 1) * size],
            Payloads::Variable { bytes, offsets } => &bytes[offsets[index] as usize..offsets[index + 1] as usize],
        }
    }

    /// Returns whether the payloads have this size.
    pub fn has(&self, payload: PayloadSize) -> bool {
        match (self.payloads, payload) {
            (Payloads::Fixed { size, .. }, PayloadSize::Fixed(bytes)) => size == bytes as usize,
            (_, PayloadSize::Variable) => true,
            (Payloads::Variable { .. }, PayloadSize::Fixed(_)) => false,
        }
    }
}

/// A batch that owns its columns, to be filled repeatedly.
#[derive(Clone, Debug, Default)]
pub struct TupleBatch {
    /// The keys.
    pub keys: Vec<u32>,
    /// All payloads.
    pub bytes: Vec<u8>,
    /// The offset of each payload, and the end of the last one. Unused if all payloads have one
    /// size.
    pub offsets: Vec<u32>,
}

impl TupleBatch {
    /// Returns the tuples, with payloads of this size.
    ///
    /// # Errors
    /// Those of [`Tuples::new`].
    pub fn tuples(&self, payload: PayloadSize) -> Result<Tuples<'_>, PagesError> {
        let payloads = match payload {
            PayloadSize::Fixed(size) => Payloads::Fixed { bytes: &self.bytes, size: size as usize },
            PayloadSize::Variable => Payloads::Variable { bytes: &self.bytes, offsets: &self.offsets },
        };
        Tuples::new(&self.keys, payloads)
    }
}
